//! The end of a sign-in: the provider's answer, and the session.

use super::begin::begin_with_less;
use super::failure::{SignInRefusal, no_provider, refuse};
use super::{
    callback_url, find_next, find_provider, open_page, open_page_after_failure, remember_tenant,
    signed_out_path, tenant_path,
};
use crate::binding::{BegunSignIn, SignInNote, cookie_for_state};
use crate::identity::{GroupClaim, Identity};
use crate::provider::{ProviderError, RedeemedCode, SignOutRequest};
use crate::store::{self, SignInProvider};
use crate::{People, PeopleExtension};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use serde::Deserialize;
use std::sync::Arc;
use time::Duration;
use unslide_api::entropy::write_token;
use unslide_api::feature::Keys;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Path, Problem, Query};
use unslide_model::{Scope, TenantId};
use unslide_site::{
    RequestOrigin, SignedInPerson, begin_person_session, build_link, end_browser_session,
    end_sessions_of_keys, find_browser_session,
};
use unslide_store::{TenantTx, find_directory_entry};

/// The answer of the provider.
#[derive(Debug, Default, Deserialize)]
pub struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    /// The issuer, if the provider names itself (RFC 9207).
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// `GET /console/sso/{tenant}/callback`: checks the provider's answer, and begins a session.
pub async fn finish_sign_in(
    State(keys): State<Arc<Keys>>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    Query(query): Query<CallbackQuery>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    let Some(provider) = find_provider(&keys.storage, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let is_issuer = query.iss.as_ref().is_none_or(|issuer| *issuer == provider.issuer);
    let begun = query.state.as_ref().filter(|_| is_issuer);
    let Some(begun) = begun.and_then(|state| BegunSignIn::find(&origin, &tenant, state)) else {
        return end_foreign(&keys.storage, &people, &tenant, &origin).await;
    };
    let _waiting = people.providers.begin_waiting(&tenant)?;
    let Some(code) = query.code.filter(|_| query.error.is_none()) else {
        let error = query.error.as_deref().unwrap_or("no code");
        let refusals = begun.note.refusals;
        if error == "invalid_scope" && people.providers.may_ask_for_less(&tenant, &provider, refusals).await {
            return begin_with_less(&keys, &people, &tenant, &provider, &origin, begun.note).await;
        }
        let refusal = SignInRefusal::declined(error, query.error_description.as_deref());
        return Ok(refuse(&keys.storage, &people, &tenant, refusal.with_next(begun.note.next)).await);
    };
    let redirect = callback_url(&people.public_url, &origin.headers, &tenant);
    let now = keys.storage.clock.now();
    let redeemed =
        people.providers.redeem_code(&tenant, &provider, &redirect, &begun.secret, &code, now).await;
    let request = SignOutRequest::default();
    let has_sign_out = people.providers.sign_out_url(&tenant, &provider, request).await.is_some();
    let verified = redeemed.and_then(|RedeemedCode { claims, id_token }| {
        let directory_claim = provider.directory_claim.as_deref();
        let read = Identity::from_claims(&claims, &provider.issuer, &provider.group_claim, directory_claim);
        let identity = read.map_err(ProviderError::Token)?;
        Ok(VerifiedSignIn { identity, id_token: has_sign_out.then_some(id_token) })
    });
    match verified {
        Ok(verified) => {
            let mut response =
                begin_session(&keys, &people, &tenant, &verified, &begun.note, &origin).await?;
            let over = cookie_for_state(&begun.secret.derive_state());
            response.headers_mut().append(SET_COOKIE, over.build_text_header("", Duration::ZERO, &origin)?);
            Ok(response)
        }
        Err(error) => {
            if !matches!(error, ProviderError::Resting(_) | ProviderError::Fetch(_)) {
                // The provider may have another document.
                people.providers.forget_provider(&tenant);
            }
            let refusal = SignInRefusal::from_provider(&error).with_next(begun.note.next);
            Ok(refuse(&keys.storage, &people, &tenant, refusal).await)
        }
    }
}

/// A person with a valid token.
struct VerifiedSignIn {
    identity: Identity,
    /// The token, if the provider takes it back at a sign-out.
    id_token: Option<String>,
}

/// Answers for a sign-in that this browser has not begun, or that is finished: a person who reloads the page is signed in, and
/// is led to the console. Browsers send the session's cookie only if a page of the console leads here.
async fn end_foreign(
    storage: &Storage,
    people: &People,
    tenant: &TenantId,
    origin: &RequestOrigin,
) -> Result<Response, Problem> {
    if origin.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return Ok(open_page_after_failure(&format!("{}/finished", tenant_path(tenant))));
    }
    let session = find_browser_session(&origin.headers, &origin.extensions, storage).await?;
    if session.is_some_and(|session| session.tenant == *tenant) {
        return Ok(Redirect::to("/console").into_response());
    }
    Ok(refuse(storage, people, tenant, SignInRefusal::foreign()).await)
}

/// `GET /console/sso/{tenant}/finished`: leads a person who is signed in to the console.
pub async fn show_end(
    State(storage): State<Arc<Storage>>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    if find_provider(&storage, &people, &tenant, &origin).await?.is_none() {
        return Ok(no_provider(&tenant));
    }
    end_foreign(&storage, &people, &tenant, &origin).await
}

/// The scopes of a person who signs in.
enum ScopeDecision {
    Granted(Vec<Scope>),
    Refused(SignInRefusal),
}

/// Returns the scopes of a person: by the groups of the token, or of the directory if the settings say so. A person whom the
/// directory calls inactive has none.
async fn decide_scopes(
    tx: &mut TenantTx,
    provider: &SignInProvider,
    identity: &Identity,
) -> Result<ScopeDecision, Problem> {
    let Some(id) = &identity.directory_id else {
        let claim = provider.directory_claim.as_deref().unwrap_or("sub");
        return Ok(ScopeDecision::Refused(SignInRefusal::no_directory_id(claim)));
    };
    let entry = find_directory_entry(tx, id).await?;
    if entry.as_ref().is_some_and(|entry| !entry.is_active) {
        return Ok(ScopeDecision::Refused(SignInRefusal::deactivated()));
    }
    let groups = match (provider.uses_directory_groups, entry) {
        (false, _) => identity.groups.clone(),
        (true, Some(entry)) => GroupClaim::Groups(entry.groups.into_iter().collect()),
        (true, None) => return Ok(ScopeDecision::Refused(SignInRefusal::unknown_in_directory())),
    };
    let scopes = provider.scopes_for(groups.groups());
    Ok(match scopes.is_empty() {
        true => ScopeDecision::Refused(SignInRefusal::no_scopes(provider, &groups)),
        false => ScopeDecision::Granted(scopes),
    })
}

/// Keeps the token of a session for its sign-out at the provider. Returns the path of the page after the sign-out.
async fn keep_sign_out_hint(
    keys: &Keys,
    tx: &mut TenantTx,
    tenant: &TenantId,
    id_token: Option<&str>,
    lifetime: Duration,
) -> Result<String, Problem> {
    let path = signed_out_path(tenant);
    let Some(id_token) = id_token else { return Ok(path) };
    let reference = keys.entropy.generate_token().map_err(Problem::internal)?;
    if !store::add_sign_out_hint(tx, &reference, id_token, lifetime).await? {
        return Ok(path);
    }
    Ok(build_link(&path, &[("session", Some(&write_token(&reference)))]))
}

/// Begins the session of a person, with the scopes of their groups. The settings are read again, in the transaction of the
/// session: they may have changed while the provider was asked.
async fn begin_session(
    keys: &Keys,
    people: &People,
    tenant: &TenantId,
    verified: &VerifiedSignIn,
    note: &SignInNote,
    origin: &RequestOrigin,
) -> Result<Response, Problem> {
    let VerifiedSignIn { identity, id_token } = verified;
    let entropy = keys.entropy.generate_key().map_err(Problem::internal)?;
    let mut tx = keys.storage.tenant(tenant).await?;
    let provider = store::lock_provider(&mut tx).await?.filter(|provider| provider.issuer == identity.issuer);
    let Some(provider) = provider else { return Ok(no_provider(tenant)) };
    let (scopes, refusal) = match decide_scopes(&mut tx, &provider, identity).await? {
        ScopeDecision::Granted(scopes) => (scopes, None),
        ScopeDecision::Refused(refusal) => (Vec::new(), Some(refusal)),
    };
    if let Some(refusal) = refusal {
        let key = store::find_person_key(&mut tx, identity).await?;
        end_sessions_of_keys(&mut tx, key.as_slice()).await?;
        tx.commit().await?;
        let refusal = refusal
            .with_sign_out(people.providers.sign_out_url(tenant, &provider, SignOutRequest::default()).await);
        let refusal = refusal.with_subject(&identity.subject).with_next(note.next.clone());
        return Ok(refuse(&keys.storage, people, tenant, refusal).await);
    }
    let recorded = store::record_sign_in(&mut tx, identity, &scopes, provider.set_by, &entropy).await?;
    let (key_id, name) = recorded;
    let lifetime = Duration::hours(provider.session_hours.into());
    let sign_out_path = keep_sign_out_hint(keys, &mut tx, tenant, id_token.as_deref(), lifetime).await?;
    let person = SignedInPerson {
        tenant,
        key_id,
        name: &name,
        lifetime,
        provider_session: identity.session.as_deref(),
        sign_out_path: &sign_out_path,
    };
    let session = begin_person_session(keys, tx, &person, origin).await?;
    people.count_outcome("signed_in");
    // The session that the browser had before would stay in force without a browser that knows it.
    let current = find_browser_session(&origin.headers, &origin.extensions, &keys.storage).await?;
    for before in note.session().into_iter().chain(current) {
        end_browser_session(&keys.storage, &before).await?;
    }
    let mut response = open_page(&find_next(note.next.clone()).unwrap_or_else(|| "/console".to_owned()))?;
    response.headers_mut().append(SET_COOKIE, session);
    response.headers_mut().append(SET_COOKIE, remember_tenant(tenant, origin)?);
    Ok(response)
}
