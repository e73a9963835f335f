//! Every setting with its meaning, default and value: what `config show` and `config example` print, and
//! `docs/settings.md`.

use super::Configuration;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// One setting.
pub struct Setting {
    /// The key with dots, such as `kafka.bootstrap`.
    pub key: String,
    /// What it means: the documentation of its field.
    pub meaning: String,
    /// What it is where nothing sets it.
    pub default: Value,
    /// A configuration without it is refused.
    pub required: bool,
}

/// Every setting, by key.
pub fn all() -> Vec<Setting> {
    let defaults = Configuration::default();
    let required: BTreeSet<String> = defaults.validate(None).into_iter().map(|problem| problem.key).collect();
    let mut meanings = BTreeMap::new();
    collect_meanings(&Configuration::schema(), "", &mut meanings);
    let values = defaults.values().into_iter();
    values
        .map(|(key, default)| Setting {
            meaning: meanings.remove(&key).unwrap_or_default(),
            required: required.contains(&key),
            default,
            key,
        })
        .collect()
}

impl Configuration {
    /// The value of every setting, by key. Secrets are shown as `***`.
    pub fn values(&self) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        let parts = [
            serde_json::to_value(&self.process),
            serde_json::to_value(&self.api),
            serde_json::to_value(&self.builder),
            serde_json::to_value(&self.indexer),
            serde_json::to_value(&self.symbolizer),
        ];
        for part in parts.into_iter().flatten() {
            collect_values(part, "", &mut values);
        }
        values
    }

    fn schema() -> Value {
        fn part<T: JsonSchema>() -> Value {
            let settings = SchemaSettings::default().with(|s| s.inline_subschemas = true);
            settings.into_generator().into_root_schema_for::<T>().to_value()
        }
        let parts = [
            part::<crate::boot::Process>(),
            part::<unslide_api::Config>(),
            part::<unslide_builder::Config>(),
            part::<unslide_indexer::Config>(),
            part::<unslide_symbolizer::Config>(),
        ];
        let sections = parts.into_iter().filter_map(|mut part| match part["properties"].take() {
            Value::Object(properties) => Some(properties),
            _ => None,
        });
        serde_json::json!({ "properties": sections.flatten().collect::<Map<_, _>>() })
    }
}

fn below(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Options that are passed on to librdkafka as they are: a table that is one setting.
const PASSED_ON: &str = "kafka.client";

fn collect_values(value: Value, prefix: &str, values: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if prefix != PASSED_ON => {
            fields.into_iter().for_each(|(key, value)| collect_values(value, &below(prefix, &key), values));
        }
        Value::Object(mut options) => {
            let secret = |name: &str| ["password", "secret", "key"].iter().any(|word| name.contains(word));
            options.iter_mut().filter(|(name, _)| secret(name)).for_each(|(_, value)| *value = "***".into());
            values.insert(prefix.to_owned(), Value::Object(options));
        }
        value => {
            values.insert(prefix.to_owned(), value);
        }
    }
}

fn collect_meanings(schema: &Value, prefix: &str, meanings: &mut BTreeMap<String, String>) {
    if let Some(text) = schema["description"].as_str() {
        meanings.insert(prefix.to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let Some(properties) = schema["properties"].as_object() else { return };
    properties.iter().for_each(|(key, schema)| collect_meanings(schema, &below(prefix, key), meanings));
}

/// A value as a TOML file would have it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        // JSON's strings, numbers, booleans and lists are TOML's, but for tables.
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name:?} = {value}"));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", ")).replace("{  }", "{}")
        }
        value => value.to_string(),
    }
}

/// The value and where it comes from, of each setting: what `config show --json` prints.
#[derive(Serialize)]
pub struct Effective {
    pub key: String,
    pub value: Value,
    /// `default`, a file or a variable.
    pub source: String,
}
