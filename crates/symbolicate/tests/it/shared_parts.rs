//! Files that use one long part again and again, and the table of ranges, which says what of it is whose.

use super::hostile::{build, build_within, line_table, names};
use unslide_symbolicate::object::{Built, Limits, ObjectError};
use unslide_testkit::macho::{CODE, File, TEXT, unit};

/// Code at the start of [`CODE`], under `f`.
fn file(dwarf: Vec<(&'static str, Vec<u8>)>) -> File {
    File { dwarf, symbols: vec![("_f", CODE)], ..File::default() }
}

/// The number of times that the long part is used.
const TIMES: usize = 20_000;

fn assert_repeated(what: &str, built: &Result<Built, ObjectError>) {
    let is_repeated = matches!(built, Err(ObjectError::TooLarge(why)) if why.contains("over and over"));
    assert!(is_repeated, "{what}: {built:?}");
}

/// A `.debug_info` unit of DWARF 5 with these entries.
fn unit_5(entries: &[u8]) -> Vec<u8> {
    let length = u32::try_from(8 + entries.len()).unwrap().to_le_bytes();
    [&length[..], &[5, 0, 1, 8, 0, 0, 0, 0], entries].concat()
}

#[test]
fn range_lists_whose_entries_give_nothing_are_paid_for() {
    // 1 a unit; 2 a function with a list of ranges; 3 a unit with one.
    let table =
        [&[1, 0x11, 1, 0, 0][..], &[2, 0x2E, 0, 0x55, 0x17, 0, 0], &[3, 0x11, 0, 0x55, 0x17, 0, 0], &[0]]
            .concat();
    let with = |info, section, list| {
        build(&file(vec![("__debug_info", info), ("__debug_abbrev", table.clone()), (section, list)]))
    };
    let functions = |at: u8| [&[1][..], &[2, at, 0, 0, 0].repeat(TIMES), &[0]].concat();
    let end = [0; 16];
    let nowhere = [1_u64, 1].map(u64::to_le_bytes).concat();
    let base = [u64::MAX, CODE].map(u64::to_le_bytes).concat();
    for entry in [nowhere, base] {
        let list = [&entry.repeat(TIMES)[..], &end].concat();
        assert_repeated("functions", &with(unit(&functions(0)), "__debug_ranges", list.clone()));
        assert_repeated("units", &with(unit(&[3, 0, 0, 0, 0]).repeat(TIMES), "__debug_ranges", list));
    }
    // A header of twelve bytes; pairs of offsets that are equal.
    let entries = [&[4, 0, 0].repeat(TIMES)[..], &[0]].concat();
    let length = u32::try_from(8 + entries.len()).unwrap().to_le_bytes();
    let list = [&length[..], &[5, 0, 8, 0, 0, 0, 0, 0], &entries].concat();
    assert_repeated("DWARF 5", &with(unit_5(&functions(12)), "__debug_rnglists", list));
}

#[test]
fn names_are_looked_up_only_where_there_is_code_and_paid_for() {
    // 1 a unit; 2 a function with a name elsewhere; 3 one with its address and size as well; 4 a unit with
    // a name elsewhere; 5 one with a directory elsewhere; 6 a function with its name here; 7 a function with
    // an origin, an address and a size.
    let table = [
        &[1, 0x11, 1, 0, 0][..],
        &[2, 0x2E, 0, 0x03, 0x0E, 0, 0],
        &[3, 0x2E, 0, 0x03, 0x0E, 0x11, 0x01, 0x12, 0x0B, 0, 0],
        &[4, 0x11, 0, 0x03, 0x0E, 0, 0],
        &[5, 0x11, 0, 0x1B, 0x0E, 0, 0],
        &[6, 0x2E, 0, 0x03, 0x08, 0, 0],
        &[7, 0x2E, 0, 0x31, 0x10, 0x11, 0x01, 0x12, 0x0B, 0, 0],
        &[0],
    ]
    .concat();
    let endless = vec![b'a'; 1 << 20];
    let with = |info, texts| {
        build(&file(vec![("__debug_info", info), ("__debug_abbrev", table.clone()), ("__debug_str", texts)]))
    };
    let of_unit = |entries: Vec<u8>| unit(&[&[1][..], &entries, &[0]].concat());
    let place = [&CODE.to_le_bytes()[..], &[1]].concat();

    let without_code = of_unit([2, 0, 0, 0, 0].repeat(TIMES));
    for texts in [endless.clone(), [&endless[..], &[0]].concat()] {
        assert_eq!(names(&with(without_code.clone(), texts).unwrap(), 0), ["f"]);
    }
    let with_code = of_unit([&[3, 0, 0, 0, 0][..], &place].concat().repeat(TIMES));
    assert_repeated("functions", &with(with_code, endless.clone()));
    for (what, code) in [("units' names", 4), ("units' directories", 5)] {
        assert_repeated(what, &with(unit(&[code, 0, 0, 0, 0]).repeat(TIMES), endless.clone()));
    }
    // Origins side by side in a unit that is one text without an end.
    let text = unit(&[&[1][..], &[6; 200_000]].concat());
    let function = |n: usize| {
        let origin = u32::try_from(12 + n).unwrap().to_le_bytes();
        [&[7][..], &origin, &place].concat()
    };
    let origins = of_unit((0..TIMES).flat_map(function).collect());
    assert_repeated("origins", &with([text, origins].concat(), Vec::new()));
}

#[test]
fn functions_over_what_others_answered_without_a_claim_cost_what_they_are() {
    // 1 a unit; 2 a function with its address and size.
    let table = [&[1, 0x11, 1, 0, 0][..], &[2, 0x2E, 0, 0x11, 1, 0x12, 6, 0, 0, 0]].concat();
    let function =
        |at: u32, size: u32| [&[2][..], &(CODE + u64::from(at)).to_le_bytes(), &size.to_le_bytes()].concat();
    let of_unit = |entries: &[u8]| unit(&[&[1][..], entries, &[0]].concat());
    let each: Vec<u8> = (0..50_000).flat_map(|at| function(at, 1)).collect();
    let info = [of_unit(&each), of_unit(&function(0, 50_000)).repeat(2 * TIMES)].concat();
    let mut bytes = file(vec![("__debug_info", info), ("__debug_abbrev", table)]).bytes();
    // Code that is larger than the file has it: of the segment, then of its section.
    for (start, size, more) in [(TEXT, 0x1000_u64, 0x8_1000_u64), (CODE, 0x0F00, 0x8_0000)] {
        let old = [start, size].map(u64::to_le_bytes).concat();
        let at = bytes.windows(16).position(|bytes| bytes == old).unwrap();
        bytes[at + 8..at + 16].copy_from_slice(&more.to_le_bytes());
    }
    let built = build_within(&bytes, &Limits::default()).unwrap();
    // The symbol lies in the first function only, and the others have no name.
    assert_eq!([0, 1, 49_999].map(|at| names(&built, at).join(" ")), ["f", "", ""]);
    assert_eq!(names(&built, 49_999).len(), 1);
}

#[test]
fn a_file_that_a_line_table_does_not_have_takes_no_memory() {
    // 1 a unit with a line table; 2 a function with its address and size.
    let table = [&[1, 0x11, 1, 0x10, 0x17, 0, 0][..], &[2, 0x2E, 0, 0x11, 1, 0x12, 0x0B, 0, 0, 0]].concat();
    let entries = [&[1, 0, 0, 0, 0, 2][..], &CODE.to_le_bytes(), &[1, 0]].concat();
    // File 1,048,575 from the start of the code on, for a byte.
    let program = [&[0, 9, 2][..], &CODE.to_le_bytes(), &[4, 0xFF, 0xFF, 0x3F, 1, 2, 1, 0, 1, 1]].concat();
    for version in [4, 5] {
        // Of version 5: paths as texts, and none of them; of a directory and of a file.
        let tables: &[u8] = if version == 5 { &[1, 1, 8, 0, 1, 1, 8, 0] } else { &[0, 0] };
        let lines = line_table(version, tables, &program);
        let info = unit(&entries);
        let file =
            file(vec![("__debug_info", info), ("__debug_abbrev", table.clone()), ("__debug_line", lines)]);
        let limits = Limits { max_memory_bytes: 2 << 20, ..Limits::default() };
        let built = build_within(&file.bytes(), &limits).unwrap();
        assert_eq!((names(&built, 0), &built.warnings[..]), (vec!["f".to_owned()], &[][..]));
    }
}

/// A set of the table of ranges: the unit that begins there has these.
fn set(unit: usize, ranges: &[(u64, u64)]) -> Vec<u8> {
    let pairs: Vec<u8> =
        ranges.iter().flat_map(|(at, size)| [*at, *size].map(u64::to_le_bytes).concat()).collect();
    let length = u32::try_from(12 + pairs.len()).unwrap().to_le_bytes();
    let unit = u32::try_from(unit).unwrap().to_le_bytes();
    [&length[..], &[2, 0], &unit, &[8, 0, 0, 0, 0, 0], &pairs].concat()
}

#[test]
fn the_table_of_ranges_says_which_code_is_whose_where_units_lie_over_each_other() {
    // 1 a unit with its first address and its size; 2 a function with a name, address and size.
    let table =
        [&[1, 0x11, 1, 0x11, 1, 0x12, 6, 0, 0][..], &[2, 0x2E, 0, 0x03, 0x08, 0x11, 1, 0x12, 6, 0, 0, 0]]
            .concat();
    let place = |at: u64, size: u32| [&(CODE + at).to_le_bytes()[..], &size.to_le_bytes()].concat();
    let function = |name: &str, at, size| [&[2][..], name.as_bytes(), &[0], &place(at, size)].concat();
    let of_unit = |at, size, functions: &[Vec<u8>]| {
        unit(&[&[1][..], &place(at, size), &functions.concat(), &[0]].concat())
    };
    let around = of_unit(0, 32, &[function("first", 0, 4), function("last", 28, 4)]);
    let between = of_unit(8, 8, &[function("between", 8, 8)]);
    let second = around.len();
    let with = |sets: Vec<u8>| {
        let info = [&around[..], &between].concat();
        let dwarf =
            vec![("__debug_info", info), ("__debug_abbrev", table.clone()), ("__debug_aranges", sets)];
        let built = build(&File { dwarf, ..File::default() }).unwrap();
        [0, 8, 28].map(|at| names(&built, at).join(" "))
    };
    let of_first = set(0, &[(CODE, 4), (CODE + 28, 4), (0, 0)]);
    let of_second = set(second, &[(CODE + 8, 8), (0, 0)]);
    let all = ["first", "between", "last"].map(str::to_owned);
    assert_eq!(with([&of_first[..], &of_second].concat()), all);
    assert_eq!(with([&of_second[..], &of_first].concat()), all);
    // A unit that the table does not have says itself where it is.
    assert_eq!(with(of_first.clone()), all);
    // Ranges that are nowhere, in any number, sets of unknown versions, and those that are cut off.
    let nowhere = set(0, &[&[(0, 0); 200_000][..], &[(CODE, 4), (u64::MAX, 8), (CODE + 28, 4)]].concat());
    let mut unknown = set(0, &[(CODE, 32)]);
    unknown[4] = 9;
    let cut = &set(0, &[(CODE, 32)])[..24];
    assert_eq!(with([&nowhere[..], &unknown, &of_second, cut].concat()), all);
    // Without a set that makes sense, the first unit has what it says that it has.
    let alone = ["first", "", "last"].map(str::to_owned);
    for sets in [Vec::new(), cut.to_vec(), unknown, vec![0xFF; 12], vec![0; 200]] {
        assert_eq!(with(sets), alone);
    }
}
