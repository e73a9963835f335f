//! `/console/mail/{token}`: a recipient of mail confirms that it wants alerts, or stops them. Opening the page changes
//! nothing: mail servers open the links of mails.

use crate::store::recipients::{self, LinkedRecipient};
use crate::store::rules::RecipientStatus;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::Extensions;
use std::sync::Arc;
use unslide_api::entropy;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_site::{Caller, Shell, Template, assign_caller, escaping, filters, render_html};

#[derive(Template)]
#[template(path = "alerts/mail.html", askama = escaping)]
struct MailPage {
    shell: Shell,
    tenant: String,
    address: String,
    is_confirmed: bool,
    is_refused: bool,
    token: String,
}

/// Finds the recipient of a link, and counts the request as its tenant's.
async fn find_recipient(
    storage: &Storage,
    token: &str,
    extensions: &Extensions,
) -> Result<LinkedRecipient, Problem> {
    let gone =
        || Problem::new(Kind::NotFound, "the link is unknown or too old; the next alert sends another one");
    let token = entropy::read_token(token).ok_or_else(gone)?;
    let linked = recipients::find_by_link(&storage.store, &token).await?.ok_or_else(gone)?;
    assign_caller(extensions, &storage.capacity, Caller::Public(linked.tenant.clone()))?;
    Ok(linked)
}

/// `GET /console/mail/{token}`: shows what a recipient may answer.
pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    Path(token): Path<String>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let LinkedRecipient { tenant, recipient } = find_recipient(&storage, &token, &extensions).await?;
    render_html(&MailPage {
        shell: Shell { title: "Alerts by mail".to_owned(), ..Shell::signed_out() },
        tenant: tenant.to_string(),
        address: recipient.address,
        is_confirmed: recipient.status == RecipientStatus::Confirmed,
        is_refused: recipient.status == RecipientStatus::Refused,
        token,
    })
}

/// `POST /console/mail/{token}/{action}`: `confirm` or `stop`.
pub async fn answer_link(
    State(storage): State<Arc<Storage>>,
    Path((token, action)): Path<(String, String)>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let is_confirmed = match action.as_str() {
        "confirm" => true,
        "stop" => false,
        _ => return Err(Problem::new(Kind::NotFound, "a link of a mail has no such action")),
    };
    let LinkedRecipient { tenant, recipient } = find_recipient(&storage, &token, &extensions).await?;
    let mut tx = storage.tenant(&tenant).await?;
    recipients::set_accepted(&mut tx, &recipient.address, is_confirmed).await?;
    tx.commit().await?;
    Ok(Redirect::to(&format!("/console/mail/{token}")).into_response())
}
