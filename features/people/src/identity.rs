//! The person that a verified token names.

use crate::token::{Claims, TokenError};
use serde_json::Value;
use std::collections::BTreeSet;

/// The most bytes of a person's name.
const MAX_NAME_BYTES: usize = 100;
/// The most bytes of an id of a directory.
const MAX_DIRECTORY_ID_BYTES: usize = 255;
/// Claims with a name to show, the best first: the protocol's own, and Amazon Cognito's.
const NAME_CLAIMS: [&str; 4] = ["name", "preferred_username", "nickname", "cognito:username"];

/// A person whose token was verified. An e-mail address is no part of it, because it may go to another person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The issuer of the token.
    pub issuer: String,
    /// The issuer's id of the person, which never goes to another one.
    pub subject: String,
    /// The id that the directory of the tenant has for the person; None if the token does not have the claim.
    pub directory_id: Option<String>,
    /// A name to show. It identifies no one.
    pub name: String,
    /// The provider's id of its own session.
    pub session: Option<String>,
    pub groups: GroupClaim,
}

/// The person's groups, as the token has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupClaim {
    Groups(BTreeSet<String>),
    Absent,
    /// Microsoft Entra leaves the groups out of a token if there are more than 200.
    LeftOut,
    /// The claim has neither texts nor roles.
    Unreadable,
}

impl Identity {
    /// Reads the person from the checked claims of an ID token, with their groups from `group_claim`, and their id in the directory
    /// from `directory_claim`, or the subject.
    ///
    /// # Errors
    /// [`TokenError::Subject`].
    pub fn from_claims(
        claims: &Claims,
        issuer: &str,
        group_claim: &str,
        directory_claim: Option<&str>,
    ) -> Result<Identity, TokenError> {
        let subject = claims.read_subject()?;
        let name = NAME_CLAIMS.iter().find_map(|claim| clean_name(claims.find_text(claim)?));
        let name =
            name.or_else(|| clean_name(&subject)).unwrap_or_else(|| "a person without a name".to_owned());
        Ok(Identity {
            issuer: issuer.to_owned(),
            directory_id: match directory_claim {
                Some(claim) => {
                    find_claim(claims, claim).and_then(read_group).filter(|id| is_directory_id(id))
                }
                None => Some(subject.clone()),
            },
            subject,
            name,
            session: claims.find_session().map(str::to_owned),
            groups: GroupClaim::from_claims(claims, group_claim),
        })
    }
}

impl GroupClaim {
    fn from_claims(claims: &Claims, name: &str) -> GroupClaim {
        match find_claim(claims, name) {
            Some(Value::Null) | None if is_left_out(claims, name) => GroupClaim::LeftOut,
            Some(Value::Null) | None => GroupClaim::Absent,
            Some(claim) => read_groups(claim).map_or(GroupClaim::Unreadable, GroupClaim::Groups),
        }
    }

    /// Returns the groups; none if the token has none that can be read.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let groups = match self {
            GroupClaim::Groups(groups) => Some(groups),
            GroupClaim::Absent | GroupClaim::LeftOut | GroupClaim::Unreadable => None,
        };
        groups.into_iter().flatten().map(String::as_str)
    }
}

/// Returns the claim of a name. Names may have dots, as those of Auth0 have; otherwise dots are the path to a claim within
/// another one, as in Keycloak's `realm_access.roles`. The names on the path may have dots, too.
fn find_claim<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    let dots = name.match_indices('.').map(|(at, _)| at);
    claims.get(name).or_else(|| {
        dots.into_iter().find_map(|at| find_within(claims.get(name.get(..at)?)?, name.get(at + 1..)?))
    })
}

fn find_within<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    members.get(name).or_else(|| {
        name.match_indices('.')
            .find_map(|(at, _)| find_within(members.get(name.get(..at)?)?, name.get(at + 1..)?))
    })
}

/// Returns true if Microsoft Entra says that a claim was too long for the token.
fn is_left_out(claims: &Claims, name: &str) -> bool {
    let elsewhere = claims.get("_claim_names").is_some_and(|names| names.get(name).is_some());
    elsewhere
        || (name == "groups" && claims.get("hasgroups").is_some_and(|value| *value != Value::Bool(false)))
}

/// Returns the groups of a claim: a text, a list of texts or numbers, or an object with roles as its members and objects as
/// their values, as ZITADEL writes them.
fn read_groups(claim: &Value) -> Option<BTreeSet<String>> {
    match claim {
        Value::String(group) => Some(BTreeSet::from([group.clone()])),
        Value::Array(groups) => {
            let read: BTreeSet<String> = groups.iter().filter_map(read_group).collect();
            (groups.is_empty() || !read.is_empty()).then_some(read)
        }
        Value::Object(roles) if roles.values().all(Value::is_object) => Some(roles.keys().cloned().collect()),
        _ => None,
    }
}

fn read_group(group: &Value) -> Option<String> {
    match group {
        Value::String(group) => Some(group.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn is_directory_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_DIRECTORY_ID_BYTES && !id.chars().any(char::is_control)
}

/// Returns a name that can be shown: not too long, and without characters that are invisible or turn the text around. None
/// if nothing is left.
fn clean_name(name: &str) -> Option<String> {
    let mut clean: String = name.chars().filter(|character| is_shown(*character)).collect();
    while clean.len() > MAX_NAME_BYTES {
        clean.pop();
    }
    let clean = clean.trim();
    // Joiners within a name are letters of some scripts; alone they are nothing.
    clean.chars().any(|character| !is_joiner(character)).then(|| clean.to_owned())
}

fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

fn is_shown(character: char) -> bool {
    let is_invisible = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    !character.is_control() && !is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(claims: &Value, claim: &str) -> Identity {
        let mut members = json!({"sub": "s-1"}).as_object().unwrap().clone();
        members.extend(claims.as_object().unwrap().clone());
        Identity::from_claims(&Claims::new(members), "https://a", claim, Some("oid")).unwrap()
    }

    fn groups(claims: &Value, claim: &str) -> Vec<String> {
        read(claims, claim).groups.groups().map(str::to_owned).collect()
    }

    #[test]
    fn groups_are_read_in_each_form_that_providers_write() {
        assert_eq!(groups(&json!({"groups": ["b", "a", {}, 7]}), "groups"), ["7", "a", "b"]);
        assert_eq!(groups(&json!({"groups": "a"}), "groups"), ["a"]);
        // Auth0: a name with dots, exactly.
        assert_eq!(groups(&json!({"https://a.example/groups": ["a"]}), "https://a.example/groups"), ["a"]);
        // Keycloak: roles within objects; a client may have dots in its name.
        let keycloak = json!({"realm_access": {"roles": ["r"]},
            "resource_access": {"unslide": {"roles": ["c"]}, "app.example": {"roles": ["d"]}}});
        assert_eq!(groups(&keycloak, "realm_access.roles"), ["r"]);
        assert_eq!(groups(&keycloak, "resource_access.unslide.roles"), ["c"]);
        assert_eq!(groups(&keycloak, "resource_access.app.example.roles"), ["d"]);
        assert!(groups(&keycloak, "realm_access").is_empty());
        assert_eq!(read(&keycloak, "realm_access").groups, GroupClaim::Unreadable);
        // ZITADEL: roles with the organizations that grant them.
        let zitadel =
            json!({"urn:zitadel:iam:org:project:roles": {"lead": {"3": "acme.example"}, "team": {}}});
        assert_eq!(groups(&zitadel, "urn:zitadel:iam:org:project:roles"), ["lead", "team"]);
        // Amazon Cognito.
        assert_eq!(groups(&json!({"cognito:groups": ["eu-west-1_x", "team"]}), "cognito:groups").len(), 2);
        assert_eq!(read(&json!({"roles": ["a"]}), "groups").groups, GroupClaim::Absent);
        assert_eq!(read(&json!({"groups": true}), "groups").groups, GroupClaim::Unreadable);
        assert_eq!(groups(&json!({"groups": (0..5_000).collect::<Vec<_>>()}), "groups").len(), 5_000);
    }

    #[test]
    fn groups_that_microsoft_entra_leaves_out_are_told_from_none() {
        let overage = json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://g"}}});
        assert_eq!(read(&overage, "groups").groups, GroupClaim::LeftOut);
        assert_eq!(read(&overage, "roles").groups, GroupClaim::Absent);
        assert_eq!(read(&json!({"hasgroups": true}), "groups").groups, GroupClaim::LeftOut);
        assert_eq!(read(&json!({"hasgroups": "true", "groups": ["a"]}), "groups").groups.groups().count(), 1);
    }

    #[test]
    fn the_id_of_the_directory_is_that_of_its_claim_and_of_no_other() {
        let id = |claims: Value| read(&claims, "groups").directory_id;
        assert_eq!(id(json!({"oid": "0b5c"})).as_deref(), Some("0b5c"));
        assert_eq!(id(json!({"oid": 7})).as_deref(), Some("7"));
        for none in [json!({}), json!({"oid": ""}), json!({"oid": ["0b5c"]}), json!({"oid": "a".repeat(256)})]
        {
            assert_eq!(id(none), None);
        }
        let claims = json!({"sub": "s-1", "oid": "0b5c"}).as_object().unwrap().clone();
        let by_subject = Identity::from_claims(&Claims::new(claims), "https://a", "groups", None).unwrap();
        assert_eq!(by_subject.directory_id.as_deref(), Some("s-1"));
    }

    #[test]
    fn a_name_is_fit_to_be_shown() {
        let name = |claims: Value| read(&claims, "groups").name;
        assert_eq!(name(json!({"name": "Robin\u{7} I\u{200b}to\u{202e}"})), "Robin Ito");
        assert_eq!(name(json!({"name": "é".repeat(200)})).len(), MAX_NAME_BYTES);
        assert_eq!(name(json!({"name": " \n", "preferred_username": "robin"})), "robin");
        assert_eq!(name(json!({"name": ["Robin"], "nickname": {}, "cognito:username": "kim"})), "kim");
        assert_eq!(name(json!({"name": "\u{200d}"})), "s-1");
        assert_eq!(name(json!({"name": "می\u{200c}خواهم"})), "می\u{200c}خواهم");
    }
}
