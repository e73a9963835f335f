//! One part of the configuration as data, for commands that list all settings.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

/// The values of some sections, and their schema.
#[derive(Clone, Debug)]
pub struct ConfigPart {
    /// The sections with their values. Secrets are not shown.
    pub values: Value,
    /// Builds the JSON Schema of the sections. Its descriptions explain the settings. Only commands that list settings need it.
    pub build_schema: fn() -> Value,
}

impl ConfigPart {
    /// Describes a configuration. Each field is a section.
    pub fn from_config<T: JsonSchema + Serialize>(config: &T) -> ConfigPart {
        ConfigPart {
            values: serde_json::to_value(config).unwrap_or_default(),
            build_schema: build_schema::<T>,
        }
    }
}

fn build_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
