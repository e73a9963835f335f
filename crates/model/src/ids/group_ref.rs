//! How people name a group: by its id, its short id, or the address of its page.

use super::short_id::normalize_short_id;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// A group, as a person or a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRef {
    /// Its id.
    Id(Uuid),
    /// Its short id in the stored form, such as `SHOP-1A2B`.
    ShortId(String),
}

/// A text that names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no group: use its id, its short id such as SHOP-1A2B, or the address of its page")]
pub struct NotAGroupRef {
    text: String,
}

impl From<Uuid> for GroupRef {
    fn from(id: Uuid) -> GroupRef {
        GroupRef::Id(id)
    }
}

impl FromStr for GroupRef {
    type Err = NotAGroupRef;

    fn from_str(text: &str) -> Result<GroupRef, NotAGroupRef> {
        let named = strip_page_address(text);
        let id = Uuid::parse_str(named).ok().map(GroupRef::Id);
        id.or_else(|| normalize_short_id(named).map(GroupRef::ShortId))
            .ok_or_else(|| NotAGroupRef { text: text.chars().take(100).collect() })
    }
}

impl fmt::Display for GroupRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupRef::Id(id) => id.fmt(f),
            GroupRef::ShortId(name) => f.write_str(name),
        }
    }
}

impl Serialize for GroupRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GroupRef, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Returns the id at the end of the address of a page, such as `https://crashes.example.com/groups/SHOP-1A2B?tab=2`;
/// another text without the spaces around it.
#[must_use]
pub fn strip_page_address(text: &str) -> &str {
    let text = text.trim();
    if !text.contains('/') {
        return text;
    }
    let path = text.split(['?', '#']).next().unwrap_or(text).trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_by_its_id_its_short_id_or_the_address_of_its_page() {
        let id = Uuid::from_u128(7);
        let short = GroupRef::ShortId("SHOP-1A2B".to_owned());
        for (text, named) in [
            (id.to_string(), GroupRef::Id(id)),
            (format!("http://127.0.0.1:8080/console/groups/{id}?app=a#stack"), GroupRef::Id(id)),
            ("shop-1a2b".to_owned(), short.clone()),
            (" https://crashes.example.com/groups/SHOP-1A2B/ ".to_owned(), short.clone()),
            ("/groups/Shop-lA2B".to_owned(), short.clone()),
        ] {
            assert_eq!(text.parse::<GroupRef>(), Ok(named), "{text}");
        }
        assert_eq!(serde_json::from_str::<GroupRef>("\"Shop-1A2B\"").unwrap(), short);
        assert_eq!(serde_json::to_string(&short).unwrap(), "\"SHOP-1A2B\"");
        for wrong in ["", "shop", "../keys", "https://crashes.example.com/groups"] {
            assert!(wrong.parse::<GroupRef>().is_err(), "{wrong}");
        }
        let error = "shop".parse::<GroupRef>().unwrap_err().to_string();
        assert!(error.starts_with("\"shop\" names no group: use its id, its short id"), "{error}");
    }
}
