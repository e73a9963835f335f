//! Kinds of keys. The core declares API keys, a feature its own kind. What a kind declares decides how its keys are made,
//! looked up and listed; no other code depends on a kind's name.

use super::{API_KEYS, apps};
use std::fmt;
use std::hash::{Hash, Hasher};
use time::{Duration, OffsetDateTime};
use unslide_model::Scope;

/// The most bytes of a key's name.
const MAX_NAME_BYTES: usize = 200;

/// A kind of keys.
#[derive(Clone, Copy)]
pub struct KeyKind {
    /// Name in the database and on the command line: lower-case letters.
    pub name: &'static str,
    /// The name that people give such a key, such as "public key".
    pub title: &'static str,
    /// Beginning of the actions on such keys in the audit log.
    pub action: &'static str,
    /// The beginning of every text, by which secret scanners know it.
    pub prefix: &'static str,
    /// Where requests carry the text.
    pub place: KeyPlace,
    /// Scopes that a key may have.
    pub scopes: &'static [Scope],
    /// Apps that a key may be for.
    pub apps: KeyApps,
    /// How long a key lasts.
    pub life_time: KeyLifeTime,
    /// Keys of one tenant that may be in force at once.
    pub max_in_force: u32,
    /// True if the text is no secret: apps carry it, so the database keeps it in clear.
    pub is_public: bool,
    /// True if a key that was looked up still counts for as long as the database does not answer.
    pub counts_in_outages: bool,
}

/// The place of a key in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// `Authorization: Bearer …`.
    Header,
    /// The path of the URL, after this beginning.
    Path(&'static str),
    /// `Authorization: Bearer …` of requests with a path that begins with this. They are outside the API.
    HeaderBelow(&'static str),
}

/// Apps that keys of a kind may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyApps {
    /// One app, or all apps.
    OneOrAll,
    /// One app or more, each a bundle identifier or `prefix.*`.
    Patterns,
}

/// Life time of keys of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLifeTime {
    /// A key expires only if its maker says when.
    Open,
    /// A key never expires: it ships in apps.
    Endless,
    /// A key always expires.
    Limited {
        /// Life time if the maker does not say.
        default: Duration,
        /// The longest life time.
        max: Duration,
    },
}

/// A kind of keys, as a type: no key of one kind is taken for a key of another.
pub trait KeyType: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The kind.
    const DECLARATION: &'static KeyKind;
}

/// API keys, as a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiKeyType;

impl KeyType for ApiKeyType {
    const DECLARATION: &'static KeyKind = &API_KEYS;
}

impl PartialEq for KeyKind {
    fn eq(&self, other: &KeyKind) -> bool {
        self.name == other.name
    }
}

impl Eq for KeyKind {}

impl Hash for KeyKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Name of the key, for people.
    pub name: String,
    /// Scopes that the key grants.
    pub scopes: Vec<Scope>,
    /// The apps that the key is for; empty for all.
    pub apps: Vec<String>,
    /// When the key expires; the kind decides if it is absent.
    pub expires_at: Option<OffsetDateTime>,
}

impl KeyKind {
    /// Checks a new key, and sets the end of its life.
    ///
    /// # Errors
    /// Returns what is wrong, beginning with the field.
    pub fn check_new(&self, new: NewKey, now: OffsetDateTime) -> Result<NewKey, String> {
        if !apps::is_text(&new.name, MAX_NAME_BYTES) {
            return Err(format!("name: 1 to {MAX_NAME_BYTES} bytes, no control characters"));
        }
        self.check_apps(&new.apps)?;
        if new.scopes.is_empty() != self.scopes.is_empty() {
            let wrong = if self.scopes.is_empty() { "has no scopes" } else { "has at least one" };
            return Err(format!("scopes: the kind {} {wrong}", self.name));
        }
        if let Some(scope) = new.scopes.iter().find(|scope| !self.scopes.contains(scope)) {
            return Err(format!("scopes: the kind {} never has {scope}", self.name));
        }
        Ok(NewKey { expires_at: self.end_of_life(new.expires_at, now)?, ..new })
    }

    fn check_apps(&self, apps: &[String]) -> Result<(), String> {
        match self.apps {
            KeyApps::OneOrAll if apps.len() > 1 => {
                Err(format!("app: the kind {} is for one app, or for all", self.name))
            }
            KeyApps::OneOrAll if apps.iter().any(|app| !apps::is_text(app, apps::MAX_APP_BYTES)) => {
                Err(format!("app: 1 to {} bytes, no control characters", apps::MAX_APP_BYTES))
            }
            KeyApps::OneOrAll => Ok(()),
            KeyApps::Patterns => apps::check_patterns(apps),
        }
    }

    fn end_of_life(
        &self,
        wanted: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) -> Result<Option<OffsetDateTime>, String> {
        if wanted.is_some_and(|end| end <= now) && self.life_time == KeyLifeTime::Open {
            return Err("expires_at: in the past".to_owned());
        }
        match self.life_time {
            KeyLifeTime::Open => Ok(wanted),
            KeyLifeTime::Endless if wanted.is_some() => {
                Err(format!("expires_at: the kind {} never expires", self.name))
            }
            KeyLifeTime::Endless => Ok(None),
            KeyLifeTime::Limited { default, max } => {
                let end = wanted.unwrap_or(now + default);
                if end <= now || end > now + max {
                    return Err(format!("expires_at: in the next {} days", max.whole_days()));
                }
                Ok(Some(end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: KeyKind = KeyKind {
        scopes: &[],
        life_time: KeyLifeTime::Limited { default: Duration::days(90), max: Duration::days(366) },
        ..API_KEYS
    };

    #[test]
    fn a_key_lasts_as_long_as_its_kind_says_unless_its_maker_says_otherwise() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let new = |days: Option<i64>| NewKey {
            name: "team".to_owned(),
            scopes: Vec::new(),
            apps: Vec::new(),
            expires_at: days.map(|days| now + Duration::days(days)),
        };
        let check = |new: NewKey| LIMITED.check_new(new, now).map(|new| new.expires_at.unwrap());
        assert_eq!(check(new(None)).unwrap(), now + Duration::days(90));
        assert_eq!(check(new(Some(366))).unwrap(), now + Duration::days(366));
        for days in [-1, 0, 367] {
            assert!(check(new(Some(days))).unwrap_err().starts_with("expires_at"), "{days}");
        }
        assert!(check(NewKey { name: String::new(), ..new(None) }).is_err());
        assert!(check(NewKey { apps: vec!["\n".to_owned()], ..new(None) }).is_err());
        assert!(check(NewKey { apps: vec!["a".to_owned(), "b".to_owned()], ..new(None) }).is_err());
        // A scope is never more than the kind may carry.
        assert!(check(NewKey { scopes: vec![Scope::ReportsRead], ..new(None) }).is_err());
        let endless = KeyKind { life_time: KeyLifeTime::Endless, ..LIMITED };
        assert!(endless.check_new(new(Some(1)), now).is_err());
        assert_eq!(endless.check_new(new(None), now).unwrap().expires_at, None);
    }
}
