//! The settings of an installation that is one cell of several.

use crate::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use unslide_model::Secret;

/// The directory of cells, and the name of this cell in it. Empty: there is one cell, and no directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct CellSettings {
    /// The name of this cell in the directory.
    pub name: String,
    /// The directory's URL with its password: `postgres://user:password@host:5432/database`.
    #[schemars(with = "String")]
    pub directory: Secret,
    /// The settings files of the other cells, by name. Only commands of operators read them: `unslide cells` and
    /// `unslide tenant move`.
    pub files: BTreeMap<String, PathBuf>,
}

impl CellSettings {
    /// Returns true if this is one cell of several.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.directory.reveal().is_empty()
    }

    /// Returns how the database of the directory is reached. `postgres` says which logins the operator allows.
    #[must_use]
    pub fn directory_settings(&self, postgres: &Settings) -> Settings {
        Settings { url: self.directory.clone(), any_login: postgres.any_login, ..Settings::default() }
    }

    /// Returns everything that is wrong with these settings: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let directory = self.directory.reveal();
        if !self.is_on() {
            if !self.name.is_empty() || !self.files.is_empty() {
                problems.push(("directory", "is not set: cells need a directory".to_owned()));
            }
            return problems;
        }
        if !(directory.starts_with("postgres://") || directory.starts_with("postgresql://")) {
            problems.push(("directory", "must begin with postgres://".to_owned()));
        }
        if self.name.is_empty() {
            problems.push(("name", "is not set: it says which of the directory's cells this is".to_owned()));
        }
        problems
    }
}
