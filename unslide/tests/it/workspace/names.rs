//! One type name, one meaning: a reader who knows a type in one file knows it in all.

use super::layering::top;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names that several modules have, each for its own: what they mean there is what they mean everywhere, and they
/// are written with their module.
const ACCEPTED: [(&str, &str); 6] = [
    ("Arguments", "the arguments of one command"),
    ("Command", "the subcommands of one command"),
    ("Config", "the sections that one service reads"),
    ("Error", "why one service or server did not start or ended"),
    ("Metrics", "the figures of one service"),
    ("Settings", "one section of the configuration"),
];

/// The public types that a file of production code declares.
fn types(source: &str) -> Vec<String> {
    let production = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let named = |line: &str| {
        let line = line.trim_start().strip_prefix("pub")?;
        let line =
            line.strip_prefix('(').map_or(Some(line), |rest| rest.split_once(')').map(|(_, rest)| rest))?;
        let mut words = line.split_whitespace();
        let is_type = matches!(words.next()?, "struct" | "enum" | "trait" | "type");
        let name = words.next().filter(|_| is_type)?;
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        // A macro's has a name once it is used.
        (!name.is_empty()).then(|| name.to_owned())
    };
    production.lines().filter_map(named).collect()
}

fn read(folder: &Path, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !matches!(name, "tests" | "testkit" | "benches" | "snapshots") {
                read(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") && name != "tests.rs" {
            let shown = path.strip_prefix(top()).unwrap().display().to_string();
            for name in types(&std::fs::read_to_string(&path).unwrap()) {
                found.entry(name).or_default().insert(shown.clone());
            }
        }
    }
}

#[test]
fn no_public_type_name_has_two_meanings() {
    let mut found = BTreeMap::new();
    for folder in ["crates", "services", "features", "commands", "tools", "unslide", "unslide-client"] {
        read(&top().join(folder), &mut found);
    }
    assert!(found.len() > 300, "{}", found.len());
    let accepted = |name: &String| ACCEPTED.iter().any(|(accepted, _)| accepted == name);
    let twice: Vec<_> = found.iter().filter(|(name, files)| files.len() > 1 && !accepted(name)).collect();
    assert!(twice.is_empty(), "give each its own name: {twice:#?}");
    for (name, why) in ACCEPTED {
        assert!(found.get(name).is_some_and(|files| files.len() > 1), "{name} ({why}) needs no exception");
    }
}
