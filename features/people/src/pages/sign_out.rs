//! The page after a sign-out.

use super::failure::no_provider;
use super::{find_provider, own_url, retry_links, signed_out_path};
use crate::PeopleExtension;
use crate::provider::SignOutRequest;
use crate::store;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::entropy::read_token;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Path, Problem, Query};
use unslide_model::TenantId;
use unslide_site::{RequestOrigin, Shell, Template, escaping, filters, render_html};

/// The session that has ended.
#[derive(Debug, Default, Deserialize)]
pub struct SignedOutQuery {
    session: Option<String>,
}

#[derive(Template)]
#[template(path = "people/signed_out.html", askama = escaping)]
struct SignedOutPage {
    shell: Shell,
    again: String,
    other: String,
    sign_out: Option<String>,
}

/// `GET /console/sso/{tenant}/signed-out`: says that the session at the provider goes on, and how to end it.
pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    Query(query): Query<SignedOutQuery>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    let Some(provider) = find_provider(&storage, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let _waiting = people.providers.begin_waiting(&tenant)?;
    let mut id_token = None;
    if let Some(reference) = query.session.as_deref().and_then(read_token) {
        let mut tx = storage.tenant(&tenant).await?;
        id_token = store::take_sign_out_hint(&mut tx, &reference).await?;
        tx.commit().await?;
    }
    let own = own_url(&people.public_url, &origin.headers, &signed_out_path(&tenant));
    let request = SignOutRequest {
        id_token: id_token.as_deref(),
        return_to: provider.returns_after_sign_out.then_some(own.as_str()),
    };
    let sign_out = people.providers.sign_out_url(&tenant, &provider, request).await;
    let (again, other) = retry_links(&tenant, None);
    render_html(&SignedOutPage { shell: Shell::signed_out(), again, other, sign_out })
}
