//! `docs/guarantees.md` against the tests that prove it. A test names its promise in its documentation,
//! `/// Proves: one-outcome`, or the head of its file does for all tests in it. `scripts/proofs` lists them.

use super::layering::{sources, top};
use std::collections::{BTreeMap, BTreeSet};

/// The names of the promises: the page's headings, such as ``## `one-outcome`: each report ends once``.
fn promises() -> BTreeSet<String> {
    let page = std::fs::read_to_string(top().join("docs/guarantees.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## `")?.split_once('`'));
    headings.map(|(name, _)| name.to_owned()).collect()
}

/// Promise → the places that claim to prove it. A claim that stands above no test is named in `wrong`.
fn proofs(wrong: &mut Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            let whole_file = line.strip_prefix("//! Proves: ");
            let Some(name) = whole_file.or_else(|| line.strip_prefix("/// Proves: ")) else { continue };
            let place = format!("{}:{}", path.strip_prefix(top()).unwrap().display(), number + 1);
            let mut attributes = lines[number + 1..].iter().take_while(|line| line.starts_with("#["));
            if whole_file.is_none() && !attributes.any(|attribute| attribute.contains("test")) {
                wrong.push(format!("{place} stands above no test"));
            }
            found.entry(name.to_owned()).or_default().push(place);
        }
    }
    found
}

#[test]
fn each_promise_has_a_proof_and_each_proof_a_promise() {
    let mut wrong = Vec::new();
    let promises = promises();
    let proofs = proofs(&mut wrong);
    wrong.extend(
        promises
            .iter()
            .filter(|name| !proofs.contains_key(*name))
            .map(|name| format!("no test proves {name}")),
    );
    for (name, places) in proofs.iter().filter(|(name, _)| !promises.contains(*name)) {
        wrong.push(format!("docs/guarantees.md has no promise {name}: {places:?}"));
    }
    assert!(promises.len() > 5 && wrong.is_empty(), "{}", wrong.join("\n"));
}
