//! The documents against the code: settings, links and headings that they name exist.

use super::layering::{sources, top};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Parts of a report and names of hosts that read like a setting.
const NO_SETTINGS: [&str; 2] =
    ["process.last_dealloced_nsexception.backtrace", "api.appstoreconnect.apple.com"];

/// The pages that people read, without the generated one.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(|name| top().join(name)).into();
    for folder in ["docs", "docs/decisions", "crates"] {
        let entries = std::fs::read_dir(top().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// A heading as GitHub writes it in a link.
fn anchor(heading: &str) -> String {
    let letters = heading.trim_start_matches(['#', ' ']).to_lowercase();
    let kept = letters.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_');
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(page).unwrap();
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == wanted)
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            if link.contains("://") {
                continue;
            }
            let (file, part) = link.split_once('#').map_or((link, None), |(file, part)| (file, Some(part)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            if !target.exists() || part.is_some_and(|part| !has_anchor(&target, part)) {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// rustdoc finds more, but it takes minutes for the whole workspace.
#[test]
fn links_in_comments_name_what_their_file_names() {
    // A link without a target of its own: constants, types and functions, the first name of a path.
    let link = Regex::new(r"\[`(([A-Za-z_]\w*)(?:::\w+)*(?:\(\))?!?)`\](?:[^(:]|$)").unwrap();
    let word = Regex::new(r"\w+").unwrap();
    let (mut found, mut wrong) = (0, Vec::new());
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_comment = |line: &&str| line.trim_start().starts_with("//");
        let (comments, code): (Vec<&str>, Vec<&str>) = text.lines().partition(is_comment);
        let code = code.join("\n");
        // Names that a prelude brings are not seen.
        if code.contains("prelude::*") {
            continue;
        }
        let names: BTreeSet<&str> = word.find_iter(&code).map(|word| word.as_str()).collect();
        let comments = comments.join("\n");
        for link in link.captures_iter(&comments) {
            found += 1;
            let name = &link[2];
            let is_path = matches!(name, "crate" | "super" | "self" | "Self") || name.starts_with("unslide_");
            let has_target = comments.contains(&format!("[`{}`]: ", &link[1]));
            if !is_path && !has_target && !names.contains(name) {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(
        found > 500 && wrong.is_empty(),
        "{found} links, of which these lead nowhere:\n{}",
        wrong.join("\n")
    );
}

/// The names between backquotes in the first column of the tables of a page.
fn first_column(page: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(top().join(page)).unwrap();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let names = cells.flat_map(|(cell, _)| cell.split('`').step_by(2).map(str::to_owned).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_data_model_has_every_table() {
    let mut tables = BTreeSet::new();
    for entry in std::fs::read_dir(top().join("migrations")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let made = text.lines().filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split_once(' '));
        tables.extend(made.map(|(name, _)| name.to_owned()));
    }
    assert!(tables.len() > 50, "{tables:?}");
    assert_eq!(first_column("docs/data-model.md"), tables);
}

#[test]
fn every_decision_is_in_the_list() {
    let list = std::fs::read_to_string(top().join("docs/decisions/README.md")).unwrap();
    for entry in std::fs::read_dir(top().join("docs/decisions")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || list.contains(&format!("({name})")), "{name}");
    }
}

#[test]
fn settings_that_the_pages_name_exist() {
    let settings = std::fs::read_to_string(top().join("docs/settings.md")).unwrap();
    let rows = settings.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let known: BTreeSet<&str> = rows.map(|(key, _)| key).collect();
    let sections: BTreeSet<&str> = known.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for key in text.split('`').filter_map(|code| code.split([' ', '=']).next()) {
            let Some((section, rest)) = key.split_once('.') else { continue };
            let is_setting = sections.contains(section)
                && !rest.is_empty()
                && rest.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
            // A group of settings is named by its beginning, such as `kafka.budget`.
            let exists = known.iter().any(|known| *known == key || known.starts_with(&format!("{key}.")));
            if is_setting && !exists && !NO_SETTINGS.contains(&key) {
                wrong.push(format!("{}: {key}", path.display()));
            }
        }
    }
    assert!(known.len() > 20 && wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No run compiles examples in comments, so one would go wrong unseen.
#[test]
fn comments_have_no_examples_of_code() {
    let mut wrong = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let comments = text.lines().map(str::trim_start);
        let comments =
            comments.filter_map(|line| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")));
        let fences = comments.filter_map(|line| line.trim_start().strip_prefix("```"));
        // Each second fence ends a block.
        wrong.extend(fences.step_by(2).filter(|language| *language != "text").map(|_| path.clone()));
    }
    assert!(wrong.is_empty(), "write `text` behind the fence, or a test: {wrong:?}");
}
