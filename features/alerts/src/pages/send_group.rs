//! `/console/groups/{id}/send`: sends a group to the receiver of an alert rule.

use crate::operations::{GroupReceiver, send_group};
use crate::store::rule_table;
use crate::store::rules::AlertRule;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{JsonBody, Kind, MAX_LIMIT, Path, Problem, Query};
use unslide_api::feature::site::{GroupsWrite, find_named_group};
use unslide_model::GroupRef;
use unslide_site::{PageState, SentForm, Shell, SignedIn, Template, escaping, filters, render_html};
use unslide_store::GroupId;
use unslide_store::queries::groups::ListedGroup;

#[derive(Template)]
#[template(path = "alerts/send_group.html", askama = escaping)]
struct SendPage {
    shell: Shell,
    group: ListedGroup,
    rules: Vec<AlertRule>,
    /// The name of the rule with the receiver that the group was just sent to.
    sent_to: Option<String>,
}

/// `GET`: lists the receivers. Their addresses are for the tenant's administrators.
pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupRef>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, signed.access.only_app()).await?;
    // A tenant has fewer rules than a page can have.
    let mut rules = rule_table::list_rules(&mut tx, None, None, MAX_LIMIT).await?;
    tx.rollback();
    rules.retain(|rule| rule.app.as_ref().is_none_or(|app| *app == group.app));
    let sent = state.get_text("sent").and_then(|id| rules.iter().find(|rule| rule.id.to_string() == id));
    let sent_to = sent.map(|rule| rule.name.clone());
    let shell = Shell::for_viewer(signed.viewer, "groups", "Send a group");
    render_html(&SendPage { shell, group, rules, sent_to })
}

/// `POST`: sends the group by the rule of the form.
pub async fn send_from_form(
    storage: State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupId>,
    form: SentForm,
) -> Result<Response, Problem> {
    let rule = form.field_text("rule").parse();
    let rule = rule.map_err(|_| Problem::new(Kind::InvalidBody, "rule: the id of an alert rule"))?;
    send_group(storage, signed.access, Path(id.into()), JsonBody(GroupReceiver { rule })).await?;
    Ok(Redirect::to(&format!("/console/groups/{id}/send?sent={rule}")).into_response())
}
