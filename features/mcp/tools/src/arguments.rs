//! Arguments of a tool: their schema for the client, and their values from a call.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use unslide_model::Moment;

/// The maximum size of one argument in bytes.
const ARGUMENT_BYTES_LIMIT: usize = 4_096;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Text,
    Number,
    /// A time for the API, from a time, a day or a duration before now.
    Time,
}

/// An argument of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: ArgumentKind,
    pub is_required: bool,
}

impl Argument {
    pub const fn optional_text(name: &'static str, description: &'static str) -> Argument {
        Argument { name, description, kind: ArgumentKind::Text, is_required: false }
    }

    pub const fn required_text(name: &'static str, description: &'static str) -> Argument {
        Argument { name, description, kind: ArgumentKind::Text, is_required: true }
    }

    pub const fn optional_time(name: &'static str, description: &'static str) -> Argument {
        Argument { name, description, kind: ArgumentKind::Time, is_required: false }
    }

    pub const fn optional_number(name: &'static str, description: &'static str) -> Argument {
        Argument { name, description, kind: ArgumentKind::Number, is_required: false }
    }
}

/// Returns the JSON schema of the arguments.
pub fn argument_schema(arguments: &[Argument]) -> JsonObject {
    let properties: JsonObject = arguments.iter().map(|one| (one.name.to_owned(), one_schema(one))).collect();
    let required: Vec<&str> = arguments.iter().filter(|one| one.is_required).map(|one| one.name).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(required));
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}

fn one_schema(argument: &Argument) -> Value {
    match argument.kind {
        ArgumentKind::Text | ArgumentKind::Time => {
            json!({"type": "string", "description": argument.description, "maxLength": ARGUMENT_BYTES_LIMIT})
        }
        ArgumentKind::Number => {
            json!({"type": "integer", "description": argument.description, "minimum": 0, "maximum": u32::MAX})
        }
    }
}

/// The checked arguments of a call, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentValues(Vec<(&'static str, String)>);

impl ArgumentValues {
    /// Checks the arguments of a call. `now` counts milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// Returns a sentence if an argument is unknown, missing, too long or of another type.
    pub fn from_call(
        known: &[Argument],
        given: Option<&JsonObject>,
        now: i64,
    ) -> Result<ArgumentValues, String> {
        let mut values = Vec::new();
        for (name, value) in given.into_iter().flatten() {
            let Some(argument) = known.iter().find(|one| one.name == name) else {
                let names: Vec<&str> = known.iter().map(|one| one.name).collect();
                return Err(format!("The tool has no such argument. It has: {}.", names.join(", ")));
            };
            if let Some(value) = read_value(argument, value, now)? {
                values.push((argument.name, value));
            }
        }
        let values = ArgumentValues(values);
        match known.iter().find(|one| one.is_required && values.get(one.name).is_none()) {
            Some(missing) => {
                Err(format!("The argument {} is missing: {}.", missing.name, missing.description))
            }
            None => Ok(values),
        }
    }

    /// Returns the value of an argument, if it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

fn read_value(argument: &Argument, value: &Value, now: i64) -> Result<Option<String>, String> {
    match (argument.kind, value) {
        (_, Value::Null) => Ok(None),
        (ArgumentKind::Text, Value::String(text)) if text.len() <= ARGUMENT_BYTES_LIMIT => {
            Ok(Some(text.clone()))
        }
        (ArgumentKind::Time, Value::String(text)) if text.len() <= ARGUMENT_BYTES_LIMIT => {
            let time = text.parse::<Moment>().map(|time| time.as_text(now));
            time.map(Some).map_err(|error| format!("The argument {} is {error}.", argument.name))
        }
        // Many clients send numbers as texts.
        (ArgumentKind::Number, Value::String(text)) if text.trim().parse::<u32>().is_ok() => {
            Ok(Some(text.trim().to_owned()))
        }
        (ArgumentKind::Text | ArgumentKind::Time, Value::String(_)) => {
            Err(format!("The argument {} is longer than {ARGUMENT_BYTES_LIMIT} bytes.", argument.name))
        }
        (ArgumentKind::Number, Value::Number(number)) => {
            match number.as_u64().and_then(|n| u32::try_from(n).ok()) {
                Some(number) => Ok(Some(number.to_string())),
                None => Err(format!("The argument {} is an integer from 0 to {}.", argument.name, u32::MAX)),
            }
        }
        (ArgumentKind::Text | ArgumentKind::Time, _) => {
            Err(format!("The argument {} is a string.", argument.name))
        }
        (ArgumentKind::Number, _) => Err(format!("The argument {} is an integer.", argument.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Argument] = &[
        Argument::required_text("id", "the id"),
        Argument::optional_number("page", "the page"),
        Argument::optional_time("since", "a time"),
    ];

    fn read(given: &Value) -> Result<ArgumentValues, String> {
        ArgumentValues::from_call(KNOWN, given.as_object(), 100_000_000)
    }

    #[test]
    fn arguments_are_checked_by_their_schema() {
        let values = read(&json!({"id": "a", "page": 2})).unwrap();
        assert_eq!((values.get("id"), values.get("page"), values.get("x")), (Some("a"), Some("2"), None));
        let texts = read(&json!({"id": "a", "page": "2", "since": "1h"})).unwrap();
        assert_eq!((texts.get("page"), texts.get("since")), (Some("2"), Some("1970-01-02T02:46:40Z")));
        let wrong = read(&json!({"id": "a", "since": "soon"})).unwrap_err();
        assert!(wrong.starts_with("The argument since is not a time"), "{wrong}");
        assert!(read(&json!({"id": "a", "page": null})).unwrap().get("page").is_none());
        for (given, problem) in [
            (json!({}), "The argument id is missing: the id."),
            (json!({"id": 3}), "The argument id is a string."),
            (json!({"id": "a", "page": "two"}), "The argument page is an integer."),
            (json!({"id": "a", "page": -1}), "The argument page is an integer from 0 to 4294967295."),
            (json!({"id": "a", "ID": "b"}), "The tool has no such argument. It has: id, page, since."),
            (json!({"id": "a".repeat(5_000)}), "The argument id is longer than 4096 bytes."),
        ] {
            assert_eq!(read(&given), Err(problem.to_owned()));
        }
        assert_eq!(argument_schema(KNOWN)["required"], json!(["id"]));
    }
}
