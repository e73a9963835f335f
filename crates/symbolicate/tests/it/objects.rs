//! What files have, beside symbolic's reading of them; and files that name little or nothing.

use super::proof::symcache;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use symbolic_common::clean_path;
use symbolic_debuginfo::{Archive, ObjectKind as TheirKind};
use unslide_model::{Quality, RelativeAddress};
use unslide_symbolicate::object::{self, ObjectKind};
use unslide_symbolicate::symcache::{CodeLookup, NameSource, NoReturn, SymCache};
use unslide_testkit::fixtures::{self, run};

fn facts(path: &Path) -> Vec<object::ObjectFacts> {
    let bytes = std::fs::read(path).unwrap();
    let entries = object::list_objects(&bytes).unwrap();
    entries.into_iter().map(|entry| entry.object.unwrap()).collect()
}

/// Proves: right-names
#[test]
fn symbolic_sees_the_same_in_every_file() {
    let dsyms = ["app", "app-arm64e", "kit", "tool-x86_64", "whole", "watch", "orb-v0"].map(fixtures::dsym);
    let binaries = ["app", "app-symtab", "app-stripped", "kit", "watch"].map(fixtures::binary);
    for path in dsyms.into_iter().chain(binaries) {
        let bytes = std::fs::read(&path).unwrap();
        let archive = Archive::parse(&bytes).unwrap();
        let theirs: Vec<_> = archive.objects().map(Result::unwrap).collect();
        let ours = facts(&path);
        assert_eq!(ours.len(), theirs.len(), "{}", path.display());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let path = path.display();
            assert_eq!(ours.debug_id.unwrap().to_string(), theirs.debug_id().uuid().to_string(), "{path}");
            // symbolic adds the version of arm64_32, of which there is one.
            assert_eq!(ours.cpu.name(), theirs.arch().name().trim_end_matches("_v8"), "{path}");
            assert_eq!(ours.has_dwarf, theirs.has_debug_info(), "{path}");
            let kind = match theirs.kind() {
                TheirKind::Executable => ObjectKind::Executable,
                TheirKind::Library => ObjectKind::Dylib,
                TheirKind::Debug => ObjectKind::Dsym,
                other => panic!("{path}: {other}"),
            };
            assert_eq!(ours.kind, kind, "{path}");
        }
    }
}

#[test]
fn an_encrypted_binary_is_recognised_and_its_dsym_never_is_one() {
    let is_encrypted =
        |bytes: &[u8]| object::list_objects(bytes).unwrap()[0].object.clone().unwrap().is_encrypted;
    assert!(is_encrypted(&fixtures::encrypted_binary("app")));
    for path in [fixtures::binary("app"), fixtures::dsym("app"), fixtures::binary("watch")] {
        assert!(!is_encrypted(&std::fs::read(path).unwrap()));
    }
}

#[test]
fn no_source_file_that_symbolic_lists_is_missing() {
    for name in ["app", "app-arm64e", "kit", "tool-x86_64", "deep-4", "deep-5", "whole", "watch", "orb-v0"] {
        let bytes = std::fs::read(fixtures::dsym(name)).unwrap();
        let archive = Archive::parse(&bytes).unwrap();
        for (entry, theirs) in
            object::list_objects(&bytes).unwrap().into_iter().zip(archive.objects().map(Result::unwrap))
        {
            let session = theirs.debug_session().unwrap();
            let theirs: BTreeSet<String> = session.files().map(|file| file.unwrap().abs_path_str()).collect();
            assert!(!theirs.is_empty(), "{name}");
            let ours = object::list_source_paths(&bytes[entry.range]).unwrap();
            // symbolic does not join names such as `<stdin>`, which are no files, with their folder.
            let files = |paths: &BTreeSet<String>| -> BTreeSet<String> {
                let files = paths.iter().filter(|path| !path.ends_with('>'));
                files.map(|path| clean_path(path).into_owned()).collect()
            };
            // It leaves out units in assembler.
            let more: Vec<String> = files(&ours).difference(&files(&theirs)).cloned().collect();
            assert!(files(&theirs).is_subset(&files(&ours)), "{name}: {ours:?}");
            assert!(more.iter().all(|path| path.ends_with(".s")), "{name}: {more:?}");
        }
    }
}

/// Names by address of the defined symbols that `nm` lists with one of these letters.
fn symbols(path: &Path, letters: &str) -> BTreeMap<u64, String> {
    let list = run(std::process::Command::new("llvm-nm-19").arg("--defined-only").arg(path));
    let mut found = BTreeMap::new();
    for line in list.lines() {
        if let [address, letter, name] = line.splitn(3, ' ').collect::<Vec<_>>()[..]
            && letters.contains(letter)
        {
            found.insert(u64::from_str_radix(address, 16).unwrap(), name.trim_start_matches('_').to_owned());
        }
    }
    found
}

fn name(cache: &SymCache, address: u64) -> Option<String> {
    match cache.lookup(RelativeAddress(address - cache.text_address().0)) {
        CodeLookup::Found(answer) => Some(answer.symbol.unwrap().decode().trim_start_matches('_').to_owned()),
        CodeLookup::Gap | CodeLookup::Outside => None,
    }
}

#[test]
fn debug_information_says_whether_it_carries_its_sources() {
    for (name, expected) in [("kit-sources", true), ("kit-arm64", false), ("app", false)] {
        assert!(facts(&fixtures::dsym(name)).iter().all(|facts| facts.has_sources == expected), "{name}");
    }
}

#[test]
fn a_library_with_exports_alone_names_those_and_nothing_else() {
    let cache = symcache(&fixtures::binary("kit-exports"), "arm64");
    assert_eq!(cache.quality(), Quality::Exports);
    let all = symbols(&fixtures::binary("kit-arm64"), "tT");
    let exported = symbols(&fixtures::binary("kit-arm64"), "T");
    assert!(exported.len() > 3 && exported.len() < all.len());
    for address in all.keys() {
        // Function starts end each export, so that a function without a name has none.
        assert_eq!(name(&cache, *address).as_ref(), exported.get(address), "{address:#x}");
    }
    for (_, answer) in cache.ranges() {
        assert!(answer.is_none_or(|answer| answer.source == NameSource::Exports && !answer.approximate));
    }
}

#[test]
fn a_name_is_approximate_where_a_function_without_a_name_may_lie_behind_it() {
    for (file, expected) in [("kit-locals", false), ("kit-external", true)] {
        let cache = symcache(&fixtures::binary(file), "arm64");
        let answers: Vec<_> = cache.ranges().filter_map(|(_, answer)| answer).collect();
        assert!(answers.len() > 3 && answers.iter().all(|answer| answer.approximate == expected), "{file}");
    }
}

#[test]
fn a_vtable_of_a_stripped_image_ends_where_the_next_may_have_lost_its_symbol() {
    let find = |file, name: &str| {
        let cache = symcache(&fixtures::binary(file), "arm64");
        let is_named = |at: &u64| {
            let found = cache.class_symbol(RelativeAddress(*at));
            found.is_some_and(|class| class.name.is(name))
        };
        (0..1 << 17).step_by(8).filter(is_named).collect::<Vec<u64>>()
    };
    let name = "vtable for __cxxabiv1::__si_class_type_info";
    let whole = find("kit-arm64", name);
    assert!(whole.len() > 3, "{whole:?}");
    assert_eq!(find("kit-external", name), whole[..3]);
    assert_eq!(find("kit-external", "Counter"), find("kit-arm64", "Counter"));
}

#[test]
fn a_stripped_program_names_nothing_that_it_does_not_export() {
    let path: PathBuf = fixtures::binary("app-stripped");
    let cache = symcache(&path, "arm64");
    let exported = symbols(&fixtures::binary("app"), "T");
    let mut named = 0;
    for address in symbols(&fixtures::binary("app"), "tT").keys() {
        if let Some(name) = name(&cache, *address) {
            assert_eq!(Some(&name), exported.get(address));
            named += 1;
        }
    }
    assert!(named > 0, "it exports something");
    assert_eq!(cache.quality(), if cache.ranges().count() == 0 { Quality::None } else { Quality::Exports });
}

/// Proves: right-names
#[test]
fn after_the_last_function_and_the_image_there_is_nothing() {
    for name in ["app", "deep-5", "orb-v0"] {
        let path = fixtures::dsym(name);
        let cache = symcache(&path, "arm64");
        let (last, answer) = cache.ranges().last().unwrap();
        assert!(answer.is_none(), "{name}");
        assert!(matches!(cache.lookup(last), CodeLookup::Gap), "{name}");
        assert!(matches!(cache.lookup(RelativeAddress(last.0 - 1)), CodeLookup::Found(_)), "{name}");
        assert!(matches!(cache.lookup(RelativeAddress(0)), CodeLookup::Gap), "{name}");
        assert!(matches!(cache.lookup(RelativeAddress(cache.text_size())), CodeLookup::Outside), "{name}");
        assert!(matches!(cache.lookup(RelativeAddress(u64::MAX)), CodeLookup::Outside), "{name}");
    }
}

/// Proves: right-names
#[test]
fn a_function_without_debug_information_has_a_name_and_no_line() {
    let path = fixtures::dsym("app");
    let cache = symcache(&path, "arm64");
    let address = symbols(&path, "tT").into_iter().find(|(_, name)| name == "without_debug_info").unwrap().0;
    let CodeLookup::Found(answer) = cache.lookup(RelativeAddress(address - cache.text_address().0)) else {
        panic!("no answer");
    };
    assert_eq!((answer.source, answer.approximate), (NameSource::Symtab, false));
    let call = answer.calls().next().unwrap();
    assert_eq!((call.file, call.line, call.column, call.inlined), (None, None, None, false));
}

#[test]
fn functions_that_never_return_are_known_in_every_build() {
    for architecture in ["arm64", "x86_64"] {
        for optimisation in ["O0", "O2", "Oz"] {
            let cache =
                symcache(&fixtures::dsym(&format!("failures-{architecture}-{optimisation}")), architecture);
            let calls = cache.ranges().filter_map(|(_, answer)| answer).flat_map(|answer| answer.calls());
            let mut found: BTreeMap<String, Option<NoReturn>> = BTreeMap::new();
            // Without a file it is the padding behind a function, which the symbol table alone names.
            for call in calls.filter(|call| call.file.is_some()) {
                found.insert(call.function.decode().into_owned(), call.no_return);
            }
            assert!(found.len() >= 18, "{found:?}");
            for (name, no_return) in found {
                let expected = match name.split_once('_').map_or("", |(first, _)| first) {
                    _ if name.contains("~Failure") || name.contains("declared_method") => {
                        Some(NoReturn::Declared)
                    }
                    "declared" => Some(NoReturn::Declared),
                    "inferred" => Some(NoReturn::Inferred),
                    // What clang makes to end a process.
                    "" if name.starts_with("__clang_call_terminate") => no_return,
                    _ => None,
                };
                assert_eq!(no_return, expected, "{name}, {architecture}, {optimisation}");
            }
        }
    }
}
