//! `/console/keys`: the tenant's keys, new ones, and their end.

use crate::console::form::SentForm;
use crate::console::prelude::*;
use crate::console::shell::html_with;
use crate::operations::keys::create::create_key;
use crate::operations::keys::list::list_keys;
use crate::operations::keys::{RevokeQuery, revoke_key};
use crate::requests::access::TenantAdmin;
use crate::requests::input;
use crate::requests::page::PageQuery;
use std::collections::HashMap;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use unslide_model::Scope;
use unslide_store::Uuid;
use unslide_store::keys::{self, ApiKey, KeyDescent, NewApiKey, Principal};

const PATH: &str = "/console/keys";

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/keys.html", askama = escaping)]
struct KeysPage {
    shell: Shell,
    keys: Vec<KeyLine>,
    next: Option<String>,
    /// Scopes that a new key may have.
    scopes: Vec<&'static str>,
    only_app: Option<String>,
}

struct KeyLine {
    id: String,
    name: String,
    prefix: String,
    scopes: String,
    app: String,
    maker: String,
    created: When,
    used: Option<When>,
    expires: Option<When>,
    status: (&'static str, &'static str, &'static str),
    in_force: bool,
    /// Keys in force that it made, that these made, and so on.
    made: Option<String>,
    own: bool,
}

/// `GET /console/keys`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (now, access) = (api.clock.now(), &signed.access);
    let by = &access.principal;
    let query = PageQuery { limit: None, cursor: state.text("cursor") };
    let Json(found) = list_keys(State(api.clone()), access.clone(), Query(query)).await?;
    let ids: Vec<Uuid> = found.items.iter().map(|key| key.id).collect();
    // As a revocation counts them.
    let within = (!by.may(Scope::Operator)).then_some(&by.tenant);
    let mut tx = api.tenant(access.tenant()).await?;
    let descent = keys::descent(&mut tx, &ids, by.app.as_deref(), within).await?;
    tx.rollback();
    let descent: HashMap<Uuid, KeyDescent> = descent.into_iter().map(|one| (one.id, one)).collect();
    let line = |key: &ApiKey| line(key, descent.get(&key.id), by, now);
    html(&KeysPage {
        keys: found.items.iter().map(line).collect(),
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &[], &cursor)),
        scopes: by.scopes.iter().filter(|one| **one != Scope::Operator).map(|one| one.as_str()).collect(),
        only_app: by.app.clone(),
        shell: Shell::of(signed.viewer, "keys", "Keys"),
    })
}

fn line(key: &ApiKey, descent: Option<&KeyDescent>, by: &Principal, now: OffsetDateTime) -> KeyLine {
    let expired = key.expires_at.is_some_and(|end| end <= now);
    let status = match key.revoked_at {
        Some(_) => ("bad", "○", "revoked"),
        None if expired => ("warn", "○", "expired"),
        None => ("good", "●", "in force"),
    };
    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
    let made = descent.map_or(0, |descent| descent.made);
    let maker = match descent.and_then(|descent| descent.maker.as_deref()) {
        Some(maker) => shown(maker),
        None if key.made_by.is_some() => "a key that this one does not see".to_owned(),
        None => "the command line".to_owned(),
    };
    KeyLine {
        id: key.id.to_string(),
        name: shown(&key.name),
        prefix: key.prefix.clone(),
        scopes: scopes.join(", "),
        app: shown(key.app.as_deref().unwrap_or("all apps")),
        maker,
        created: words::when(key.created_at, now),
        used: key.last_used_at.map(|at| words::when(at, now)),
        expires: key.expires_at.map(|at| words::when(at, now)),
        status,
        in_force: key.revoked_at.is_none() && !expired,
        made: (made > 0).then(|| counted(made, "key", "keys")),
        own: key.id == by.key_id,
    }
}

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/new_key.html", askama = escaping)]
struct NewKeyPage {
    shell: Shell,
    name: String,
    scopes: String,
    expires: Option<When>,
    text: String,
}

/// `POST /console/keys`: makes a key and shows its text this one time.
pub async fn create(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let scope = |text: &str| {
        let wrong = |_| Problem::new(Kind::InvalidBody, format!("scope: there is no scope {text:?}"));
        text.parse::<Scope>().map_err(wrong)
    };
    let new = NewApiKey {
        name: form.text("name"),
        scopes: form.all("scope").map(scope).collect::<Result<_, _>>()?,
        app: form.get("app").map(str::to_owned),
        expires_at: form.get("ends").map(first_moment).transpose()?,
    };
    let now = api.clock.now();
    let (status, Json(made)) = create_key(State(api), signed.access, input::Json(new)).await?;
    let scopes: Vec<&str> = made.key.scopes.iter().map(|scope| scope.as_str()).collect();
    let page = NewKeyPage {
        shell: Shell::of(signed.viewer, "keys", "New key"),
        name: shown(&made.key.name),
        scopes: scopes.join(", "),
        expires: made.key.expires_at.map(|at| words::when(at, now)),
        text: made.text,
    };
    Ok(html_with(status, &page))
}

/// The first moment of a day.
fn first_moment(day: &str) -> Result<OffsetDateTime, Problem> {
    let read = Date::parse(day, format_description!("[year]-[month]-[day]"));
    let day = read.map_err(|_| Problem::new(Kind::InvalidBody, "ends: a day such as 2027-03-31"))?;
    Ok(day.midnight().assume_utc())
}

/// `POST /console/keys/{id}/revoke`: with the field `cascade`, the keys too that it made.
pub async fn revoke(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    id: Path<Uuid>,
    form: SentForm,
) -> Result<Response, Problem> {
    let query = RevokeQuery { cascade: form.has("cascade") };
    let Json(_) = revoke_key(State(api), signed.access, id, Query(query)).await?;
    Ok(Redirect::to(PATH).into_response())
}
