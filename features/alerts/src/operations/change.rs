//! `PATCH /v1/alert-rules/{id}`.

use super::figure::{check_figure, check_second_receiver, check_watching_rule};
use super::{
    ask_recipients, check_labels, check_least_reports, check_limits, check_receiver, check_schedule,
    describe_rule, no_rule,
};
use crate::receiver_policy::{PolicyExtension, ReceiverPolicy};
use crate::sealing::SEALING_KEY;
use crate::store::receivers::set_hook_secret;
use crate::store::rules::{AlertRule, AlertRuleChange};
use crate::store::{AlertRuleId, rule_table};
use axum::extract::State;
use axum::{Extension, Json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, JsonBody, Kind, Path, Problem, TenantAdmin, is_text, problems,
};
use unslide_model::{Secret, TenantId};
use unslide_store::audit;

/// Maximum length of an app's name, in bytes.
const APP_BYTES: usize = 255;
/// Characters of a secret of hooks.
const HOOK_SECRET_LENGTHS: RangeInclusive<usize> = 16..=500;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, LimitReached);

/// Change an alert rule
///
/// Mutes the rule, switches it off, changes its app, its labels, its figure, its threshold and its times, or gives it another receiver.
#[utoipa::path(patch, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "change_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    request_body = AlertRuleChange,
    responses((status = 200, description = "The rule after the change.", body = AlertRule), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn change_alert_rule(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    access: Access<TenantAdmin>,
    Path(id): Path<AlertRuleId>,
    JsonBody(mut change): JsonBody<AlertRuleChange>,
) -> Result<Json<AlertRule>, Problem> {
    check_limits(change.name.as_deref(), None, change.threshold, change.digest_minutes)?;
    check_app(&access, change.app.as_deref())?;
    check_labels(None, change.labels.as_deref().unwrap_or_default())?;
    if let Some(figure) = &change.figure {
        check_figure(&storage.store, figure)?;
    }
    if let (Some(channel), true) = (change.channel, change.address.is_empty()) {
        change.address = Secret::new(channel.usual_address());
    }
    let receiver = change.to_receiver();
    match &receiver {
        Some(receiver) => check_receiver(&policy, receiver)?,
        None if !change.names_parts_of_a_receiver() => {}
        None => {
            let detail = "address, secret, template, content_type: only with channel, which replaces the whole receiver";
            return Err(Problem::new(Kind::InvalidBody, detail));
        }
    }
    let new_receiver = receiver.as_ref();
    let sealed = new_receiver.map(|new| policy.seal_receiver(access.tenant(), new)).transpose()?.flatten();
    let sealed_hook = seal_hook(&policy, access.tenant(), id, change.hook_secret.as_ref())?;
    let mut tx = storage.tenant(access.tenant()).await?;
    check_second_receiver(&mut tx, change.second_receiver(), Some(id), access.only_app()).await?;
    if !rule_table::change_rule(&mut tx, id, access.only_app(), &change, sealed.as_ref()).await? {
        return Err(no_rule());
    }
    if let Some(sealed) = &sealed_hook {
        set_hook_secret(&mut tx, id, access.only_app(), sealed.as_deref()).await?;
    }
    if let Some(receiver) = &receiver {
        ask_recipients(&policy, &mut tx, receiver).await?;
    }
    let rule = rule_table::get(&mut tx, id, access.only_app()).await?.ok_or_else(no_rule)?;
    check_limits(None, Some(rule.condition), change.threshold, None)?;
    check_least_reports(rule.condition, change.least_reports)?;
    check_schedule(&storage.store, rule.condition, change.summary.as_ref()).await?;
    check_labels(Some(rule.condition), &rule.labels)?;
    check_watching_rule(&rule, change.figure.as_ref())?;
    if rule.takes_hooks && !rule.channel.is_pager() {
        let detail =
            format!("hook_secret: only with the channels pagerduty and opsgenie, not with {}", rule.channel);
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    let rule = describe_rule(&policy, &mut tx, rule).await?;
    let detail = serde_json::json!({"enabled": rule.enabled, "threshold": rule.threshold, "channel": rule.channel,
                                     "address": rule.address});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "alert_rule.change", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(Json(rule))
}

/// Encrypts a new secret of hooks. Returns `None` if it does not change, and `Some(None)` if it is removed.
fn seal_hook(
    policy: &ReceiverPolicy,
    tenant: &TenantId,
    rule: AlertRuleId,
    secret: Option<&Secret>,
) -> Result<Option<Option<Vec<u8>>>, Problem> {
    let Some(secret) = secret else { return Ok(None) };
    if secret.is_empty() {
        return Ok(Some(None));
    }
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    let text = secret.reveal();
    if !HOOK_SECRET_LENGTHS.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("hook_secret: 16 to 500 printable ASCII characters, no spaces".to_owned()));
    }
    let missing =
        || wrong(format!("This service keeps no secrets of hooks. The operator sets {SEALING_KEY}."));
    let sealer = policy.sealer.as_ref().ok_or_else(missing)?;
    sealer.seal_hook(tenant, rule, secret).map(|sealed| Some(Some(sealed))).map_err(Problem::internal)
}

/// Refuses an app that is none, or that the key may not see.
fn check_app(access: &Access<TenantAdmin>, app: Option<&str>) -> Result<(), Problem> {
    let Some(app) = app else { return Ok(()) };
    if !app.is_empty() && !is_text(app, APP_BYTES) {
        let detail = format!("app: at most {APP_BYTES} bytes, no control characters; empty for all apps");
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    access.restrict_app(Some(app.to_owned())).map(drop)
}
