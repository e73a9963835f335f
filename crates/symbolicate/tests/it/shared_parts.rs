//! Units with functions that overlap, and the table of ranges, which assigns code to units.

use super::hostile::{build, line_table, names};
use unslide_testkit::macho::{CODE, File, TEXT, unit};

/// Code at the start of [`CODE`], under `f`.
fn file(dwarf: Vec<(&'static str, Vec<u8>)>) -> File<'static> {
    File { dwarf, symbols: vec![("_f", CODE)], ..File::default() }
}

#[test]
fn functions_over_what_others_answered_without_a_claim_yield() {
    // 1 a unit; 2 a function with its address and size.
    let table = [&[1, 0x11, 1, 0, 0][..], &[2, 0x2E, 0, 0x11, 1, 0x12, 6, 0, 0, 0]].concat();
    let function =
        |at: u32, size: u32| [&[2][..], &(CODE + u64::from(at)).to_le_bytes(), &size.to_le_bytes()].concat();
    let of_unit = |entries: &[u8]| unit(&[&[1][..], entries, &[0]].concat());
    let each: Vec<u8> = (0..50_000).flat_map(|at| function(at, 1)).collect();
    let info = [of_unit(&each), of_unit(&function(0, 50_000)).repeat(1_000)].concat();
    let mut bytes = file(vec![("__debug_info", info), ("__debug_abbrev", table)]).bytes();
    // Code that is larger than the file has it: of the segment, then of its section.
    for (start, size, more) in [(TEXT, 0x1000_u64, 0x8_1000_u64), (CODE, 0x0F00, 0x8_0000)] {
        let old = [start, size].map(u64::to_le_bytes).concat();
        let at = bytes.windows(16).position(|bytes| bytes == old).unwrap();
        bytes[at + 8..at + 16].copy_from_slice(&more.to_le_bytes());
    }
    let built = unslide_symbolicate::object::build_symcache(&bytes).unwrap();
    // The symbol lies in the first function only, and the others have no name.
    assert_eq!([0, 1, 49_999].map(|at| names(&built, at).join(" ")), ["f", "", ""]);
    assert_eq!(names(&built, 49_999).len(), 1);
}

#[test]
fn a_file_that_a_line_table_does_not_have_is_none() {
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
        let built = build(&file).unwrap();
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
