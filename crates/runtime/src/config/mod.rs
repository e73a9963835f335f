//! Configuration: defaults, then a TOML file, then the environment (`UNSLIDE_SECTION__KEY`).
//! Reading collects all problems, each with its origin, before it fails.

mod part;
mod problem;

pub use part::ConfigPart;
pub use problem::{ConfigProblem, Problems};

use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};
use unslide_model::json::{FieldsByName, OBJECT_EXPECTED};

/// The prefix of the variables' names.
const PREFIX: &str = "UNSLIDE_";
/// The separator of a key's parts in a variable's name. Variables without it are not
/// configuration (`UNSLIDE_CONFIG`, `UNSLIDE_CACHE`).
const SEPARATOR: &str = "__";

/// Returns the name of the variable that sets a key.
fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', SEPARATOR))
}

/// An environment variable for a key.
#[derive(Clone)]
struct Variable {
    name: String,
    text: String,
}

impl Variable {
    fn key_path(&self) -> Vec<String> {
        let key = self.name.trim_start_matches(PREFIX).to_lowercase();
        key.split(SEPARATOR).map(str::to_owned).collect()
    }

    /// Parses the value as a number, a boolean or a `[list]`. Any other value is text.
    fn parse_value(&self) -> Value {
        parse_scalar(&self.text).unwrap_or_else(|| {
            match self.text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                Some(items) => comma_list(items),
                None => self.text.as_str().into(),
            }
        })
    }
}

/// Parses a text as a TOML value. Returns `None` if it is not one, or is a date, which no setting uses.
fn parse_scalar(text: &str) -> Option<Value> {
    let mut table = format!("value = {text}").parse::<Table>().ok()?;
    table.remove("value").filter(|value| table.is_empty() && !matches!(value, Value::Datetime(_)))
}

/// Returns the list of a text with commas between its items.
fn comma_list(text: &str) -> Value {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| parse_scalar(item).unwrap_or_else(|| item.into())).collect::<Vec<Value>>().into()
}

/// The sources of a configuration.
pub struct Sources {
    file: Option<PathBuf>,
    variables: Vec<Variable>,
}

impl Sources {
    /// Uses a file and the process's environment.
    #[must_use]
    pub fn from_process(file: Option<&Path>) -> Sources {
        Sources::new(
            file,
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )
    }

    /// Uses a file and the given variables.
    #[must_use]
    pub fn new(file: Option<&Path>, variables: impl IntoIterator<Item = (String, String)>) -> Sources {
        let mut variables: Vec<Variable> = variables
            .into_iter()
            .filter(|(name, _)| name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(SEPARATOR)))
            .map(|(name, text)| Variable { name, text })
            .collect();
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        Sources { file: file.map(Path::to_path_buf), variables }
    }

    /// Reads the file and creates a reader.
    #[must_use]
    pub fn read(self) -> ConfigReader {
        let mut reader = ConfigReader {
            tree: Table::new(),
            origins: BTreeMap::new(),
            variables: self.variables,
            problems: Vec::new(),
            ignored: Vec::new(),
        };
        if let Some(file) = &self.file {
            match read_file(file) {
                Ok(table) => reader.take_file(table, file),
                Err(problem) => reader.problems.push(problem),
            }
        }
        for variable in reader.variables.clone() {
            reader.take_variable(&variable);
        }
        reader
    }
}

fn read_file(file: &Path) -> Result<Table, ConfigProblem> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigProblem::new("", format!("cannot read {}: {error}", file.display())))?;
    text.parse().map_err(|error: toml::de::Error| {
        ConfigProblem::new("", format!("{} is not TOML: {}", file.display(), error.to_string().trim_end()))
    })
}

/// Reads typed configurations from one set of sources and collects their problems.
pub struct ConfigReader {
    tree: Table,
    /// The file or variable of each leaf of the tree.
    origins: BTreeMap<String, String>,
    variables: Vec<Variable>,
    problems: Vec<ConfigProblem>,
    /// For each read configuration, its unknown keys (a key includes all keys below it).
    ignored: Vec<BTreeSet<String>>,
}

impl ConfigReader {
    fn take_file(&mut self, table: Table, file: &Path) {
        let mut keys = Vec::new();
        collect_leaves("", &Value::Table(table.clone()), &mut keys);
        self.origins.extend(keys.into_iter().map(|key| (key, file.display().to_string())));
        self.tree = table;
    }

    fn take_variable(&mut self, variable: &Variable) {
        let path = variable.key_path();
        let Some((last, sections)) = path.split_last() else { return };
        let mut table = &mut self.tree;
        for section in sections {
            let inner = table.entry(section.clone()).or_insert_with(|| Table::new().into());
            if !inner.is_table() {
                *inner = Table::new().into();
            }
            let Value::Table(inner) = inner else { return };
            table = inner;
        }
        table.insert(last.clone(), variable.parse_value());
        self.origins.insert(path.join("."), format!("the variable {}", variable.name));
    }

    /// Reads a configuration from the whole tree. Each of its fields is a section. Records wrong values as
    /// problems and replaces them by their defaults, so that one pass finds them all. Use the result only
    /// if [`ConfigReader::finish`] returns no error.
    pub fn read_whole<T: DeserializeOwned + Default>(&mut self) -> T {
        self.read_at("", self.tree.clone())
    }

    /// Reads one section, or returns its default if it is absent.
    pub fn read_section<T: DeserializeOwned + Default>(&mut self, name: &str) -> T {
        let section = self.tree.get(name).and_then(Value::as_table).cloned().unwrap_or_default();
        let others: BTreeSet<String> = self.tree.keys().filter(|key| *key != name).cloned().collect();
        let value = self.read_at(name, section);
        if let Some(ignored) = self.ignored.last_mut() {
            ignored.extend(others);
        }
        value
    }

    fn read_at<T: DeserializeOwned + Default>(&mut self, prefix: &str, mut tree: Table) -> T {
        // Variables that were split at their commas.
        let mut lists = BTreeSet::new();
        loop {
            let mut ignored = BTreeSet::new();
            let read = {
                let mut note = |path: serde_ignored::Path<'_>| {
                    ignored.insert(join_key(prefix, &path.to_string()));
                };
                let values = serde_ignored::Deserializer::new(Value::Table(tree.clone()), &mut note);
                serde_path_to_error::deserialize::<_, T>(FieldsByName(values))
            };
            let error = match read {
                Ok(value) => {
                    self.ignored.push(ignored);
                    return value;
                }
                Err(error) => error,
            };
            let path: Vec<String> = error.path().iter().map(ToString::to_string).collect();
            let key = join_key(prefix, &path.join("."));
            // A password of digits only is still a text.
            if find_at_path(&tree, &path)
                .is_some_and(|value| !matches!(value, Value::String(_) | Value::Table(_)))
                && let Some(text) = self.raw_text(&key)
                && replace_at_path(&mut tree, &path, Some(Value::String(text)))
            {
                continue;
            }
            if error.inner().message().contains("expected a sequence")
                && let Some(text) = self.raw_text(&key)
                && lists.insert(key.clone())
                && replace_at_path(&mut tree, &path, Some(comma_list(&text)))
            {
                continue;
            }
            let message = describe_problem(&key, error.inner());
            self.record_problem(ConfigProblem::new(key, message));
            if !replace_at_path(&mut tree, &path, None) {
                self.ignored.push(ignored);
                return T::default();
            }
        }
    }

    /// Returns the text of the variable that set `key`.
    fn raw_text(&self, key: &str) -> Option<String> {
        let variable = self.variables.iter().find(|variable| variable.key_path().join(".") == key)?;
        Some(variable.text.clone())
    }

    /// Records a problem with the origin of its value. Ignores duplicates.
    pub fn record_problem(&mut self, mut problem: ConfigProblem) {
        problem.origin = problem.origin.or_else(|| self.find_origin(&problem.key).map(str::to_owned));
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Records all problems of a configuration that was read.
    pub fn note_all(&mut self, problems: impl IntoIterator<Item = ConfigProblem>) {
        problems.into_iter().for_each(|problem| self.record_problem(problem));
    }

    /// Returns the file or variable that set a key's value, or `None` for a default.
    #[must_use]
    pub fn find_origin(&self, key: &str) -> Option<&str> {
        self.origins.get(key).map(String::as_str)
    }

    /// Ends the reading. A key that no configuration knows is also a problem.
    ///
    /// # Errors
    /// Returns [`Problems`] with all problems, if there are any.
    pub fn finish(mut self) -> Result<(), Problems> {
        let mut keys = Vec::new();
        collect_leaves("", &Value::Table(std::mem::take(&mut self.tree)), &mut keys);
        for key in keys {
            let unknown = self.ignored.iter().all(|ignored| {
                ignored.iter().any(|i| {
                    key.strip_prefix(i.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                })
            });
            if unknown && !self.ignored.is_empty() {
                self.record_problem(ConfigProblem::new(key, "no such key"));
            }
        }
        self.problems.sort();
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }
}

fn join_key(prefix: &str, key: &str) -> String {
    match (prefix.is_empty(), key.is_empty()) {
        (true, _) => key.to_owned(),
        (_, true) => prefix.to_owned(),
        _ => format!("{prefix}.{key}"),
    }
}

fn find_at_path<'a>(tree: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(tree.get(first)?, |value, key| value.as_table()?.get(key))
}

/// Sets or removes the value at a path. Returns false if there is no value.
fn replace_at_path(tree: &mut Table, path: &[String], new: Option<Value>) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        return match new {
            Some(value) => tree.insert(first.clone(), value).is_some(),
            None => tree.remove(first).is_some(),
        };
    }
    match tree.get_mut(first) {
        // A list with one wrong element is removed as a whole.
        Some(Value::Array(_)) => tree.remove(first).is_some(),
        Some(Value::Table(inner)) => replace_at_path(inner, rest, new),
        _ => false,
    }
}

/// Describes the problem of a value. Does not repeat values of keys that may be secrets.
fn describe_problem(key: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let is_table = message == OBJECT_EXPECTED || message.contains(", expected struct ");
    if is_table {
        return "a table is expected".to_owned();
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let secret = ["secret", "password", "token", "key", "url"].iter().any(|word| last.contains(word));
    match message.split_once(", expected ") {
        Some((_, expected)) if secret => format!("the value (not shown) does not fit: expected {expected}"),
        None if secret => "the value (not shown) does not fit".to_owned(),
        _ => message.to_owned(),
    }
}

fn collect_leaves(prefix: &str, value: &Value, keys: &mut Vec<String>) {
    let tables = |items: &[Value]| !items.is_empty() && items.iter().all(Value::is_table);
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| collect_leaves(&join_key(prefix, key), value, keys));
        }
        Value::Array(items) if tables(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| collect_leaves(&join_key(prefix, &index.to_string()), item, keys));
        }
        _ => keys.push(prefix.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::net::SocketAddr;
    use unslide_model::Secret;

    #[derive(Debug, Deserialize)]
    #[serde(default)]
    struct Section {
        listen: SocketAddr,
        size: u32,
        secret: Secret,
        names: Vec<String>,
    }

    impl Default for Section {
        fn default() -> Section {
            let listen = SocketAddr::from(([127, 0, 0, 1], 80));
            Section { listen, size: 7, secret: Secret::default(), names: Vec::new() }
        }
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Config {
        first: Section,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Other {
        second: Section,
    }

    fn reader(file: &str, variables: &[(&str, &str)]) -> (tempfile::TempDir, ConfigReader) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unslide.toml");
        std::fs::write(&path, file).unwrap();
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let reader = Sources::new(Some(&path), variables).read();
        (folder, reader)
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_defaults() {
        let (_folder, mut reader) = reader(
            "[first]\nsize = 1\nlisten = '127.0.0.1:1'\n",
            &[
                ("UNSLIDE_FIRST__SIZE", "2"),
                ("UNSLIDE_FIRST__SECRET", "00123"),
                ("UNSLIDE_FIRST__NAMES", "[a, b]"),
                ("UNSLIDE_CACHE", "x"),
            ],
        );
        let config: Config = reader.read_whole();
        assert_eq!((config.first.size, config.first.listen.port()), (2, 1));
        assert_eq!(config.first.secret.reveal(), "00123");
        assert_eq!(config.first.names, ["a", "b"]);
        reader.finish().unwrap();
    }

    #[test]
    fn a_list_in_a_variable_may_have_commas_alone() {
        for (text, names) in [
            ("a, b", vec!["a", "b"]),
            ("a", vec!["a"]),
            ("127.0.0.0/8,::1", vec!["127.0.0.0/8", "::1"]),
            ("", vec![]),
            ("[a]", vec!["a"]),
        ] {
            let (_folder, mut reader) = reader("", &[("UNSLIDE_FIRST__NAMES", text)]);
            let config: Config = reader.read_whole();
            assert_eq!(config.first.names, names, "{text}");
            reader.finish().unwrap();
        }
        let (_folder, mut file) = reader("[first]\nnames = 'a,b'\n", &[("UNSLIDE_FIRST__SIZE", "1,2")]);
        let _: Config = file.read_whole();
        let text = file.finish().unwrap_err().to_string();
        assert!(text.contains("first.names: ") && text.contains("first.size: "), "{text}");
    }

    #[test]
    fn everything_wrong_is_said_at_once_with_its_origin() {
        let (_folder, mut reader) = reader(
            "[first]\nsize = 'big'\nlisten = 'nowhere'\ncolour = 1\n[second]\nsize = 3\nshape = 2\n[third]\nx = 1\n",
            &[("UNSLIDE_SECOND__LISTEN", "here"), ("UNSLIDE_FIRST__SECRT", "123")],
        );
        let _: Config = reader.read_whole();
        let other: Other = reader.read_whole();
        assert_eq!(other.second.size, 3);
        reader.record_problem(ConfigProblem::new("second.size", "must be even"));
        let problems = reader.finish().unwrap_err().0;
        let keys: Vec<&str> = problems.iter().map(|p| p.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "first.colour",
                "first.listen",
                "first.secrt",
                "first.size",
                "second.listen",
                "second.shape",
                "second.size",
                "third.x"
            ]
        );
        let text = problems.iter().map(|p| format!("{p}\n")).collect::<String>();
        assert!(
            text.contains("second.listen: ") && text.contains("(from the variable UNSLIDE_SECOND__LISTEN)"),
            "{text}"
        );
        assert!(text.contains("first.colour: no such key (from "), "{text}");
        assert!(text.contains("unslide.toml"), "{text}");
    }

    #[test]
    fn sizes_and_durations_have_units() {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Bounds {
            #[serde(with = "unslide_model::units::bytes")]
            cache: u64,
            #[serde(with = "unslide_model::units::days")]
            keep: u32,
        }
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Whole {
            bounds: Bounds,
        }
        let (_folder, mut fine) = reader("[bounds]\ncache = '10 GiB'\n", &[("UNSLIDE_BOUNDS__KEEP", "30d")]);
        let Whole { bounds } = fine.read_whole();
        assert_eq!((bounds.cache, bounds.keep), (10 << 30, 30));
        fine.finish().unwrap();
        let (_folder, mut bad) = reader("[bounds]\ncache = 10\n", &[("UNSLIDE_BOUNDS__KEEP", "30")]);
        let _: Whole = bad.read_whole();
        let text = bad.finish().unwrap_err().to_string();
        assert!(text.contains("bounds.cache: invalid type: integer `10`"), "{text}");
        assert!(text.contains("bounds.keep: \"30\" is not a duration such as"), "{text}");
    }

    #[test]
    fn a_section_is_a_table_and_no_list_of_its_values() {
        for value in ["['127.0.0.1:1', 3]", "[]", "3", "'x'"] {
            let (_folder, mut reader) = reader(&format!("first = {value}\n"), &[]);
            let config: Config = reader.read_whole();
            assert_eq!(config.first.size, 7, "{value}");
            let text = reader.finish().unwrap_err().to_string();
            assert!(text.contains("first: a table is expected"), "{value}: {text}");
        }
    }

    #[test]
    fn a_secret_of_the_wrong_type_is_not_repeated() {
        let (_folder, mut reader) = reader("[first]\nsecret = 987654\n", &[]);
        let _: Config = reader.read_whole();
        let text = reader.finish().unwrap_err().to_string();
        assert!(text.contains("first.secret") && !text.contains("987654"), "{text}");
    }

    #[test]
    fn a_file_that_is_missing_or_no_toml_is_a_problem() {
        let mut missing = Sources::new(Some(Path::new("/does/not/exist.toml")), []).read();
        let _: Config = missing.read_whole();
        assert!(missing.finish().unwrap_err().to_string().contains("/does/not/exist.toml"));
        let (_folder, mut broken) = reader("[first\n", &[("UNSLIDE_FIRST__SIZE", "-1")]);
        let _: Config = broken.read_whole();
        let text = broken.finish().unwrap_err().to_string();
        assert!(text.contains("is not TOML") && text.contains("first.size"), "{text}");
    }
}
