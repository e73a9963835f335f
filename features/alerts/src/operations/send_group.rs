//! `POST /v1/groups/{id}/send`.

use super::{ALERT_UNITS, no_rule};
use crate::store::events::raise_sent_group;
use crate::store::{AlertRuleId, rule_table};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, JsonBody, Path, Problem, problems};
use unslide_api::feature::site::{GroupsWrite, find_named_group};
use unslide_model::GroupRef;
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, RateLimited);

/// Where to send a group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupReceiver {
    /// Id of the alert rule whose receiver gets the group.
    #[schema(value_type = Uuid)]
    pub rule: AlertRuleId,
}

/// Send a group to a receiver
///
/// Sends the group to the receiver of an alert rule, whatever the condition of the rule, and also if it is switched off.
/// If a webhook answers with `ticket_url`, the group is linked to that ticket. Within a minute the group is sent once.
/// Sending costs as many units as 100 reports.
#[utoipa::path(post, path = "/v1/groups/{id}/send", tag = "alerts", operation_id = "send_group",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    request_body = GroupReceiver,
    responses((status = 204, description = "The message will be sent."), Failures),
    security(("key" = ["groups:write"])))]
pub async fn send_group(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    JsonBody(receiver): JsonBody<GroupReceiver>,
) -> Result<StatusCode, Problem> {
    Charge::for_reports(&storage.capacity, access.tenant(), access.principal.limits.units_per_second)?
        .charge_reports(ALERT_UNITS)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?;
    let rule = rule_table::get(&mut tx, receiver.rule, None).await?;
    let rule =
        rule.filter(|rule| rule.app.as_ref().is_none_or(|app| *app == group.app)).ok_or_else(no_rule)?;
    raise_sent_group(&mut tx, rule.id, &group).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
