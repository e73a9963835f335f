//! Demangled names beside those of LLVM.

use super::llvm;
use super::proof::symcache;
use std::collections::BTreeSet;
use unslide_testkit::fixtures;

/// Linkage and demangled name of every function of a file that has both.
fn names(file: &std::path::Path, arch: &str) -> BTreeSet<(String, String)> {
    let cache = symcache(file, arch);
    let answers = cache.ranges().filter_map(|(_, answer)| answer);
    let calls = answers.flat_map(|answer| answer.calls());
    calls.map(|call| (call.raw.unwrap_or(call.function).decode(), call.function.decode())).collect()
}

fn excepted(_linkage: &str, _theirs: &str, _ours: &str) -> Option<&'static str> {
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
    let shown: String = different.iter().take(400).cloned().collect();
    assert!(different.is_empty(), "{} of {} names differ:\n{shown}", different.len(), linkage.len());
}

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

#[test]
fn names_of_a_published_library_are_demangled_as_llvm_does() {
    match fixtures::canvas_dsym() {
        // LLVM does not read Swift's names.
        Ok(file) => {
            assert_same(names(&file, "arm64").into_iter().filter(|(name, _)| !name.contains("$s")).collect())
        }
        Err(reason) => eprintln!("SKIPPED: no published dSYM to compare with: {reason}"),
    }
}
