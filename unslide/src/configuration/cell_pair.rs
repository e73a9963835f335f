//! The settings of two cells, for a command that moves something from one to the other.

use super::{Administration, Configuration, Configured, ServerSections};
use std::collections::BTreeMap;
use std::path::Path;
use unslide_runtime::config::{Problems, Sources};

/// The end of each setting with a key that seals secrets of tenants.
const SEALING_KEY: &str = ".sealing_key";

/// The settings of one cell.
pub struct CellConfiguration {
    pub administration: Administration,
    pub objects: unslide_artifacts::Settings,
    /// The keys that seal secrets of tenants, by setting.
    sealing_keys: BTreeMap<String, String>,
}

impl CellConfiguration {
    /// Returns true if a setting of either cell has a key that seals secrets.
    pub fn knows_sealing_keys(&self, other: &CellConfiguration) -> bool {
        !self.sealing_keys.is_empty() || !other.sealing_keys.is_empty()
    }

    /// Lists the settings of sealing keys that differ.
    pub fn list_other_sealing_keys(&self, other: &CellConfiguration) -> Vec<String> {
        let mut names: Vec<&String> = self.sealing_keys.keys().chain(other.sealing_keys.keys()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| self.sealing_keys.get(*name) != other.sealing_keys.get(*name));
        names.into_iter().cloned().collect()
    }
}

/// Loads the settings of this cell: those of the process.
///
/// # Errors
/// Returns everything that is wrong with them.
pub fn load_own_cell(configured: &Configured) -> Result<CellConfiguration, Problems> {
    let file = configured.config.as_deref();
    load_cell(|| Sources::from_process(file))
}

/// Loads the settings of another cell from its file alone. Variables of this process are those of this cell.
///
/// # Errors
/// Returns everything that is wrong with them.
pub fn load_other_cell(file: &Path) -> Result<CellConfiguration, Problems> {
    load_cell(|| Sources::new(Some(file), []))
}

fn load_cell(sources: impl Fn() -> Sources) -> Result<CellConfiguration, Problems> {
    let mut reader = sources().read();
    let configuration = Configuration::from_reader(&mut reader);
    reader.note_all(configuration.server_problems());
    reader.finish()?;
    // A second reader: one that reads everything would take each key for a known one.
    let everything: BTreeMap<String, serde_json::Value> = sources().read().read_whole();
    let mut sealing_keys = BTreeMap::new();
    for (name, value) in &everything {
        collect_sealing_keys(name, value, &mut sealing_keys);
    }
    let ServerSections { administration, objects } = configuration.into_servers();
    Ok(CellConfiguration { administration, objects, sealing_keys })
}

fn collect_sealing_keys(name: &str, value: &serde_json::Value, found: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (member, value) in members {
                collect_sealing_keys(&format!("{name}.{member}"), value, found);
            }
        }
        serde_json::Value::String(text) if name.ends_with(SEALING_KEY) && !text.is_empty() => {
            found.insert(name.to_owned(), text.clone());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> CellConfiguration {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("unslide.toml");
        let whole = format!(
            "{text}\n[postgres]\nurl = \"postgres://u@h/d\"\n[kafka]\nbootstrap = \"k:9092\"\n[objects]\nbucket = \"reports\"\n"
        );
        std::fs::write(&file, whole).unwrap();
        load_other_cell(&file).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn sealing_keys_that_differ_are_named_and_the_section_of_cells_is_read() {
        let key = |byte: &str| format!("{}=", byte.repeat(43));
        let west = load(&format!(
            "[cells]\nname = \"west\"\ndirectory = \"postgres://u@h/d\"\n[cells.files]\neast = \"east.toml\"\n[api.chat]\nsealing_key = \"{0}\"\n[api.tickets]\nsealing_key = \"{0}\"",
            key("A")
        ));
        assert_eq!(west.administration.cells.files["east"], Path::new("east.toml"));
        let east = load(&format!(
            "[api.chat]\nsealing_key = \"{}\"\n[api.tickets]\nsealing_key = \"{}\"",
            key("A"),
            key("E")
        ));
        assert_eq!(west.list_other_sealing_keys(&east), ["api.tickets.sealing_key"]);
        assert!(west.knows_sealing_keys(&east) && !load("").knows_sealing_keys(&load("")));
    }
}
