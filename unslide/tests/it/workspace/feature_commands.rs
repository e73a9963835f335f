//! The walls between the commands of features, which are modules of one package: a module uses its own feature alone.

use super::circles::{PATHS, expand};
use super::features::find_owner;
use super::layering::{sources, top};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A name in front of `::`.
static PARENTS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(\w+)\s*::").unwrap());
/// Crates of the workspace.
static CRATES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bunslide_(\w+)").unwrap());

/// The features, named as the modules of their commands.
fn list_features() -> BTreeSet<String> {
    let folders = std::fs::read_dir(top().join("features")).unwrap();
    folders.map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('-', "_")).collect()
}

/// The modules that the root of the commands declares, and the lines of the root that declare none.
fn read_root() -> (BTreeSet<String>, Vec<String>) {
    let text = std::fs::read_to_string(top().join("commands/src/lib.rs")).unwrap();
    let (mut modules, mut other) = (BTreeSet::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        match line.strip_prefix("pub mod ").and_then(|line| line.strip_suffix(';')) {
            Some(module) => modules.insert(module.to_owned()),
            None => {
                other.push(line.to_owned());
                false
            }
        };
    }
    (modules, other)
}

/// Returns the feature that has a crate, such as `fault_analysis` for `fault_analysis_variables`.
fn find_feature<'f>(features: &'f BTreeSet<String>, name: &str) -> Option<&'f String> {
    let has_crate = |feature: &&String| {
        name.strip_prefix(feature.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    features.iter().filter(has_crate).max_by_key(|feature| feature.len())
}

/// Returns the names in the source of a feature's module that belong to other features: their modules and their crates.
fn find_foreign_names(features: &BTreeSet<String>, owner: &str, text: &str) -> BTreeSet<String> {
    let is_foreign = |name: &str| name != owner && features.contains(name);
    let mut found = BTreeSet::new();
    let paths = PATHS.find_iter(text).flat_map(|path| {
        expand(&path.as_str().split_whitespace().collect::<Vec<_>>().join(" ").replace(" as ", "::"))
    });
    for path in paths {
        let names = path.split("::").map(str::trim).filter(|name| is_foreign(name));
        found.extend(names.map(str::to_owned));
    }
    let parents = PARENTS.captures_iter(text).filter(|parent| is_foreign(&parent[1]));
    found.extend(parents.map(|parent| parent[1].to_owned()));
    let crates = CRATES.captures_iter(text);
    let crates = crates.filter(|name| find_feature(features, &name[1]).is_some_and(|other| other != owner));
    found.extend(crates.map(|name| name[0].to_owned()));
    found
}

#[test]
fn the_commands_of_a_feature_use_no_other_feature() {
    let features = list_features();
    let (mut looked, mut wrong) = (BTreeSet::new(), Vec::new());
    for path in sources() {
        let shown = path.strip_prefix(top()).unwrap().display().to_string();
        let Some(owner) = find_owner(&shown).filter(|_| shown.starts_with("commands/")) else { continue };
        let owner = owner.replace('-', "_");
        let text = std::fs::read_to_string(&path).unwrap();
        let names = find_foreign_names(&features, &owner, &text);
        wrong.extend(names.iter().map(|name| format!("{shown} names {name} of another feature")));
        looked.insert(owner);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(looked, read_root().0, "each module is read");
}

#[test]
fn a_name_of_another_feature_is_found_in_all_its_forms() {
    let features: BTreeSet<String> =
        ["captures", "export", "parquet_export", "people"].map(str::to_owned).into();
    for (text, found) in [
        ("use crate::people;", "people"),
        ("use crate::{\n    export::{FEATURE as OTHER, List},\n};", "export"),
        ("use crate::{captures::Arguments, people as persons};", "people"),
        ("use super::super::export::FEATURE;", "export"),
        ("fn run() { super::people::run() }", "people"),
        ("use super::*;\nconst OTHER: u8 = export::NUMBER;", "export"),
        ("//! Reads what [`crate::people`] writes.", "people"),
        ("use unslide_people::FEATURE;", "unslide_people"),
        ("use unslide_parquet_export_formats as formats;", "unslide_parquet_export_formats"),
        ("mod tests {\n    use crate::people::run;\n}", "people"),
    ] {
        let names = find_foreign_names(&features, "captures", text);
        assert_eq!(names, BTreeSet::from([found.to_owned()]), "{text}");
    }
    for text in [
        "use crate::captures::demo;",
        "use super::{Arguments, demo};",
        "use unslide_captures_formats::people_of;",
        "use unslide_exporter::Export;",
        "let export = people.len();",
    ] {
        assert_eq!(find_foreign_names(&features, "captures", text), BTreeSet::new(), "{text}");
    }
}

#[test]
fn each_module_of_the_commands_is_a_feature_in_the_list_of_the_client() {
    let (modules, other) = read_root();
    assert!(other.is_empty(), "the root of the commands has modules alone: {other:?}");
    let features = list_features();
    assert!(modules.is_subset(&features), "{:?}", modules.difference(&features));
    let list = std::fs::read_to_string(top().join("unslide-client/src/features.rs")).unwrap();
    let is_listed =
        |module: &&String| list.contains(&format!("\n    unslide_commands::{module}::FEATURE,\n"));
    let missing: Vec<&String> = modules.iter().filter(|module| !is_listed(module)).collect();
    assert!(missing.is_empty(), "unslide-client/src/features.rs lacks {missing:?}");
}
