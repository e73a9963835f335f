//! The extension points: what one feature can add to the services and programs. A part that one feature uses is a
//! dependency in disguise.

use super::features::find_owner;
use super::layering::{sources, top};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// The types of the parts of a feature, with their files.
const TYPES: [(&str, &str); 8] = [
    ("Feature", "services/feature/src/lib.rs"),
    ("ConfiguredFeature", "services/feature/src/lib.rs"),
    ("ClientFeature", "services/cli/src/feature.rs"),
    ("StoreHook", "crates/store/src/hooks.rs"),
    ("ApiFeature", "services/api/src/feature/mod.rs"),
    ("BuilderFeature", "services/builder/src/feature.rs"),
    ("IndexerFeature", "services/indexer/src/feature.rs"),
    ("SymbolizerFeature", "crates/symbolicate/src/feature.rs"),
];
/// Fields that are no parts: the name, what services add, and how a feature is made.
const OTHER_FIELDS: [&str; 8] =
    ["name", "feature", "hook", "api", "builder", "indexer", "symbolizer", "read"];
/// The lists of the programs.
const LISTS: [&str; 2] = ["unslide/src/features.rs", "unslide-client/src/features.rs"];
/// Lists of what a type above has.
const OTHER_LISTS: [&str; 1] = ["FEATURES"];

/// The most extension points, and the most of them with at most one user. Lower them with the points. One has one user because the
/// core has to call it before it stores a report: what is rewritten later was stored before.
const MOST_POINTS: usize = 23;
const MOST_WITH_ONE_USER: usize = 8;

/// The features that use each extension point.
type Users = BTreeMap<String, BTreeSet<String>>;

fn read(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap()
}

/// The text from behind the first place of a pattern up to the next closing brace at the begin of a line.
fn block<'t>(text: &'t str, begin: &str) -> &'t str {
    let (_, text) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    text.split_once("\n}").unwrap().0
}

/// The sources of all features, by feature.
fn feature_sources() -> Vec<(String, String)> {
    let of_feature = |path: std::path::PathBuf| {
        let shown = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
        let owner = find_owner(&shown)?;
        (!shown.contains("/tests/")).then(|| (owner, read(&shown)))
    };
    sources().into_iter().filter_map(of_feature).collect()
}

fn fields_of_types() -> Users {
    let field = Regex::new(r"(?m)^    pub (\w+):").unwrap();
    let sources = feature_sources();
    let mut users = Users::new();
    for (name, path) in TYPES {
        let text = read(path);
        let fields = field.captures_iter(block(&text, &format!("pub struct {name} {{")));
        let value =
            Regex::new(&format!(r"\b{name} \{{([^;]*?)(?:\.\.{name}::|\.\.FEATURE\.|\}},\n|\}};)")).unwrap();
        for field in
            fields.map(|found| found[1].to_owned()).filter(|field| !OTHER_FIELDS.contains(&field.as_str()))
        {
            let set = Regex::new(&format!(r"\b{field}(?:: |,)")).unwrap();
            let unset = Regex::new(&format!(r"\b{field}: (?:None|&\[\])")).unwrap();
            let uses = |text: &str| {
                value.captures_iter(text).any(|value| set.is_match(&value[1]) && !unset.is_match(&value[1]))
            };
            let using = sources.iter().filter(|(_, text)| uses(text)).map(|(feature, _)| feature.clone());
            users.insert(format!("{name}.{field}"), using.collect());
        }
    }
    users
}

fn lists_of_programs() -> Users {
    let list = Regex::new(r"(?s)const (\w+): &\[[^=]*\] = &\[(.*?)\n\];").unwrap();
    let entry = Regex::new(r"\bunslide_(?:commands::)?(\w+)::").unwrap();
    let mut users = Users::new();
    for path in LISTS {
        for found in list.captures_iter(&read(path)).filter(|found| !OTHER_LISTS.contains(&&found[1])) {
            let using = entry.captures_iter(&found[2]).map(|entry| entry[1].replace('_', "-"));
            users.insert(format!("{path}: {}", &found[1]), using.collect());
        }
    }
    users
}

#[test]
fn a_feature_has_few_parts_and_few_of_them_have_one_user() {
    let mut points = fields_of_types();
    points.extend(lists_of_programs());
    let unused: Vec<_> =
        points.iter().filter(|(_, users)| users.is_empty()).map(|(point, _)| point).collect();
    assert!(unused.is_empty(), "no feature uses {unused:?}");
    let single: Vec<_> = points.iter().filter(|(_, users)| users.len() == 1).collect();
    assert!(points.len() <= MOST_POINTS, "{} extension points: {:#?}", points.len(), points.keys());
    assert!(single.len() <= MOST_WITH_ONE_USER, "{} with one user: {single:#?}", single.len());
}
