//! All object keys, created and checked in one place.
//!
//! ```text
//! t/<tenant>/uploads/<uuid>                                what was uploaded, untouched
//! t/<tenant>/objects/<sha256>                              one Mach-O slice by content
//! t/<tenant>/symbols/<ab>/<cdef…>/debuginfo                the winner for a debug id
//! t/<tenant>/symbols/<ab>/<cdef…>/symcache-v<N>-<sha256>   a symcache, never overwritten
//! t/<tenant>/symbols/<ab>/<cdef…>/symcache-v<N>            the symcache that answers (alias)
//! t/<tenant>/symbols/<ab>/<cdef…>/derived-<name>           what an analysis reads beside the symcache
//! t/<tenant>/segments/<yyyy-mm-dd>/<uuid>                  stored reports
//! t/<tenant>/<folder>/<uuid>/<name>                        a file of a feature, in the feature's folder
//! system/uploads/…, system/objects/… and system/symbols/…   the same for system symbols
//! .unslide-check/<microseconds>                            what `unslide config check --connect` puts and deletes
//! ```

use std::fmt;
use time::Date;
use unslide_model::{ContentHash, DebugId, Owned, Owner, TenantId};
use uuid::Uuid;

/// The key of one object. Only this module creates keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

/// The common prefix of several objects' keys; ends with `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(String);

/// An external key that its tenant may not use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an object key of tenant {tenant}")]
pub struct ObjectKeyError {
    tenant: TenantId,
}

impl ObjectKey {
    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks that a key from a message or a row lies under `tenant`.
    ///
    /// # Errors
    /// Returns [`ObjectKeyError`] if it lies elsewhere, has empty, `.` or `..` segments, or has characters that
    /// no key of ours has.
    pub fn parse_for_tenant(tenant: &TenantId, text: &str) -> Result<ObjectKey, ObjectKeyError> {
        let fits = text.starts_with(&tenant_prefix(tenant).0)
            && text.len() <= 512
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-.".contains(&b))
            && text.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if fits { Ok(ObjectKey(text.into())) } else { Err(ObjectKeyError { tenant: tenant.clone() }) }
    }

    /// Returns the tenant that the object belongs to, if one does.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        tenant_of(&self.0)
    }

    pub(crate) fn from_listing(text: String) -> ObjectKey {
        ObjectKey(text)
    }
}

impl Prefix {
    /// Returns the prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the tenant that the objects belong to, if they belong to one.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        tenant_of(&self.0)
    }
}

/// Returns the tenant's folder in a key or prefix.
fn folder_of(key: &str) -> Option<&str> {
    Some(key.strip_prefix("t/")?.split_once('/')?.0)
}

fn tenant_of(key: &str) -> Option<TenantId> {
    TenantId::new(folder_of(key)?).ok()
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the prefix of all objects of one tenant.
#[must_use]
pub fn tenant_prefix(tenant: &TenantId) -> Prefix {
    Prefix(format!("t/{tenant}/"))
}

/// Returns the prefix of all objects of the system's symbols. No tenant's prefix contains it.
#[must_use]
pub fn system_prefix() -> Prefix {
    Prefix("system/".to_owned())
}

/// Returns the prefix of all objects of all tenants.
#[must_use]
pub fn tenants_prefix() -> Prefix {
    Prefix("t/".to_owned())
}

/// Returns the tenant's folder name in a key, and a key after all others of that folder: a listing that
/// continues there reaches the next tenant. `None` for a key of no tenant.
#[must_use]
pub fn tenant_folder(key: &ObjectKey) -> Option<(&str, ObjectKey)> {
    let name = folder_of(&key.0)?;
    Some((name, ObjectKey(format!("t/{name}/~"))))
}

/// Returns the prefix of all objects of one owner.
#[must_use]
pub fn owner_prefix(owner: &Owner) -> Prefix {
    match owner {
        Owner::Tenant(tenant) => tenant_prefix(tenant),
        Owner::System => system_prefix(),
    }
}

/// Returns the key of a file that a client uploaded, unchanged.
#[must_use]
pub fn for_upload<Id: Into<Uuid>>(upload: impl Into<Owned<Id>>) -> ObjectKey {
    let Owned { owner, id } = upload.into();
    let id: Uuid = id.into();
    ObjectKey(format!("{}uploads/{id}", owner_prefix(&owner).0))
}

/// Returns the key of a Mach-O slice by the SHA-256 of its bytes.
#[must_use]
pub fn for_object(object: impl Into<Owned<ContentHash>>) -> ObjectKey {
    let object = object.into();
    ObjectKey(format!("{}objects/{}", owner_prefix(&object.owner).0, object.id))
}

/// Returns the key of a segment of stored reports; `day` is the day of arrival in UTC.
#[must_use]
pub fn for_segment(tenant: &TenantId, day: Date, segment: impl Into<Uuid>) -> ObjectKey {
    let segment = segment.into();
    let (year, month, day) = day.to_calendar_date();
    ObjectKey(format!("t/{tenant}/segments/{year:04}-{:02}-{day:02}/{segment}", u8::from(month)))
}

/// Returns the segment of a key in a message; `None` if the key is not one of this tenant's segments.
#[must_use]
pub fn segment_named(tenant: &TenantId, text: &str) -> Option<Uuid> {
    let below = text.strip_prefix(&tenant_prefix(tenant).0)?.strip_prefix("segments/")?;
    below.split_once('/')?.1.parse().ok()
}

/// Returns the key of an object that is put and deleted to check access; `micros` is the time of the check.
#[must_use]
pub fn access_check(micros: i64) -> ObjectKey {
    ObjectKey(format!(".unslide-check/{micros}"))
}

/// Returns the key of a feature's file for a tenant, in the feature's own folder. `id` identifies the owner of
/// the file.
#[must_use]
pub fn feature_file(
    tenant: &TenantId,
    folder: &'static str,
    id: impl Into<Uuid>,
    name: impl fmt::Display,
) -> ObjectKey {
    let id = id.into();
    ObjectKey(format!("t/{tenant}/{folder}/{id}/{name}"))
}

/// Keys of the symbols of one debug id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolKeys(String);

/// Returns the keys of an owner's symbols for a debug id.
#[must_use]
pub fn for_symbols(id: impl Into<Owned<DebugId>>) -> SymbolKeys {
    let id = id.into();
    SymbolKeys(format!("{}{}", owner_prefix(&id.owner).0, unified_folder(id.id)))
}

/// Returns the folder in the "unified" symbol-server layout: the first two digits are a folder of their own.
fn unified_folder(id: DebugId) -> String {
    let digits = id.to_compact();
    let (folder, rest) = digits.split_at_checked(2).unwrap_or(("", &digits));
    format!("symbols/{folder}/{rest}/")
}

impl SymbolKeys {
    /// Returns the prefix of all objects of the debug id.
    #[must_use]
    pub fn prefix(&self) -> Prefix {
        Prefix(self.0.clone())
    }

    /// Returns the key of the object that answers for the debug id.
    #[must_use]
    pub fn debuginfo(&self) -> ObjectKey {
        ObjectKey(format!("{}debuginfo", self.0))
    }

    /// Returns the key of a symcache of format `version` with these bytes; written once.
    #[must_use]
    pub fn symcache(&self, version: u32, sha256: &ContentHash) -> ObjectKey {
        ObjectKey(format!("{}symcache-v{version}-{sha256}", self.0))
    }

    /// Returns the key of a derived object of the debug id. Its name has the version of its format. It has
    /// [`crate::AliasMeta`] as user metadata.
    #[must_use]
    pub fn derived(&self, name: &str) -> ObjectKey {
        ObjectKey(format!("{}derived-{name}", self.0))
    }

    /// Returns the key of the symcache of format `version` that answers. It has the same bytes as one of
    /// [`SymbolKeys::symcache`] and [`crate::AliasMeta`] as user metadata. A better symcache replaces it. A
    /// cold image costs only one GET.
    #[must_use]
    pub fn alias(&self, version: u32) -> ObjectKey {
        ObjectKey(format!("{}symcache-v{version}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme() -> TenantId {
        TenantId::new("acme").unwrap()
    }

    #[test]
    fn keys_lie_under_their_tenant_in_the_unified_layout() {
        let id: DebugId = "0f1e2d3c4b5a69788796a5b4c3d2e1f0".parse().unwrap();
        let keys = for_symbols(acme().scope(id));
        assert_eq!(keys.prefix().as_str(), "t/acme/symbols/0f/1e2d3c4b5a69788796a5b4c3d2e1f0/");
        assert_eq!(keys.debuginfo().as_str(), "t/acme/symbols/0f/1e2d3c4b5a69788796a5b4c3d2e1f0/debuginfo");
        assert_eq!(keys.alias(1).as_str(), "t/acme/symbols/0f/1e2d3c4b5a69788796a5b4c3d2e1f0/symcache-v1");
        assert!(for_symbols(Owner::System.own(id)).alias(1).as_str().starts_with("system/symbols/0f/"));
        let hash = ContentHash([0xab; 32]);
        assert_eq!(for_object(Owner::System.own(hash)).as_str(), format!("system/objects/{hash}"));
        assert_eq!(
            for_upload(Owner::System.own(Uuid::nil())).as_str(),
            format!("system/uploads/{}", Uuid::nil())
        );
        assert_eq!(for_object(acme().scope(hash)).as_str(), format!("t/acme/objects/{hash}"));
        let day = Date::from_calendar_date(2026, time::Month::March, 4).unwrap();
        let stored = for_segment(&acme(), day, Uuid::from_u128(7));
        assert!(stored.as_str().starts_with("t/acme/segments/2026-03-04/"));
        assert_eq!(segment_named(&acme(), stored.as_str()), Some(Uuid::from_u128(7)));
        for odd in [
            stored.as_str().strip_prefix("t/").unwrap(),
            "t/acme/segments/x",
            "t/acme/segments/a/b",
            "t/other/segments/a/b",
        ] {
            assert_eq!(segment_named(&acme(), odd), None, "{odd}");
        }
    }

    #[test]
    fn a_key_from_elsewhere_must_lie_under_its_tenant() {
        let good = "t/acme/segments/2026-03-04/x";
        assert_eq!(ObjectKey::parse_for_tenant(&acme(), good).unwrap().as_str(), good);
        for bad in [
            "",
            "t/acme",
            "t/acme/",
            "t/acme2/x",
            "t/acme/../other/x",
            "t/acme//x",
            "system/x",
            "/t/acme/x",
            "t/acme/a b",
            "t/acme/./x",
        ] {
            assert!(ObjectKey::parse_for_tenant(&acme(), bad).is_err(), "{bad}");
        }
    }
}
