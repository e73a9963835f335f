//! `POST /v1/alert-rules`.

use super::figure::{check_figure, check_second_receiver, check_watching_rule};
use super::{
    ask_recipients, check_labels, check_least_reports, check_limits, check_receiver, check_schedule,
    describe_rule,
};
use crate::receiver_policy::PolicyExtension;
use crate::store::figures::FigureComparison;
use crate::store::rule_table;
use crate::store::rules::{AlertCondition, AlertRule, MOST_RULES, NewAlertRule};
use axum::extract::State;
use axum::{Extension, Json};
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems};
use unslide_model::Secret;
use unslide_store::audit;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Create an alert rule
///
/// The receiver gets a message when the condition is met: at least once, with the same `Idempotency-Key` (`Message-ID` of mail)
/// for the same message. If the receiver does not accept a message, it is sent again for 22 hours. Recipients of `mail` outside
/// the operator's domains first get one mail with a link. They get alerts after they confirm there. Every event of a rule is also
/// the event `alert_raised` of `GET /v1/events`. A tenant may have 100 rules. A key for one app creates rules for that app only.
#[utoipa::path(post, path = "/v1/alert-rules", tag = "alerts", operation_id = "create_alert_rule",
    request_body = NewAlertRule,
    responses((status = 201, description = "The rule was made.", body = AlertRule), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_alert_rule(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    access: Access<TenantAdmin>,
    JsonBody(mut new): JsonBody<NewAlertRule>,
) -> Result<(StatusCode, Json<AlertRule>), Problem> {
    new.app = access.restrict_app(new.app)?;
    check_limits(Some(&new.name), Some(new.condition), new.threshold, Some(new.digest_minutes))?;
    check_least_reports(new.condition, new.least_reports)?;
    check_schedule(&storage.store, new.condition, new.summary.as_ref()).await?;
    check_labels(Some(new.condition), &new.labels)?;
    if new.app.as_ref().is_some_and(|app| !is_text(app, 255)) {
        return Err(Problem::new(Kind::InvalidBody, "app: 1 to 255 bytes, no control characters"));
    }
    if new.condition == AlertCondition::Figure && new.threshold.is_none() {
        let is_compared = new.figure.as_ref().is_some_and(|it| it.comparison == FigureComparison::Worse);
        if !is_compared {
            return Err(Problem::new(Kind::InvalidBody, "threshold: needed, in the unit of the figure"));
        }
    }
    if let Some(figure) = &new.figure {
        check_figure(&storage.store, figure)?;
    }
    if new.address.is_empty() {
        new.address = Secret::new(new.channel.usual_address());
    }
    let receiver = new.to_receiver();
    check_receiver(&policy, &receiver)?;
    let sealed = policy.seal_receiver(access.tenant(), &receiver)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    check_second_receiver(&mut tx, new.second_receiver(), None, access.only_app()).await?;
    let Some(rule) = rule_table::create_rule(&mut tx, &new, sealed.as_ref()).await? else {
        let detail = format!("a tenant has at most {MOST_RULES} alert rules; delete one");
        return Err(Problem::new(Kind::LimitReached, detail));
    };
    check_watching_rule(&rule, new.figure.as_ref())?;
    ask_recipients(&policy, &mut tx, &receiver).await?;
    let rule = describe_rule(&policy, &mut tx, rule).await?;
    let detail =
        serde_json::json!({"condition": rule.condition, "channel": rule.channel, "address": rule.address});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "alert_rule.create", &rule.id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(rule)))
}
