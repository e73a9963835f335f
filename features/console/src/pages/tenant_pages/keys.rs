//! `/console/keys`: lists, creates and revokes the tenant's keys.

use crate::prelude::*;
use std::collections::HashMap;
use time::OffsetDateTime;
use unslide_api::feature::operation::{JsonBody, PageQuery, TenantAdmin};
use unslide_api::feature::site::{CreatedKey, NewKeyBody, RevokeQuery, create_key, list_keys, revoke_key};
use unslide_model::{KeyPreset, Scope};
use unslide_site::{SentForm, html_with};
use unslide_store::Uuid;
use unslide_store::keys::{self, ApiKey, KeyDescent, Principal};

const KEYS_PAGE: &str = "/console/keys";

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/keys.html", askama = escaping)]
struct KeysPage {
    shell: Shell,
    keys: Vec<ApiKey>,
    descent: HashMap<Uuid, KeyDescent>,
    next: Option<String>,
    /// The principal that sees the page.
    by: Principal,
}

fn is_in_force(key: &ApiKey, now: OffsetDateTime) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
}

fn status(key: &ApiKey, now: OffsetDateTime) -> (&'static str, &'static str, &'static str) {
    match key.revoked_at {
        Some(_) => ("bad", "○", "revoked"),
        None if is_in_force(key, now) => ("good", "●", "in force"),
        None => ("warn", "○", "expired"),
    }
}

impl KeysPage {
    fn maker(&self, key: &ApiKey) -> &str {
        match self.descent.get(&key.id).and_then(|descent| descent.maker.as_deref()) {
            Some(maker) => maker,
            None if key.made_by.is_some() => "a key that this one does not see",
            None => "the command line",
        }
    }

    /// Returns the presets of keys that the principal may make.
    fn presets(&self) -> impl Iterator<Item = KeyPreset> {
        let may_make = |preset: &KeyPreset| preset.scopes().iter().all(|scope| self.by.has_scope(*scope));
        KeyPreset::ALL.into_iter().filter(may_make)
    }

    /// Returns the number of valid keys that descend from this key.
    fn made(&self, key: &ApiKey) -> i64 {
        self.descent.get(&key.id).map_or(0, |descent| descent.made)
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let by = &access.principal;
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let Json(found) = list_keys(State(storage.clone()), access.clone(), Query(query)).await?;
    let ids: Vec<_> = found.items.iter().map(|key| key.id).collect();
    // The same scope as in a revocation.
    let within = (!by.has_scope(Scope::Operator)).then_some(&by.tenant);
    let mut tx = storage.tenant(access.tenant()).await?;
    let descent = keys::list_descent(&mut tx, &ids, by.app.as_deref(), within).await?;
    tx.rollback();
    render_html(&KeysPage {
        keys: found.items,
        descent: descent.into_iter().map(|one| (one.id, one)).collect(),
        next: found.next_cursor.map(|cursor| state.at_cursor(KEYS_PAGE, &[], &cursor)),
        by: signed.access.principal,
        shell: Shell::for_viewer(signed.viewer, "keys", "Keys"),
    })
}

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/new_key.html", askama = escaping)]
struct NewKeyPage {
    shell: Shell,
    made: CreatedKey,
}

/// `POST /console/keys`: creates a key and shows its text only once.
pub async fn create_from_form(
    State(keys): State<Arc<Keys>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let scope = |text: &str| {
        let wrong = |_| Problem::new(Kind::InvalidBody, format!("scope: there is no scope {text:?}"));
        text.parse::<Scope>().map_err(wrong)
    };
    let preset = |text: &str| {
        let wrong = |error| Problem::new(Kind::InvalidBody, format!("preset: {error}"));
        text.parse::<KeyPreset>().map_err(wrong)
    };
    let scopes = form.field_texts("scope").map(scope).collect::<Result<Vec<_>, _>>()?;
    let preset = form.get("preset").map(preset).transpose()?;
    let new = NewKeyBody {
        name: form.field_text("name"),
        scopes: preset.is_none().then_some(scopes),
        preset,
        app: form.get("app").map(str::to_owned),
        expires_at: form.parse_day("ends")?,
    };
    let (status, Json(made)) = create_key(State(keys), signed.access, JsonBody(new)).await?;
    Ok(html_with(status, &NewKeyPage { shell: Shell::for_viewer(signed.viewer, "keys", "New key"), made }))
}

/// `POST /console/keys/{id}/revoke`: with the field `cascade`, also revokes the keys that descend from it.
pub async fn revoke_from_form(
    State(keys): State<Arc<Keys>>,
    signed: SignedIn<TenantAdmin>,
    id: Path<Uuid>,
    form: SentForm,
) -> Result<Response, Problem> {
    let query = RevokeQuery { cascade: form.has_field("cascade") };
    let Json(_) = revoke_key(State(keys), signed.access, id, Query(query)).await?;
    Ok(Redirect::to(KEYS_PAGE).into_response())
}
