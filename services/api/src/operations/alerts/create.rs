//! `POST /v1/alert-rules`.

use super::{ask_recipients, check, check_receiver, described};
use crate::operations::prelude::*;
use crate::requests::input::{Json, is_text};
use http::StatusCode;
use unslide_store::alerts::rules::{self, AlertRule, MOST_RULES, NewAlertRule};
use unslide_store::audit;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Create an alert rule
///
/// From now on its receiver gets a message when the condition is met: at least once, with the same `Idempotency-Key`
/// (`Message-ID` of mail) for the same message. A message that the receiver does not take is sent again for 22 hours.
/// Recipients of `mail` outside the operator's domains get one mail with a link, and alerts once they have confirmed there.
/// A tenant may have 100 rules. A key for one app makes rules for that app only.
#[utoipa::path(post, path = "/v1/alert-rules", tag = "alerts", operation_id = "create_alert_rule",
    request_body = NewAlertRule,
    responses((status = 201, description = "The rule was made.", body = AlertRule), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_alert_rule(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Json(mut new): Json<NewAlertRule>,
) -> Result<(StatusCode, axum::Json<AlertRule>), Problem> {
    new.app = access.app(new.app)?;
    check(Some(&new.name), Some(new.condition), new.threshold, Some(new.digest_minutes))?;
    if new.app.as_ref().is_some_and(|app| !is_text(app, 255)) {
        return Err(Problem::new(Kind::InvalidBody, "app: 1 to 255 bytes, no control characters"));
    }
    let receiver = new.receiver();
    check_receiver(&api, &receiver)?;
    let mut tx = api.tenant(access.tenant()).await?;
    let Some(rule) = rules::create(&mut tx, &new).await? else {
        let detail = format!("a tenant has at most {MOST_RULES} alert rules; delete one");
        return Err(Problem::new(Kind::LimitReached, detail));
    };
    ask_recipients(&api, &mut tx, &receiver).await?;
    let rule = described(&api, &mut tx, rule).await?;
    let detail =
        serde_json::json!({"condition": rule.condition, "channel": rule.channel, "address": rule.address});
    let actor = access.principal.key_id.to_string();
    audit::append(&mut tx, &actor, "alert_rule.create", &rule.id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, axum::Json(rule)))
}
