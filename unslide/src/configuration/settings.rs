//! Every setting with its meaning, default and value, for `config show`, `config example` and
//! `docs/settings.md`.

use super::Configuration;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use unslide_runtime::config::ConfigPart;

pub struct Setting {
    /// The key with dots, such as `kafka.bootstrap`.
    pub key: String,
    /// Its meaning: the documentation of its field.
    pub meaning: String,
    /// Its value if nothing sets it.
    pub default: Value,
    /// A configuration without it is refused.
    pub required: bool,
}

/// Returns every setting, by key.
pub fn list_settings() -> Vec<Setting> {
    let defaults = Configuration::default();
    let required: BTreeSet<String> = defaults.validate(None).into_iter().map(|problem| problem.key).collect();
    let mut meanings = BTreeMap::new();
    for part in defaults.list_parts() {
        collect_meanings(&(part.build_schema)(), "", &mut meanings);
    }
    let values = defaults.setting_values().into_iter();
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
    /// Returns the value of every setting, by key. Secrets are shown as `***`.
    pub fn setting_values(&self) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        for part in self.list_parts() {
            collect_values(part.values, "", &mut values);
        }
        values
    }

    /// Returns every part: those of services and those of features.
    fn list_parts(&self) -> Vec<ConfigPart> {
        let mut parts = vec![
            ConfigPart::from_config(&self.process),
            ConfigPart::from_config(&self.api),
            ConfigPart::from_config(&self.builder),
            ConfigPart::from_config(&self.indexer),
            ConfigPart::from_config(&self.symbolizer),
            ConfigPart::from_config(&self.door),
        ];
        let of_features = self.features.iter().filter_map(|feature| feature.settings.as_ref());
        parts.extend(of_features.map(|settings| settings.part.clone()));
        parts
    }
}

fn join_key(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Options that are passed on to librdkafka without changes: a table that is one setting.
const PASSED_ON: &str = "kafka.client";
/// The settings files of cells by name: another such table.
const CELL_FILES: &str = "cells.files";

fn collect_values(value: Value, prefix: &str, values: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if prefix != PASSED_ON && prefix != CELL_FILES => {
            fields
                .into_iter()
                .for_each(|(key, value)| collect_values(value, &join_key(prefix, &key), values));
        }
        Value::Object(mut options) if prefix == PASSED_ON => {
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
    properties.iter().for_each(|(key, schema)| collect_meanings(schema, &join_key(prefix, key), meanings));
}

/// Returns a value as a TOML file would have it.
pub fn format_toml(value: &Value) -> String {
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

/// The value and the source of each setting, as `config show --json` prints them.
#[derive(Serialize)]
pub struct Effective {
    pub key: String,
    pub value: Value,
    /// `default`, a file or a variable.
    pub source: String,
}
