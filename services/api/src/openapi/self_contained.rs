//! Makes the document one file that generators of clients read: published schemas inside, and bodies of bytes as
//! binary strings.

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// Prefix of references to schemas that are published beside the document.
const PUBLISHED: &str = "schemas/";
/// Prefix of references within a published schema.
const DEFINITIONS: &str = "#/$defs/";
/// Prefix of references within the document.
const COMPONENTS: &str = "#/components/schemas/";
/// The media types of bodies that are bytes.
const BINARY_TYPES: [&str; 3] = ["application/octet-stream", "application/zip", "application/gzip"];
/// Members of a published schema that have no meaning within another document.
const ROOT_MEMBERS: [&str; 3] = ["$schema", "$id", "title"];
/// Definitions that place frames in any part of a report. Generators make a class of each place, so the document leaves
/// them to the published schema.
const FRAME_PLACES: [&str; 6] =
    ["part", "backtrace", "enriched_frame", "sampled_frames", "sampled_stacks", "sampled_thread"];

/// A JSON Schema that is published beside the document, and its name among the document's own.
struct PublishedSchema {
    file: &'static str,
    name: &'static str,
    text: &'static str,
}

const PUBLISHED_SCHEMAS: [PublishedSchema; 4] = [
    PublishedSchema {
        file: "symbolication-v1.json",
        name: "EnrichedReport",
        text: include_str!("../../../../docs/schema/symbolication-v1.json"),
    },
    PublishedSchema {
        file: "explanation-v1.json",
        name: "Explanation",
        text: include_str!("../../../../docs/schema/explanation-v1.json"),
    },
    PublishedSchema {
        file: "metrics-v1.json",
        name: "MetricPayload",
        text: include_str!("../../../../docs/schema/metrics-v1.json"),
    },
    PublishedSchema {
        file: "sessions-v1.json",
        name: "SessionEvent",
        text: include_str!("../../../../docs/schema/sessions-v1.json"),
    },
];

/// Returns the text of a published schema.
pub fn find_published(file: &str) -> Option<&'static str> {
    PUBLISHED_SCHEMAS.iter().find(|schema| schema.file == file).map(|schema| schema.text)
}

/// Returns the document as JSON without references to other files.
///
/// # Errors
/// Returns an error if the document or a schema is no JSON.
pub fn render_document(document: &OpenApi) -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(document)?;
    rewrite_references(&mut document, &|reference| {
        let file = reference.strip_prefix(PUBLISHED)?;
        let published = PUBLISHED_SCHEMAS.iter().find(|schema| schema.file == file)?;
        Some(format!("{COMPONENTS}{}", published.name))
    });
    for schema in &PUBLISHED_SCHEMAS {
        let added = read_components(schema)?;
        if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
            schemas.extend(added);
        }
    }
    let operations = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in operations.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        operation.get_mut("requestBody").into_iter().for_each(describe_bytes);
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        responses.into_iter().flat_map(Map::values_mut).for_each(describe_bytes);
    }
    Ok(document)
}

/// Returns a published schema and its definitions under names of the document.
fn read_components(schema: &PublishedSchema) -> serde_json::Result<Map<String, Value>> {
    let mut root: Map<String, Value> = serde_json::from_str(schema.text)?;
    ROOT_MEMBERS.iter().for_each(|member| drop(root.remove(*member)));
    let mut definitions = match root.remove("$defs") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    if definitions.contains_key("enriched_frame") {
        root.remove("allOf");
        FRAME_PLACES.iter().for_each(|place| drop(definitions.remove(*place)));
    }
    root.insert("externalDocs".to_owned(), json!({ "url": format!("/{PUBLISHED}{}", schema.file) }));
    let named = |definition: &str| format!("{}{}", schema.name, to_camel_case(definition));
    let mut components = Map::from_iter([(schema.name.to_owned(), Value::Object(root))]);
    components.extend(definitions.into_iter().map(|(definition, value)| (named(&definition), value)));
    for component in components.values_mut() {
        rewrite_references(component, &|reference| {
            Some(format!("{COMPONENTS}{}", named(reference.strip_prefix(DEFINITIONS)?)))
        });
        widen_constants(component);
    }
    Ok(components)
}

/// Gives constants that are no texts their type: generators read only constant texts.
fn widen_constants(value: &mut Value) {
    match value {
        Value::Object(members) => {
            match members.get("const") {
                Some(Value::Bool(_)) => {
                    members.remove("const");
                    members.insert("type".to_owned(), "boolean".into());
                }
                Some(Value::Number(number)) => {
                    let only = json!([number]);
                    members.remove("const");
                    members.insert("type".to_owned(), "integer".into());
                    members.insert("enum".to_owned(), only);
                }
                _ => {}
            }
            members.values_mut().for_each(widen_constants);
        }
        Value::Array(items) => items.iter_mut().for_each(widen_constants),
        _ => {}
    }
}

fn to_camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    });
    words.collect()
}

/// Replaces the references for which there is another one.
fn rewrite_references(value: &mut Value, replace: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(new) = replace(reference)
            {
                *reference = new;
            }
            members.values_mut().for_each(|member| rewrite_references(member, replace));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_references(item, replace)),
        _ => {}
    }
}

/// Describes the bodies of a request or response that are bytes as binary strings, and forms as objects with a file.
fn describe_bytes(message: &mut Value) {
    let bodies = message.get_mut("content").and_then(Value::as_object_mut);
    for (media_type, body) in bodies.into_iter().flatten() {
        let binary = json!({ "type": "string", "format": "binary" });
        if BINARY_TYPES.contains(&media_type.as_str()) {
            body["schema"] = binary;
        } else if media_type == "multipart/form-data" && body["schema"]["type"] == "array" {
            body["schema"] =
                json!({ "type": "object", "properties": { "file": binary }, "required": ["file"] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_no_reference_to_another_file_and_no_bytes_as_lists_of_numbers() {
        let document = crate::build_document(&[]).unwrap();
        let text = document.to_string();
        assert!(
            !text.contains("\"$ref\":\"schemas/") && !text.contains(DEFINITIONS),
            "a reference leads out"
        );
        let upload = &document["paths"]["/v1/symbols"]["post"]["requestBody"]["content"];
        assert_eq!(upload["application/zip"]["schema"]["format"], "binary");
        assert_eq!(upload["multipart/form-data"]["schema"]["properties"]["file"]["format"], "binary");
        let report = &document["components"]["schemas"]["EnrichedReport"];
        assert_eq!(
            report["properties"]["symbolication"]["$ref"],
            format!("{COMPONENTS}EnrichedReportReport")
        );
        assert!(document["components"]["schemas"]["EnrichedReportFrameCounts"].is_object());
    }
}
