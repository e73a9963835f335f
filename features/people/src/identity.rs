//! The person that a verified token names.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openidconnect::core::CoreIdTokenClaims;
use serde_json::Value;
use std::collections::BTreeSet;

/// Groups of one person that count.
const MAX_GROUPS: usize = 1_000;
/// The most bytes of a person's name.
const MAX_NAME_BYTES: usize = 100;

/// A person whose token was verified. An e-mail address is no part of it, because it may go to another person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The issuer of the token.
    pub issuer: String,
    /// The issuer's id of the person, which never goes to another one.
    pub subject: String,
    /// A name to show. It identifies no one.
    pub name: String,
    /// The person's groups.
    pub groups: BTreeSet<String>,
}

impl Identity {
    /// Reads the person from the claims of a verified token, with their groups from `group_claim`.
    pub fn from_token(claims: &CoreIdTokenClaims, token: &str, group_claim: &str) -> Identity {
        let subject = claims.subject().as_str().to_owned();
        let name = claims.name().and_then(|name| name.get(None)).map(|name| name.as_str());
        let name = name.or_else(|| claims.preferred_username().map(|name| name.as_str()));
        let name = clean_name(name.unwrap_or(&subject));
        let groups = read_groups(token, group_claim);
        Identity { issuer: claims.issuer().as_str().to_owned(), subject, name, groups }
    }
}

/// Returns a name that can be shown: without control characters, and not too long.
fn clean_name(name: &str) -> String {
    let mut clean: String = name.trim().chars().filter(|character| !character.is_control()).collect();
    while clean.len() > MAX_NAME_BYTES {
        clean.pop();
    }
    if clean.is_empty() { "a person without a name".to_owned() } else { clean }
}

/// Returns the groups that a claim of a verified token names: a text, or a list of texts.
fn read_groups(token: &str, claim: &str) -> BTreeSet<String> {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Option<Value> = claims.and_then(|json| serde_json::from_slice(&json).ok());
    match claims.as_ref().and_then(|claims| claims.get(claim)) {
        Some(Value::String(group)) => BTreeSet::from([group.clone()]),
        Some(Value::Array(groups)) => {
            groups.iter().take(MAX_GROUPS).filter_map(|group| Some(group.as_str()?.to_owned())).collect()
        }
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_a_text_or_a_list() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        let groups = |claims: &str| read_groups(&token(claims), "groups").into_iter().collect::<Vec<_>>();
        assert_eq!(groups(r#"{"groups":["b","a",7]}"#), ["a", "b"]);
        assert_eq!(groups(r#"{"groups":"a"}"#), ["a"]);
        assert!(groups(r#"{"roles":["a"]}"#).is_empty());
        assert!(read_groups("no token", "groups").is_empty());
    }

    #[test]
    fn a_name_is_fit_to_be_shown() {
        assert_eq!(clean_name("Robin\u{7} Ito"), "Robin Ito");
        assert_eq!(clean_name(&"é".repeat(200)).len(), MAX_NAME_BYTES);
        assert_eq!(clean_name(" \n"), "a person without a name");
    }
}
