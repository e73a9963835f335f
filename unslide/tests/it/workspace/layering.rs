//! The layers, names and sizes that `docs/design.md` promises.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines that a file may have.
const LONGEST_FILE: usize = 500;
/// File names that say nothing.
const EMPTY_NAMES: [&str; 5] = ["utils", "common", "helpers", "types", "misc"];

/// The layer of a folder. A crate may use crates of lower layers; within a layer only what
/// [`within_layer`] allows.
fn layer(folder: &str) -> Option<u8> {
    Some(match folder {
        "crates/model" | "crates/llvm-demangle" => 0,
        "crates/proto" | "crates/signatures" | "crates/report" | "crates/symbolicate" | "crates/calltree" => {
            1
        }
        "crates/testkit" | "crates/history" => 1,
        "crates/archive" | "crates/sandbox" => 2,
        "crates/artifacts" | "crates/stream" | "crates/store" | "crates/runtime" => 2,
        // The servers of tests, for packages of every layer.
        "tools/embedded" => 2,
        "services/api"
        | "services/builder"
        | "services/door"
        | "services/indexer"
        | "services/symbolizer" => 3,
        // What a feature is. Only features and the binary use it.
        "services/feature" => 4,
        // The frame and the parts of pages. Only features use it.
        "services/site" => 4,
        // Shared parts of commands. Commands of features and the programs use it.
        "services/cli" => 4,
        feature if feature.starts_with("features/") => 5,
        // It is in the layer of features, so it cannot name one.
        "tools/dev" => 5,
        // The commands of all features. Features cannot use it.
        "commands" => 5,
        // It moves what the store and the buckets have.
        "crates/tenant-move" => 3,
        // A command's part that tests of services use, too.
        "unslide/audit" => 3,
        // The commands without a part of a server, and the program that has these alone.
        "unslide-client" => 6,
        "unslide" => 7,
        // Other packages use them for their tests only.
        "tests" | "tests/feature-tests" | "tests/harness" | "tests/world" => 8,
        // Nothing of it is compiled.
        "tests/feature-union" => 9,
        _ => return None,
    })
}

fn within_layer(user: &str, used: &str) -> bool {
    // The cache shares its disk between tenants as the services share what they have.
    let allowed = [
        ("crates/symbolicate", "crates/report"),
        ("crates/calltree", "crates/report"),
        ("crates/signatures", "crates/proto"),
        ("crates/artifacts", "crates/runtime"),
        ("crates/artifacts", "crates/archive"),
        ("crates/sandbox", "crates/archive"),
        ("tests", "tests/harness"),
        ("tests", "tests/world"),
        ("tests/world", "tests/harness"),
    ];
    allowed.contains(&(user, used)) || is_shared_part(user, used)
}

/// Packages in the folder of a feature that its other packages use. None has a part of a server or a command.
const SHARED_PARTS: [&str; 7] =
    ["analyses", "compare", "formats", "rules", "statistics", "tools", "variables"];

/// Returns true if a package is a shared part of the feature that the user is a package of. The commands are a package of all
/// features: `feature_commands` tests that each module of it uses the shared parts of its own feature.
fn is_shared_part(user: &str, used: &str) -> bool {
    let Some((feature, part)) = used.strip_prefix("features/").and_then(|used| used.split_once('/')) else {
        return false;
    };
    let owner = user.strip_prefix("features/").and_then(|user| user.split('/').next());
    (owner == Some(feature) || user == "commands") && SHARED_PARTS.contains(&part)
}

/// The core reads bytes and gives bytes: it must not know of any kind of I/O.
const PURE: [&str; 18] = [
    "crates/model",
    "crates/proto",
    "crates/report",
    "crates/symbolicate",
    "crates/calltree",
    "features/apple-reports/formats",
    "features/captures/formats",
    "features/changes/compare",
    "features/fault-analysis/analyses",
    "features/fault-analysis/variables",
    "features/health/formats",
    "features/otlp/formats",
    "features/owners/formats",
    "features/scrubbing/rules",
    "features/source-context/formats",
    "features/system-symbols/formats",
    "features/uploaders/formats",
    "features/verdicts/statistics",
];
const IMPURE: [&str; 6] = ["tokio", "rdkafka", "sqlx", "aws-sdk-s3", "axum", "reqwest"];

pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the packages of the workspace as cargo describes them.
pub fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(top())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the folder of a package of [`metadata`], relative to the top.
pub fn folder_of(package: &Value) -> String {
    let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
    folder.strip_prefix(top()).unwrap().to_str().unwrap().to_owned()
}

/// Returns the packages of the workspace by their folders.
pub fn manifests() -> BTreeMap<String, Value> {
    let packages = metadata()["packages"].as_array().unwrap().clone();
    packages.into_iter().map(|package| (folder_of(&package), package)).collect()
}

/// Folder → (package name, dependencies that are not for tests only).
fn packages() -> BTreeMap<String, (String, Vec<String>)> {
    let package = |package: Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        let used = dependencies
            .iter()
            .filter(|d| d["kind"] != "dev")
            .map(|d| d["name"].as_str().unwrap().to_owned());
        (package["name"].as_str().unwrap().to_owned(), used.collect())
    };
    manifests().into_iter().map(|(folder, manifest)| (folder, package(manifest))).collect()
}

#[test]
fn crates_use_lower_layers_only_and_are_named_after_their_folders() {
    let packages = packages();
    let folder_of: BTreeMap<&str, &str> =
        packages.iter().map(|(f, (name, _))| (name.as_str(), f.as_str())).collect();
    let mut wrong = Vec::new();
    for (folder, (name, used)) in &packages {
        let Some(own) = layer(folder) else {
            wrong.push(format!("{folder} has no layer: give it one here and in docs/design.md"));
            continue;
        };
        // A package within a feature's folder has the feature's name too.
        let last = folder.rsplit('/').next().unwrap();
        let own_name =
            folder.strip_prefix("features/").map_or(last.to_owned(), |rest| rest.replace('/', "-"));
        // A program lies at the top, and its folder has the name of its package.
        let is_program = folder.starts_with("unslide") && name == folder;
        if *name != format!("unslide-{own_name}") && !is_program {
            wrong.push(format!("{folder} holds a package named {name}"));
        }
        for used in used {
            let Some(used) = folder_of.get(used.as_str()) else {
                if PURE.contains(&folder.as_str()) && IMPURE.contains(&used.as_str()) {
                    wrong.push(format!("{folder} is pure and must not use {used}"));
                }
                continue;
            };
            let is_pure = PURE.contains(used) || layer(used).is_some_and(|other| other <= 1);
            if PURE.contains(&folder.as_str()) && !is_pure {
                wrong.push(format!("{folder} is pure and must not use {used}"));
            }
            if layer(used).is_some_and(|other| other >= own) && !within_layer(folder, used) {
                wrong.push(format!("{folder} must not use {used}"));
            }
        }
    }
    let testkit = &packages["crates/testkit"].1;
    wrong.extend(
        testkit
            .iter()
            .filter(|used| used.starts_with("unslide-") && *used != "unslide-model")
            .map(|used| format!("testkit uses {used}")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every Rust source of the workspace, generated code aside.
pub fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for folder in
        ["crates", "services", "features", "commands", "tools", "unslide", "unslide-client", "tests"]
    {
        walk(&top().join(folder), &mut found);
    }
    assert!(found.len() > 50, "the sources are there");
    found
}

/// Lines of a source without its unit tests: modules of them, written out or in files of their own.
fn lines(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let next = lines.peek().copied().unwrap_or_default();
        let is_module = next.starts_with("mod ") || next.contains(" mod ");
        if line != "#[cfg(test)]" || next.starts_with(' ') || !is_module {
            count += 1;
            continue;
        }
        lines.next();
        if next.ends_with('{') {
            // Formatted as it is, a module ends with the first brace that nothing stands before.
            lines.by_ref().find(|line| *line == "}");
        }
    }
    count
}

#[test]
fn only_unit_tests_do_not_count() {
    let code = "fn a() {\n}\n";
    let inline = "#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n";
    let apart = "#[cfg(test)]\nmod tests;\n";
    let shared = "#[cfg(test)]\npub(crate) mod tests;\n";
    for tests in [inline, apart, shared] {
        assert_eq!(lines(&[code, tests, code].concat()), 4, "{tests}");
        assert_eq!(lines(&[tests, code].concat()), 2, "{tests}");
    }
    let other = "#[cfg(test)]\nfn c() {\n}\n    #[cfg(test)]\n    mod_count: u8,\n";
    assert_eq!(lines(other), 5);
}

#[test]
fn a_file_says_one_thing() {
    let mut wrong = Vec::new();
    for path in sources() {
        let shown = path.strip_prefix(top()).unwrap().display().to_string();
        let parts: Vec<&str> = shown.split('/').collect();
        let stems = parts.iter().map(|part| part.trim_end_matches(".rs"));
        if let Some(empty) = stems.clone().find(|stem| EMPTY_NAMES.contains(stem)) {
            wrong.push(format!("{shown}: the name {empty} says nothing"));
        }
        // Tests and the fixtures' sources may be as long as they need.
        if parts.contains(&"tests") || parts.contains(&"testkit") {
            continue;
        }
        let count = lines(&std::fs::read_to_string(&path).unwrap());
        if count > LONGEST_FILE {
            wrong.push(format!("{shown}: {count} lines; split it by meaning"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn main_only_begins() {
    for program in ["unslide", "unslide-client"] {
        let main = std::fs::read_to_string(top().join(program).join("src/main.rs")).unwrap();
        let lines = main.lines().filter(|line| !line.starts_with("mod ") && !line.starts_with("#["));
        assert!(lines.count() < 10, "{main}");
    }
}

/// Programs of the package of tests: of the api, end-to-end, of faults and of the fuzzer.
const PROGRAMS_OF_TESTS: usize = 4;

#[test]
fn a_package_has_at_most_one_test_program_that_is_not_unit_tests() {
    let mut programs: BTreeMap<String, usize> = BTreeMap::new();
    for path in sources() {
        let parts: Vec<_> =
            path.strip_prefix(top()).unwrap().iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let in_tests = parts.iter().rposition(|part| part == "tests");
        if let Some(at) = in_tests.filter(|at| parts.len() == at + 3 && parts[at + 2] == "main.rs") {
            *programs.entry(parts[..at].join("/")).or_default() += 1;
        }
    }
    let most = |package: &str| if package == "tests" { PROGRAMS_OF_TESTS } else { 1 };
    programs.retain(|package, number| *number > most(package));
    assert!(programs.is_empty(), "{programs:?}");
}
