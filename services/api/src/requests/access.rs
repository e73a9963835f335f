//! Who is asking, and whether they may.
//!
//! An operation names the scope that it needs in the type of its argument: [`Access<ReportsRead>`].
//! There is no way to a tenant's rows that does not lead through such a value.
//!
//! Some operations are there twice: of a tenant's things, and of the system's or of all tenants' for
//! operators. The routes of the latter carry [`Reach`], and need [`Scope::Operator`] instead.

use crate::http::problem::{Kind, Problem};
use crate::http::server::{ClientAddress, ClientConnection};
use crate::limits::permits::{Caller, RequestSlot};
use crate::state::Api;
use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Extensions, HeaderMap, Method};
use std::marker::PhantomData;
use unslide_model::{Owner, Scope, TenantId};
use unslide_store::keys::{self, Principal};

/// What an operation needs, as a type.
pub trait Permission: Send + Sync + 'static {
    /// The scopes of which the key needs one.
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
permissions!(SymbolsWrite, SymbolsRead, ReportsWrite, ReportsRead, GroupsWrite, TenantAdmin, Operator);

/// What became of uploads: [`Scope::SymbolsRead`], or [`Scope::SymbolsWrite`], so that a build pipeline's
/// key can wait for what it sends.
#[derive(Clone, Copy, Debug)]
pub struct SymbolsState;

impl Permission for SymbolsState {
    const SCOPES: &'static [Scope] = &[Scope::SymbolsRead, Scope::SymbolsWrite];
}

/// The key itself: any key may ask about itself.
#[derive(Clone, Copy, Debug)]
pub struct AnyKey;

impl Permission for AnyKey {
    const SCOPES: &'static [Scope] = &Scope::ALL;
}

/// Whose things the operations of a route are about, where not the tenant's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The system's symbols.
    System,
    /// All tenants' things, and those without a tenant.
    All,
}

/// A request with a key that is in force and has the scope `P`, or is an operator's where the route has a
/// [`Reach`].
#[derive(Clone, Debug)]
pub struct Access<P> {
    /// Whose key it is.
    pub principal: Principal,
    /// `None` for the tenant's own things.
    pub reach: Option<Reach>,
    scope: PhantomData<P>,
}

impl<P> Access<P> {
    /// The tenant that the key belongs to.
    pub fn tenant(&self) -> &TenantId {
        &self.principal.tenant
    }

    /// The owner of the symbols that the request is about.
    pub fn owner(&self) -> Owner {
        match self.reach {
            Some(Reach::System) => Owner::System,
            Some(Reach::All) | None => Owner::Tenant(self.tenant().clone()),
        }
    }

    /// The app that the key is for, where it is for one.
    pub fn only_app(&self) -> Option<&str> {
        self.principal.app.as_deref()
    }
}

/// What a key for one app sees.
impl<P> Access<P> {
    /// The app to filter by, where the client asked for `asked`.
    ///
    /// # Errors
    /// [`Kind::InsufficientScope`] where the key speaks for another app.
    pub fn app(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match (&self.principal.app, asked) {
            (None, asked) => Ok(asked),
            (Some(own), Some(asked)) if asked != *own => {
                Err(Problem::new(Kind::InsufficientScope, format!("the key speaks for {own} alone")))
            }
            (Some(own), _) => Ok(Some(own.clone())),
        }
    }

    /// Refuses a key that speaks for one app; `why` says what belongs to more than one app.
    ///
    /// # Errors
    /// [`Kind::InsufficientScope`].
    pub fn of_every_app(&self, why: &str) -> Result<(), Problem> {
        let Some(app) = self.only_app() else { return Ok(()) };
        Err(Problem::new(Kind::InsufficientScope, format!("the key speaks for {app} alone, and {why}")))
    }

    /// True where the key may see what is of this app.
    pub fn sees(&self, app: &str) -> bool {
        self.principal.app.as_ref().is_none_or(|own| own == app)
    }
}

impl<P: Permission> FromRequestParts<Api> for Access<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Access<P>, Problem> {
        let key = bearer(&parts.headers).unwrap_or_default();
        let principal = authenticate(&parts.extensions, api, key).await?;
        admit(parts, api, principal, &parts.method)
    }
}

/// What a request of a known principal may do, by its key or by its session: the one place with the rules.
///
/// # Errors
/// [`Kind::InsufficientScope`], [`Kind::TenantSuspended`], or where too many of the tenant's requests run.
pub fn admit<P: Permission>(
    parts: &Parts,
    api: &Api,
    principal: Principal,
    method: &Method,
) -> Result<Access<P>, Problem> {
    let reach = parts.extensions.get::<Reach>().copied();
    let needed: &[Scope] = if reach.is_some() { &[Scope::Operator] } else { P::SCOPES };
    let for_operators = *needed == [Scope::Operator];
    // Only for a key that may do it: else every key could use the permits that are reserved for operators.
    let operator = for_operators && principal.may(Scope::Operator) && principal.app.is_none();
    let caller = if operator { Caller::Operator } else { Caller::Tenant };
    assign(&parts.extensions, api, caller(principal.tenant.clone()))?;
    if !needed.iter().any(|scope| principal.may(*scope)) {
        let names: Vec<&str> = needed.iter().map(|scope| scope.as_str()).collect();
        let detail = format!("the operation needs the scope {}", names.join(" or "));
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    if for_operators && principal.app.is_some() {
        // There is nothing of all tenants that is of one app.
        return Err(Problem::new(Kind::InsufficientScope, "a key for one app can't act for operators"));
    }
    if !principal.active && needed.iter().all(|scope| changes(*scope, method)) {
        let detail = "a suspended tenant can look and take away, but add and change nothing";
        return Err(Problem::new(Kind::TenantSuspended, detail));
    }
    Ok(Access { principal, reach, scope: PhantomData })
}

/// Notes the request's tenant: on its connection, and in its slot among the running requests.
///
/// # Errors
/// Where too many of the tenant's requests run.
pub fn assign(extensions: &Extensions, api: &Api, caller: Caller) -> Result<(), Problem> {
    if let Some(client) = extensions.get::<ClientConnection>() {
        client.authenticated();
    }
    let slot = extensions.get::<RequestSlot>();
    slot.ok_or_else(|| Problem::internal("a request has no slot"))?.assign(&api.permits, caller)?;
    Ok(())
}

/// True for what a suspended tenant may not do: everything but looking, and taking away what is its
/// own. A wish to have a report erased or a key revoked is not to wait for the end of a suspension.
fn changes(scope: Scope, method: &Method) -> bool {
    match scope {
        // Questions that come in a body.
        Scope::SymbolsRead | Scope::ReportsRead => false,
        Scope::SymbolsWrite | Scope::ReportsWrite | Scope::GroupsWrite | Scope::TenantAdmin => {
            !method.is_safe() && *method != Method::DELETE
        }
        // What operators take away is not their own.
        Scope::Operator => !method.is_safe(),
    }
}

/// The principal of a key. A request without a key, with one that is malformed, unknown,
/// expired or revoked: all get the same answer. Every text that has the form of a key costs the same
/// look-up and comparison, so that the time tells nothing of which keys there are; what has not the
/// form costs no look-up.
///
/// # Errors
/// [`Kind::Unauthorized`], or the database fails.
pub async fn authenticate(extensions: &Extensions, api: &Api, key: &str) -> Result<Principal, Problem> {
    let Some(principal) = api.recent.keys.authenticate(&api.store, &*api.clock, key).await? else {
        let request = tracing::Span::current();
        request.record("key.prefix", keys::prefix(key));
        let client = extensions.get::<ClientAddress>();
        request.record("peer.address", client.map(|client| tracing::field::display(client.0)));
        return Err(Problem::bare(Kind::Unauthorized));
    };
    api.key_uses.note(&principal, api.clock.now());
    Ok(principal)
}

/// The key in `Authorization: Bearer …` (RFC 6750 §2.1; the scheme in any case).
fn bearer(headers: &HeaderMap) -> Option<&str> {
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
        assert_eq!(bearer(&headers(&["Bearer unslide_a_b"])), Some("unslide_a_b"));
        assert_eq!(bearer(&headers(&["bearer  unslide_a_b "])), Some("unslide_a_b"));
        assert_eq!(bearer(&headers(&["Basic dTpw"])), None);
        assert_eq!(bearer(&headers(&["unslide_a_b"])), None);
        assert_eq!(bearer(&headers(&["Bearer a", "Bearer b"])), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
