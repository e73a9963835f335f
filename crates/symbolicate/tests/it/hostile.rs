//! Files that lie: whatever they say, a build ends soon, in bounded memory, with an answer or a reason.

use proptest::prelude::*;
use unslide_model::RelativeAddress;
use unslide_symbolicate::object::{self, Built, Limits, ObjectError};
use unslide_symbolicate::symcache::{Lookup, MAX_CALLS, SymCache};
use unslide_testkit::macho::{CODE, File, TEXT, longest_chain, unit};
use unslide_testkit::memory::peak;

const APP: &[u8] = include_bytes!("../data/app.dsym");

/// What a build may take that is not counted: small lists, and what a few allocations are too large.
const UNCOUNTED: u64 = 2 << 20;

/// Builds within limits, and holds it to them.
pub(super) fn build_within(bytes: &[u8], limits: &Limits) -> Result<Built, ObjectError> {
    let (built, most) = peak(|| object::build(bytes, limits));
    let allowed = limits.memory(bytes.len()) + UNCOUNTED;
    assert!(most as u64 <= allowed, "{most} bytes of memory, {allowed} allowed: {built:?}");
    built
}

pub(super) fn build(file: &File) -> Result<Built, ObjectError> {
    build_within(&file.bytes(), &Limits::default())
}

/// The names at an offset from the start of the code, innermost first.
pub(super) fn names(built: &Built, offset: u64) -> Vec<String> {
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
fn a_line_table_that_ends_outside_the_file_costs_no_names_where_nothing_refers_to_it() {
    let file =
        File { symbols: vec![("f", CODE)], dwarf: vec![("__debug_line", vec![0; 8])], ..File::default() };
    let bytes = file.bytes();
    let cut = &bytes[..bytes.len() - 1];
    let facts = object::objects(cut, &Limits::default()).unwrap()[0].object.clone().unwrap();
    assert!(!facts.has_sources);
    let built = build_within(cut, &Limits::default()).unwrap();
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
fn the_longest_chain_is_what_tests_elsewhere_believe() {
    let bytes = longest_chain(1_000);
    let built = build_within(&bytes, &Limits::default()).unwrap();
    let names = names(&built, 0);
    assert_eq!((names.len(), names[0].len(), &names[255][..4]), (MAX_CALLS, 1_000, "f000"));
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

/// A line table of this version: what comes before the tables, the tables, the program.
pub(super) fn line_table(version: u8, tables: &[u8], program: &[u8]) -> Vec<u8> {
    let fields = [&[1][..], if version >= 4 { &[1] } else { &[] }, &[1, 0xFB, 14, 13]].concat();
    let header = [&fields[..], &[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1], tables].concat();
    let sizes: &[u8] = if version >= 5 { &[8, 0] } else { &[] };
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    let rest = [&[version, 0], sizes, &length(header.len()), &header, program].concat();
    [&length(rest.len())[..], &rest].concat()
}

/// A unit with a line table, and a function.
fn with_lines(lines: Vec<u8>) -> File {
    let entries = [&[6][..], &0_u32.to_le_bytes(), &function("f", CODE, 8), &[0, 0]].concat();
    File {
        dwarf: vec![
            ("__debug_info", unit(&entries)),
            ("__debug_abbrev", abbreviations()),
            ("__debug_line", lines),
        ],
        ..File::default()
    }
}

#[test]
fn whatever_a_file_makes_grow_is_paid_for_before_it_grows() {
    let dwarf = |table: Vec<u8>, entries: Vec<u8>| File {
        dwarf: vec![("__debug_info", unit(&entries)), ("__debug_abbrev", table)],
        ..File::default()
    };
    // A function with children and nothing else: two bytes.
    let nodes =
        dwarf(vec![1, 0x11, 1, 0, 0, 2, 0x2E, 1, 0, 0, 0], [&[1][..], &[2, 0].repeat(200_000)].concat());
    let mut table = abbreviations();
    table.pop();
    table.extend(
        (7_u32..70_000).flat_map(|n| {
            [n as u8 & 0x7F | 0x80, (n >> 7) as u8 & 0x7F | 0x80, (n >> 14) as u8, 0x2E, 0, 0, 0]
        }),
    );
    let many_abbreviations =
        dwarf([&table[..], &[0]].concat(), [&[1][..], &function("f", CODE, 8), &[0, 0]].concat());
    let flags = [&[1, 0x11, 1][..], &[0x3F, 0x19].repeat(600_000), &[0, 0, 0]].concat();
    let many_attributes = dwarf(flags, vec![1, 0]);
    // Functions over and over each other, with a range of one byte each.
    let calls: Vec<Vec<u8>> = (0..80_000)
        .map(|n| function("f", CODE + n * 7 % 0xE00, 1).into_iter().chain([0]).collect())
        .collect();
    let ranges = with_entries(&calls);
    // A row for each byte of code, again and again.
    let sequence = [&[0, 9, 2][..], &CODE.to_le_bytes(), &[0x20; 0xE00], &[2, 1, 0, 1, 1]].concat();
    let rows = with_lines(line_table(4, &[0, 0], &sequence.repeat(100)));
    let short = [&[0, 9, 2][..], &CODE.to_le_bytes(), &[0x20, 0x20, 0, 1, 1]].concat();
    let sequences = with_lines(line_table(4, &[0, 0], &short.repeat(80_000)));
    let files_4 = with_lines(line_table(4, &[&[0][..], &b"a\0\0\0\0".repeat(60_000), &[0]].concat(), &[]));
    let count = [0xE0, 0xD4, 0x03]; // 60,000
    let one_byte = [&[1, 1, 0x0B][..], &count, &[0; 60_000]].concat();
    let directories_5 = with_lines(line_table(5, &[&one_byte.repeat(2)[..], &[1, 1, 0x0B, 0]].concat(), &[]));
    let files_5 = with_lines(line_table(5, &[&[1, 1, 0x0B, 0][..], &one_byte].concat(), &[]));
    let starts = File { function_starts: vec![1; 2_000_000], ..File::default() };
    let symbols = File { symbols: (0..200_000).map(|n| ("", CODE + n % 0xE00)).collect(), ..File::default() };
    let mut symbols = symbols.bytes();
    // Names are left out where they are empty: each symbol has that of the table's end.
    let at =
        symbols.windows(16).position(|w| w[4..8] == [0x0F, 1, 0, 0] && w[8..] == CODE.to_le_bytes()).unwrap();
    for symbol in symbols[at..][..200_000 * 16].chunks_exact_mut(16) {
        symbol[..4].copy_from_slice(&1_u32.to_le_bytes());
    }
    let names_at = at + 200_000 * 16 + 1;
    symbols[names_at..][..2].copy_from_slice(b"x\0");
    let cases = [
        ("nodes", nodes.bytes()),
        ("abbreviations", many_abbreviations.bytes()),
        ("attributes", many_attributes.bytes()),
        ("ranges", ranges.bytes()),
        ("rows", rows.bytes()),
        ("sequences", sequences.bytes()),
        ("files, version 4", files_4.bytes()),
        ("directories, version 5", directories_5.bytes()),
        ("files, version 5", files_5.bytes()),
        ("function starts", starts.bytes()),
        ("symbols", symbols),
    ];
    for (what, bytes) in cases {
        let limits = Limits { max_memory_bytes: 6 << 20, ..Limits::default() };
        let built = build_within(&bytes, &limits);
        let of_memory = matches!(&built, Err(ObjectError::TooLarge(why)) if why.contains("memory"));
        assert!(of_memory, "{what}: {built:?}");
        // As far as its own size lets it go, it is held to that as well.
        let _ = build_within(&bytes, &Limits::default());
    }
}

#[test]
fn a_small_file_gets_no_more_memory_than_its_size_explains() {
    let limits = Limits::default();
    assert!(limits.memory(1 << 10) < 65 << 20);
    assert_eq!(limits.memory(1 << 30), limits.max_memory_bytes);
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
    assert!(build_within(&bytes, &Limits::default()).is_ok());
    // Every symbol has the first one's name.
    let table =
        bytes.windows(16).position(|w| w[..8] == [1, 0, 0, 0, 0x0F, 1, 0, 0] && w[8..] == CODE.to_le_bytes());
    let table = table.unwrap();
    for i in 0..=2000 {
        bytes[table + 16 * i..][..4].copy_from_slice(&1_u32.to_le_bytes());
    }
    assert!(matches!(build_within(&bytes, &Limits::default()), Err(ObjectError::TooLarge(_))));
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
    assert_eq!(object::objects(&beside, &Limits::default()).unwrap().len(), 2);
    for over in [[64, 64], [64 + slice.len(), 64 + slice.len() - 1]] {
        let found = object::objects(&fat(over), &Limits::default());
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
        if let Ok(built) = build_within(&bytes, &Limits::default()) {
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
