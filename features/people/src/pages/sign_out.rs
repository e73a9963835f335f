//! The page after a sign-out.

use super::failure::no_provider;
use super::find_provider;
use super::retry_links;
use crate::PeopleExtension;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Path, Problem};
use unslide_model::TenantId;
use unslide_site::{RequestOrigin, Shell, Template, escaping, filters, render_html};

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
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    let Some(provider) = find_provider(&storage, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let _waiting = people.providers.begin_waiting(&tenant)?;
    let sign_out = people.providers.sign_out_url(&tenant, &provider).await;
    let (again, other) = retry_links(&tenant, None);
    render_html(&SignedOutPage { shell: Shell::signed_out(), again, other, sign_out })
}
