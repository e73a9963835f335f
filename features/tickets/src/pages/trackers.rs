//! `/console/trackers`: the trackers of a tenant, set, tested and removed.

use crate::TicketsExtension;
use crate::operations::list::list_trackers;
use crate::operations::remove::remove_tracker;
use crate::operations::set::{NewTracker, set_tracker};
use crate::operations::test::{TrackerTest, test_tracker};
use crate::operations::{ShownTracker, TrackerList};
use crate::ticket::TrackerKind;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Path, Problem, TenantAdmin};
use unslide_model::Secret;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const TRACKERS_PAGE: &str = "/console/trackers";

#[derive(Template)]
#[template(path = "tickets/trackers.html", askama = escaping)]
struct TrackersPage {
    shell: Shell,
    trackers: Vec<ShownTracker>,
    kinds: Vec<TrackerKind>,
    /// The tracker that was just set, with the secret that is shown once.
    set: Option<ShownTracker>,
    /// The test that was just done, with the name of its tracker.
    test: Option<(String, TrackerTest)>,
}

async fn load_trackers(
    storage: State<Arc<Storage>>,
    tickets: TicketsExtension,
    access: Access<TenantAdmin>,
) -> Result<Vec<ShownTracker>, Problem> {
    let Json(TrackerList { trackers }) = list_trackers(storage, tickets, access).await?;
    Ok(trackers)
}

/// `GET`: the trackers.
pub async fn show_trackers(
    storage: State<Arc<Storage>>,
    tickets: TicketsExtension,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let trackers = load_trackers(storage, tickets, signed.access).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Trackers");
    render_html(&TrackersPage { shell, trackers, kinds: TrackerKind::ALL.to_vec(), set: None, test: None })
}

/// `POST`: sets, tests or removes a tracker. What is shown once is on the page that answers.
pub async fn change_tracker(
    storage: State<Arc<Storage>>,
    tickets: TicketsExtension,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let (name, access) = (form.field_text("name"), signed.access);
    let (mut set, mut test) = (None, None);
    match form.field_text("action").as_str() {
        "remove" => {
            remove_tracker(storage, access, Path(name)).await?;
            return Ok(Redirect::to(TRACKERS_PAGE).into_response());
        }
        "test" => {
            let Json(done) =
                test_tracker(storage.clone(), tickets.clone(), access.clone(), Path(name.clone())).await?;
            test = Some((name, done));
        }
        _ => {
            let body = JsonBody(read_form(&form)?);
            let Json(done) = set_tracker(storage.clone(), tickets.clone(), access.clone(), body).await?;
            if done.new_hook_secret.is_none() {
                return Ok(Redirect::to(TRACKERS_PAGE).into_response());
            }
            set = Some(done);
        }
    }
    let trackers = load_trackers(storage, tickets, access).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Trackers");
    render_html(&TrackersPage { shell, trackers, kinds: TrackerKind::ALL.to_vec(), set, test })
}

fn read_form(form: &SentForm) -> Result<NewTracker, Problem> {
    let text = |name: &str| form.get(name).map(str::to_owned);
    Ok(NewTracker {
        name: form.field_text("name"),
        kind: form.parse_word("kind")?,
        url: text("url"),
        project: form.field_text("project"),
        account: text("account"),
        token: form.get("token").map(Secret::new),
        hook_secret: form.get("hook_secret").map(Secret::new),
        issue_type: text("issue_type"),
        labels: form
            .field_text("labels")
            .split(',')
            .map(str::trim)
            .filter(|label| !label.is_empty())
            .map(str::to_owned)
            .collect(),
        fields: text("fields"),
        rule_reports: form.parse_number("rule_reports")?,
        rule_app: text("rule_app"),
        force: form.has_field("force"),
    })
}
