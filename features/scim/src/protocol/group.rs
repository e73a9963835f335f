//! Groups: their names, and the changes of their members.

use super::ScimFailure;
use super::patch::{AttributeChange, PatchVerb, find_member};
use super::read_text;
use crate::ids::{ScimGroupId, ScimUserId};
use crate::token::SCIM_PATH;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The core schema of groups.
pub const GROUP_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
/// The most members of one group.
pub const MEMBERS_LIMIT: usize = 20_000;

/// A group as a request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupForm {
    pub display_name: String,
    pub external_id: Option<String>,
}

/// A group of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimGroup {
    pub id: ScimGroupId,
    pub form: GroupForm,
    pub created_at: OffsetDateTime,
    pub changed_at: OffsetDateTime,
}

/// A change of the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    Add(BTreeSet<ScimUserId>),
    Remove(BTreeSet<ScimUserId>),
    /// These are all members from then on.
    Set(BTreeSet<ScimUserId>),
}

impl GroupForm {
    /// Reads a group, and its members if the request has them.
    ///
    /// # Errors
    /// `invalidValue` for an attribute that cannot be kept.
    pub fn read(body: &Value) -> Result<(GroupForm, Option<MemberChange>), ScimFailure> {
        let name = read_text(find_member(body, "displayName"), "displayName")?;
        let display_name = name.ok_or_else(|| ScimFailure::value("displayName: the attribute is missing"))?;
        let external_id = read_text(find_member(body, "externalId"), "externalId")?;
        let members = find_member(body, "members").map(read_members).transpose()?;
        Ok((GroupForm { display_name, external_id }, members.map(MemberChange::Set)))
    }
}

impl MemberChange {
    /// Returns the members after the change.
    pub fn apply(self, mut members: BTreeSet<ScimUserId>) -> BTreeSet<ScimUserId> {
        match self {
            MemberChange::Add(added) => {
                members.extend(added);
                members
            }
            MemberChange::Remove(removed) => members.difference(&removed).copied().collect(),
            MemberChange::Set(all) => all,
        }
    }
}

/// Applies the changes of a PATCH to a group. Returns the changes of its members in their order.
///
/// # Errors
/// Returns what is wrong with the first change that cannot be applied.
pub fn change_group(
    group: &mut GroupForm,
    changes: &[AttributeChange],
) -> Result<Vec<MemberChange>, ScimFailure> {
    let mut members = Vec::new();
    for change in changes {
        let AttributeChange { verb, path, value } = change;
        match path.attribute.as_str() {
            "displayname" => {
                let name = read_text(Some(value), "displayName")?;
                group.display_name =
                    name.ok_or_else(|| ScimFailure::value("displayName: a group has a name"))?;
            }
            "externalid" => group.external_id = read_text(Some(value), "externalId")?,
            "members" => members.push(read_member_change(change)?),
            // The id comes with the name, and is not changed by it. Other attributes are not kept.
            _ => tracing::debug!(attribute = path.attribute, ?verb, "an attribute of a group is not kept"),
        }
    }
    Ok(members)
}

fn read_member_change(change: &AttributeChange) -> Result<MemberChange, ScimFailure> {
    let AttributeChange { verb, path, value } = change;
    let chosen = match &path.chosen {
        Some(chosen) if chosen.attribute == "value" => Some(BTreeSet::from([parse_id(&chosen.value)?])),
        Some(_) => return Err(ScimFailure::path("members: a filter such as value eq \"ID\" is expected")),
        None => None,
    };
    Ok(match (verb, chosen) {
        (PatchVerb::Remove, Some(chosen)) => MemberChange::Remove(chosen),
        // Without a value, all members are meant. A value names those that leave, as Microsoft Entra sends it.
        (PatchVerb::Remove, None) if value.is_null() => MemberChange::Set(BTreeSet::new()),
        (PatchVerb::Remove, None) => MemberChange::Remove(read_members(value)?),
        (PatchVerb::Add | PatchVerb::Replace, Some(chosen)) => MemberChange::Add(chosen),
        (PatchVerb::Add, None) => MemberChange::Add(read_members(value)?),
        (PatchVerb::Replace, None) => MemberChange::Set(read_members(value)?),
    })
}

/// Reads members: a list of objects or ids, or one of them.
fn read_members(value: &Value) -> Result<BTreeSet<ScimUserId>, ScimFailure> {
    let read = |member: &Value| {
        let id = find_member(member, "value").unwrap_or(member).as_str();
        parse_id(id.ok_or_else(|| ScimFailure::value("members: the value of a member is missing"))?)
    };
    match value {
        Value::Null => Ok(BTreeSet::new()),
        Value::Array(members) => members.iter().map(read).collect(),
        member => Ok(BTreeSet::from([read(member)?])),
    }
}

fn parse_id(text: &str) -> Result<ScimUserId, ScimFailure> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(100).collect();
        ScimFailure::value(format!("members: {shown:?} is not the id of a user"))
    })
}

/// Returns a group as an answer has it, with its members if they are known.
pub fn show_group(group: &ScimGroup, members: Option<&[ScimUserId]>) -> Value {
    let mut shown = json!({
        "schemas": [GROUP_SCHEMA],
        "id": group.id,
        "displayName": group.form.display_name,
        "meta": {
            "resourceType": "Group",
            "created": group.created_at.format(&Rfc3339).unwrap_or_default(),
            "lastModified": group.changed_at.format(&Rfc3339).unwrap_or_default(),
            "location": format!("{SCIM_PATH}/Groups/{}", group.id),
        },
    });
    if let Some(id) = &group.form.external_id {
        shown["externalId"] = id.clone().into();
    }
    if let Some(members) = members {
        shown["members"] = members.iter().map(|id| json!({ "value": id })).collect();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::read_changes;
    use super::*;

    const ONE: &str = "00000000-0000-7000-8000-000000000001";
    const TWO: &str = "00000000-0000-7000-8000-000000000002";
    const THREE: &str = "00000000-0000-7000-8000-000000000003";

    fn ids(texts: &[&str]) -> BTreeSet<ScimUserId> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn patch(operations: &Value) -> (String, BTreeSet<ScimUserId>) {
        let mut group = GroupForm { display_name: "team".to_owned(), external_id: None };
        let changes = read_changes(&json!({ "Operations": operations })).unwrap();
        let members = change_group(&mut group, &changes).unwrap();
        let members = members.into_iter().fold(ids(&[ONE, TWO]), |members, change| change.apply(members));
        (group.display_name, members)
    }

    #[test]
    fn members_change_by_the_forms_of_okta_and_entra() {
        let left = |operations: Value| patch(&operations).1;
        let okta = json!([{"op": "remove", "path": format!("members[value eq \"{ONE}\"]")},
            {"op": "add", "path": "members", "value": [{"value": THREE, "display": "kim@example.com"}]}]);
        assert_eq!(left(okta), ids(&[TWO, THREE]));
        assert_eq!(
            left(json!([{"op": "replace", "path": "members", "value": [{"value": THREE}]}])),
            ids(&[THREE])
        );
        // A remove with a value empties no group.
        let entra = json!([{"op": "Remove", "path": "members", "value": [{"$ref": null, "value": TWO}]}]);
        assert_eq!(left(entra), ids(&[ONE]));
        let entra = json!([{"op": "Add", "path": "members", "value": [{"$ref": null, "value": THREE}]}]);
        assert_eq!(left(entra), ids(&[ONE, TWO, THREE]));
        assert_eq!(left(json!([{"op": "remove", "path": "members"}])), ids(&[]));
        assert_eq!(left(json!([{"op": "remove", "path": "members", "value": []}])), ids(&[ONE, TWO]));
        let renamed = json!([{"op": "replace", "value": {"id": ONE, "displayName": "leads"}}]);
        assert_eq!(patch(&renamed), ("leads".to_owned(), ids(&[ONE, TWO])));
    }

    #[test]
    fn what_names_no_user_is_refused() {
        for operation in [
            json!({"op": "add", "path": "members", "value": [{"value": "robin"}]}),
            json!({"op": "add", "path": "members", "value": [{"display": "robin"}]}),
            json!({"op": "remove", "path": "members[display eq \"robin\"]"}),
            json!({"op": "replace", "path": "displayName", "value": null}),
        ] {
            let mut group = GroupForm { display_name: "team".to_owned(), external_id: None };
            let changes = read_changes(&json!({ "Operations": [operation] })).unwrap();
            assert!(change_group(&mut group, &changes).is_err(), "{operation}");
        }
    }
}
