//! What the workspace costs its builds and its tests, below the ceilings of `tests/budgets.toml`.

use super::layering::top;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const CEILINGS: &str = "tests/budgets.toml";
/// The table that `scripts/build-times` wrote last.
const BUILD_TIMES: &str = "tests/build-times.txt";

fn read_table(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folders of the workspace's members. A member that ends with `/*` names each folder with a manifest.
fn list_members(top: &Path) -> Vec<PathBuf> {
    let workspace = read_table(&top.join("Cargo.toml"));
    let mut folders = Vec::new();
    for member in workspace["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        match member.strip_suffix("/*") {
            Some(parent) => {
                let entries = std::fs::read_dir(top.join(parent)).unwrap().map(|entry| entry.unwrap().path());
                folders.extend(entries.filter(|folder| folder.join("Cargo.toml").exists()));
            }
            None => folders.push(top.join(member)),
        }
    }
    folders
}

/// The sources that cargo finds by itself: `FOLDER/NAME.rs` and `FOLDER/NAME/main.rs`.
fn find_targets(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let main = |path: PathBuf| if path.is_dir() { path.join("main.rs") } else { path };
    let sources = entries.map(|entry| main(entry.unwrap().path()));
    sources.filter(|path| path.extension().is_some_and(|end| end == "rs") && path.exists()).collect()
}

/// The number of a package's programs of tests, by the rules of cargo: a target that a manifest lists replaces a target that is
/// found under its path, and says whether it is tested.
fn count_test_programs(folder: &Path) -> usize {
    let manifest = read_table(&folder.join("Cargo.toml"));
    let mut is_tested: BTreeMap<(&str, PathBuf), bool> = BTreeMap::new();
    let discovers = |key: &str| manifest["package"].get(key).and_then(Value::as_bool).unwrap_or(true);
    let (library, program) = (folder.join("src/lib.rs"), folder.join("src/main.rs"));
    if library.exists() {
        is_tested.insert(("lib", library.clone()), true);
    }
    if discovers("autobins") {
        let found = find_targets(&folder.join("src/bin")).into_iter().chain([program.clone()]);
        is_tested.extend(found.filter(|path| path.exists()).map(|path| (("bin", path), true)));
    }
    for (kind, key, place, default) in
        [("test", "autotests", "tests", true), ("bench", "autobenches", "benches", false)]
    {
        if discovers(key) {
            let found = find_targets(&folder.join(place)).into_iter();
            is_tested.extend(found.map(|path| ((kind, path), default)));
        }
    }
    for (kind, place, default) in
        [("lib", "src", true), ("bin", "src/bin", true), ("test", "tests", true), ("bench", "benches", false)]
    {
        let listed = match manifest.get(kind) {
            Some(Value::Array(targets)) => targets.iter().collect(),
            Some(one) => vec![one],
            None => Vec::new(),
        };
        for target in listed {
            let path = match target.get("path").and_then(Value::as_str) {
                Some(path) => folder.join(path),
                None if kind == "lib" => library.clone(),
                None => {
                    let name = target["name"].as_str().unwrap();
                    let places = [format!("{place}/{name}.rs"), format!("{place}/{name}/main.rs")];
                    let places = places.map(|place| folder.join(place));
                    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| program.clone())
                }
            };
            assert!(path.exists(), "{} lists a target that is not at {}", folder.display(), path.display());
            let tests = target.get("test").and_then(Value::as_bool).unwrap_or(default);
            is_tested.insert((kind, path), tests);
        }
    }
    is_tested.values().filter(|is_tested| **is_tested).count()
}

fn count_lock_entries(top: &Path) -> usize {
    let lock = read_table(&top.join("Cargo.lock"));
    lock["package"].as_array().unwrap().len()
}

/// The CPU seconds of the last build that was measured.
fn read_build_seconds(top: &Path) -> usize {
    let text = std::fs::read_to_string(top.join(BUILD_TIMES)).unwrap();
    let seconds = text.lines().find_map(|line| line.strip_prefix("cpu_seconds = "));
    seconds
        .and_then(|seconds| seconds.parse().ok())
        .expect("a line `cpu_seconds = N`: run scripts/build-times")
}

#[test]
fn the_workspace_costs_at_most_its_budgets() {
    let top = top();
    let members = list_members(&top);
    let counted: BTreeMap<&str, usize> = BTreeMap::from([
        ("packages", members.len()),
        ("test_programs", members.iter().map(|folder| count_test_programs(folder)).sum()),
        ("lock_entries", count_lock_entries(&top)),
        ("demo_build_cpu_seconds", read_build_seconds(&top)),
    ]);
    let ceilings = read_table(&top.join(CEILINGS));
    assert_eq!(counted.keys().collect::<Vec<_>>(), ceilings.keys().collect::<Vec<_>>(), "{CEILINGS}");
    let mut over = Vec::new();
    for (name, value) in counted {
        let ceiling = usize::try_from(ceilings[name].as_integer().unwrap()).unwrap();
        println!("{name}: {value} of at most {ceiling}");
        if value > ceiling {
            over.push(format!("{name}: {value} of at most {ceiling}"));
        }
    }
    assert!(over.is_empty(), "take as much away elsewhere, or fold what you added:\n{}", over.join("\n"));
}

#[test]
fn test_programs_are_counted_by_the_rules_of_cargo() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let count = || count_test_programs(folder.path());
    let package = "[package]\nname = \"p\"\n";
    write("Cargo.toml", package);
    write("src/lib.rs", "");
    assert_eq!(count(), 1, "a library");
    write("src/main.rs", "");
    write("src/bin/other.rs", "");
    assert_eq!(count(), 3, "two programs");
    write("tests/it/main.rs", "");
    write("tests/it/part.rs", "");
    write("tests/one.rs", "");
    write("benches/bench.rs", "");
    assert_eq!(count(), 5, "two programs of tests, and a bench that no test runs");
    write(
        "Cargo.toml",
        &format!(
            "{package}[lib]\ntest = false\n[[bin]]\nname = \"other\"\ntest = false\n[[test]]\nname = \"it\"\n\
             [[test]]\nname = \"far\"\npath = \"tests/it/part.rs\"\n[[bench]]\nname = \"bench\"\ntest = true\n"
        ),
    );
    assert_eq!(count(), 5, "the program `p`, three of tests, and the bench");
    write("Cargo.toml", &format!("{package}autotests = false\nautobins = false\n"));
    assert_eq!(count(), 1, "the library alone");
}
