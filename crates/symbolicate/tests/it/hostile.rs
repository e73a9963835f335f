//! Files that lie: whatever they say, a build ends soon, in bounded memory, with an answer or a reason.

use super::macho::{CODE, File, TEXT, unit};
use proptest::prelude::*;
use unslide_model::RelativeAddress;
use unslide_symbolicate::object::{self, Built, Limits, ObjectError};
use unslide_symbolicate::symcache::{Lookup, MAX_CALLS, SymCache};

const APP: &[u8] = include_bytes!("../data/app.dsym");

fn build(file: &File) -> Result<Built, ObjectError> {
    object::build(&file.bytes(), &Limits::default())
}

/// The names at an offset from the start of the code, innermost first.
fn names(built: &Built, offset: u64) -> Vec<String> {
    let cache = SymCache::parse(&built.symcache[..]).unwrap();
    match cache.lookup(RelativeAddress(CODE - TEXT + offset)) {
        Lookup::Found(answer) => answer.calls().map(|call| call.function.decode()).collect(),
        Lookup::Gap | Lookup::Outside => Vec::new(),
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

fn with_entries(entries: &[Vec<u8>]) -> File {
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
fn entries_nested_without_end_are_too_large() {
    let file = with_entries(&[vec![4; 2000]]);
    assert!(matches!(build(&file), Err(ObjectError::TooLarge(_))), "{:?}", build(&file));
}

#[test]
fn calls_inlined_deeper_than_a_chain_holds_are_cut_in_the_middle() {
    let mut entries = vec![function("outer", CODE, 8)];
    entries.extend((0..900).map(|_| inlined(12, CODE, 4)));
    let built = build(&with_entries(&entries)).unwrap();
    assert_eq!(names(&built, 0).len(), MAX_CALLS);
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

#[test]
fn a_line_program_without_end_is_bounded() {
    // A version 4 header without files, then an endless run of special opcodes.
    let mut program = vec![1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0];
    program.extend([&[0, 9, 2][..], &CODE.to_le_bytes()].concat());
    program.extend(vec![0x20; 200_000]);
    let mut lines = u32::try_from(6 + program.len()).unwrap().to_le_bytes().to_vec();
    lines.extend([4, 0, 20, 0, 0, 0]);
    lines.extend(program);
    // Units that all use it.
    let entries = [&[6][..], &0_u32.to_le_bytes(), &function("f", CODE, 8), &[0, 0]].concat();
    let file = |units: usize| File {
        dwarf: vec![
            ("__debug_info", unit(&entries).repeat(units)),
            ("__debug_abbrev", abbreviations()),
            ("__debug_line", lines.clone()),
        ],
        ..File::default()
    };
    assert_eq!(names(&build(&file(1)).unwrap(), 0), ["f"]);
    assert!(matches!(build(&file(2000)), Err(ObjectError::TooLarge(_))));
}

#[test]
fn entries_with_endless_attributes_that_take_no_bytes_are_too_large() {
    // One abbreviation with 20,000 flags, and a unit of 20,000 such entries of one byte.
    let mut table = vec![1, 0x11, 1, 0, 0, 2, 0x34, 0];
    table.extend([0x3F, 0x19].repeat(20_000));
    table.extend([0, 0, 0]);
    let entries = [&[1][..], &[2; 20_000], &[0]].concat();
    let file =
        File { dwarf: vec![("__debug_info", unit(&entries)), ("__debug_abbrev", table)], ..File::default() };
    assert!(matches!(build(&file), Err(ObjectError::TooLarge(_))));
}

#[test]
fn symbols_that_share_one_long_name_are_too_large() {
    let name: &'static str = "x".repeat(200_000).leak();
    let mut symbols = vec![(name, CODE)];
    symbols.extend((0..2000).map(|i| ("", CODE + i)));
    let file = File { symbols, ..File::default() };
    let mut bytes = file.bytes();
    assert!(object::build(&bytes, &Limits::default()).is_ok());
    // Every symbol has the first one's name.
    let table =
        bytes.windows(16).position(|w| w[..8] == [1, 0, 0, 0, 0x0F, 1, 0, 0] && w[8..] == CODE.to_le_bytes());
    let table = table.unwrap();
    for i in 0..=2000 {
        bytes[table + 16 * i..][..4].copy_from_slice(&1_u32.to_le_bytes());
    }
    assert!(matches!(object::build(&bytes, &Limits::default()), Err(ObjectError::TooLarge(_))));
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
fn tables_outside_the_file_are_malformed() {
    let mut file = with_entries(&[function("f", CODE, 8), vec![0]]);
    file.symbols = vec![("_f", CODE)];
    assert!(build(&file).is_ok());
    file.symbols_off_by = 0x10_0000;
    assert!(matches!(build(&file), Err(ObjectError::Malformed(_))));
    for end in (0..APP.len()).step_by(97) {
        assert!(object::build(&APP[..end], &Limits::default()).is_err(), "{end}");
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
    let limits = Limits::default();
    for bytes in [&b""[..], b"\x7fELF", b"MZ", &[0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 52]] {
        assert_eq!(object::objects(bytes, &limits), Err(ObjectError::NotAnObject));
    }
    assert!(matches!(object::objects(b"!<arch>\n", &limits), Err(ObjectError::Unsupported(_))));
    assert!(matches!(object::objects(&[0xFE, 0xED, 0xFA, 0xCF], &limits), Err(ObjectError::Unsupported(_))));
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
        if let Ok(built) = object::build(&bytes, &Limits::default()) {
            let cache = SymCache::parse(&built.symcache[..]).unwrap();
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
        let mut bytes = object::build(APP, &Limits::default()).unwrap().symcache;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(cache) = SymCache::parse(&bytes[..]) {
            for address in addresses {
                if let Lookup::Found(answer) = cache.lookup(RelativeAddress(address)) {
                    prop_assert!(answer.calls().count() <= MAX_CALLS);
                }
            }
            prop_assert!(cache.ranges().count() <= bytes.len());
        }
    }
}
