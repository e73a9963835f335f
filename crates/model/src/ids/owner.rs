//! Owners of symbols: a tenant, or the system. Operators keep the symbols of the system for all tenants.

use crate::{IdError, Scoped, TenantId};
use std::fmt;

/// The system's name in database rows. No slug begins with `~`.
const SYSTEM_OWNER_NAME: &str = "~system";

/// The owner of symbols, uploads and jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A tenant.
    Tenant(TenantId),
    /// The system: operators write, all tenants read.
    System,
}

impl Owner {
    /// Returns the owner's name in database rows: the tenant's slug, or a word that cannot be a slug.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Owner::Tenant(tenant) => tenant.as_str(),
            Owner::System => SYSTEM_OWNER_NAME,
        }
    }

    /// Reads the output of [`Owner::as_str`].
    ///
    /// # Errors
    /// Returns [`IdError::Tenant`] if the text is neither a slug nor the system's name.
    pub fn from_name(text: &str) -> Result<Owner, IdError> {
        if text == SYSTEM_OWNER_NAME { Ok(Owner::System) } else { TenantId::new(text).map(Owner::Tenant) }
    }

    /// Returns the tenant, or `None` for the system.
    #[must_use]
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Owner::Tenant(tenant) => Some(tenant),
            Owner::System => None,
        }
    }

    /// Combines an id with this owner.
    #[must_use]
    pub fn own<T>(&self, id: T) -> Owned<T> {
        Owned { owner: self.clone(), id }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<TenantId> for Owner {
    fn from(tenant: TenantId) -> Owner {
        Owner::Tenant(tenant)
    }
}

impl From<&TenantId> for Owner {
    fn from(tenant: &TenantId) -> Owner {
        Owner::Tenant(tenant.clone())
    }
}

/// An id and its owner, which may be the system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owned<T> {
    /// The owner.
    pub owner: Owner,
    /// The id within the owner.
    pub id: T,
}

impl<T> From<Scoped<T>> for Owned<T> {
    fn from(scoped: Scoped<T>) -> Owned<T> {
        Owned { owner: Owner::Tenant(scoped.tenant), id: scoped.id }
    }
}

impl<T: Clone> From<&Scoped<T>> for Owned<T> {
    fn from(scoped: &Scoped<T>) -> Owned<T> {
        scoped.clone().into()
    }
}

impl<T: Clone> From<&Owned<T>> for Owned<T> {
    fn from(owned: &Owned<T>) -> Owned<T> {
        owned.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_name_is_no_tenants() {
        assert!(TenantId::new(Owner::System.as_str()).is_err());
        let acme = Owner::Tenant(TenantId::new("acme").unwrap());
        for owner in [acme, Owner::System] {
            assert_eq!(Owner::from_name(owner.as_str()), Ok(owner));
        }
        assert_eq!(Owner::from_name("system").unwrap().tenant().map(TenantId::as_str), Some("system"));
        assert!(Owner::from_name("~other").is_err() && Owner::from_name("").is_err());
    }
}
