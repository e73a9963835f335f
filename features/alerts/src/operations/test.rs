//! `POST /v1/alert-rules/{id}/test`.

use super::{ALERT_UNITS, no_rule};
use crate::receiver_policy::PolicyExtension;
use crate::store::events::raise_test;
use crate::store::rules::AlertChannel;
use crate::store::{AlertRuleId, rule_table};
use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, Path, Problem, TenantAdmin, problems};
use unslide_model::Secret;

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Send a test message
///
/// Sends a test message like any other message: `GET /v1/alert-messages` lists it with its outcome, until the rule's next
/// test. A test costs as many units as 100 reports. A recipient of mail that has not confirmed gets another request to
/// confirm if a day has passed.
#[utoipa::path(post, path = "/v1/alert-rules/{id}/test", tag = "alerts", operation_id = "test_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    responses((status = 204, description = "The message will be sent."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_alert_rule(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    access: Access<TenantAdmin>,
    Path(id): Path<AlertRuleId>,
) -> Result<StatusCode, Problem> {
    Charge::for_reports(&storage.capacity, access.tenant(), access.principal.limits.units_per_second)?
        .charge_reports(ALERT_UNITS)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let rule = rule_table::get(&mut tx, id, access.only_app()).await?.ok_or_else(no_rule)?;
    if rule.channel == AlertChannel::Mail {
        policy.mail.ask_all(&mut tx, &Secret::new(rule.address.as_str())).await?;
    }
    raise_test(&mut tx, &rule).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
