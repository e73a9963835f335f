//! The schema's history: a file of `migrations/` that has landed stays as it is.

use super::layering::top;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;

fn hash_file(name: &str) -> Option<String> {
    let bytes = std::fs::read(top().join("migrations").join(name)).ok()?;
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    Some(text)
}

#[test]
fn a_landed_migration_stays_as_it_is_and_a_new_one_comes_last() {
    let list = std::fs::read_to_string(top().join("migrations/checksums")).unwrap();
    let listed: Vec<(&str, &str)> = list.lines().map(|line| line.split_once("  ").unwrap()).collect();
    assert!(listed.len() >= 26, "{list}");
    for (hash, name) in &listed {
        assert_eq!(
            hash_file(name).as_deref(),
            Some(*hash),
            "migrations/{name} was changed or removed: restore it, and add a new file"
        );
    }
    assert!(listed.is_sorted_by_key(|(_, name)| *name), "a new migration applies after all others: {list}");
    let names: BTreeSet<String> = listed.iter().map(|(_, name)| (*name).to_owned()).collect();
    let folder = std::fs::read_dir(top().join("migrations")).unwrap();
    let files = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| name.ends_with(".sql")).collect();
    assert_eq!(files, names, "append the output of `sha256sum NAME` in migrations/ to migrations/checksums");
}
