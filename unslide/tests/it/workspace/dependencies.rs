//! Each dependency is used: the sources of the package name its crate, and a manifest names each dependency of the workspace.

use super::layering::{manifests, top};
use super::test_programs::{FEATURE_TESTS, tested_features};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The package that names all dependencies so that cargo chooses the same features for one package as for all.
const UNION: &str = "tests/feature-union";

/// Returns true for the tests of a feature, which are modules of another package.
fn has_feature_tests(folder: &Path) -> bool {
    let inside: Vec<_> =
        folder.strip_prefix(top().join("features")).map_or(Vec::new(), |path| path.iter().collect());
    inside.len() == 2 && inside[1] == "tests"
}

/// Appends the code of each source below a folder without comments. Leaves out the folders of other packages.
fn append_code(folder: &Path, is_package: bool, code: &mut String) {
    if !is_package && (folder.join("Cargo.toml").exists() || has_feature_tests(folder)) {
        return;
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            append_code(&path, false, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                writeln!(code, "{line}").unwrap();
            }
        }
    }
}

/// Returns the code of a package, which may lie in other folders as well.
fn read_code(folder: &str) -> String {
    let mut folders = vec![top().join(folder)];
    match folder {
        // The checks of the fuzzer.
        "tests" => folders.push(top().join("fuzz")),
        FEATURE_TESTS => folders
            .extend(tested_features().iter().map(|name| top().join("features").join(name).join("tests"))),
        _ => {}
    }
    let mut code = String::new();
    for folder in folders {
        append_code(&folder, true, &mut code);
    }
    code
}

/// Returns true if code has a path into a crate, a macro named like it, or imports it.
fn names_crate(code: &str, name: &str) -> bool {
    Regex::new(&format!(r"\b{name}(::|!)|\b(use|extern crate) {name}\b")).unwrap().is_match(code)
}

/// The names of the crates that a manifest depends on, for any purpose.
fn dependencies(manifest: &Value) -> impl Iterator<Item = String> {
    let name =
        |dependency: &Value| dependency["rename"].as_str().or(dependency["name"].as_str()).map(str::to_owned);
    manifest["dependencies"].as_array().unwrap().iter().map(move |dependency| name(dependency).unwrap())
}

fn find_unused(code: &str, dependencies: impl Iterator<Item = String>) -> Vec<String> {
    dependencies.filter(|name| !names_crate(code, &name.replace('-', "_"))).collect()
}

#[test]
fn the_sources_of_a_package_name_each_of_its_dependencies() {
    let mut unused = Vec::new();
    for (folder, manifest) in manifests().iter().filter(|(folder, _)| *folder != UNION) {
        let found = find_unused(&read_code(folder), dependencies(manifest));
        unused.extend(found.iter().map(|name| format!("{folder}/Cargo.toml: {name}")));
    }
    assert!(unused.is_empty(), "no source of these packages names the dependency: {unused:#?}");
}

#[test]
fn a_manifest_names_each_dependency_of_the_workspace() {
    let workspace = fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let (_, table) = workspace.split_once("\n[workspace.dependencies]\n").unwrap();
    let table = table.split_once("\n[").map_or(table, |(table, _)| table);
    let key = Regex::new(r"(?m)^([\w-]+)[ .]").unwrap();
    let used: BTreeSet<String> = manifests().values().flat_map(dependencies).collect();
    let names: Vec<&str> = key.captures_iter(table).map(|found| found.extract::<1>().1[0]).collect();
    assert!(names.len() > 100, "{names:?}");
    let unused: Vec<&str> = names.into_iter().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "no manifest names these dependencies of the workspace: {unused:?}");
}

#[test]
fn an_unused_dependency_is_recognised() {
    let code = "use serde::Deserialize;\nuse regex as patterns;\n#[tokio::main]\nfn main() { criterion!(); time_of_day(); my_uuid::new() }\n";
    let names = ["serde", "regex", "tokio", "criterion", "time", "uuid", "unslide-model"].map(str::to_owned);
    assert_eq!(find_unused(code, names.into_iter()), ["time", "uuid", "unslide-model"]);
}
