//! `PUT /v1/sign-in`: sets the tenant's identity provider.

use super::{EVERY_APP, SignInState};
use crate::PeopleExtension;
use crate::store::{self, MAX_RULES, SignInProvider, SignInRule};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems};
use unslide_model::{KeyPreset, Scope, Secret};
use unslide_site::end_sessions_of_keys;
use unslide_store::{Uuid, audit};
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// The claim that is read if the settings name none.
const DEFAULT_GROUP_CLAIM: &str = "groups";
/// Hours of a session if the settings name none.
const DEFAULT_SESSION_HOURS: i32 = 12;
/// Scopes that the settings may name.
const MAX_SCOPES: usize = 20;
/// The longest session, in hours.
const MAX_SESSION_HOURS: i32 = 24;

/// An identity provider to be set.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSignIn {
    /// The issuer's URL. Its document is at `/.well-known/openid-configuration` below it.
    #[schema(min_length = 1, max_length = 500, example = "https://login.example.com")]
    pub issuer: String,
    /// The client as the provider knows it.
    #[schema(min_length = 1, max_length = 200, example = "unslide")]
    pub client_id: String,
    /// The client's secret, which is never shown; empty for a public client. If absent, the secret stays that is set for
    /// the same issuer and client.
    #[serde(default)]
    #[schema(max_length = 500)]
    pub client_secret: Option<String>,
    /// The claim of tokens that names a person's groups; `groups` if absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    pub group_claim: Option<String>,
    /// The claim of tokens with the id that the tenant's directory has for a person: its `externalId`, if users come by SCIM. `sub`
    /// if absent. Only a claim that never goes to another person is safe.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200, example = "oid")]
    pub directory_claim: Option<String>,
    /// `true` has the groups decide that come by SCIM, and not those of tokens.
    #[serde(default)]
    pub directory_groups: bool,
    /// `true` has the provider lead people back to `signed_out_path` after a sign-out there. Only if the client at the provider has
    /// this address among those to which it may lead after a sign-out.
    #[serde(default)]
    pub return_after_sign_out: bool,
    /// The scopes to request besides `openid`. If absent, `profile` and the group claim are requested as far as the
    /// provider's document names them, and left out if the provider refuses them.
    #[serde(default)]
    #[schema(max_items = 20, example = json!(["profile", "groups"]))]
    pub scopes: Option<Vec<String>>,
    /// The scopes of groups. A person of no group with scopes cannot sign in.
    #[schema(min_items = 1, max_items = 50)]
    pub rules: Vec<SignInRule>,
    /// Hours from a sign-in to the end of its session: a person who was removed at the provider loses access within this
    /// time. 12 if absent.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 24)]
    pub session_hours: Option<i32>,
    /// `true` sets a provider even if its document cannot be read now; otherwise it is refused.
    #[serde(default)]
    pub force: bool,
}

/// Set the identity provider
///
/// People of the tenant sign in to the console at it, by OpenID Connect with a code and PKCE. A person is the token's
/// issuer and subject. Their groups decide their scopes, of which the request's own key must have each; no rule gives the
/// scope `operator`. The sessions of people end, so that each signs in by the new settings. A provider is refused if its
/// document cannot be read; with `force` it is set, and the answer says in `problem` what is wrong.
#[utoipa::path(put, path = "/v1/sign-in", tag = "people", operation_id = "set_sign_in",
    request_body = NewSignIn,
    responses((status = 200, description = "The provider is set.", body = SignInState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_sign_in(
    State(storage): State<Arc<Storage>>,
    Extension(people): PeopleExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewSignIn>,
) -> Result<Json<SignInState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_new(&new).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    for scope in new.rules.iter().flat_map(SignInRule::granted_scopes) {
        if !access.principal.has_scope(scope) {
            let detail =
                format!("rules: the key lacks the scope {scope}, so people cannot get it from this key");
            return Err(Problem::new(Kind::InsufficientScope, detail));
        }
    }
    people
        .providers
        .check_issuer(&new.issuer)
        .map_err(|wrong| Problem::new(Kind::InvalidBody, format!("issuer: {wrong}")))?;
    let problem = match people.providers.read_provider(&new.issuer).await {
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(tenant = %access.tenant(), error = error.explain_causes(), "an identity provider cannot be read");
            if !new.force {
                let detail =
                    format!("issuer: people could not sign in: {error}. `force` sets it nevertheless");
                return Err(Problem::new(Kind::InvalidBody, detail));
            }
            Some(error.to_string())
        }
    };
    let mut tx = storage.tenant(access.tenant()).await?;
    let known = store::get_provider(&mut tx).await?;
    let has_other_claim = known.as_ref().is_some_and(|known| known.directory_claim != new.directory_claim);
    let provider = to_provider(new, known, access.principal.key_id, tx.now());
    store::set_provider(&mut tx, &provider).await?;
    if has_other_claim {
        store::forget_directory_ids(&mut tx).await?;
    }
    let keys = store::list_person_keys(&mut tx).await?;
    end_sessions_of_keys(&mut tx, &keys).await?;
    let detail = json!({"client_id": provider.client_id, "group_claim": provider.group_claim,
        "directory_claim": provider.directory_claim, "directory_groups": provider.uses_directory_groups,
        "return_after_sign_out": provider.returns_after_sign_out,
        "scopes": provider.scopes, "rules": provider.rules, "session_hours": provider.session_hours});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "sign_in.set", &provider.issuer, &detail).await?;
    tx.commit().await?;
    people.providers.forget_provider(access.tenant());
    let state = SignInState::from_provider(Some(provider), access.tenant());
    Ok(Json(SignInState { problem, ..state }))
}

/// Returns the provider as it is stored. Only the same issuer and client keep a secret: no other issuer gets it.
fn to_provider(
    new: NewSignIn,
    known: Option<SignInProvider>,
    set_by: Uuid,
    now: OffsetDateTime,
) -> SignInProvider {
    let known = known.filter(|known| known.issuer == new.issuer && known.client_id == new.client_id);
    SignInProvider {
        issuer: new.issuer,
        client_id: new.client_id,
        client_secret: match new.client_secret {
            Some(secret) => Secret::new(secret),
            None => known.map(|known| known.client_secret).unwrap_or_default(),
        },
        group_claim: new.group_claim.unwrap_or_else(|| DEFAULT_GROUP_CLAIM.to_owned()),
        directory_claim: new.directory_claim,
        uses_directory_groups: new.directory_groups,
        returns_after_sign_out: new.return_after_sign_out,
        scopes: new.scopes,
        rules: new.rules,
        session_hours: new.session_hours.unwrap_or(DEFAULT_SESSION_HOURS),
        changed_at: now,
        set_by: Some(set_by),
    }
}

fn check_new(new: &NewSignIn) -> Result<(), String> {
    if !is_text(&new.issuer, 500) {
        return Err("issuer: a URL of 1 to 500 bytes".to_owned());
    }
    if !is_text(&new.client_id, 200) {
        return Err("client_id: 1 to 200 bytes, no control characters".to_owned());
    }
    if new.client_secret.as_ref().is_some_and(|secret| !secret.is_empty() && !is_text(secret, 500)) {
        return Err("client_secret: at most 500 bytes, no control characters".to_owned());
    }
    if new.group_claim.as_ref().is_some_and(|claim| !is_text(claim, 200)) {
        return Err("group_claim: 1 to 200 bytes, no control characters".to_owned());
    }
    if new.directory_claim.as_ref().is_some_and(|claim| !is_text(claim, 200)) {
        return Err("directory_claim: 1 to 200 bytes, no control characters".to_owned());
    }
    if let Some(scopes) = &new.scopes
        && (scopes.len() > MAX_SCOPES || !scopes.iter().all(|scope| is_scope(scope)))
    {
        return Err(format!("scopes: at most {MAX_SCOPES} words of 1 to 200 visible ASCII characters"));
    }
    if !new.session_hours.is_none_or(|hours| (1..=MAX_SESSION_HOURS).contains(&hours)) {
        return Err(format!("session_hours: 1 to {MAX_SESSION_HOURS}"));
    }
    if new.rules.is_empty() || new.rules.len() > MAX_RULES {
        return Err(format!("rules: 1 to {MAX_RULES} rules"));
    }
    let wrong = new.rules.iter().enumerate().find_map(|(index, rule)| Some((index, find_problem(rule)?)));
    wrong.map_or(Ok(()), |(index, problem)| Err(format!("rules.{index}: {problem}")))
}

/// Returns true for a scope as OAuth has them (RFC 6749).
fn is_scope(scope: &str) -> bool {
    let is_visible = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    (1..=200).contains(&scope.len()) && scope.bytes().all(is_visible)
}

fn find_problem(rule: &SignInRule) -> Option<String> {
    if !is_text(&rule.group, 200) {
        return Some("group: 1 to 200 bytes, no control characters".to_owned());
    }
    if rule.scopes.is_empty() == rule.preset.is_none() {
        return Some("either scopes or a preset".to_owned());
    }
    if rule.preset.is_some_and(KeyPreset::needs_app) {
        return Some("preset: app is for keys of apps".to_owned());
    }
    let is_operator = rule.granted_scopes().any(|scope| scope == Scope::Operator);
    is_operator.then(|| "scopes: no rule gives the scope operator".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut NewSignIn)) -> String {
        let json = json!({"issuer": "https://login.example.com", "client_id": "unslide",
            "rules": [{"group": "team", "preset": "triager"}]});
        let mut new: NewSignIn = serde_json::from_value(json).unwrap();
        assert_eq!(check_new(&new), Ok(()));
        change(&mut new);
        check_new(&new).unwrap_err()
    }

    #[test]
    fn a_provider_that_cannot_be_set_is_refused_with_the_field() {
        assert!(refusal(|new| new.issuer.clear()).starts_with("issuer:"));
        assert!(refusal(|new| new.directory_claim = Some(String::new())).starts_with("directory_claim:"));
        assert!(refusal(|new| new.session_hours = Some(25)).starts_with("session_hours:"));
        assert!(refusal(|new| new.scopes = Some(vec!["a b".to_owned()])).starts_with("scopes:"));
        assert!(refusal(|new| new.rules.clear()).starts_with("rules: 1 to 50"));
        assert!(refusal(|new| new.rules[0].preset = None).starts_with("rules.0: either"));
        let operator = refusal(|new| {
            new.rules[0].preset = None;
            new.rules[0].scopes = vec![Scope::Operator];
        });
        assert_eq!(operator, "rules.0: scopes: no rule gives the scope operator");
    }
    #[test]
    fn a_secret_stays_with_its_issuer_and_client_only() {
        let new = |issuer: &str, client: &str, secret: Option<&str>| NewSignIn {
            issuer: issuer.to_owned(),
            client_id: client.to_owned(),
            client_secret: secret.map(str::to_owned),
            group_claim: None,
            directory_claim: None,
            directory_groups: false,
            return_after_sign_out: false,
            scopes: None,
            rules: Vec::new(),
            session_hours: None,
            force: false,
        };
        let at = OffsetDateTime::UNIX_EPOCH;
        let first = to_provider(new("https://a", "x", Some("s3cret")), None, Uuid::nil(), at);
        let secret = |issuer: &str, client: &str, secret: Option<&str>| {
            let provider = to_provider(new(issuer, client, secret), Some(first.clone()), Uuid::nil(), at);
            provider.client_secret.reveal().to_owned()
        };
        assert_eq!(secret("https://a", "x", None), "s3cret");
        assert_eq!(secret("https://a", "x", Some("")), "");
        assert_eq!((secret("https://b", "x", None), secret("https://a", "y", None)), Default::default());
    }
}
