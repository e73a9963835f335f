//! `/console/acknowledge/{token}`: the link of a message acknowledges one firing. Opening the page changes nothing: mail servers
//! open the links of mails.

use crate::message_link::{LinkPurpose, MessageLink};
use crate::operations::firings::acknowledge_as;
use crate::store::firings::{self, AlertFiring};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::Extensions;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_api::feature::site::Tx;
use unslide_model::TenantId;
use unslide_site::{Caller, Shell, Template, assign_caller, escaping, filters, render_html};
use unslide_store::TenantTx;

/// The actor of the audit log for a link, which any reader of a message has.
pub(super) const LINK_ACTOR: &str = "link";

#[derive(Template)]
#[template(path = "alerts/acknowledge.html", askama = escaping)]
struct AcknowledgePage {
    shell: Shell,
    tenant: TenantId,
    firing: AlertFiring,
    now: OffsetDateTime,
    token: String,
}

/// Finds the firing of a link in a transaction of its tenant.
async fn find_linked(
    storage: &Storage,
    token: &str,
    extensions: &Extensions,
) -> Result<(Tx<TenantTx>, TenantId, AlertFiring), Problem> {
    let gone = || Problem::new(Kind::NotFound, "the link is unknown or too old; acknowledge in the console");
    let link = MessageLink::parse_token(LinkPurpose::Acknowledge, token).ok_or_else(gone)?;
    let mut tx = storage.tenant(&link.tenant).await?;
    let key = firings::find_link_key(&mut tx, link.firing_id()).await?.ok_or_else(gone)?;
    if !link.is_valid(&key, storage.clock.now()) {
        return Err(gone());
    }
    assign_caller(extensions, &storage.capacity, Caller::Public(link.tenant.clone()))?;
    let firing = firings::find_firing(&mut tx, link.firing_id(), None).await?.ok_or_else(gone)?;
    Ok((tx, link.tenant, firing))
}

/// `GET /console/acknowledge/{token}`: shows the firing and a button.
pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    Path(token): Path<String>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let (_, tenant, firing) = find_linked(&storage, &token, &extensions).await?;
    render_html(&AcknowledgePage {
        shell: Shell { title: "Acknowledge an alert".to_owned(), ..Shell::signed_out() },
        tenant,
        firing,
        now: storage.clock.now(),
        token,
    })
}

/// `POST /console/acknowledge/{token}`.
pub async fn acknowledge_by_link(
    State(storage): State<Arc<Storage>>,
    Path(token): Path<String>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let (mut tx, _, firing) = find_linked(&storage, &token, &extensions).await?;
    acknowledge_as(&mut tx, firing.id, LINK_ACTOR).await?;
    tx.commit().await?;
    Ok(Redirect::to(&format!("{}{token}", LinkPurpose::Acknowledge.page_path())).into_response())
}
