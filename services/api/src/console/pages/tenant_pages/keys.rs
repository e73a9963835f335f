//! `/console/keys`: the tenant's keys, and their end.

use crate::console::bar::PageState;
use crate::console::session::SignedIn;
use crate::console::shell::{Shell, html};
use crate::console::words::{When, shown};
use crate::http::problem::Problem;
use crate::operations::keys::list::list_keys;
use crate::operations::keys::{RevokeQuery, revoke_key};
use crate::requests::access::TenantAdmin;
use crate::requests::input::{Path, Query};
use crate::requests::page::PageQuery;
use crate::state::Api;
use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use time::OffsetDateTime;
use unslide_store::Uuid;
use unslide_store::keys::ApiKey;

const PATH: &str = "/console/keys";

#[derive(Template)]
#[template(path = "console/keys.html")]
struct KeysPage {
    shell: Shell,
    keys: Vec<KeyLine>,
    next: Option<String>,
}

struct KeyLine {
    id: String,
    name: String,
    prefix: String,
    scopes: String,
    app: String,
    created: When,
    used: Option<When>,
    expires: Option<When>,
    status: (&'static str, &'static str, &'static str),
    in_force: bool,
    own: bool,
}

/// `GET /console/keys`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (now, own) = (api.clock.now(), signed.access.principal.key_id);
    let query = PageQuery { limit: None, cursor: state.text("cursor") };
    let Json(found) = list_keys(State(api), signed.access, Query(query)).await?;
    html(&KeysPage {
        shell: Shell::of(signed.viewer, "keys", "Keys"),
        keys: found.items.iter().map(|key| line(key, key.id == own, now)).collect(),
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &[], &cursor)),
    })
}

fn line(key: &ApiKey, own: bool, now: OffsetDateTime) -> KeyLine {
    let expired = key.expires_at.is_some_and(|end| end <= now);
    let status = match key.revoked_at {
        Some(_) => ("bad", "○", "revoked"),
        None if expired => ("warn", "○", "expired"),
        None => ("good", "●", "in force"),
    };
    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
    KeyLine {
        id: key.id.to_string(),
        name: shown(&key.name),
        prefix: key.prefix.clone(),
        scopes: scopes.join(", "),
        app: shown(key.app.as_deref().unwrap_or("all apps")),
        created: When::of(key.created_at, now),
        used: key.last_used_at.map(|at| When::of(at, now)),
        expires: key.expires_at.map(|at| When::of(at, now)),
        status,
        in_force: key.revoked_at.is_none() && !expired,
        own,
    }
}

/// `POST /console/keys/{id}/revoke`.
pub async fn revoke(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    id: Path<Uuid>,
) -> Result<Response, Problem> {
    let query = RevokeQuery { cascade: false };
    let Json(_) = revoke_key(State(api), signed.access, id, Query(query)).await?;
    Ok(Redirect::to(PATH).into_response())
}
