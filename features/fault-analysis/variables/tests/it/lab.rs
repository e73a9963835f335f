//! The crash lab: planned crashes with registers and stack bytes, their dSYMs, and what lldb shows of them with all memory.

use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId, constants};
use object::{Object, ObjectSection, ObjectSegment};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_fault_analysis_variables::{
    RegisterSet, ReportState, TableLimits, VariableTable, VariableValue, build_table,
};

/// The names of entries for variables by their offsets in `.debug_info`; empty for those that have it from another entry.
type VariableNames = BTreeMap<u64, String>;

/// Makes the table of a dSYM, and lists its variables.
fn table_of(bytes: &[u8]) -> (Vec<u8>, VariableNames) {
    let file = object::File::parse(bytes).unwrap();
    let text = file.segments().find(|segment| segment.name() == Ok(Some("__TEXT"))).unwrap().address();
    let sections: BTreeMap<&str, Vec<u8>> = [
        "abbrev",
        "addr",
        "aranges",
        "info",
        "line",
        "line_str",
        "loc",
        "loclists",
        "ranges",
        "rnglists",
        "str",
        "str_offsets",
        "str_offs",
    ]
    .into_iter()
    .filter_map(|name| {
        let section = file.section_by_name(&format!("__debug_{name}"))?;
        Some((name, section.data().unwrap().to_vec()))
    })
    .collect();
    let dwarf: Dwarf<EndianSlice<'_, LittleEndian>> = Dwarf::load(|id: SectionId| {
        let name = id.name().trim_start_matches(".debug_");
        // A name of a section has at most 16 bytes.
        let name = if name == "str_offsets" && !sections.contains_key(name) { "str_offs" } else { name };
        let bytes = sections.get(name).map(Vec::as_slice).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    })
    .unwrap();
    let registers = match file.architecture() {
        object::Architecture::Aarch64 => RegisterSet::Arm64,
        _ => RegisterSet::X86_64,
    };
    let limits = TableLimits { table_bytes: 1 << 20, entries: 1_000_000 };
    (build_table(&dwarf, registers, text, &limits).unwrap(), list_variables(&dwarf))
}

fn list_variables(dwarf: &Dwarf<EndianSlice<'_, LittleEndian>>) -> VariableNames {
    let mut found = VariableNames::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().unwrap() {
        let unit = dwarf.unit(header).unwrap();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs().unwrap() {
            if matches!(entry.tag(), constants::DW_TAG_variable | constants::DW_TAG_formal_parameter) {
                let offset = entry.offset().to_debug_info_offset(&unit.header).unwrap();
                let name = entry.attr_value(constants::DW_AT_name);
                let name = name.map(|name| dwarf.attr_string(&unit, name).unwrap().to_string_lossy());
                found.insert(offset.0 as u64, name.unwrap_or_default().into_owned());
            }
        }
    }
    found
}

fn parse_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Reads the values of frame 0 of a report of the lab.
fn values_of(report: &Value, dsym: &[u8]) -> Vec<VariableValue> {
    let (table, names) = table_of(dsym);
    let table = VariableTable::parse(&table).unwrap();
    let threads = report["crash"]["threads"].as_array().unwrap();
    let thread = threads.iter().find(|thread| thread["crashed"] == true).unwrap();
    let registers = &thread["registers"]["basic"];
    let read = |name: &str| {
        let value = &registers[name];
        value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned))
    };
    let stack = parse_hex(thread["stack"]["contents"].as_str().unwrap_or_default());
    let state = ReportState {
        register: &read,
        stack_start: thread["stack"]["dump_start"].as_u64().unwrap_or(0),
        stack: &stack,
    };
    let pc = read("pc").or_else(|| read("rip")).unwrap();
    let image = &report["binary_images"][0];
    let start = image["image_addr"].as_u64().unwrap();
    let values = match pc.checked_sub(start).filter(|at| *at < image["image_size"].as_u64().unwrap()) {
        Some(offset) => table.read_values(offset, &state).unwrap(),
        None => Vec::new(),
    };
    for value in &values {
        let name = &names[&value.die];
        assert!(name.is_empty() || *name == value.name, "{name} of entry {}", value.die);
    }
    values
}

fn to_hex(bytes: &[Option<u8>]) -> String {
    bytes.iter().map(|byte| byte.map_or("??".to_owned(), |byte| format!("{byte:02x}"))).collect()
}

fn unpack(lab: &Path) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("unslide-lab-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tar = Command::new("tar").arg("xJf").arg(lab.join("symbols.tar.xz")).arg("-C").arg(&folder).status();
    assert!(tar.unwrap().success());
    folder
}

#[test]
fn values_of_the_crash_lab_are_those_that_lldb_shows() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/recipes/crash-lab/out");
    let lab = std::env::var_os("UNSLIDE_CRASH_LAB").map_or(lab, PathBuf::from);
    if !lab.is_dir() {
        println!("not run: the outputs of the crash lab are not here");
        return;
    }
    let folder = unpack(&lab);
    let lines = |name: &str| {
        let text = std::fs::read_to_string(lab.join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let (reports, truths) = (lines("reports.ndjson"), lines("truth.ndjson"));
    let (mut right, mut wrong, mut missed) = (0, Vec::new(), BTreeMap::new());
    for truth in &truths {
        let case = truth["case"].as_str().unwrap();
        let report = reports.iter().find(|report| report["report"]["process_name"] == case).unwrap();
        let dsym = folder.join(format!("dsyms/{case}.dSYM/Contents/Resources/DWARF/{case}"));
        let values = values_of(report, &std::fs::read(dsym).unwrap());
        for (call, shown) in truth["lldb"]["calls"].as_array().unwrap().iter().enumerate() {
            for variable in shown["variables"].as_array().unwrap() {
                let name = variable["name"].as_str().unwrap();
                let ours: Vec<_> =
                    values.iter().filter(|value| value.call == call && value.name == name).collect();
                // A name may be hidden by another one: both have values.
                let has = |value: &&&VariableValue| {
                    value
                        .value
                        .as_ref()
                        .is_ok_and(|(bytes, _)| Some(to_hex(bytes).as_str()) == variable["bytes"].as_str())
                };
                let known = ours.iter().find(has).or(ours.first());
                let known = known.and_then(|value| value.value.as_ref().ok());
                match (known, variable["bytes"].as_str()) {
                    (Some((bytes, _)), Some(expected)) if to_hex(bytes) == expected => right += 1,
                    (Some((bytes, source)), expected) => {
                        wrong.push(format!("{case} {name}: {} {source:?}, lldb {expected:?}", to_hex(bytes)));
                    }
                    (None, Some(_)) => {
                        let reason = ours.first().map(|value| value.value.as_ref().unwrap_err());
                        missed
                            .entry(format!("{reason:?}"))
                            .or_insert_with(Vec::new)
                            .push(format!("{case} {name}"));
                    }
                    (None, None) => {}
                }
                if let Some(value) = ours.first() {
                    let expected = variable["type"].as_str().unwrap();
                    if value.type_name != expected {
                        wrong.push(format!("{case} {name}: type {:?}, lldb {expected:?}", value.type_name));
                    }
                }
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let misses: usize = missed.values().map(Vec::len).sum();
    println!("{right} values equal lldb's, {misses} have none here");
    for (reason, cases) in &missed {
        println!("  {reason}: {} such as {}", cases.len(), cases[0]);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(right >= 9 * misses, "{right} of {}", right + misses);
}
