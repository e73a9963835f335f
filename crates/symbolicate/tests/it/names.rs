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
    let own = |name: unslide_report::Text<'_>| name.decode().into_owned();
    calls.map(|call| (own(call.raw.unwrap_or(call.function)), own(call.function))).collect()
}

/// LLVM's way of writing what ours writes in another: closures are numbered, not primed.
fn in_our_style(theirs: &str) -> String {
    let mut out = String::new();
    let mut rest = theirs;
    while let Some((before, after)) = rest.split_once("'lambda") {
        let Some((number, after)) = after.split_once('\'') else { break };
        let parameters = balanced(after);
        let number = if number.is_empty() { 1 } else { number.parse::<u32>().unwrap() + 2 };
        out += &format!("{before}{{lambda{}#{number}}}", &after[..parameters]);
        rest = &after[parameters..];
    }
    out + rest
}

/// The length of the brackets that a text begins with.
fn balanced(text: &str) -> usize {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + c.len_utf8();
        }
    }
    text.len()
}

/// Where we mean to differ from LLVM, with the reason.
fn excepted(linkage: &str, theirs: &str, ours: &str) -> Option<&'static str> {
    let hash = |name: &str| {
        name.get(..name.len().checked_sub(20)?).map(|rest| name[rest.len()..].starts_with("17h"))
    };
    if linkage.starts_with("_ZN") && hash(linkage) == Some(true) {
        return Some("LLVM reads Rust's first mangling as C++ and keeps the hash and the escapes");
    }
    if linkage.starts_with("_ZN4deep4eachIZNS_5Outer4walkIiEET_S3_EUliE") && theirs.ends_with("(int, int)") {
        assert!(ours.contains("(int, int deep::Outer::walk<int>(int)::{lambda(int)#"), "{ours}");
        return Some(
            "LLVM resolves the second parameter, F, to walk's T: its declaration says that it is a closure",
        );
    }
    if theirs == linkage && linkage.contains("17collectTransformsE") && linkage.contains("$_1clI") {
        return Some("LLVM does not read the call operator of a nameless class that is a template");
    }
    None
}

fn assert_same(names: BTreeSet<(String, String)>, form: impl Fn(&str) -> String) {
    let (linkage, ours): (Vec<String>, Vec<String>) = names.into_iter().unzip();
    let theirs = llvm::demangle(&linkage);
    assert_eq!(theirs.len(), linkage.len());
    let mut different = Vec::new();
    for ((linkage, theirs), ours) in linkage.iter().zip(&theirs).zip(&ours) {
        let (theirs, ours) = (form(&in_our_style(theirs)), form(ours));
        if theirs != ours && excepted(linkage, &theirs, &ours).is_none() {
            different.push(format!("{linkage}\n  LLVM {theirs}\n  ours {ours}\n"));
        }
    }
    let shown: String = different.iter().take(10).cloned().collect();
    assert!(different.is_empty(), "{} of {} names differ:\n{shown}", different.len(), linkage.len());
}

/// A name without template arguments, parameters, and what LLVM and the demangler of symbolic spell in
/// ways of their own (numbers, vectors, spaces, packs of no or of several types): where it is declared
/// and what it is called.
fn qualified(name: &str) -> String {
    let mut text = name.to_owned();
    for (whole, stand_in) in [
        ("(anonymous namespace)", "{anonymous}"),
        ("operator()", "operator call"),
        ("operator<=>", "operator order"),
        ("operator<<", "operator shl"),
        ("operator>>", "operator shr"),
        ("operator<", "operator lt"),
        ("operator->", "operator arrow"),
        ("operator>", "operator gt"),
        ("operator[]", "operator index"),
    ] {
        text = text.replace(whole, stand_in);
    }
    // LLVM puts a compiler's suffix into brackets.
    let text = match text.rsplit_once(" (.") {
        Some((name, suffix)) if suffix.ends_with(')') => format!("{name}.{}", suffix.trim_end_matches(')')),
        _ => text,
    };
    let text = text.replace(" [clone ", "").replace(']', "");
    let (mut out, mut depth) = (String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
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
    assert_same(
        fixtures.iter().flat_map(|(name, arch)| names(&fixtures::dsym(name), arch)).collect(),
        str::to_owned,
    );
}

/// Proves: right-names
#[test]
fn names_of_a_published_library_are_demangled_as_llvm_does() {
    match fixtures::canvas_dsyms() {
        // LLVM does not read Swift's names.
        Ok([file, _]) => {
            let all = names(&file, "arm64").into_iter();
            assert_same(all.filter(|(name, _)| !name.contains("$s")).collect(), qualified);
        }
        Err(reason) => fixtures::skipped("names of a published library", &reason),
    }
}
