//! `PUT /v1/testflight`: sets the key of App Store Connect.

use super::{EVERY_APP, TestFlightState, read_state};
use crate::apple::{AppleClient, AppleError, AppleKey};
use crate::sealing::{AppleKeyOwner, AppleKeySealer, SEALING_KEY};
use crate::store::{self, InboxKey, NewInboxKey};
use crate::{Inbox, InboxExtension};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems};
use unslide_model::{Clock, Secret, TenantId};
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Apps of one key.
const MAX_APPS: usize = 20;
/// How long Apple may take for all checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Seconds after which a request may be sent again that Apple did not answer.
const APPLE_RETRY_SECONDS: u32 = 60;

/// A key of App Store Connect to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTestFlight {
    /// The issuer id, above the list of team keys in App Store Connect. Absent for a key of one person.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100, example = "57246542-96fe-1a63-e053-0824d011072a")]
    pub issuer_id: Option<String>,
    /// The id of the key.
    #[schema(min_length = 1, max_length = 100, example = "2X9R4HXF34")]
    pub key_id: String,
    /// The text of the file `AuthKey_….p8`. It is stored encrypted and never shown. If absent, the private key stays that is set
    /// for the same key id.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 4000)]
    pub private_key: Option<Secret>,
    /// Bundle identifiers of the apps whose submissions are taken.
    #[schema(min_items = 1, max_items = 20, example = json!(["com.example.shop"]))]
    pub apps: Vec<String>,
    /// When the key is no longer to be used (RFC 3339). Apple's keys have no end of their own.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// `true` sets a key even if Apple refuses it or cannot be asked now; otherwise it is refused.
    #[serde(default)]
    pub force: bool,
}

/// Set the key of App Store Connect
///
/// Crashes that testers send with TestFlight become reports, with the words of the tester. Apple is asked whether the key is
/// valid, sees the apps, and may read their submissions: a key that may not is refused with what is missing. The role Developer
/// is enough. Apple is then asked every 15 minutes.
#[utoipa::path(put, path = "/v1/testflight", tag = "testflight", operation_id = "set_testflight",
    request_body = NewTestFlight,
    responses((status = 200, description = "The key is set.", body = TestFlightState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_testflight(
    State(storage): State<Arc<Storage>>,
    Extension(inbox): InboxExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewTestFlight>,
) -> Result<Json<TestFlightState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_new(&new, storage.clock.now()).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    let Inbox { client: Some(client), sealer: Some(sealer), .. } = &*inbox else {
        let detail =
            format!("This service keeps no keys of App Store Connect. The operator sets {SEALING_KEY}.");
        return Err(Problem::new(Kind::InvalidBody, detail));
    };
    let mut tx = storage.tenant(access.tenant()).await?;
    let known = store::get_key(&mut tx).await?;
    tx.rollback();
    let pem = find_private_key(&new, known.as_ref(), access.tenant(), sealer)?;
    let key = AppleKey::from_pem(new.issuer_id.as_deref(), &new.key_id, &pem)
        .map_err(|error| Problem::new(Kind::InvalidBody, format!("private_key: {error}")))?;
    let checking = tokio::time::timeout(CHECK_TIMEOUT, check_key(client, &key, &storage.clock, &new.apps));
    let checked = checking.await.unwrap_or(Err(CheckFailure::Apple(AppleError::Unreachable)));
    let (apps, problem) = match checked {
        Ok(apps) => (apps.into_iter().map(|(app, id)| (app, Some(id))).collect(), None),
        Err(failure) if !new.force => return Err(failure.into_problem()),
        Err(failure) => (new.apps.iter().map(|app| (app.clone(), None)).collect(), Some(failure.to_string())),
    };
    let owner = AppleKeyOwner { tenant: access.tenant(), key_id: &new.key_id };
    let sealed_key = sealer.seal(owner, &pem).map_err(Problem::internal)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let stored = NewInboxKey {
        issuer_id: new.issuer_id,
        key_id: new.key_id,
        sealed_key,
        expires_at: new.expires_at,
        apps,
        problem,
    };
    store::set_key(&mut tx, &stored).await?;
    let detail = json!({"issuer_id": stored.issuer_id, "apps": new.apps, "forced": stored.problem.is_some()});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "testflight.set", &stored.key_id, &detail).await?;
    let state = read_state(&mut tx).await?;
    tx.commit().await?;
    Ok(Json(state))
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
enum CheckFailure {
    #[error("apps: the team of the key has no app {}, or the key may not see it", .0.join(", "))]
    UnknownApps(Vec<String>),
    #[error("apps.{app}: {error}")]
    App { app: String, error: AppleError },
    #[error("{0}")]
    Apple(AppleError),
}

impl CheckFailure {
    fn into_problem(self) -> Problem {
        let (CheckFailure::App { error, .. } | CheckFailure::Apple(error)) = &self else {
            return Problem::new(Kind::InvalidBody, self.to_string());
        };
        match error {
            AppleError::Limited { .. } | AppleError::Server(_) | AppleError::Unreachable => {
                Problem::new(Kind::Unavailable, self.to_string()).retry_after(APPLE_RETRY_SECONDS)
            }
            _ => Problem::new(Kind::InvalidBody, format!("{self}. `force` sets the key nevertheless")),
        }
    }
}

/// Asks Apple whether a key sees the apps and may read their submissions. Returns Apple's ids of them.
async fn check_key(
    client: &AppleClient,
    key: &AppleKey,
    clock: &Arc<dyn Clock>,
    apps: &[String],
) -> Result<Vec<(String, String)>, CheckFailure> {
    let mut session = client.with_key(key, clock);
    let found = session.find_apps(apps).await.map_err(CheckFailure::Apple)?;
    let is_unknown = |app: &&String| !found.iter().any(|(known, _)| known == *app);
    let unknown: Vec<String> = apps.iter().filter(is_unknown).cloned().collect();
    if !unknown.is_empty() {
        return Err(CheckFailure::UnknownApps(unknown));
    }
    for (app, apple_id) in &found {
        let checked = session.check_app(apple_id).await;
        checked.map_err(|error| CheckFailure::App { app: app.clone(), error })?;
    }
    Ok(found)
}

/// Returns the private key of the request, or the one that is set for the same key.
fn find_private_key(
    new: &NewTestFlight,
    known: Option<&InboxKey>,
    tenant: &TenantId,
    sealer: &AppleKeySealer,
) -> Result<Secret, Problem> {
    if let Some(pem) = new.private_key.as_ref().filter(|pem| !pem.is_empty()) {
        return Ok(pem.clone());
    }
    let known = known.filter(|known| known.key_id == new.key_id && known.issuer_id == new.issuer_id);
    let Some(known) = known else {
        let detail =
            "private_key: the text of the file AuthKey_….p8; it may be absent only for the key that is set";
        return Err(Problem::new(Kind::InvalidBody, detail));
    };
    let owner = AppleKeyOwner { tenant, key_id: &known.key_id };
    let opened = sealer.open(owner, &known.sealed_key);
    opened.map_err(|error| Problem::new(Kind::InvalidBody, format!("private_key: {error}")))
}

fn check_new(new: &NewTestFlight, now: OffsetDateTime) -> Result<(), String> {
    let is_id = |text: &str| {
        (1..=100).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if new.issuer_id.as_deref().is_some_and(|id| !is_id(id)) {
        return Err("issuer_id: 1 to 100 letters, digits and -".to_owned());
    }
    if !is_id(&new.key_id) {
        return Err("key_id: 1 to 100 letters and digits".to_owned());
    }
    if new.private_key.as_ref().is_some_and(|pem| pem.reveal().len() > 4_000) {
        return Err("private_key: at most 4000 bytes".to_owned());
    }
    let is_app = |app: &String| is_text(app, 200) && !app.contains([',', '*', ' ']);
    if new.apps.is_empty() || new.apps.len() > MAX_APPS || !new.apps.iter().all(is_app) {
        return Err(format!("apps: 1 to {MAX_APPS} bundle identifiers, each written out"));
    }
    if new.expires_at.is_some_and(|end| end <= now) {
        return Err("expires_at: it has passed".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_set_is_refused_with_the_field() {
        let now = OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap();
        let refusal = |change: &dyn Fn(&mut NewTestFlight)| {
            let json = json!({"issuer_id": "57246542-96fe-1a63-e053-0824d011072a", "key_id": "2X9R4HXF34",
                "apps": ["com.acme.shop"], "expires_at": "2027-01-01T00:00:00Z"});
            let mut new: NewTestFlight = serde_json::from_value(json).unwrap();
            assert_eq!(check_new(&new, now), Ok(()));
            change(&mut new);
            check_new(&new, now).unwrap_err()
        };
        assert!(refusal(&|new| new.issuer_id = Some("a b".to_owned())).starts_with("issuer_id:"));
        assert!(refusal(&|new| new.key_id.clear()).starts_with("key_id:"));
        assert!(
            refusal(&|new| new.private_key = Some(Secret::new("x".repeat(4_001))))
                .starts_with("private_key:")
        );
        assert!(refusal(&|new| new.apps.clear()).starts_with("apps:"));
        assert!(refusal(&|new| new.apps = vec!["com.acme.*".to_owned()]).starts_with("apps:"));
        assert!(refusal(&|new| new.expires_at = Some(now)).starts_with("expires_at:"));
    }
}
