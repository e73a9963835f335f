//! Every answer equal to the one of LLVM's symbolizer: name, path, line, column and the calls inlined,
//! at the start of each line and at the addresses that a return address is looked up at.

use super::llvm::{self, Frame};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use unslide_model::{Quality, RelativeAddress};
use unslide_symbolicate::demangle::demangle;
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::{CodeLookup, SymCache};
use unslide_testkit::fixtures;

/// The symcache of one architecture of a file.
pub fn symcache(file: &Path, arch: &str) -> SymCache {
    let bytes = std::fs::read(file).unwrap();
    let entries = object::list_objects(&bytes).unwrap();
    let is_wanted = |entry: &&object::ObjectEntry| entry.object.as_ref().is_ok_and(|o| o.cpu.name() == arch);
    let entry = entries.iter().find(is_wanted).unwrap_or_else(|| panic!("{} has no {arch}", file.display()));
    let built = object::build_symcache(&bytes[entry.range.clone()]).unwrap();
    // A binary without DWARF says where it is.
    assert!(built.quality < Quality::Dwarf || built.warnings.is_empty(), "{:?}", built.warnings);
    let cache = SymCache::parse(built.symcache).unwrap();
    cache.verify_checksum().unwrap();
    cache
}

/// Our answer in the form of LLVM's.
fn ours(cache: &SymCache, address: u64) -> Vec<Frame> {
    let Some(offset) = address.checked_sub(cache.text_address().0) else { return Vec::new() };
    match cache.lookup(RelativeAddress(offset)) {
        CodeLookup::Gap | CodeLookup::Outside => Vec::new(),
        CodeLookup::Found(answer) => answer
            .calls()
            .map(|call| Frame {
                function: call.raw.unwrap_or(call.function).decode().into_owned(),
                file: call.file.map_or(String::new(), |file| file.decode().into_owned()),
                line: u64::from(call.line.unwrap_or(0)),
                column: u64::from(call.column.unwrap_or(0)),
            })
            .collect(),
    }
}

/// The functions that are said to have the same code.
fn folded(cache: &SymCache, address: u64) -> Vec<String> {
    let offset = address.checked_sub(cache.text_address().0);
    let answer = offset.and_then(|offset| cache.lookup(RelativeAddress(offset)).into_answer());
    answer
        .map(|answer| answer.folded_with().map(|name| name.decode().into_owned()).collect())
        .unwrap_or_default()
}

/// LLVM's answer in the form of ours: no frame where it knows no function and no line, and no column
/// of a line that is unknown.
fn comparable(frames: &[Frame]) -> Vec<Frame> {
    let is_known = |frame: &&Frame| !frame.function.is_empty() || frame.line != 0;
    let column = |frame: &Frame| if frame.line == 0 { 0 } else { frame.column };
    frames.iter().filter(is_known).map(|frame| Frame { column: column(frame), ..frame.clone() }).collect()
}

/// Line starts, the byte before each, and on arm64 the last byte of each instruction.
fn addresses(file: &Path, arch: &str) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for address in llvm::line_addresses(file, arch) {
        all.extend([address, address.saturating_sub(1)]);
        if arch.starts_with("arm64") {
            all.insert(address + 3);
        }
    }
    for address in llvm::symbol_addresses(file, arch) {
        all.extend([address, address + 1]);
    }
    all
}

/// Where we mean to differ from LLVM, with the reason. `folded` are the other functions with the same code.
fn excepted(theirs: &[Frame], ours: &[Frame], folded: &[String]) -> Option<&'static str> {
    if let ([inner @ .., their], [own_inner @ .., own]) = (theirs, ours)
        && inner == own_inner
        && folded.contains(&demangle(&their.function).unwrap_or_else(|| their.function.clone()))
        && *own == (Frame { function: own.function.clone(), ..their.clone() })
    {
        return Some("LLVM shows the last symbol of an address beside the lines of another function");
    }
    match (theirs, ours) {
        ([header], []) if header.function.starts_with("_mh_") => {
            Some("LLVM names the bytes of the Mach-O header and what follows it; no code lies there")
        }
        _ => None,
    }
}

/// Addresses where the two differ, with both answers.
fn differences(file: &Path, arch: &str) -> Vec<(u64, Vec<Frame>, Vec<Frame>)> {
    let cache = symcache(file, arch);
    let addresses = addresses(file, arch);
    assert!(addresses.len() > 4, "{}: hardly any address to compare", file.display());
    llvm::symbolize(file, arch, &addresses)
        .into_iter()
        .map(|(address, theirs)| (address, comparable(&theirs), ours(&cache, address)))
        .filter(|(address, theirs, ours)| {
            theirs != ours && excepted(theirs, ours, &folded(&cache, *address)).is_none()
        })
        .collect()
}

fn assert_same(files: &[(PathBuf, &str)]) {
    let mut complaint = String::new();
    for (file, arch) in files {
        let differences = differences(file, arch);
        if !differences.is_empty() {
            let _ = writeln!(complaint, "{} {arch}: {} answers differ", file.display(), differences.len());
        }
        for (at, theirs, ours) in differences.iter().take(5) {
            let _ = writeln!(complaint, "{at:#x}\n  LLVM {theirs:?}\n  ours {ours:?}");
        }
    }
    assert!(complaint.is_empty(), "{complaint}");
}

/// Proves: right-names
#[test]
fn every_fixture_is_answered_as_llvm_does() {
    let all = [
        ("app", "arm64"),
        ("app-next", "arm64"),
        ("app-arm64e", "arm64e"),
        ("kit", "arm64"),
        ("kit", "x86_64"),
        ("kit-arm64", "arm64"),
        ("kit-x86_64", "x86_64"),
        ("tool-x86_64", "x86_64"),
        ("deep-4", "arm64"),
        ("deep-5", "arm64"),
        ("whole", "arm64"),
        ("watch", "arm64_32"),
        ("large", "arm64"),
        ("renamed", "arm64"),
        ("orb-legacy", "arm64"),
        ("orb-v0", "arm64"),
    ];
    assert_same(&all.map(|(name, arch)| (fixtures::dsym(name), arch)));
}

/// Proves: right-names
#[test]
fn a_symbol_table_alone_names_as_llvm_does() {
    assert_same(&[(fixtures::binary("app-symtab"), "arm64")]);
}

/// Proves: right-names
#[test]
fn a_published_dsym_with_swift_is_answered_as_llvm_does() {
    match fixtures::canvas_dsyms() {
        Ok([device, simulator]) => {
            assert_same(&[(device, "arm64"), (simulator.clone(), "arm64"), (simulator, "x86_64")]);
        }
        Err(reason) => fixtures::skipped("a published dSYM with Swift", &reason),
    }
}
