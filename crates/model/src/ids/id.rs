//! Ids. Every id that belongs to a tenant is passed as [`Scoped`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The reason why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a tenant slug.
    #[error("a tenant's name has 2 to 40 characters of a-z, 0-9 and '-', and does not begin or end with '-'")]
    Tenant,
    /// Not sixteen bytes in hexadecimal.
    #[error("expected 32 hexadecimal digits, with or without dashes")]
    Hex16,
    /// Not thirty-two bytes in hexadecimal.
    #[error("expected 64 hexadecimal digits")]
    Hex32,
    /// Not a scope.
    #[error("no such scope; there are {0}")]
    Scope(String),
    /// Not a preset of a key.
    #[error("no such preset; there are {0}")]
    Preset(String),
}

/// A tenant's slug: `[a-z0-9-]{2,40}`. It never changes and is cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// Checks a slug.
    ///
    /// # Errors
    /// Returns [`IdError::Tenant`] if the text is not a slug.
    pub fn new(slug: &str) -> Result<TenantId, IdError> {
        let fits = (2..=40).contains(&slug.len())
            && slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !slug.starts_with('-')
            && !slug.ends_with('-');
        if fits { Ok(TenantId(slug.into())) } else { Err(IdError::Tenant) }
    }

    /// Returns the slug.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Combines an id with this tenant.
    #[must_use]
    pub fn scope<T>(&self, id: T) -> Scoped<T> {
        Scoped { tenant: self.clone(), id }
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({})", self.0)
    }
}

impl FromStr for TenantId {
    type Err = IdError;
    fn from_str(s: &str) -> Result<TenantId, IdError> {
        TenantId::new(s)
    }
}

impl Serialize for TenantId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TenantId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<TenantId, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        TenantId::new(&text).map_err(serde::de::Error::custom)
    }
}

/// An id and the tenant that it belongs to: the only form in which a tenant's id reaches a store,
/// a cache, a topic or an object key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scoped<T> {
    /// The tenant.
    pub tenant: TenantId,
    /// The id within the tenant.
    pub id: T,
}

fn parse_nibble(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// Reads `N` bytes of hexadecimal in any case. Skips dashes if `dashes` is true.
fn hex<const N: usize>(text: &str, dashes: bool) -> Option<[u8; N]> {
    let mut out = [0; N];
    let mut digits = text.bytes().filter(|b| !(dashes && *b == b'-'));
    for byte in &mut out {
        *byte = parse_nibble(digits.next()?)? << 4 | parse_nibble(digits.next()?)?;
    }
    digits.next().is_none().then_some(out)
}

fn dashed(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            f.write_str("-")?;
        }
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

macro_rules! id16 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// Returns the sixteen bytes as a UUID.
            #[must_use]
            pub fn uuid(self) -> uuid::Uuid {
                uuid::Uuid::from_bytes(self.0)
            }

            /// Creates an id from a UUID.
            #[must_use]
            pub fn from_uuid(uuid: uuid::Uuid) -> $name {
                $name(uuid.into_bytes())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dashed(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dashed(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<$name, IdError> {
                hex(s, true).map($name).ok_or(IdError::Hex16)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$name, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id16! {
    /// The `LC_UUID` of one Mach-O slice. Read in any case, with or without dashes; written in lower case with dashes.
    DebugId
}
id16! {
    /// A report's id: the UUID in `report.id`, or one derived from the report's bytes.
    ReportId
}

impl DebugId {
    /// Returns the 32 lower-case digits without dashes, as symbol-server paths need them.
    #[must_use]
    pub fn to_compact(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// The SHA-256 of an object's bytes: its address by content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = IdError;
    fn from_str(s: &str) -> Result<ContentHash, IdError> {
        hex(s, false).map(ContentHash).ok_or(IdError::Hex32)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ContentHash, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_id_is_read_in_every_spelling_and_written_in_one() {
        for text in [
            "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0",
            "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            "0f1E2d3c-4b5a6978-8796a5b4c3d2e1f0",
        ] {
            let id: DebugId = text.parse().unwrap();
            assert_eq!(id.to_string(), "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
            assert_eq!(id.to_compact(), "0f1e2d3c4b5a69788796a5b4c3d2e1f0");
        }
        for bad in [
            "",
            "-",
            "0f1e",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f",
            "zf1e2d3c4b5a69788796a5b4c3d2e1f0",
            "0f1e2d3c4b5a69788796a5b4c3d2e1f0a",
        ] {
            assert_eq!(bad.parse::<DebugId>(), Err(IdError::Hex16), "{bad}");
        }
    }

    #[test]
    fn a_tenant_is_a_slug() {
        for good in ["ab", "acme-2", &"a".repeat(40)] {
            assert_eq!(TenantId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", "Acme", "acme/2", "..", "-a", "a-", "a_b", &"a".repeat(41)] {
            assert_eq!(TenantId::new(bad), Err(IdError::Tenant), "{bad}");
        }
    }

    #[test]
    fn ids_are_the_same_through_serde() {
        let id: ReportId = serde_json::from_str("\"0F1E2D3C4B5A69788796A5B4C3D2E1F0\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\"");
    }
}
