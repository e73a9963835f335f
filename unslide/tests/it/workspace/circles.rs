//! No files import each other in a circle, and few folders of a crate do. Among files, those of folders (`mod.rs`, `lib.rs`)
//! do not count: they hand the names of their parts on.

use super::features::production;
use super::layering::{sources, top};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Crates with folders, or files beside them, that import each other, and the number of such pairs. Lower a number with the
/// pairs.
const PAIRS: [(&str, usize); 9] = [
    ("crates/report", 2),
    ("crates/store", 4),
    ("crates/symbolicate", 3),
    ("features/apple-reports/formats", 1),
    ("features/captures", 1),
    ("features/fault-analysis/analyses", 1),
    ("features/symbol-server", 1),
    ("unslide", 1),
    ("unslide-client", 1),
];

/// Paths within the crate.
pub static PATHS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:crate|super|self)::[\w:]*(?:\{[^;]*\})?").unwrap());
static USES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse ([^;]*);").unwrap());
static COMMENTS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"//[^\n]*").unwrap());

/// The modules of a crate that are files, by their paths in it.
type Modules = BTreeMap<Vec<String>, String>;

/// The crates by their folders of sources. `with_faces` adds the files of folders, by the paths of their folders.
fn crates(with_faces: bool) -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for path in sources() {
        let path = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
        let Some((folder, inside)) = path.split_once("/src/") else { continue };
        let mut module: Vec<String> = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let is_face = matches!(inside.rsplit('/').next(), Some("mod.rs" | "lib.rs" | "main.rs"));
        if is_face {
            module.pop();
        }
        if (with_faces || !is_face) && !module.iter().any(|part| part == "tests") {
            crates.entry(folder.to_owned()).or_default().insert(module, path);
        }
    }
    crates
}

/// The paths within its crate that the production code of a file names.
fn named_paths(file: &str) -> Vec<String> {
    PATHS.find_iter(&code(file)).flat_map(|path| expand(&path.as_str().replace(' ', ""))).collect()
}

/// The production code of a file without comments, in one line.
fn code(file: &str) -> String {
    let text = production(&top().join(file));
    let code: String = COMMENTS.replace_all(&text, "").split_whitespace().collect::<Vec<_>>().join(" ");
    code.replace(":: ", "::")
}

/// The first parts of the paths from which the file of a crate takes the names that it hands on.
fn handed_on(root: &str) -> BTreeMap<String, String> {
    let code = code(root);
    let trees =
        USES.captures_iter(&code).flat_map(|found| expand(&found[1].replace(" as ", "@").replace(' ', "")));
    let name = |path: String| {
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let (folder, rest) = path.split_once("::")?;
        let name = rest.rsplit("::").next()?;
        Some((name.rsplit('@').next()?.to_owned(), folder.to_owned()))
    };
    trees.filter_map(name).collect()
}

/// The pairs of folders of a crate, or of files beside them, that import each other.
fn folder_pairs(modules: &Modules) -> BTreeSet<(String, String)> {
    let folders: BTreeSet<&String> = modules.keys().filter_map(|module| module.first()).collect();
    let names = modules.get(&Vec::new()).map(|root| handed_on(root)).unwrap_or_default();
    let mut used = BTreeSet::new();
    for (own, file) in modules {
        let Some(from) = own.first() else { continue };
        for path in named_paths(file) {
            let mut parts = path.split("::").peekable();
            let mut at = match parts.next() {
                Some("crate") => Vec::new(),
                Some("super") => own[..own.len() - 1].to_vec(),
                _ => continue,
            };
            while parts.next_if_eq(&"super").is_some() {
                at.pop();
            }
            let Some(to) = at.first().cloned().or_else(|| parts.next().map(str::to_owned)) else { continue };
            let to = names.get(&to).unwrap_or(&to);
            if to != from && folders.contains(to) {
                used.insert((from.clone(), to.clone()));
            }
        }
    }
    used.iter()
        .filter(|(from, to)| from < to && used.contains(&(to.clone(), from.clone())))
        .cloned()
        .collect()
}

/// The paths that a `use` names: `a::{b, c::d}` is `a::b` and `a::c::d`.
pub fn expand(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for c in inside.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().flat_map(|part| expand(part)).map(|part| format!("{before}{part}")).collect()
}

/// The file that a path leads to, seen from a module; None for the file of a folder and for other crates.
fn resolve<'m>(modules: &'m Modules, own: &[String], path: &str) -> Option<&'m String> {
    let mut parts = path.split("::").peekable();
    let mut at: Vec<String> = match parts.next()? {
        "crate" => Vec::new(),
        "self" => own.to_vec(),
        "super" => own.split_last()?.1.to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        at.pop()?;
    }
    let mut found = modules.get(&at);
    for part in parts {
        at.push(part.to_owned());
        found = modules.get(&at).or(found);
    }
    found
}

/// The files that each file imports names of.
fn imports(modules: &Modules) -> BTreeMap<&String, BTreeSet<&String>> {
    let used = |own: &[String], file: &String| -> BTreeSet<&String> {
        let named = named_paths(file);
        named.iter().filter_map(|path| resolve(modules, own, path)).filter(|used| *used != file).collect()
    };
    modules.iter().map(|(own, file)| (file, used(own, file))).collect()
}

/// The files that are reached from a file.
fn reach<'m>(imports: &BTreeMap<&'m String, BTreeSet<&'m String>>, from: &'m String) -> BTreeSet<&'m String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(imports[file].iter().filter(|used| reached.insert(**used)));
    }
    reached
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut circles = BTreeSet::new();
    for modules in crates(false).values() {
        let imports = imports(modules);
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            imports.keys().map(|file| (*file, reach(&imports, file))).collect();
        for (file, of_file) in &reached {
            let circle: BTreeSet<&str> = of_file
                .iter()
                .filter(|other| reached[**other].contains(*file))
                .map(|other| other.as_str())
                .collect();
            if !circle.is_empty() {
                circles.insert(circle.into_iter().collect::<Vec<_>>().join(", "));
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn no_more_folders_of_a_crate_import_each_other_than_listed() {
    let mut wrong = Vec::new();
    for (folder, modules) in crates(true) {
        let pairs = folder_pairs(&modules);
        let listed = PAIRS.iter().find(|(known, _)| *known == folder).map_or(0, |(_, number)| *number);
        if pairs.len() != listed {
            wrong.push(format!("{folder}: {} pairs, {listed} are listed: {pairs:?}", pairs.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_found_in_all_their_forms() {
    let file = |path: &str| (path.split('/').map(str::to_owned).collect::<Vec<_>>(), path.to_owned());
    let modules: Modules = ["a/b", "a/c", "d"].map(file).into();
    let own = ["a".to_owned(), "b".to_owned()];
    for (path, found) in [
        ("crate::a::c::Name", Some("a/c")),
        ("super::c::name", Some("a/c")),
        ("super::super::d", Some("d")),
        ("crate::a::Name", None),
        ("self::tests::x", Some("a/b")),
    ] {
        assert_eq!(resolve(&modules, &own, path).map(String::as_str), found, "{path}");
    }
    assert_eq!(expand("a::{b::{c,d},e}"), ["a::b::c", "a::b::d", "a::e"]);
}
