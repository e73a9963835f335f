//! Work grows with the object, not faster: steps are counted for hostile objects and for those of twice the size.
//! Proves: bounded-input

use crate::object::{self, ObjectError, build_without_limit, max_steps};
use unslide_testkit::fixtures;
use unslide_testkit::macho::{CODE, File, unit};

/// What becomes of an object that is made to cost much.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// Twice the object takes at most a little more than twice the steps, and it is built.
    Linear,
    /// The steps grow faster. It is refused, whatever its size.
    Refused,
}
use Outcome::{Linear, Refused};

/// Steps for twice the object by those for the object, if the work grows with it: a logarithm is allowed.
const LINEAR_GROWTH: f64 = 2.3;

fn small(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap().to_le_bytes()
}

/// Abbreviations: 1 a unit with children; 2 a unit with children and a line table; 3 a function with name, low pc and
/// size; 4 a function with a list of ranges; 5 a unit with name, low pc, and a list of ranges; 6 a function with the
/// offset of its name, low pc and size; 7 a unit with low pc and size and children; 8 an inlined function with children,
/// origin and list of ranges; 9 a function with children and a list of ranges.
fn abbreviations() -> Vec<u8> {
    let entries: [&[u8]; 9] = [
        &[1, 0x11, 1, 0, 0],
        &[2, 0x11, 1, 0x10, 0x17, 0, 0],
        &[3, 0x2E, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[4, 0x2E, 0, 0x03, 0x08, 0x55, 0x17, 0, 0],
        &[5, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x55, 0x17, 0, 0],
        &[6, 0x2E, 0, 0x03, 0x0E, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[7, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[8, 0x1D, 1, 0x31, 0x13, 0x55, 0x17, 0, 0],
        &[9, 0x2E, 1, 0x03, 0x08, 0x55, 0x17, 0, 0],
    ];
    [entries.concat(), vec![0]].concat()
}

fn dwarf(info: Vec<u8>, sections: Vec<(&'static str, Vec<u8>)>) -> Vec<u8> {
    let dwarf = [vec![("__debug_info", info), ("__debug_abbrev", abbreviations())], sections].concat();
    File { dwarf, ..File::default() }.bytes()
}

fn function(low: u64, size: usize) -> Vec<u8> {
    [&[3][..], b"f\0", &low.to_le_bytes(), &small(size)].concat()
}

/// A line table of DWARF 4 with this many files and this program.
fn line_table(files: usize, program: &[u8]) -> Vec<u8> {
    let names = b"f\0\0\0\0".repeat(files);
    let fixed = [1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    let header = [&fixed[..], &[0], &names, &[0]].concat();
    let rest = [&[4, 0][..], &small(header.len()), &header, program].concat();
    [&small(rest.len())[..], &rest].concat()
}

/// A sequence with this many rows, one byte of code each.
fn rows(rows: usize) -> Vec<u8> {
    let advance = 13 + 14 + 3;
    [&[0, 9, 2][..], &CODE.to_le_bytes(), &vec![advance; rows], &[0, 1, 1]].concat()
}

/// Units that name line tables at these offsets.
fn units_with_lines(offsets: impl Iterator<Item = usize>) -> Vec<u8> {
    offsets.flat_map(|at| unit(&[&[2][..], &small(at), &function(CODE, 8), &[0]].concat())).collect()
}

fn a_line_table_of_many_units(n: usize) -> Vec<u8> {
    let units = units_with_lines((0..n).map(|_| 0));
    dwarf(units, vec![("__debug_line", line_table(1, &rows(n)))])
}

/// Each program skips the next header, as an operation that it does not know, and goes on with the program behind it.
fn line_tables_over_each_other(n: usize) -> Vec<u8> {
    let header = line_table(1, &[]);
    let skip = [0, u8::try_from(header.len() + 1).unwrap(), 0x80];
    let mut tables = line_table(1, &rows(n));
    let mut lengths = vec![tables.len()];
    for _ in 1..n {
        let length = small(header.len() - 4 + skip.len() + tables.len());
        tables = [&length[..], &header[4..], &skip, &tables].concat();
        lengths.push(tables.len());
    }
    let units = units_with_lines(lengths.iter().map(|length| tables.len() - length));
    dwarf(units, vec![("__debug_line", tables)])
}

fn a_list_of_files_of_many_units(n: usize) -> Vec<u8> {
    dwarf(units_with_lines((0..n).map(|_| 0)), vec![("__debug_line", line_table(20 * n, &rows(8)))])
}

/// Pairs of addresses, relative to a unit without an address.
fn list(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let ends = std::iter::once((0, 0));
    ranges.chain(ends).flat_map(|(low, high)| [low.to_le_bytes(), high.to_le_bytes()].concat()).collect()
}

fn bytes_of_code(n: usize) -> impl Iterator<Item = (u64, u64)> {
    (0..n as u64).map(|at| (CODE + 2 * (at % 1_900), CODE + 2 * (at % 1_900) + 1))
}

fn functions_with_lists(offsets: impl Iterator<Item = usize>, lists: Vec<u8>) -> Vec<u8> {
    let functions = offsets.flat_map(|at| [&[4][..], b"f\0", &small(at)].concat()).collect();
    dwarf(unit(&[vec![1], functions, vec![0]].concat()), vec![("__debug_ranges", lists)])
}

fn a_list_of_ranges_of_many_functions(n: usize) -> Vec<u8> {
    functions_with_lists((0..n).map(|_| 0), list(bytes_of_code(n)))
}

fn lists_of_ranges_over_each_other(n: usize) -> Vec<u8> {
    functions_with_lists((0..n).map(|at| 16 * at), list(bytes_of_code(n)))
}

fn lists_of_nothing_over_each_other(n: usize) -> Vec<u8> {
    functions_with_lists((0..n).map(|at| 16 * at), list((0..n).map(|_| (CODE, CODE))))
}

fn units_with_lists(offsets: impl Iterator<Item = usize>, lists: Vec<u8>) -> Vec<u8> {
    let unit =
        |at| unit(&[&[5][..], b"u\0", &0_u64.to_le_bytes(), &small(at), &function(CODE, 8), &[0]].concat());
    dwarf(offsets.flat_map(unit).collect(), vec![("__debug_ranges", lists)])
}

fn a_list_of_ranges_of_many_units(n: usize) -> Vec<u8> {
    units_with_lists((0..n).map(|_| 0), list(bytes_of_code(n)))
}

fn lists_of_units_over_each_other(n: usize) -> Vec<u8> {
    units_with_lists((0..n).map(|at| 16 * at), list(bytes_of_code(n)))
}

/// Units that begin to read one table of abbreviations at different places.
fn tables_of_abbreviations_over_each_other(n: usize) -> Vec<u8> {
    let code = |at: usize| [(at & 0x7F) as u8 | 0x80, (at >> 7) as u8 | 0x80, 0];
    let table = (0..n).flat_map(|at| [&code(at + 1)[..], &[0x11, 0, 0, 0]].concat()).chain([0]).collect();
    let info = (0..n).flat_map(|at| {
        let mut unit = unit(&code(at + 1));
        unit[6..10].copy_from_slice(&small(7 * at));
        unit
    });
    let dwarf = vec![("__debug_info", info.collect()), ("__debug_abbrev", table)];
    File { dwarf, symbols: vec![("_f", CODE)], ..File::default() }.bytes()
}

/// Entries of one byte with many attributes that take none.
fn attributes_without_bytes(n: usize) -> Vec<u8> {
    let table = [&[1, 0x11, 1, 0, 0, 2, 0x34, 0][..], &[0x3F, 0x19].repeat(n), &[0, 0, 0]].concat();
    let info = unit(&[&[1][..], &vec![2; n], &[0]].concat());
    let dwarf = vec![("__debug_info", info), ("__debug_abbrev", table)];
    File { dwarf, symbols: vec![("_f", CODE)], ..File::default() }.bytes()
}

/// The same of the first entries of units.
fn units_with_attributes_without_bytes(n: usize) -> Vec<u8> {
    let table = [&[1, 0x11, 0][..], &[0x3F, 0x19].repeat(n), &[0, 0, 0]].concat();
    let dwarf = vec![("__debug_info", unit(&[1]).repeat(n)), ("__debug_abbrev", table)];
    File { dwarf, symbols: vec![("_f", CODE)], ..File::default() }.bytes()
}

/// Units with a function over all code, most of which belongs to others.
fn functions_over_the_code_of_many_units(n: usize) -> Vec<u8> {
    let owner = |at: usize| {
        let low = CODE + 2 * at as u64;
        unit(&[&[7][..], &low.to_le_bytes(), &small(1), &function(low, 1), &[0]].concat())
    };
    let over_all = unit(&[&[1][..], &function(CODE, 0xF00), &[0]].concat());
    dwarf([(0..n).flat_map(owner).collect(), over_all.repeat(n)].concat(), Vec::new())
}

/// Functions whose names are ends of one text.
fn names_over_each_other(n: usize) -> Vec<u8> {
    let function =
        |at: usize| [&[6][..], &small(at), &(CODE + (at % 3_800) as u64).to_le_bytes(), &small(1)].concat();
    let functions = (0..n).flat_map(function).collect();
    let text = [vec![b'f'; 400 * n], vec![0]].concat();
    dwarf(unit(&[vec![1], functions, vec![0]].concat()), vec![("__debug_str", text)])
}

/// Functions inlined into one another, 255 deep, at many places of one function.
fn deep_calls(n: usize) -> Vec<u8> {
    let outer = 11 + 1;
    let mut entries = vec![1, 9, b'f', 0, 0, 0, 0, 0];
    for _ in 0..255 {
        entries.extend([&[8][..], &small(outer), &small(0)].concat());
    }
    entries.extend([0; 257]);
    dwarf(unit(&entries), vec![("__debug_ranges", list(bytes_of_code(n)))])
}

/// Symbols that all have one long name.
fn symbols_with_a_long_name(n: usize) -> Vec<u8> {
    let name = "f".repeat(16 << 10);
    let mut file = File { symbols: vec![(&name, CODE)], kind: Some(6), ..File::default() };
    file.symbols.extend((1..n).map(|at| ("", CODE + (at % 3_800) as u64)));
    let mut bytes = file.bytes();
    // The first name begins behind a byte for none.
    let table = u32::from_le_bytes(bytes[32 + 152 + 24 + 8..][..4].try_into().unwrap()) as usize;
    for at in 0..n {
        bytes[table + 16 * at..][..4].copy_from_slice(&small(1));
    }
    bytes
}

/// A name, what makes a file of a size, a size, and what becomes of it.
type HostileCase = (&'static str, fn(usize) -> Vec<u8>, usize, Outcome);

#[test]
fn work_grows_with_the_object_or_it_is_refused() {
    let cases: [HostileCase; 17] = [
        ("one line table of many units", a_line_table_of_many_units, 1_500, Linear),
        ("line tables over each other", line_tables_over_each_other, 400, Refused),
        ("one list of files of many units", a_list_of_files_of_many_units, 500, Refused),
        ("one list of ranges of many functions", a_list_of_ranges_of_many_functions, 1_900, Linear),
        ("lists of ranges over each other", lists_of_ranges_over_each_other, 1_900, Refused),
        ("lists of nothing over each other", lists_of_nothing_over_each_other, 1_900, Refused),
        ("one list of ranges of many units", a_list_of_ranges_of_many_units, 1_900, Linear),
        ("lists of units over each other", lists_of_units_over_each_other, 1_900, Refused),
        ("abbreviations over each other", tables_of_abbreviations_over_each_other, 1_900, Refused),
        ("attributes without bytes", attributes_without_bytes, 2_000, Refused),
        ("units with attributes without bytes", units_with_attributes_without_bytes, 2_000, Refused),
        ("functions over the code of many units", functions_over_the_code_of_many_units, 950, Refused),
        ("names over each other", names_over_each_other, 400, Refused),
        ("deep calls", deep_calls, 900, Linear),
        ("symbols with one long name", symbols_with_a_long_name, 10_000, Refused),
        (
            "an honest file",
            |n| dwarf(unit(&[vec![1], function(CODE, 8).repeat(n), vec![0]].concat()), vec![]),
            4_000,
            Linear,
        ),
        (
            "an honest line table",
            |n| dwarf(units_with_lines(0..1), vec![("__debug_line", line_table(1, &rows(n)))]),
            1_900,
            Linear,
        ),
    ];
    let mut wrong = Vec::new();
    for (name, make, n, outcome) in cases {
        // Without the limit a small object is enough to see how the steps grow.
        let (bytes, twice, large) = (make(n / 4), make(n / 2), make(2 * n));
        let steps = |bytes: &[u8]| build_without_limit(bytes).map(|built| built.steps);
        let (Ok(few), Ok(many)) = (steps(&bytes), steps(&twice)) else {
            wrong.push(format!("{name}: {:?} {:?}", steps(&bytes), steps(&twice)));
            continue;
        };
        let growth = many as f64 / few as f64;
        let built = object::build_symcache(&large);
        println!(
            "| {name} | {few} | {many} | {growth:.1} | {} bytes, at most {} steps: {} |",
            large.len(),
            max_steps(large.len() as u64),
            built.as_ref().err().map_or("built".to_owned(), ToString::to_string)
        );
        let is_right = match outcome {
            Linear => growth <= LINEAR_GROWTH && built.is_ok(),
            Refused => matches!(built, Err(ObjectError::TooComplex(_))),
        };
        if !is_right {
            wrong.push(format!("{name}: {growth}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Real objects need less than a step for each byte.
#[test]
fn real_objects_take_less_than_a_tenth_of_the_steps_that_they_may() {
    let mut files = vec![fixtures::dsym("app"), fixtures::dsym("large"), fixtures::binary("kit")];
    match fixtures::canvas_dsyms() {
        Ok(canvas) => files.extend(canvas),
        Err(error) => println!("without the published dSYMs: {error}"),
    }
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        for entry in object::list_objects(&bytes).unwrap() {
            let slice = bytes.get(entry.range).unwrap();
            let (size, steps) = (slice.len() as u64, object::build_symcache(slice).unwrap().steps);
            println!("| {} | {size} | {steps} | {:.2} |", file.display(), steps as f64 / size as f64);
            // Beside what every object may take.
            assert!(10 * steps <= max_steps(size) - max_steps(0), "{}: {steps} of {size}", file.display());
        }
    }
}
