//! One part of the configuration as data, for commands that list every setting.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

/// The values of some sections, and their schema.
#[derive(Clone, Debug)]
pub struct ConfigPart {
    /// The sections with their values. Secrets are not shown.
    pub values: Value,
    /// The JSON Schema of the sections. Its descriptions are what the settings mean.
    pub schema: Value,
}

impl ConfigPart {
    /// Describes a configuration with each field a section.
    pub fn of<T: JsonSchema + Serialize>(config: &T) -> ConfigPart {
        let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
        ConfigPart {
            values: serde_json::to_value(config).unwrap_or_default(),
            schema: settings.into_generator().into_root_schema_for::<T>().to_value(),
        }
    }
}
