//! Demangled names beside those of LLVM.

use super::llvm;
use super::proof::symcache;
use std::collections::BTreeSet;
use unslide_symbolicate::demangle::MAX_NAME_BYTES;
use unslide_testkit::fixtures;

/// Linkage and demangled name of every function of a file that has both.
fn names(file: &std::path::Path, arch: &str) -> BTreeSet<(String, String)> {
    let cache = symcache(file, arch);
    let answers = cache.ranges().filter_map(|(_, answer)| answer);
    let calls = answers.flat_map(|answer| answer.calls());
    let own = |name: unslide_report::Text<'_>| name.decode().into_owned();
    calls.map(|call| (own(call.raw.unwrap_or(call.function)), own(call.function))).collect()
}

/// Where we mean to differ from LLVM, with the reason.
fn excepted(linkage: &str, theirs: &str, ours: &str) -> Option<&'static str> {
    let hash = |name: &str| name.get(name.len().checked_sub(20)?..).map(|end| end.starts_with("17h"));
    if linkage.starts_with("_ZN") && hash(linkage) == Some(true) {
        return Some("LLVM reads Rust's first mangling as C++ and keeps the hash and the escapes");
    }
    let without_brackets = || theirs.replace(" (.", ".").replace(')', "");
    if linkage.starts_with("_R") && ours.replace(')', "") == without_brackets() {
        return Some("Rust's own demangler writes a compiler's suffix without brackets");
    }
    if theirs.len() > MAX_NAME_BYTES && ours == linkage {
        return Some("a name is bounded in length");
    }
    None
}

fn assert_same(names: BTreeSet<(String, String)>) {
    let (linkage, ours): (Vec<String>, Vec<String>) = names.into_iter().unzip();
    let theirs = llvm::demangle(&linkage);
    assert_eq!(theirs.len(), linkage.len());
    let mut different = Vec::new();
    for ((linkage, theirs), ours) in linkage.iter().zip(&theirs).zip(&ours) {
        if theirs != ours && excepted(linkage, theirs, ours).is_none() {
            different.push(format!("{linkage}\n  LLVM {theirs}\n  ours {ours}\n"));
        }
    }
    let shown: String = different.iter().take(10).cloned().collect();
    assert!(different.is_empty(), "{} of {} names differ:\n{shown}", different.len(), linkage.len());
}

/// Proves: right-names
#[test]
fn names_are_demangled_as_llvm_does() {
    let fixtures = [
        ("app", "arm64"),
        ("kit", "x86_64"),
        ("deep-4", "arm64"),
        ("deep-5", "arm64"),
        ("whole", "arm64"),
        ("large", "arm64"),
        ("orb-legacy", "arm64"),
        ("orb-v0", "arm64"),
    ];
    assert_same(fixtures.iter().flat_map(|(name, arch)| names(&fixtures::dsym(name), arch)).collect());
}

/// Proves: right-names
#[test]
fn names_of_a_published_library_are_demangled_as_llvm_does() {
    match fixtures::canvas_dsyms() {
        // LLVM does not read Swift's names.
        Ok([file, _]) => {
            let all = names(&file, "arm64").into_iter();
            assert_same(all.filter(|(name, _)| !name.contains("$s")).collect());
        }
        Err(reason) => fixtures::skipped("names of a published library", &reason),
    }
}
