//! `/console/testflight`: the key of App Store Connect, and what came with it.

use crate::InboxExtension;
use crate::operations::TestFlightState;
use crate::operations::get::get_testflight;
use crate::operations::poll::poll_testflight;
use crate::operations::remove::remove_testflight;
use crate::operations::set::{NewTestFlight, set_testflight};
use crate::store::{InboxSubmission, SubmissionState};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, JsonBody, Kind, Problem, TenantAdmin};
use unslide_model::Secret;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const INBOX_PAGE: &str = "/console/testflight";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(INBOX_PAGE, get(show_inbox).post(change_inbox))
}

#[derive(Template)]
#[template(path = "testflight/inbox.html", askama = escaping)]
struct InboxPage {
    shell: Shell,
    state: TestFlightState,
}

fn state_mark(submission: &InboxSubmission) -> (&'static str, &'static str, &'static str) {
    match submission.state {
        SubmissionState::Waiting => ("warn", "◐", "waiting for the log"),
        SubmissionState::Sent => ("good", "●", "sent"),
        SubmissionState::Refused => ("bad", "○", "refused"),
        SubmissionState::NoLog => ("bad", "○", "without a log"),
    }
}

/// `GET`: the key and the submissions.
async fn show_inbox(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let Json(state) = get_testflight(storage, signed.access).await?;
    render_html(&InboxPage { shell: Shell::for_viewer(signed.viewer, crate::NAME, "TestFlight"), state })
}

/// `POST`: sets the key, removes it, or asks Apple now.
async fn change_inbox(
    storage: State<Arc<Storage>>,
    inbox: InboxExtension,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    match form.field_text("action").as_str() {
        "poll" => drop(poll_testflight(storage, signed.access).await?),
        "remove" => drop(remove_testflight(storage, signed.access).await?),
        _ => drop(set_testflight(storage, inbox, signed.access, JsonBody(read_form(&form)?)).await?),
    }
    Ok(Redirect::to(INBOX_PAGE).into_response())
}

fn read_form(form: &SentForm) -> Result<NewTestFlight, Problem> {
    let read_day = |day: &str| {
        OffsetDateTime::parse(&format!("{day}T00:00:00Z"), &Rfc3339)
            .map_err(|_| Problem::new(Kind::InvalidBody, "expires_on: a day such as 2027-05-31"))
    };
    Ok(NewTestFlight {
        issuer_id: form.get("issuer_id").map(str::to_owned),
        key_id: form.field_text("key_id"),
        private_key: form.get("private_key").map(Secret::new),
        apps: form
            .field_text("apps")
            .split([',', ' ', '\r', '\n'])
            .filter(|app| !app.is_empty())
            .map(str::to_owned)
            .collect(),
        expires_at: form.get("expires_on").map(read_day).transpose()?,
        force: form.has_field("force"),
    })
}
