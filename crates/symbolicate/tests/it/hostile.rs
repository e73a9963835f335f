//! Files that lie: whatever they say, a build ends with an answer or a reason.
//! Proves: bounded-input

use proptest::prelude::*;
use unslide_model::RelativeAddress;
use unslide_report::Text;
use unslide_symbolicate::object::{self, BuiltSymCache, ObjectError};
use unslide_symbolicate::symcache::{CodeLookup, MAX_CALLS, SymCache};
use unslide_testkit::macho::{CODE, File, TEXT, longest_chain, unit};

const APP: &[u8] = include_bytes!("../data/app.dsym");

pub(super) fn build(file: &File) -> Result<BuiltSymCache, ObjectError> {
    object::build_symcache(&file.bytes())
}

/// The names at an offset from the start of the code, innermost first.
pub(super) fn names(built: &BuiltSymCache, offset: u64) -> Vec<String> {
    let cache = SymCache::parse(built.symcache.clone()).unwrap();
    match cache.lookup(RelativeAddress(CODE - TEXT + offset)) {
        CodeLookup::Found(answer) => answer.calls().map(|call| call.function.decode().into_owned()).collect(),
        CodeLookup::Gap | CodeLookup::Outside => Vec::new(),
    }
}

/// Abbreviations: 1 a unit with children; 2 a function with children, name, low pc, size; 3 an inlined
/// function with children, origin, low pc, size; 4 a block with children; 5 a function without children
/// or addresses, with a name that is found at an origin; 6 a unit with a line table.
fn abbreviations() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend([1, 0x11, 1, 0, 0]);
    out.extend([2, 0x2E, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0]);
    out.extend([3, 0x1D, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0, 0]);
    out.extend([4, 0x0B, 1, 0, 0]);
    out.extend([5, 0x2E, 0, 0x31, 0x13, 0, 0]);
    out.extend([6, 0x11, 1, 0x10, 0x17, 0, 0]);
    out.push(0);
    out
}

fn function(name: &str, low: u64, size: u32) -> Vec<u8> {
    [&[2], name.as_bytes(), &[0], &low.to_le_bytes(), &size.to_le_bytes()].concat()
}

fn inlined(origin: u32, low: u64, size: u32) -> Vec<u8> {
    [&[3][..], &origin.to_le_bytes(), &low.to_le_bytes(), &size.to_le_bytes()].concat()
}

fn with_entries(entries: &[Vec<u8>]) -> File<'static> {
    let info = unit(&[vec![1], entries.concat()].concat());
    File { dwarf: vec![("__debug_info", info), ("__debug_abbrev", abbreviations())], ..File::default() }
}

#[test]
fn the_hand_made_file_is_sound() {
    // `outer` has an unnamed inlined copy of itself at its first four bytes.
    let file = with_entries(&[function("outer", CODE, 8), inlined(12, CODE, 4), vec![0, 0, 0]]);
    let built = build(&file).unwrap();
    assert_eq!(built.warnings, Vec::<String>::new());
    assert_eq!(names(&built, 0), ["outer", "outer"]);
    assert_eq!(names(&built, 4), ["outer"]);
    assert!(names(&built, 8).is_empty());
}

#[test]
fn a_line_table_that_ends_outside_the_file_costs_no_names_where_nothing_refers_to_it() {
    let file =
        File { symbols: vec![("f", CODE)], dwarf: vec![("__debug_line", vec![0; 8])], ..File::default() };
    let bytes = file.bytes();
    let cut = &bytes[..bytes.len() - 1];
    let facts = object::list_objects(cut).unwrap()[0].object.clone().unwrap();
    assert!(!facts.has_sources);
    let built = object::build_symcache(cut).unwrap();
    assert_eq!(facts.debug_id, Some(built.debug_id));
    assert_eq!(names(&built, 0), ["f"]);
}

#[test]
fn origins_in_a_circle_name_nothing() {
    // Two entries that name each other, and a function inlined from them: offsets 12 and 17.
    let mut entries =
        vec![[&[5][..], &17_u32.to_le_bytes()].concat(), [&[5][..], &12_u32.to_le_bytes()].concat()];
    entries.extend([function("outer", CODE, 8), inlined(12, CODE, 4), vec![0, 0, 0]]);
    let built = build(&with_entries(&entries)).unwrap();
    assert_eq!(names(&built, 0), ["", "outer"]);
    // One that names itself, or lies outside.
    for origin in [12, 0xFFFF_FFFF, 3] {
        let entries = [
            [&[5][..], &12_u32.to_le_bytes()].concat(),
            function("f", CODE, 8),
            inlined(origin, CODE, 4),
            vec![0],
        ];
        assert_eq!(names(&build(&with_entries(&entries)).unwrap(), 0), ["", "f"], "{origin}");
    }
}

#[test]
fn calls_inlined_deeper_than_a_chain_holds_are_cut_in_the_middle() {
    let mut entries = vec![function("outer", CODE, 8)];
    entries.extend((0..900).map(|_| inlined(12, CODE, 4)));
    let built = build(&with_entries(&entries)).unwrap();
    assert_eq!(names(&built, 0).len(), MAX_CALLS);
}

#[test]
fn the_longest_chain_is_what_tests_elsewhere_believe() {
    let bytes = longest_chain(1_000);
    let built = object::build_symcache(&bytes).unwrap();
    let names = names(&built, 0);
    assert_eq!((names.len(), names[0].len(), names[255].get(..4)), (MAX_CALLS, 1_000, Some("f000")));
}

#[test]
fn functions_that_the_linker_removed_are_nowhere() {
    let entries = [
        function("at_zero", 0, u32::MAX),
        vec![0],
        function("tombstone", u64::MAX - 1, 16),
        vec![0],
        function("header", TEXT, 0x1000),
        vec![0],
        function("real", CODE + 16, u32::MAX),
        vec![0],
    ];
    let built = build(&with_entries(&entries)).unwrap();
    assert!(names(&built, 0).is_empty());
    assert_eq!(names(&built, 16), ["real"]);
    // Cut where the section ends.
    assert_eq!(names(&built, 0xEFF), ["real"]);
    assert!(names(&built, 0xF00).is_empty());
}

/// A line table of this version: what comes before the tables, the tables, the program.
pub(super) fn line_table(version: u8, tables: &[u8], program: &[u8]) -> Vec<u8> {
    let fields = [&[1][..], if version >= 4 { &[1] } else { &[] }, &[1, 0xFB, 14, 13]].concat();
    let header = [&fields[..], &[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1], tables].concat();
    let sizes: &[u8] = if version >= 5 { &[8, 0] } else { &[] };
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    let rest = [&[version, 0], sizes, &length(header.len()), &header, program].concat();
    [&length(rest.len())[..], &rest].concat()
}

#[test]
fn functions_of_many_units_over_each_other_are_answered_by_the_first() {
    let unit_of = |name: &str, low, size| unit(&[&[1][..], &function(name, low, size), &[0, 0]].concat());
    let file = |units: Vec<Vec<u8>>| File {
        dwarf: vec![("__debug_info", units.concat()), ("__debug_abbrev", abbreviations())],
        ..File::default()
    };
    let built = build(&file(vec![
        unit_of("second", CODE + 4, 4),
        unit_of("all", CODE, 16),
        unit_of("more", CODE + 2, 30),
        unit_of("none", CODE + 4, 8),
    ]))
    .unwrap();
    let seen: Vec<_> = [0, 3, 4, 8, 16, 31].iter().flat_map(|at| names(&built, *at)).collect();
    assert_eq!(seen, ["all", "all", "second", "all", "more", "more"]);
    assert!(names(&built, 32).is_empty());
}

#[test]
fn architectures_over_each_other_are_malformed() {
    let slice = with_entries(&[function("f", CODE, 8), vec![0]]).bytes();
    let fat = |offsets: [usize; 2]| {
        let mut out = [0xCAFE_BABE_u32, 2].map(u32::to_be_bytes).concat();
        for offset in offsets {
            let (at, size) = (offset as u32, slice.len() as u32);
            out.extend([0x0100_000C, 0, at, size, 0].map(u32::to_be_bytes).concat());
        }
        out.resize(64, 0);
        out.extend(slice.repeat(2));
        out
    };
    let beside = fat([64, 64 + slice.len()]);
    assert_eq!(object::list_objects(&beside).unwrap().len(), 2);
    for over in [[64, 64], [64 + slice.len(), 64 + slice.len() - 1]] {
        let found = object::list_objects(&fat(over));
        assert!(matches!(found, Err(ObjectError::Malformed(_))), "{found:?}");
    }
}

#[test]
fn tables_outside_the_file_are_malformed() {
    let mut file = with_entries(&[function("f", CODE, 8), vec![0]]);
    file.symbols = vec![("_f", CODE)];
    assert!(build(&file).is_ok());
    file.symbols_off_by = 0x10_0000;
    assert!(matches!(build(&file), Err(ObjectError::Malformed(_))));
    for end in (0..APP.len()).step_by(97) {
        assert!(object::build_symcache(&APP[..end]).is_err(), "{end}");
    }
}

/// The function that owns the code at its start, and those that it is folded with.
fn owner(built: &BuiltSymCache) -> (String, Vec<String>) {
    let cache = SymCache::parse(built.symcache.clone()).unwrap();
    cache.verify_checksum().unwrap();
    let answer = cache.lookup(RelativeAddress(CODE - TEXT)).into_answer().unwrap();
    let own = |name: Text<'_>| name.decode().into_owned();
    (own(answer.symbol.unwrap()), answer.folded_with().map(own).collect())
}

#[test]
fn of_functions_with_the_same_code_the_one_that_the_lines_belong_to_is_named_and_the_others_are_listed() {
    let symbols =
        vec![("_alpha", CODE), ("_beta", CODE), ("_gamma", CODE), ("_beta", CODE), ("_alone", CODE + 8)];
    let file = |name: &str| File {
        symbols: symbols.clone(),
        ..with_entries(&[function(name, CODE, 8), vec![0], function("alone", CODE + 8, 4), vec![0, 0]])
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // The symbol table's last name is that of LLVM.
    for (dwarf, shown, others) in [
        ("alpha", "alpha", ["beta", "gamma"]),
        ("beta", "beta", ["alpha", "gamma"]),
        ("delta", "beta", ["alpha", "gamma"]),
    ] {
        let (owner, mut folded) = owner(&build(&file(dwarf)).unwrap());
        folded.sort();
        assert_eq!((owner.as_str(), folded), (shown, names(&others)), "{dwarf}");
    }
    // Without debug information too; and at most eight are listed.
    let many = ["_a", "_b", "_c", "_d", "_e", "_f", "_g", "_h", "_i", "_j", "_k"].map(|name| (name, CODE));
    let built = build(&File { symbols: many.to_vec(), ..File::default() }).unwrap();
    let expected = names(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(owner(&built), ("k".to_owned(), expected));
    let alone = SymCache::parse(build(&file("alpha")).unwrap().symcache).unwrap();
    let alone = alone
        .lookup(RelativeAddress(CODE + 8 - TEXT))
        .into_answer()
        .map(|answer| answer.folded_with().count());
    assert_eq!(alone, Some(0));
}

#[test]
fn a_hundred_thousand_names_of_one_address_are_two() {
    let symbols = (0..100_000).map(|n| (if n % 2 == 0 { "_even" } else { "_odd" }, CODE)).collect();
    let functions: Vec<Vec<u8>> = (0..2_000).map(|_| [function("even", CODE, 4), vec![0]].concat()).collect();
    let built = build(&File { symbols, ..with_entries(&[functions.concat(), vec![0]]) }).unwrap();
    assert_eq!(owner(&built), ("even".to_owned(), vec!["odd".to_owned()]));
}

#[test]
fn a_call_that_does_not_name_its_file_is_in_no_file() {
    // A line table of version 5, in which file 0 is one: a directory and a file with names in place.
    let tables = [&[1, 1, 0x08, 1][..], b"/src\0", &[1, 1, 0x08, 1], b"zero.c\0"].concat();
    // Address, line 3, one row, four bytes on, the end.
    let program = [&[0, 9, 2][..], &CODE.to_le_bytes(), &[4, 0, 3, 2, 1, 2, 4, 0, 1, 1]].concat();
    // 7 an inlined function with origin, low pc, size and the line of the call; 8 the same with its file.
    let call = |code: u8, file: &[u8]| {
        let abbreviation = [0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x59, 0x0B];
        let with_file: &[u8] = if file.is_empty() { &[] } else { &[0x58, 0x0B] };
        [&[code, 0x1D, 0][..], &abbreviation, with_file, &[0, 0]].concat()
    };
    let mut table = abbreviations();
    table.pop();
    let table = [table, call(7, &[]), call(8, &[0]), vec![0]].concat();
    for (code, file, expected) in [(7, &[][..], None), (8, &[0][..], Some("/src/zero.c".to_owned()))] {
        let inner =
            [&[code][..], &16_u32.to_le_bytes(), &CODE.to_le_bytes(), &4_u32.to_le_bytes(), &[9], file]
                .concat();
        let entries = [&[6][..], &0_u32.to_le_bytes(), &function("f", CODE, 8), &inner, &[0, 0]].concat();
        let built = build(&File {
            dwarf: vec![
                ("__debug_info", unit(&entries)),
                ("__debug_abbrev", table.clone()),
                ("__debug_line", line_table(5, &tables, &program)),
            ],
            ..File::default()
        });
        let cache = SymCache::parse(built.unwrap().symcache).unwrap();
        let answer = cache.lookup(RelativeAddress(CODE - TEXT)).into_answer().unwrap();
        let calls: Vec<_> = answer.calls().collect();
        let outer = calls.last().unwrap();
        assert_eq!(
            (calls.len(), outer.line, outer.file.map(Text::decode).as_deref()),
            (2, Some(9), expected.as_deref()),
            "{code}"
        );
        assert_eq!(calls[0].file.map(Text::decode).as_deref(), Some("/src/zero.c"));
    }
}

#[test]
fn a_nameless_function_start_ends_the_symbol_before_it() {
    let file = File {
        kind: Some(6),
        symbols: vec![("_first", CODE), ("_third", CODE + 0x20)],
        // 0x100, 0x110, 0x120 from __TEXT.
        function_starts: vec![0x80, 0x02, 0x10, 0x10, 0],
        ..File::default()
    };
    let built = build(&file).unwrap();
    assert_eq!(names(&built, 0xF), ["first"]);
    assert!(names(&built, 0x10).is_empty() && names(&built, 0x1F).is_empty());
    assert_eq!(names(&built, 0x20), ["third"]);
}

#[test]
fn what_is_no_linked_mach_o_says_so() {
    for bytes in [&b""[..], b"\x7fELF", b"MZ", &[0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 52]] {
        assert_eq!(object::list_objects(bytes), Err(ObjectError::NotAnObject));
    }
    assert!(matches!(object::list_objects(b"!<arch>\n"), Err(ObjectError::Unsupported(_))));
    assert!(matches!(object::list_objects(&[0xFE, 0xED, 0xFA, 0xCF]), Err(ObjectError::Unsupported(_))));
    let relocatable = File { kind: Some(1), ..File::default() };
    assert!(matches!(build(&relocatable), Err(ObjectError::Unsupported(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_object_gives_a_symcache_or_a_reason(changes in prop::collection::vec((0..APP.len(), any::<u8>()), 1..12)) {
        let mut bytes = APP.to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        if let Ok(built) = object::build_symcache(&bytes) {
            let cache = SymCache::parse(built.symcache.clone()).unwrap();
            cache.verify_checksum().unwrap();
            for (_, answer) in cache.ranges() {
                prop_assert!(answer.is_none_or(|answer| (1..=MAX_CALLS).contains(&answer.calls().count())));
            }
        }
    }

    #[test]
    fn a_damaged_symcache_answers_or_does_not(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        addresses in prop::collection::vec(0_u64..0x1_0000, 20),
    ) {
        let mut bytes = object::build_symcache(APP).unwrap().symcache;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(cache) = SymCache::parse(bytes.clone()) {
            for address in addresses {
                if let CodeLookup::Found(answer) = cache.lookup(RelativeAddress(address)) {
                    prop_assert!(answer.calls().count() <= MAX_CALLS);
                }
            }
            prop_assert!(cache.ranges().count() <= bytes.len());
        }
    }
}
