//! `POST /console/sso/{tenant}/logout`: the identity provider says that a person has signed out there (OpenID Connect
//! Back-Channel Logout). It is no page: the provider sends it, not a browser.

use super::find_provider;
use crate::provider::ProviderError;
use crate::store;
use crate::token::TokenPurpose;
use crate::{People, PeopleExtension};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Kind, Path, Problem};
use unslide_model::TenantId;
use unslide_site::{EndedProviderSession, RequestOrigin, end_provider_sessions, read_form_bytes};

/// Returns the route.
pub fn routes() -> Router<Api> {
    Router::new().route("/console/sso/{tenant}/logout", post(receive_notice))
}

async fn receive_notice(
    State(storage): State<Arc<Storage>>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let sent = read_form_bytes(&parts, body).await?;
    let token = form_urlencoded::parse(&sent).find(|(name, _)| name == "logout_token");
    let token = token.map(|(_, value)| value.into_owned());
    let origin = RequestOrigin { headers: parts.headers, extensions: parts.extensions };
    match end_sessions(&storage, &people, &tenant, token, &origin).await {
        Ok(()) => people.count_outcome("signed_out"),
        Err(problem) => {
            people.count_outcome("sign_out_refused");
            let reason = problem.detail().unwrap_or_default();
            tracing::info!(%tenant, reason, "a notice of a sign-out was refused");
            return Err(problem);
        }
    }
    Ok((StatusCode::OK, [(CACHE_CONTROL, "no-store")]).into_response())
}

async fn end_sessions(
    storage: &Storage,
    people: &People,
    tenant: &TenantId,
    token: Option<String>,
    origin: &RequestOrigin,
) -> Result<(), Problem> {
    let refuse = |reason: String| Problem::new(Kind::InvalidBody, reason);
    let provider = find_provider(storage, people, tenant, origin).await?;
    let provider = provider.ok_or_else(|| refuse("the tenant has no identity provider".to_owned()))?;
    let token = token.ok_or_else(|| refuse("the form has no logout_token".to_owned()))?;
    let _waiting = people.providers.begin_waiting(tenant)?;
    let now = storage.clock.now();
    let claims = people.providers.verify_token(tenant, &provider, &token, TokenPurpose::SignOut, now).await;
    let signed_out =
        claims.and_then(|claims| Ok(claims.read_signed_out()?)).map_err(|error| match error {
            ProviderError::Token(wrong) => refuse(format!("logout_token: {wrong}")),
            error => Problem::new(Kind::Unavailable, error.to_string()),
        })?;
    let mut tx = storage.tenant(tenant).await?;
    if !store::record_notice(&mut tx, &provider.issuer, &signed_out.notice).await? {
        // The provider sends it again if it did not get the answer.
        return Ok(());
    }
    let keys = store::find_keys_of(&mut tx, &provider.issuer, signed_out.subject.as_deref()).await?;
    let ended = EndedProviderSession {
        keys: &keys,
        provider_session: signed_out.session.as_deref(),
        // A session without an id may be the one, if the person is named.
        ends_unnamed: signed_out.subject.is_some(),
    };
    end_provider_sessions(&mut tx, &ended).await?;
    Ok(tx.commit().await?)
}
