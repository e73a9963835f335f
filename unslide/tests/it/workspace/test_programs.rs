//! Which packages have test programs: each one costs its compilation and its link.

use super::layering::{folder_of, metadata, sources, top};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The package that links the tests of features as one program.
pub const FEATURE_TESTS: &str = "tests/feature-tests";

/// Returns the text of the sources that lie in a folder.
fn read_sources(sources: &[PathBuf], folder: &Path) -> String {
    let inside = sources.iter().filter(|path| path.starts_with(folder));
    inside.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Returns true if a source has tests: the attribute `test`, or one of a runtime such as `tokio::test`.
fn has_tests(source: &str) -> bool {
    let attributes = source.lines().filter_map(|line| line.trim_start().strip_prefix("#["));
    attributes
        .filter_map(|rest| rest.split([']', '(']).next())
        .any(|name| name.rsplit(':').next() == Some("test"))
}

#[test]
fn only_attributes_of_tests_count() {
    assert!(
        ["#[test]", "    #[tokio::test]", "#[tokio::test(flavor = \"x\")]"]
            .iter()
            .all(|text| has_tests(text))
    );
    assert!(!["#[cfg(test)]", "/// #[test]", "#[tested]", "#[test_case]"].iter().any(|text| has_tests(text)));
}

#[test]
fn unit_tests_have_a_program_and_only_they() {
    let (sources, mut wrong) = (sources(), Vec::new());
    for package in metadata()["packages"].as_array().unwrap() {
        let folder = folder_of(package);
        let has_program = |target: &&Value| {
            let kinds = target["kind"].as_array().unwrap();
            target["test"] == true && kinds.iter().any(|kind| kind == "lib" || kind == "bin")
        };
        let programs = package["targets"].as_array().unwrap().iter().filter(has_program).count();
        let needed = usize::from(has_tests(&read_sources(&sources, &top().join(&folder).join("src"))));
        if programs != needed {
            wrong.push(format!(
                "{folder}: {programs} programs of unit tests, {needed} needed; see `test` in its manifest"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The features whose tests need servers: the folders `features/X/tests/it`.
pub fn tested_features() -> BTreeSet<String> {
    let folders = std::fs::read_dir(top().join("features")).unwrap().map(|entry| entry.unwrap().path());
    folders
        .filter(|folder| folder.join("tests/it").exists())
        .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn one_program_has_the_tests_of_all_features() {
    let main = std::fs::read_to_string(top().join(FEATURE_TESTS).join("tests/it/main.rs")).unwrap();
    let expected: String = tested_features()
        .iter()
        .map(|feature| {
            let module = feature.replace('-', "_");
            format!("#[path = \"../../../../features/{feature}/tests/it/mod.rs\"]\nmod {module};\n")
        })
        .collect();
    assert!(
        main.ends_with(&format!("\n\n{expected}")),
        "{FEATURE_TESTS}/tests/it/main.rs has not:\n{expected}"
    );
}

/// A feature that only a dependency for tests asks for is missing in a build of single packages, which then compiles
/// dependencies once more.
#[test]
fn the_union_has_each_feature_that_tests_ask_for() {
    let (mut asked, mut known) = (BTreeSet::new(), BTreeSet::new());
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    for used in packages.iter().flat_map(|package| package["dependencies"].as_array().unwrap()) {
        let features = if used["kind"] == "dev" { &mut asked } else { &mut known };
        for feature in used["features"].as_array().unwrap() {
            features.insert((used["name"].as_str().unwrap(), feature.as_str().unwrap()));
        }
    }
    let missing: Vec<_> = asked.difference(&known).collect();
    assert!(missing.is_empty(), "tests/feature-union lacks features of dependencies: {missing:?}");
}
