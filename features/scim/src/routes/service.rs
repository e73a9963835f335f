//! The capabilities of the service, which providers read before they send anything.

use super::request::{PAGE_LIMIT, ScimRequest};
use crate::protocol::{GROUP_SCHEMA, ScimAnswer, ScimFailure, USER_SCHEMA};
use crate::token::SCIM_PATH;
use serde_json::{Value, json};

type Outcome = Result<ScimAnswer, ScimFailure>;

/// `GET /scim/v2/ServiceProviderConfig`: which parts of the protocol are supported.
pub async fn show_config(_: ScimRequest) -> Outcome {
    let (yes, no) = (json!({"supported": true}), json!({"supported": false}));
    Ok(ScimAnswer::Found(json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "patch": yes,
        "filter": {"supported": true, "maxResults": PAGE_LIMIT},
        "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
        "changePassword": no,
        "sort": no,
        "etag": no,
        "authenticationSchemes": [{
            "type": "oauthbearertoken",
            "name": "SCIM token",
            "description": "A token of the tenant in the header Authorization: Bearer",
            "primary": true,
        }],
        "meta": {"resourceType": "ServiceProviderConfig", "location": format!("{SCIM_PATH}/ServiceProviderConfig")},
    })))
}

/// `GET /scim/v2/ResourceTypes`: users and groups, with their schemas.
pub async fn list_resource_types(_: ScimRequest) -> Outcome {
    let describe = |name: &str, endpoint: &str, schema: &str| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
            "id": name,
            "name": name,
            "endpoint": endpoint,
            "schema": schema,
            "meta": {"resourceType": "ResourceType", "location": format!("{SCIM_PATH}/ResourceTypes/{name}")},
        })
    };
    let types = [describe("User", "/Users", USER_SCHEMA), describe("Group", "/Groups", GROUP_SCHEMA)];
    Ok(ScimAnswer::list(&types, 1, 2))
}

/// `GET /scim/v2/Schemas`: the attributes that are kept.
pub async fn list_schemas(_: ScimRequest) -> Outcome {
    let name_parts = ["formatted", "familyName", "givenName"].map(|part| describe_text(part, false, "none"));
    let users = [
        describe_text("userName", true, "server"),
        describe_text("externalId", false, "server"),
        describe_attribute("active", "boolean", false),
        describe_text("displayName", false, "none"),
        describe_complex("name", false, name_parts.to_vec()),
        describe_complex("emails", true, describe_values(&["value", "type"])),
    ];
    let groups = [
        describe_text("displayName", true, "server"),
        describe_text("externalId", false, "none"),
        describe_complex("members", true, describe_values(&["value"])),
    ];
    let schemas =
        [describe_schema(USER_SCHEMA, "User", &users), describe_schema(GROUP_SCHEMA, "Group", &groups)];
    Ok(ScimAnswer::list(&schemas, 1, 2))
}

fn describe_schema(id: &str, name: &str, attributes: &[Value]) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
        "id": id,
        "name": name,
        "attributes": attributes,
        "meta": {"resourceType": "Schema", "location": format!("{SCIM_PATH}/Schemas/{id}")},
    })
}

fn describe_attribute(name: &str, kind: &str, is_required: bool) -> Value {
    json!({"name": name, "type": kind, "multiValued": false, "required": is_required, "caseExact": false,
        "mutability": "readWrite", "returned": "default", "uniqueness": "none"})
}

fn describe_text(name: &str, is_required: bool, uniqueness: &str) -> Value {
    let mut described = describe_attribute(name, "string", is_required);
    described["uniqueness"] = uniqueness.into();
    described["caseExact"] = (name == "externalId").into();
    described
}

fn describe_complex(name: &str, is_list: bool, parts: Vec<Value>) -> Value {
    let mut described = describe_attribute(name, "complex", false);
    described["multiValued"] = is_list.into();
    described["subAttributes"] = parts.into();
    described
}

fn describe_values(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| describe_text(name, false, "none")).collect()
}
