//! The API document as an outline that a reviewer reads: a line for each operation, and the members of each schema. What
//! describes them in words is in the sources.

use serde_json::{Map, Value};
use std::fmt::Write;

/// Writes the outline of a document. Operations and schemas are sorted.
pub fn outline(document: &Value) -> String {
    let mut text = String::from("operations:\n");
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(methods) {
            writeln!(text, "  {}", operation_line(method, path, operation)).unwrap();
        }
    }
    text.push_str("schemas:\n");
    for (name, schema) in members(&document["components"]["schemas"]) {
        match schema["properties"].as_object() {
            Some(properties) => {
                writeln!(text, "  {name}:").unwrap();
                for (member, value) in properties {
                    writeln!(text, "    {member}{}: {}", optional(schema, member), shape(value)).unwrap();
                }
            }
            None => writeln!(text, "  {name}: {}", shape(schema)).unwrap(),
        }
    }
    text
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn optional(schema: &Value, member: &str) -> &'static str {
    let required = schema["required"].as_array().into_iter().flatten();
    if required.into_iter().any(|name| name == member) { "" } else { "?" }
}

/// `GET /v1/apps list_apps (limit?: integer) -> 200 AppList, 400, 401 [reports:read]`
fn operation_line(method: &str, path: &str, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(|parameter| {
        let name = parameter["name"].as_str().unwrap();
        let optional = if parameter["required"] == true { "" } else { "?" };
        format!("{name}{optional}: {}", shape(&parameter["schema"]))
    });
    let body = members(&operation["requestBody"]["content"])
        .map(|(kind, content)| format!("body {kind}: {}", shape(&content["schema"])));
    let taken: Vec<String> = parameters.chain(body).collect();
    let answers: Vec<String> = members(&operation["responses"])
        .map(|(status, response)| {
            let bodies =
                members(&response["content"]).filter(|(kind, _)| *kind != "application/problem+json");
            let shapes: Vec<String> = bodies
                .map(|(kind, content)| match kind.as_str() {
                    "application/json" => shape(&content["schema"]),
                    kind => kind.to_owned(),
                })
                .collect();
            format!("{status} {}", shapes.join(" or ")).trim_end().to_owned()
        })
        .collect();
    let scopes: Vec<&str> = operation["security"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|alternative| alternative["key"][0].as_str())
        .collect();
    format!(
        "{} {path} {} ({}) -> {} [{}]",
        method.to_uppercase(),
        operation["operationId"].as_str().unwrap(),
        taken.join(", "),
        answers.join(", "),
        scopes.join(" or ")
    )
}

/// A schema in one line.
fn shape(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap().to_owned();
    }
    for (key, between) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[key].as_array() {
            return parts.iter().map(shape).collect::<Vec<_>>().join(between);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => return "any".to_owned(),
    };
    let shapes: Vec<String> = types.into_iter().map(|kind| shape_of_type(kind, schema)).collect();
    shapes.join(" | ")
}

fn shape_of_type(kind: &str, schema: &Value) -> String {
    match kind {
        "array" => format!("[{}]{}", shape(&schema["items"]), bounds(schema, &["maxItems"])),
        "object" => match &schema["properties"] {
            Value::Object(properties) => format!("{{{}}}", inline(schema, properties)),
            _ if schema["additionalProperties"].is_object() => {
                format!("{{string: {}}}", shape(&schema["additionalProperties"]))
            }
            _ => "object".to_owned(),
        },
        "null" => "null".to_owned(),
        kind => {
            let format = schema["format"].as_str().map_or_else(String::new, |format| format!("({format})"));
            format!(
                "{kind}{format}{}",
                bounds(schema, &["minimum", "maximum", "maxLength", "pattern", "default"])
            )
        }
    }
}

fn inline(schema: &Value, properties: &Map<String, Value>) -> String {
    let member =
        |(name, value): (&String, &Value)| format!("{name}{}: {}", optional(schema, name), shape(value));
    properties.iter().map(member).collect::<Vec<_>>().join(", ")
}

fn bounds(schema: &Value, names: &[&str]) -> String {
    let set = names.iter().filter(|name| !schema[**name].is_null());
    set.map(|name| format!(" {name}={}", schema[*name])).collect()
}
