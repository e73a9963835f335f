//! `POST /v1/hooks/alerts/{id}`: PagerDuty and Opsgenie tell that a person acknowledged an alert there.
//!
//! The signature or the token is checked before anything of the body is believed. A delivery that comes again finds the firing
//! acknowledged, and one of a former firing finds that the open one began after it: both change nothing.
//!
//! Sources: <https://developer.pagerduty.com/docs/webhooks/v3-overview/>,
//! <https://developer.pagerduty.com/docs/webhooks/webhook-signatures/>;
//! <https://support.atlassian.com/opsgenie/docs/opsgenie-edge-connector-alert-action-data/>.

use crate::hook_path::HOOKS_PATH;
use crate::ids::AlertRuleId;
use crate::operations::firings::acknowledge_as;
use crate::receiver_policy::{PolicyExtension, ReceiverPolicy};
use crate::sending::DEDUPLICATION_PREFIX;
use crate::store::receivers::{PagerAcknowledgement, find_acknowledged, find_hook};
use crate::store::rules::AlertChannel;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Router};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_api::feature::hooks::{
    has_hex_signature, is_same_secret, parse_hook_id, read_hook_body, refuse_unsigned, take_hook_secret,
};
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_api::feature::{Api, Storage};
use unslide_model::{Secret, json};
use unslide_store::Uuid;

/// The most bytes of a hook.
const HOOK_BYTES_LIMIT: u64 = 256 << 10;
/// Signatures of a hook that are compared: PagerDuty sends two while a secret is replaced.
const SIGNATURES_LIMIT: usize = 10;
/// Above it a time of Opsgenie is in nanoseconds since 1970, else in milliseconds.
const MILLISECONDS_LIMIT: i128 = 100_000_000_000_000;
const NANOSECONDS_OF_MILLISECOND: i128 = 1_000_000;

/// Returns the route of pagers.
pub fn hook_routes() -> Router<Api> {
    Router::new().route(&format!("{HOOKS_PATH}{{id}}"), post(receive_hook))
}

fn no_hook() -> Problem {
    Problem::new(Kind::NotFound, "there is no such alert rule with a secret of hooks")
}

async fn receive_hook(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    Path(id): Path<String>,
    request: Request,
) -> Result<impl IntoResponse, Problem> {
    take_hook(&storage, &policy, &id, request).await?;
    Ok(StatusCode::ACCEPTED)
}

async fn take_hook(
    storage: &Storage,
    policy: &ReceiverPolicy,
    id: &str,
    request: Request,
) -> Result<(), Problem> {
    let (parts, body) = request.into_parts();
    let (tenant, rule) = parse_hook_id::<AlertRuleId>(id).ok_or_else(no_hook)?;
    let mut tx = storage.tenant(&tenant).await?;
    let hook = find_hook(&mut tx, rule).await?.ok_or_else(no_hook)?;
    tx.rollback();
    let body = read_hook_body(storage, &tenant, &parts, body, HOOK_BYTES_LIMIT).await?;
    let sealer = policy.sealer.as_ref().ok_or_else(no_hook)?;
    let secret = sealer.open_hook(&tenant, rule, &hook.sealed_secret);
    let secret = take_hook_secret(secret, &tenant, &format!("alert rule {rule}"))?;
    if !is_authentic(hook.channel, &parts.headers, &body, &secret) {
        return Err(refuse_unsigned());
    }
    let wrong = |error: String| Problem::new(Kind::InvalidBody, error);
    let value =
        json::from_slice(&body).map_err(|error| wrong(format!("{error}; the hook has to send JSON")))?;
    let Some(told) = read_acknowledgement(hook.channel, &value).map_err(wrong)? else { return Ok(()) };
    let mut tx = storage.tenant(&tenant).await?;
    if let Some(firing) = find_acknowledged(&mut tx, &hook, told).await? {
        acknowledge_as(&mut tx, firing, hook.channel.as_str()).await?;
    }
    Ok(tx.commit().await?)
}

/// Returns true if the hook was sent by the pager. It compares in constant time.
fn is_authentic(channel: AlertChannel, headers: &HeaderMap, body: &[u8], secret: &Secret) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match channel {
        AlertChannel::Pagerduty => header("x-pagerduty-signature").is_some_and(|signatures| {
            let mut signatures = signatures.split(',').take(SIGNATURES_LIMIT);
            signatures.any(|one| has_hex_signature(secret, body, one.trim().strip_prefix("v1=")))
        }),
        AlertChannel::Opsgenie => {
            let token = header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
            is_same_secret(secret, token)
        }
        _ => false,
    }
}

/// Reads the acknowledgement of a hook. Returns `None` for what is none, and for alerts that are not about a figure or a firing.
///
/// # Errors
/// Returns the part that is missing.
fn read_acknowledgement(channel: AlertChannel, hook: &Value) -> Result<Option<PagerAcknowledgement>, String> {
    let (is_acknowledged, key, at) = match channel {
        AlertChannel::Pagerduty => {
            let event = &hook["event"];
            let at =
                event["occurred_at"].as_str().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
            (event["event_type"] == "incident.acknowledged", &event["data"]["incident_key"], at)
        }
        _ => {
            let alert = &hook["alert"];
            (
                hook["action"] == "Acknowledge",
                &alert["alias"],
                alert["updatedAt"].as_i64().and_then(read_moment),
            )
        }
    };
    if !is_acknowledged {
        return Ok(None);
    }
    let key = key.as_str().and_then(|key| key.strip_prefix(DEDUPLICATION_PREFIX));
    let Some(subject) = key.and_then(|key| key.parse::<Uuid>().ok()) else { return Ok(None) };
    let missing =
        || "the time of the acknowledgement is missing: event.occurred_at or alert.updatedAt".to_owned();
    Ok(Some(PagerAcknowledgement { subject, at: at.ok_or_else(missing)? }))
}

/// Reads a time of Opsgenie.
fn read_moment(number: i64) -> Option<OffsetDateTime> {
    let number = i128::from(number);
    let nanoseconds =
        if number > MILLISECONDS_LIMIT { number } else { number.checked_mul(NANOSECONDS_OF_MILLISECOND)? };
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmac::{Hmac, KeyInit, Mac};
    use serde_json::json;
    use sha2::Sha256;
    use time::macros::datetime;

    fn signature(body: &[u8], secret: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(body);
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn one_of_the_signatures_of_pagerduty_is_that_of_all_bytes_with_the_secret() {
        let secret = Secret::new("the secret of a webhook");
        let (own, other) = (signature(b"body", secret.reveal()), signature(b"body", "another"));
        for (is_sent, header, body) in [
            (true, format!("v1={own}"), "body"),
            (true, format!("v1={other},v1={own}"), "body"),
            (false, format!("v1={own}"), "bodies"),
            (false, format!("v1={other}"), "body"),
            (false, own.clone(), "body"),
            (false, String::new(), "body"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-pagerduty-signature", header.parse().unwrap());
            let body = body.as_bytes();
            assert_eq!(is_authentic(AlertChannel::Pagerduty, &headers, body, &secret), is_sent, "{header}");
            assert!(!is_authentic(AlertChannel::Opsgenie, &headers, body, &secret));
            assert!(!is_authentic(AlertChannel::Webhook, &headers, body, &secret));
        }
        let mut headers = HeaderMap::new();
        assert!(!is_authentic(AlertChannel::Opsgenie, &headers, b"body", &secret));
        headers.insert(AUTHORIZATION, "Bearer the secret of a webhook".parse().unwrap());
        assert!(is_authentic(AlertChannel::Opsgenie, &headers, b"body", &secret));
    }

    #[test]
    fn a_hook_names_a_figure_or_a_firing_and_a_time() {
        let id = Uuid::from_u128(9);
        let at = datetime!(2026-11-20 09:00:01.5 UTC);
        let read = |channel, hook: Value| read_acknowledgement(channel, &hook);
        let incident = |kind: &str, key: String| json!({"event": {"event_type": kind, "occurred_at": "2026-11-20T09:00:01.5Z", "data": {"incident_key": key}}});
        let own = format!("unslide-{id}");
        let told = Ok(Some(PagerAcknowledgement { subject: id, at }));
        let pager = AlertChannel::Pagerduty;
        assert_eq!(read(pager, incident("incident.acknowledged", own.clone())), told);
        assert_eq!(read(pager, incident("incident.resolved", own.clone())), Ok(None));
        assert_eq!(read(pager, incident("incident.acknowledged", format!("{own}-{id}"))), Ok(None));
        assert_eq!(read(pager, json!({"event": {"event_type": "pagey.ping"}})), Ok(None));
        assert!(
            read(
                pager,
                json!({"event": {"event_type": "incident.acknowledged", "data": {"incident_key": own}}})
            )
            .is_err()
        );
        let alert = |action: &str, updated_at: i64| json!({"action": action, "alert": {"alias": own, "updatedAt": updated_at}});
        let genie = AlertChannel::Opsgenie;
        let milliseconds = i64::try_from(at.unix_timestamp_nanos() / NANOSECONDS_OF_MILLISECOND).unwrap();
        assert_eq!(read(genie, alert("Acknowledge", milliseconds)), told);
        assert_eq!(read(genie, alert("Acknowledge", milliseconds * 1_000_000)), told);
        assert_eq!(read(genie, alert("Close", milliseconds)), Ok(None));
    }
}
