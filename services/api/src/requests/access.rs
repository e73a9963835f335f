//! Authentication and authorization of requests.
//!
//! An operation names the scope that it needs in the type of its argument: [`Access<ReportsRead>`]. A
//! tenant's rows can only be reached through such a value.
//!
//! Some operations exist twice: for one tenant's data, and for operators, with the data of the system or of
//! all tenants. The routes of the latter carry [`Reach`], and need [`Scope::Operator`] instead.

use crate::http::question::CallerQuestion;
use crate::http::server::{ClientAddress, ClientConnection};
use crate::limits::capacity::Capacity;
use crate::limits::slot::{Caller, RequestSlot};
use crate::problem::{Kind, Problem};
use crate::requests::keys::Keys;
use axum::extract::{FromRef, FromRequestParts};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Extensions, HeaderMap, Method};
use std::marker::PhantomData;
use std::sync::Arc;
use unslide_model::{Owner, Scope, TenantId};
use unslide_store::keys::{self, Principal};

/// The scopes that an operation needs, as a type.
pub trait Permission: Send + Sync + 'static {
    /// The key needs one of these scopes.
    const SCOPES: &'static [Scope];
}

macro_rules! permissions {
    ($($name:ident),+) => {
        $(
            #[doc = concat!("[`Scope::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Permission for $name {
                const SCOPES: &'static [Scope] = &[Scope::$name];
            }
        )+
    };
}
permissions!(
    SymbolsWrite,
    SymbolsRead,
    SymbolsDownload,
    ReportsWrite,
    ReportsRead,
    GroupsWrite,
    TenantAdmin,
    Operator
);

/// The state of uploads: [`Scope::SymbolsRead`] or [`Scope::SymbolsWrite`], so that a build pipeline's key
/// can wait for its uploads.
#[derive(Clone, Copy, Debug)]
pub struct SymbolsState;

impl Permission for SymbolsState {
    const SCOPES: &'static [Scope] = &[Scope::SymbolsRead, Scope::SymbolsWrite];
}

/// Any key: each may read about itself.
#[derive(Clone, Copy, Debug)]
pub struct AnyKey;

impl Permission for AnyKey {
    const SCOPES: &'static [Scope] = &Scope::ALL;
}

/// The data that a route's operations cover, if not the tenant's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    System,
    /// The data of all tenants, and data without a tenant.
    All,
}

/// A request with a valid key that has the scope `P`. If the route has a [`Reach`], the key is an operator's
/// instead.
#[derive(Clone, Debug)]
pub struct Access<P> {
    /// The principal of the key.
    pub principal: Principal,
    /// `None` for the tenant's own data.
    pub reach: Option<Reach>,
    scope: PhantomData<P>,
}

impl<P> Access<P> {
    /// Returns the tenant that the key belongs to.
    pub fn tenant(&self) -> &TenantId {
        &self.principal.tenant
    }

    /// Returns the owner of the symbols that the request is about.
    pub fn symbol_owner(&self) -> Owner {
        match self.reach {
            Some(Reach::System) => Owner::System,
            Some(Reach::All) | None => Owner::Tenant(self.tenant().clone()),
        }
    }

    /// Returns the app that the key is restricted to, if any.
    pub fn only_app(&self) -> Option<&str> {
        self.principal.app.as_deref()
    }
}

/// Restrictions of a key for one app.
impl<P> Access<P> {
    /// Returns the app to filter by, if the client asked for `asked`.
    ///
    /// # Errors
    /// [`Kind::InsufficientScope`] if the key is restricted to another app.
    pub fn restrict_app(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match (&self.principal.app, asked) {
            (None, asked) => Ok(asked),
            (Some(own), Some(asked)) if asked != *own => {
                Err(Problem::new(Kind::InsufficientScope, format!("the key is valid for the app {own} only")))
            }
            (Some(own), _) => Ok(Some(own.clone())),
        }
    }

    /// Refuses a key that is restricted to one app; `why` says what belongs to more than one app.
    ///
    /// # Errors
    /// [`Kind::InsufficientScope`].
    pub fn require_every_app(&self, why: &str) -> Result<(), Problem> {
        let Some(app) = self.only_app() else { return Ok(()) };
        Err(Problem::new(
            Kind::InsufficientScope,
            format!("the key is valid for the app {app} only, and {why}"),
        ))
    }

    /// Returns true if the key may see data of this app.
    pub fn can_see(&self, app: &str) -> bool {
        self.principal.app.as_ref().is_none_or(|own| own == app)
    }
}

impl<S: Send + Sync, P: Permission> FromRequestParts<S> for Access<P>
where
    Arc<Keys>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Access<P>, Problem> {
        let keys = <Arc<Keys>>::from_ref(state);
        let principal = match parts.extensions.get::<CallingPrincipal>() {
            Some(calling) => calling.0.clone(),
            None => {
                let key = parse_bearer(&parts.headers).unwrap_or_default();
                authenticate_key(&parts.extensions, &keys, key).await?
            }
        };
        admit_request(parts, &keys.capacity, principal, &parts.method)
    }
}

/// The principal of a call from within: a feature has authenticated the request that it answers. No request over the network has it.
#[derive(Clone, Debug)]
pub(crate) struct CallingPrincipal(pub Principal);

/// Checks a request of a known principal, with a key or a session. All access rules are in this function.
///
/// # Errors
/// [`Kind::InsufficientScope`], [`Kind::TenantSuspended`], or too many of the tenant's requests run.
pub fn admit_request<P: Permission>(
    parts: &Parts,
    capacity: &Capacity,
    principal: Principal,
    method: &Method,
) -> Result<Access<P>, Problem> {
    let reach = parts.extensions.get::<Reach>().copied();
    let needed: &[Scope] = if reach.is_some() { &[Scope::Operator] } else { P::SCOPES };
    let for_operators = *needed == [Scope::Operator];
    // Only for a key that may do it. Otherwise every key could use the permits that are reserved for
    // operators.
    let operator = for_operators && principal.has_scope(Scope::Operator) && principal.app.is_none();
    let caller = if operator { Caller::Operator } else { Caller::Tenant };
    assign_caller(&parts.extensions, capacity, caller(principal.tenant.clone()))?;
    if !needed.iter().any(|scope| principal.has_scope(*scope)) {
        let names: Vec<&str> = needed.iter().map(|scope| scope.as_str()).collect();
        let detail = format!("the operation needs the scope {}", names.join(" or "));
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    if for_operators && principal.app.is_some() {
        // The data of all tenants never belongs to one app.
        return Err(Problem::new(
            Kind::InsufficientScope,
            "a key for one app cannot use operations of operators",
        ));
    }
    if !principal.active && needed.iter().all(|scope| is_change(*scope, method)) {
        let detail = "the tenant is suspended: its keys can read and delete, but not add or change";
        return Err(Problem::new(Kind::TenantSuspended, detail));
    }
    Ok(Access { principal, reach, scope: PhantomData })
}

/// Records the request's tenant on its connection and in its slot among the running requests. Every route of a tenant calls this
/// before it changes anything, and before it reads more than it needs to know the caller.
///
/// # Errors
/// Too many of the tenant's requests run, or the request only asks for its tenant: see [`CallerQuestion`].
pub fn assign_caller(extensions: &Extensions, capacity: &Capacity, caller: Caller) -> Result<(), Problem> {
    if let Some(client) = extensions.get::<ClientConnection>() {
        client.mark_authenticated();
    }
    if let Some(question) = extensions.get::<CallerQuestion>() {
        return Err(question.take_answer(&caller));
    }
    let slot = extensions.get::<RequestSlot>();
    slot.ok_or_else(|| Problem::internal("a request has no slot"))?
        .assign_caller(&capacity.permits, caller)?;
    Ok(())
}

/// Returns true for operations that a suspended tenant may not use: all except reads and deletions of its own
/// data. A request to erase a report or revoke a key must not wait for the end of a suspension.
fn is_change(scope: Scope, method: &Method) -> bool {
    match scope {
        // These scopes also cover queries that come in a request body.
        Scope::SymbolsRead | Scope::SymbolsDownload | Scope::ReportsRead => false,
        Scope::SymbolsWrite | Scope::ReportsWrite | Scope::GroupsWrite | Scope::TenantAdmin => {
            !method.is_safe() && *method != Method::DELETE
        }
        // Operators delete data that is not their own.
        Scope::Operator => !method.is_safe(),
    }
}

/// Returns the principal of a key. A malformed, unknown, expired or revoked key gets the same response. Every
/// text that has the form of a key costs the same look-up and comparison, so that the time does not reveal
/// which keys exist. A text without that form costs no look-up.
///
/// # Errors
/// [`Kind::Unauthorized`], or the database fails.
pub async fn authenticate_key(extensions: &Extensions, keys: &Keys, key: &str) -> Result<Principal, Problem> {
    let Some(principal) = keys.cache.authenticate(&keys.storage.store, &*keys.storage.clock, key).await?
    else {
        let request = tracing::Span::current();
        request.record("key.prefix", keys::key_prefix(key));
        let client = extensions.get::<ClientAddress>();
        request.record("peer.address", client.map(|client| tracing::field::display(client.0)));
        return Err(Problem::from_kind(Kind::Unauthorized));
    };
    let now = keys.storage.clock.now();
    keys.uses.record_use(&principal.tenant, principal.key_id, principal.last_used_at, now);
    Ok(principal)
}

/// Returns the key in `Authorization: Bearer …` (RFC 6750 §2.1; the scheme in any case).
pub fn parse_bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (values.next()?, values.next());
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    (more.is_none() && scheme.eq_ignore_ascii_case("bearer")).then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|v| (AUTHORIZATION, http::HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn only_one_bearer_key_counts() {
        assert_eq!(parse_bearer(&headers(&["Bearer unslide_a_b"])), Some("unslide_a_b"));
        assert_eq!(parse_bearer(&headers(&["bearer  unslide_a_b "])), Some("unslide_a_b"));
        assert_eq!(parse_bearer(&headers(&["Basic dTpw"])), None);
        assert_eq!(parse_bearer(&headers(&["unslide_a_b"])), None);
        assert_eq!(parse_bearer(&headers(&["Bearer a", "Bearer b"])), None);
        assert_eq!(parse_bearer(&HeaderMap::new()), None);
    }
}
