//! Users: what is kept of them, and their changes. The rest of what a provider sends, such as passwords, is dropped unread.

use super::ScimFailure;
use super::filter::Comparison;
use super::patch::{AttributeChange, PatchVerb, find_member};
use super::read_text;
use crate::ids::ScimUserId;
use crate::token::SCIM_PATH;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_api::feature::operation::is_text;

/// The core schema of users.
pub const USER_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
/// The attributes that are kept.
const ATTRIBUTES: [&str; 6] = ["userName", "externalId", "active", "displayName", "name", "emails"];
/// The parts of a name, and the members of an address of mail.
const NAME_PARTS: [&str; 6] =
    ["formatted", "familyName", "givenName", "middleName", "honorificPrefix", "honorificSuffix"];
const EMAIL_PARTS: [&str; 3] = ["value", "type", "primary"];
/// Addresses of one user, and the most bytes of one part.
const EMAILS_LIMIT: usize = 10;
const PART_BYTES_LIMIT: usize = 255;

/// A user as a request has it.
#[derive(Clone, Debug, PartialEq)]
pub struct UserForm {
    pub user_name: String,
    pub external_id: Option<String>,
    pub is_active: bool,
    /// The displayed name, the name, and the addresses of mail.
    pub attributes: Map<String, Value>,
}

/// A user of the directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ScimUser {
    pub id: ScimUserId,
    pub form: UserForm,
    pub created_at: OffsetDateTime,
    pub changed_at: OffsetDateTime,
}

impl UserForm {
    /// Reads a user. What a request in place of a `former` user does not say stays: whether the user is active, and the provider's
    /// id, which Okta leaves out of a PUT.
    ///
    /// # Errors
    /// `invalidValue` for an attribute that cannot be kept.
    pub fn read(body: &Value, former: Option<&UserForm>) -> Result<UserForm, ScimFailure> {
        let name = read_text(find_member(body, "userName"), "userName")?;
        let user_name = name.ok_or_else(|| ScimFailure::value("userName: the attribute is missing"))?;
        let is_active = match find_member(body, "active") {
            None | Some(Value::Null) => former.is_none_or(|former| former.is_active),
            Some(value) => read_active(value)?,
        };
        let mut attributes = Map::new();
        if let Some(shown) = read_text(find_member(body, "displayName"), "displayName")? {
            attributes.insert("displayName".to_owned(), shown.into());
        }
        let name = find_member(body, "name").map(|name| keep_parts(name, &NAME_PARTS));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            attributes.insert("name".to_owned(), name.into());
        }
        let emails = find_member(body, "emails").and_then(Value::as_array);
        let emails = emails.into_iter().flatten().map(|email| keep_parts(email, &EMAIL_PARTS));
        let emails: Vec<Value> =
            emails.filter(|email| !email.is_empty()).take(EMAILS_LIMIT).map(Value::from).collect();
        if !emails.is_empty() {
            attributes.insert("emails".to_owned(), emails.into());
        }
        let external_id = match find_member(body, "externalId") {
            None => former.and_then(|former| former.external_id.clone()),
            sent => read_text(sent, "externalId")?,
        };
        Ok(UserForm { user_name, external_id, is_active, attributes })
    }

    /// Returns the user after the changes of a PATCH.
    ///
    /// # Errors
    /// As [`read`](UserForm::read).
    pub fn changed(&self, changes: &[AttributeChange]) -> Result<UserForm, ScimFailure> {
        let mut document = self.attributes.clone();
        document.insert("externalId".to_owned(), self.external_id.clone().into());
        document.insert("userName".to_owned(), self.user_name.clone().into());
        document.insert("active".to_owned(), self.is_active.into());
        for change in changes {
            let known = ATTRIBUTES.iter().find(|known| known.eq_ignore_ascii_case(&change.path.attribute));
            // A user is active or not.
            let is_lost = known == Some(&"active") && change.verb == PatchVerb::Remove;
            if let Some(known) = known.filter(|_| !is_lost) {
                apply_change(&mut document, known, change);
            }
        }
        UserForm::read(&document.into(), None)
    }
}

fn apply_change(document: &mut Map<String, Value>, attribute: &str, change: &AttributeChange) {
    let AttributeChange { verb, path, value } = change;
    match (&path.chosen, &path.inner) {
        (Some(chosen), inner) => {
            let values = document.entry(attribute).or_insert_with(|| json!([]));
            if let Value::Array(values) = values {
                apply_to_chosen(values, chosen, inner.as_deref(), *verb, value);
            }
        }
        (None, Some(inner)) => {
            let whole = document.entry(attribute).or_insert_with(|| json!({}));
            if let Value::Object(members) = whole {
                set_member(members, inner, *verb, value);
            }
        }
        (None, None) if *verb == PatchVerb::Remove => {
            document.remove(attribute);
        }
        (None, None) => match (document.get_mut(attribute), value) {
            // Parts of a name that are not sent stay.
            (Some(Value::Object(members)), Value::Object(sent)) => {
                members.extend(sent.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            (Some(Value::Array(values)), Value::Array(sent)) if *verb == PatchVerb::Add => {
                let new: Vec<Value> =
                    sent.iter().filter(|value| !values.contains(value)).take(EMAILS_LIMIT).cloned().collect();
                values.extend(new);
            }
            _ => {
                document.insert(attribute.to_owned(), value.clone());
            }
        },
    }
}

/// Changes the values that a filter chooses. If it chooses none, the value is added that it would choose.
fn apply_to_chosen(
    values: &mut Vec<Value>,
    chosen: &Comparison,
    inner: Option<&str>,
    verb: PatchVerb,
    value: &Value,
) {
    let is_chosen = |own: &Value| match find_member(own, &chosen.attribute) {
        Some(Value::String(text)) => text.eq_ignore_ascii_case(&chosen.value),
        Some(Value::Bool(is)) => is.to_string().eq_ignore_ascii_case(&chosen.value),
        _ => false,
    };
    if verb == PatchVerb::Remove && inner.is_none() {
        values.retain(|own| !is_chosen(own));
        return;
    }
    if verb != PatchVerb::Remove && !values.iter().any(is_chosen) && values.len() < EMAILS_LIMIT {
        values.push(json!({ &chosen.attribute: chosen.value }));
    }
    for own in values.iter_mut().filter(|own| is_chosen(own)) {
        match (own, inner) {
            (Value::Object(members), Some(inner)) => set_member(members, inner, verb, value),
            (own, _) => *own = value.clone(),
        }
    }
}

fn set_member(members: &mut Map<String, Value>, name: &str, verb: PatchVerb, value: &Value) {
    members.retain(|own, _| !own.eq_ignore_ascii_case(name));
    if verb != PatchVerb::Remove {
        members.insert(name.to_owned(), value.clone());
    }
}

/// Returns the members of an object that are kept: texts of a usual length and truth values.
fn keep_parts(value: &Value, names: &[&str]) -> Map<String, Value> {
    let kept = names.iter().filter_map(|name| {
        let part = find_member(value, name)?;
        let fits = match part {
            Value::String(text) => is_text(text, PART_BYTES_LIMIT),
            Value::Bool(_) => true,
            _ => false,
        };
        fits.then(|| ((*name).to_owned(), part.clone()))
    });
    kept.collect()
}

/// Reads whether a user is active, in each form that providers send.
fn read_active(value: &Value) -> Result<bool, ScimFailure> {
    let word = match value {
        Value::Bool(is_active) => return Ok(*is_active),
        Value::String(word) => word.to_lowercase(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    match word.as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(ScimFailure::value("active: true or false is expected")),
    }
}

/// Returns a user as an answer has it.
pub fn show_user(user: &ScimUser) -> Value {
    let mut shown = json!({
        "schemas": [USER_SCHEMA],
        "id": user.id,
        "userName": user.form.user_name,
        "active": user.form.is_active,
        "meta": {
            "resourceType": "User",
            "created": user.created_at.format(&Rfc3339).unwrap_or_default(),
            "lastModified": user.changed_at.format(&Rfc3339).unwrap_or_default(),
            "location": format!("{SCIM_PATH}/Users/{}", user.id),
        },
    });
    if let Some(members) = shown.as_object_mut() {
        members.extend(user.form.attributes.clone());
        members.extend(user.form.external_id.clone().map(|id| ("externalId".to_owned(), id.into())));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::read_changes;
    use super::*;

    fn robin() -> UserForm {
        let sent = json!({"schemas": [USER_SCHEMA], "userName": "robin@example.com", "externalId": "00u1",
            "name": {"givenName": "Robin", "familyName": "Ito"}, "displayName": "Robin Ito", "password": "s3cret",
            "emails": [{"primary": true, "value": "robin@example.com", "type": "work", "display": 7}], "groups": []});
        UserForm::read(&sent, None).unwrap()
    }

    fn patch(operations: &Value) -> Result<UserForm, ScimFailure> {
        robin().changed(&read_changes(&json!({ "Operations": operations })).unwrap())
    }

    #[test]
    fn a_user_has_what_is_kept_and_no_password() {
        let user = robin();
        assert!(user.is_active);
        let kept = json!({"displayName": "Robin Ito", "name": {"familyName": "Ito", "givenName": "Robin"},
            "emails": [{"value": "robin@example.com", "type": "work", "primary": true}]});
        assert_eq!(Value::from(user.attributes), kept);
        for wrong in [
            json!({}),
            json!({"userName": ""}),
            json!({"userName": 7}),
            json!({"userName": "a\u{0}"}),
            json!({"userName": "a", "active": "no"}),
            json!({"userName": "a", "active": []}),
            json!({"userName": "a", "externalId": "a".repeat(256)}),
        ] {
            assert!(UserForm::read(&wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_user_is_deactivated_by_each_form_and_only_by_these() {
        for value in [json!(false), json!("False"), json!("false"), json!(0), json!("0")] {
            for operation in [
                json!({"op": "replace", "value": {"active": value}}),
                json!({"op": "Replace", "path": "active", "value": value}),
                json!({"op": "Add", "path": "active", "value": value}),
            ] {
                assert!(!patch(&json!([operation])).unwrap().is_active, "{operation}");
            }
        }
        for value in [json!(""), json!("no"), json!(2), json!({}), json!([false])] {
            let operation = json!({"op": "Replace", "path": "active", "value": value});
            assert!(patch(&json!([operation])).is_err(), "{value}");
        }
        // A whole user without the attribute stays as they were.
        let former = UserForm { is_active: false, ..robin() };
        let whole = UserForm::read(&json!({"userName": "a"}), Some(&former)).unwrap();
        assert!(!whole.is_active && whole.external_id == former.external_id);
        let cleared = UserForm::read(&json!({"userName": "a", "externalId": null}), Some(&former)).unwrap();
        assert_eq!(cleared.external_id, None);
        let removed =
            json!([{"op": "replace", "path": "active", "value": false}, {"op": "remove", "path": "active"}]);
        assert!(!patch(&removed).unwrap().is_active);
    }

    #[test]
    fn attributes_change_by_path_by_filter_and_by_name_with_dots() {
        let changed = patch(&json!([
            {"op": "Replace", "path": "name.familyName", "value": "Ito-Lee"},
            {"op": "Replace", "path": "emails[type eq \"work\"].value", "value": "r@example.com"},
            {"op": "Add", "path": "emails[type eq \"home\"].value", "value": "h@example.com"},
            {"op": "replace", "value": {"name.givenName": "R.", "userName": "r@example.com", "nickName": "x"}},
            {"op": "Remove", "path": "displayName"},
            {"op": "Replace", "path": "externalId", "value": "00u2"}]));
        let changed = changed.unwrap();
        assert_eq!(
            (changed.user_name.as_str(), changed.external_id.as_deref()),
            ("r@example.com", Some("00u2"))
        );
        assert_eq!(changed.attributes["name"], json!({"familyName": "Ito-Lee", "givenName": "R."}));
        let emails = changed.attributes["emails"].as_array().unwrap();
        assert_eq!((emails.len(), &emails[0]["value"]), (2, &json!("r@example.com")));
        assert_eq!(emails[1], json!({"value": "h@example.com", "type": "home"}));
        assert!(!changed.attributes.contains_key("displayName"));
        let merged =
            patch(&json!([{"op": "replace", "path": "name", "value": {"givenName": "Kim"}}])).unwrap();
        assert_eq!(merged.attributes["name"], json!({"familyName": "Ito", "givenName": "Kim"}));
        assert!(patch(&json!([{"op": "remove", "path": "userName"}])).is_err());
    }
}
