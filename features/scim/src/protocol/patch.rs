//! Operations of a PATCH (RFC 7644, 3.5.2), in the forms of Okta (a value of several attributes without a path) and of Microsoft
//! Entra (capitalised words, paths with filters, names with dots).

use super::failure::ScimFailure;
use super::filter::{Comparison, parse_comparison};
use serde_json::Value;

/// Operations of one request. Members are many in one operation, not one in many.
const OPERATIONS_LIMIT: usize = 1_000;
/// Prefixes of attributes of the core schemas. Attributes of other schemas are not kept.
const CORE_SCHEMAS: [&str; 2] =
    ["urn:ietf:params:scim:schemas:core:2.0:user:", "urn:ietf:params:scim:schemas:core:2.0:group:"];

/// The verb of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchVerb {
    Add,
    Replace,
    Remove,
}

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeChange {
    pub verb: PatchVerb,
    pub path: AttributePath,
    pub value: Value,
}

/// The attribute of a change, in lower case: `name.givenname`, or `members[value eq "…"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributePath {
    pub attribute: String,
    /// Chooses among the values of the attribute.
    pub chosen: Option<Comparison>,
    /// An attribute of the value, in its own case.
    pub inner: Option<String>,
}

/// Reads the changes of a PATCH in their order.
///
/// # Errors
/// Returns what is wrong with the first operation that cannot be read.
pub fn read_changes(body: &Value) -> Result<Vec<AttributeChange>, ScimFailure> {
    let operations = find_member(body, "operations").and_then(Value::as_array);
    let operations = operations.ok_or_else(|| ScimFailure::syntax("Operations: a list is expected"))?;
    if operations.len() > OPERATIONS_LIMIT {
        return Err(ScimFailure::too_many(format!("Operations: at most {OPERATIONS_LIMIT}")));
    }
    let mut changes = Vec::new();
    for operation in operations {
        read_operation(operation, &mut changes)?;
    }
    Ok(changes)
}

fn read_operation(operation: &Value, changes: &mut Vec<AttributeChange>) -> Result<(), ScimFailure> {
    let verb = find_member(operation, "op").and_then(Value::as_str).unwrap_or_default();
    let verb = match verb.to_lowercase().as_str() {
        "add" => PatchVerb::Add,
        "replace" => PatchVerb::Replace,
        "remove" => PatchVerb::Remove,
        _ => return Err(ScimFailure::syntax("op: add, replace or remove is expected")),
    };
    let value = find_member(operation, "value").cloned().unwrap_or_default();
    match find_member(operation, "path").and_then(Value::as_str).map(str::trim) {
        Some(path) if !path.is_empty() => {
            changes.extend(AttributePath::parse(path)?.map(|path| AttributeChange { verb, path, value }));
        }
        _ if verb == PatchVerb::Remove => {
            return Err(ScimFailure::no_target("path: remove needs the path of an attribute"));
        }
        _ => {
            let Value::Object(members) = value else {
                return Err(ScimFailure::syntax(
                    "value: without a path, an object of attributes is expected",
                ));
            };
            for (name, value) in members {
                let path = AttributePath::parse(&name)?;
                changes.extend(path.map(|path| AttributeChange { verb, path, value }));
            }
        }
    }
    Ok(())
}

impl AttributePath {
    /// Reads a path. Returns `None` for an attribute of another schema than those of the core.
    fn parse(text: &str) -> Result<Option<AttributePath>, ScimFailure> {
        let refuse = || {
            let shown: String = text.chars().take(200).collect();
            ScimFailure::path(format!("{shown:?}: an attribute such as name.givenName is expected"))
        };
        let core = CORE_SCHEMAS.iter().find_map(|schema| {
            let (start, rest) = text.split_at_checked(schema.len())?;
            start.eq_ignore_ascii_case(schema).then_some(rest)
        });
        if core.is_none() && text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("urn:")) {
            return Ok(None);
        }
        let text = core.unwrap_or(text);
        let end = text.find(['[', '.']).unwrap_or(text.len());
        let (attribute, rest) = text.split_at(end);
        let (chosen, rest) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (filter, rest) = rest.rsplit_once(']').ok_or_else(refuse)?;
                let (chosen, more) = parse_comparison(filter.trim()).ok_or_else(refuse)?;
                if !more.is_empty() {
                    return Err(refuse());
                }
                (Some(chosen), rest)
            }
            None => (None, rest),
        };
        let inner = rest.strip_prefix('.').map(str::to_owned);
        if attribute.is_empty() || (inner.is_none() && !rest.is_empty()) {
            return Err(refuse());
        }
        Ok(Some(AttributePath { attribute: attribute.to_lowercase(), chosen, inner }))
    }
}

/// Returns a member of an object, whatever the case of its name.
pub fn find_member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    members.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(operations: &Value) -> Vec<(PatchVerb, String, Option<String>, Option<String>)> {
        let read = read_changes(&json!({"schemas": [], "Operations": operations})).unwrap();
        let shown = read.into_iter().map(|change| {
            let AttributePath { attribute, chosen, inner } = change.path;
            (change.verb, attribute, chosen.map(|chosen| chosen.value), inner)
        });
        shown.collect()
    }

    #[test]
    fn each_form_of_an_operation_names_its_attributes() {
        let own = |text: &str| Some(text.to_owned());
        let okta = json!([{"op": "replace", "value": {"active": false, "displayName": "R"}}]);
        let read = paths(&okta);
        assert_eq!(read.len(), 2);
        assert!(read.contains(&(PatchVerb::Replace, "active".to_owned(), None, None)));
        let entra = json!([
            {"op": "Replace", "path": "active", "value": "False"},
            {"op": "Add", "path": "emails[type eq \"work\"].value", "value": "a@example.com"},
            {"op": "remove", "path": "members[value eq \"7\"]"},
            {"op": "Replace", "path": "urn:ietf:params:scim:schemas:core:2.0:User:displayName", "value": "R"},
            {"op": "Replace", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department", "value": "x"},
            {"op": "replace", "value": {"name.givenName": "Robin",
                "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "x"}}}]);
        assert_eq!(
            paths(&entra),
            [
                (PatchVerb::Replace, "active".to_owned(), None, None),
                (PatchVerb::Add, "emails".to_owned(), own("work"), own("value")),
                (PatchVerb::Remove, "members".to_owned(), own("7"), None),
                (PatchVerb::Replace, "displayname".to_owned(), None, None),
                (PatchVerb::Replace, "name".to_owned(), None, own("givenName")),
            ]
        );
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for wrong in [
            json!({}),
            json!({"Operations": [{"op": "move", "path": "active"}]}),
            json!({"Operations": [{"op": "remove"}]}),
            json!({"Operations": [{"op": "replace", "value": false}]}),
            json!({"Operations": [{"op": "replace", "path": "emails[type eq", "value": 1}]}),
            json!({"Operations": [{"op": "replace", "path": "emails[type eq \"a\" and b eq \"c\"].value"}]}),
            json!({"Operations": vec![json!({"op": "add", "path": "active", "value": true}); 1_001]}),
        ] {
            assert!(read_changes(&wrong).is_err(), "{wrong}");
        }
    }
}
