//! `/console/chat/link/{token}`: connects a person of a workspace to the account that is signed in. Opening it changes nothing.

use crate::ids::SlackAccountKeyId;
use crate::store::{self, SlackLink};
use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;
use unslide_api::entropy::read_token;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_api::feature::site::GroupsWrite;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};
use unslide_store::audit;

/// The most characters of the name of an account.
const ACCOUNT_NAME_LIMIT: usize = 60;

#[derive(Template)]
#[template(path = "chat/link.html", askama = escaping)]
struct LinkPage {
    shell: Shell,
    link: SlackLink,
    token: String,
    /// The name as which the person acts.
    account: String,
    is_done: bool,
}

/// Returns the path of the page of a link.
pub fn link_path(token: &str) -> String {
    format!("/console/chat/link/{token}")
}

fn no_link() -> Problem {
    Problem::new(
        Kind::NotFound,
        "The link was used, is over, or belongs to another tenant. Press the button in Slack again.",
    )
}

fn read_link_token(token: &str) -> Result<[u8; 32], Problem> {
    Ok(store::hash_link_token(&read_token(token).ok_or_else(no_link)?))
}

/// Returns the name as which a person acts.
fn account_name(signed: &SignedIn<GroupsWrite>) -> String {
    let name = signed.viewer.name.clone().unwrap_or_else(|| signed.access.principal.key_id.to_string());
    name.chars().take(ACCOUNT_NAME_LIMIT).collect()
}

/// `GET`: who is connected to which account.
pub async fn show_link(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(token): Path<String>,
) -> Result<Response, Problem> {
    let hash = read_link_token(&token)?;
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    let link = store::find_link(&mut tx, &hash).await?.ok_or_else(no_link)?;
    tx.rollback();
    let account = account_name(&signed);
    let shell = Shell::for_viewer(signed.viewer, "groups", "Connect Slack");
    render_html(&LinkPage { shell, link, token, account, is_done: false })
}

/// `POST`: connects them. The link works once.
pub async fn use_link(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(token): Path<String>,
    _form: SentForm,
) -> Result<Response, Problem> {
    let hash = read_link_token(&token)?;
    let (account, key_id) = (account_name(&signed), signed.access.principal.key_id);
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    let link = store::use_link(&mut tx, &hash).await?.ok_or_else(no_link)?;
    store::link_person(&mut tx, &link, SlackAccountKeyId::from_uuid(key_id), &account).await?;
    let detail = json!({"team": link.team, "slack_user": link.slack_user});
    audit::append_entry(&mut tx, &key_id.to_string(), "slack.connect", &link.slack_user, &detail).await?;
    tx.commit().await?;
    let shell = Shell::for_viewer(signed.viewer, "groups", "Connect Slack");
    render_html(&LinkPage { shell, link, token, account, is_done: true })
}
