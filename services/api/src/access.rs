//! Who is asking, and whether they may.
//!
//! An operation names the scope that it needs in the type of its argument: [`Access<ReportsRead>`].
//! There is no way to a tenant's rows that does not lead through such a value.

use crate::permits::Slot;
use crate::problem::{Kind, Problem};
use crate::state::Api;
use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use std::marker::PhantomData;
use unslide_model::{Scope, TenantId};
use unslide_store::keys::Principal;

/// A scope as a type.
pub trait Permission: Send + Sync + 'static {
    /// The scope.
    const SCOPE: Scope;
}

macro_rules! permissions {
    ($($name:ident),+) => {
        $(
            #[doc = concat!("[`Scope::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Permission for $name {
                const SCOPE: Scope = Scope::$name;
            }
        )+
    };
}
permissions!(SymbolsWrite, SymbolsRead, ReportsWrite, ReportsRead, TenantAdmin, Operator);

/// A request whose key is in force and has the scope `P`.
#[derive(Clone, Debug)]
pub struct Access<P> {
    /// Whose key it is.
    pub principal: Principal,
    scope: PhantomData<P>,
}

impl<P> Access<P> {
    /// The tenant that the key belongs to.
    pub fn tenant(&self) -> &TenantId {
        &self.principal.tenant
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

    /// True where the key may see what is of this app.
    pub fn sees(&self, app: &str) -> bool {
        self.principal.app.as_ref().is_none_or(|own| own == app)
    }
}

impl<P: Permission> FromRequestParts<Api> for Access<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Access<P>, Problem> {
        let principal = authenticate(&parts.headers, api).await?;
        let slot = parts.extensions.get::<Slot>();
        slot.ok_or_else(|| Problem::internal("a request has no slot"))?
            .assign(&api.permits, &principal.tenant)?;
        if !principal.may(P::SCOPE) {
            let detail = format!("the operation needs the scope {}", P::SCOPE);
            return Err(Problem::new(Kind::InsufficientScope, detail));
        }
        if P::SCOPE == Scope::Operator && principal.app.is_some() {
            // There is nothing of all tenants that is of one app.
            return Err(Problem::new(Kind::InsufficientScope, "a key for one app can't act for operators"));
        }
        if !principal.active && changes(P::SCOPE, &parts.method) {
            let detail = "a suspended tenant can look and take away, but add and change nothing";
            return Err(Problem::new(Kind::TenantSuspended, detail));
        }
        Ok(Access { principal, scope: PhantomData })
    }
}

/// True for what a suspended tenant may not do: everything but looking, and taking away what is its
/// own. A wish to have a report erased or a key revoked is not to wait for the end of a suspension.
fn changes(scope: Scope, method: &Method) -> bool {
    match scope {
        // Questions that come in a body.
        Scope::SymbolsRead | Scope::ReportsRead => false,
        Scope::SymbolsWrite | Scope::ReportsWrite | Scope::TenantAdmin => {
            !method.is_safe() && *method != Method::DELETE
        }
        // What operators take away is not their own.
        Scope::Operator => !method.is_safe(),
    }
}

/// The principal of the request's key. A request without a key, with one that is malformed, unknown,
/// expired or revoked: all get the same answer. Every text that has the form of a key costs the same
/// look-up and comparison, so that the time tells nothing of which keys there are; what has not the
/// form costs no look-up.
async fn authenticate(headers: &HeaderMap, api: &Api) -> Result<Principal, Problem> {
    let key = bearer(headers).unwrap_or_default();
    let principal = unslide_store::keys::authenticate(&api.store, key).await?;
    let principal = principal.ok_or_else(|| Problem::bare(Kind::Unauthorized))?;
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
