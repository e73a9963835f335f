//! Variables of frame 0 of planned crashes, compared with what lldb shows of them with all memory.
//!
//! `variables.ndjson` has one crash a line: the table of its dSYM as hexadecimal digits, its report, and the variables that
//! lldb shows. `UNSLIDE_CRASH_LAB` names a folder with more crashes.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use unslide_fault_analysis::{ANALYSIS, VARIABLES_ANALYSIS, VARIABLES_TABLE};
use unslide_model::DebugId;
use unslide_report::{ReadLimits, Report, splice};
use unslide_symbolicate::{Analysis, Context, Enrichment, ImageDerivative, Plan, enrich};

const FIXTURE: &str = include_str!("../data/variables.ndjson");

pub fn parse_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Reads the variables of a report without symbols, with the table of its innermost frame's image.
fn enrich_report(report: &[u8], table: Option<&[u8]>) -> Enrichment {
    enrich_with(report, table, &[VARIABLES_ANALYSIS])
}

fn enrich_with(report: &[u8], table: Option<&[u8]>, analyses: &[Analysis]) -> Enrichment {
    let read = Report::read(report, &ReadLimits::default()).unwrap();
    let debug_id = Plan::new(&read).find_crashed_image().unwrap_or(DebugId([0; 16]));
    let derived = table.map(|bytes| ImageDerivative { debug_id, name: VARIABLES_TABLE.name, bytes });
    let context = Context { analyses, derived: derived.as_slice(), ..Context::default() };
    let enriched = enrich(&read, &|_| None, &context);
    let again = Report::read_stored(&enriched.bytes).unwrap();
    assert_eq!(
        enrich(&again, &|_| None, &context).bytes,
        enriched.bytes,
        "the same inputs give the same bytes"
    );
    assert_eq!(splice::strip_additions(&enriched.bytes, &ReadLimits::default()).unwrap(), report);
    enriched
}

fn read_variables(enriched: &Enrichment) -> Vec<Value> {
    let whole: Value = serde_json::from_slice(&enriched.bytes).unwrap();
    whole["symbolication"]["variables"].as_array().cloned().unwrap_or_default()
}

/// Counts of values that equal lldb's, and of values that only lldb has.
#[derive(Debug, Default)]
struct Comparison {
    right: usize,
    missed: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Comparison {
    /// Compares the variables of a report with those that lldb shows in the inlined calls of frame 0.
    fn compare(&mut self, case: &str, ours: &[Value], calls: &Value) {
        for (call, shown) in calls.as_array().unwrap().iter().enumerate() {
            for variable in shown["variables"].as_array().unwrap() {
                let (name, expected) = (&variable["name"], &variable["bytes"]);
                // A name may be hidden by another one: both have values.
                let same: Vec<&Value> =
                    ours.iter().filter(|own| own["call"] == call && own["name"] == *name).collect();
                let chosen = same.iter().find(|own| own["bytes"] == *expected).or(same.first());
                let Some(own) = chosen else {
                    *self.missed.entry("absent".to_owned()).or_default() += usize::from(expected.is_string());
                    continue;
                };
                if own["type"] != variable["type"] {
                    self.wrong
                        .push(format!("{case} {name}: type {}, lldb {}", own["type"], variable["type"]));
                }
                match (own["bytes"].as_str(), expected.as_str()) {
                    (Some(bytes), Some(expected)) if bytes == expected => self.right += 1,
                    (Some(bytes), _) => self.wrong.push(format!("{case} {name}: {bytes}, lldb {expected}")),
                    (None, Some(_)) => *self.missed.entry(own["unavailable"].to_string()).or_default() += 1,
                    (None, None) => {}
                }
            }
        }
    }

    fn assert_right(&self, least: usize) {
        let missed: usize = self.missed.values().sum();
        println!("{} values equal lldb's, {missed} have none here: {:?}", self.right, self.missed);
        assert!(self.wrong.is_empty(), "{} wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
        assert!(self.right >= least && self.right >= 9 * missed, "{self:?}");
    }
}

#[test]
fn values_of_stored_tables_are_those_that_lldb_shows() {
    let mut comparison = Comparison::default();
    for line in FIXTURE.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let table = parse_hex(case["table"].as_str().unwrap());
        let enriched = enrich_report(case["report"].to_string().as_bytes(), Some(&table));
        let ours = read_variables(&enriched);
        assert!(ours.iter().all(|own| own["frame"] == 0), "{case}");
        comparison.compare(case["case"].as_str().unwrap(), &ours, &case["calls"]);
    }
    comparison.assert_right(20);
}

#[test]
fn groups_and_other_findings_are_the_same_with_and_without_variables() {
    let without_variables = |enriched: &Enrichment| {
        let mut whole: Value = serde_json::from_slice(&enriched.bytes).unwrap();
        let ours = whole["symbolication"].as_object_mut().unwrap();
        ours.retain(|member, _| member != "variables" && member != "analyses");
        whole
    };
    for line in FIXTURE.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (report, table) = (case["report"].to_string(), parse_hex(case["table"].as_str().unwrap()));
        let analyses = [&[ANALYSIS, VARIABLES_ANALYSIS][..], &[ANALYSIS]];
        let [with, without] = analyses.map(|analyses| enrich_with(report.as_bytes(), Some(&table), analyses));
        assert!(!read_variables(&with).is_empty() && read_variables(&without).is_empty());
        assert_eq!(without_variables(&with), without_variables(&without));
        assert_eq!(with.grouping, without.grouping);
        assert_eq!(with.warnings, without.warnings);
    }
}

/// Proves: bounded-input
#[test]
fn damaged_tables_cost_the_variables_only() {
    let case: Value = serde_json::from_str(FIXTURE.lines().next().unwrap()).unwrap();
    let (report, table) = (case["report"].to_string(), parse_hex(case["table"].as_str().unwrap()));
    let without = enrich_report(report.as_bytes(), None).bytes;
    for length in 0..table.len() {
        let cut = enrich_report(report.as_bytes(), Some(&table[..length]));
        assert!(cut.bytes == without || !read_variables(&cut).is_empty());
        let mut changed = table.clone();
        changed[length] ^= 0x55;
        assert!(read_variables(&enrich_report(report.as_bytes(), Some(&changed))).len() <= 256);
    }
    assert!((VARIABLES_TABLE.derive)(b"no object").unwrap().is_none());
}

#[test]
fn values_belong_to_the_frame_at_the_program_counter_only() {
    let mut case: Value = serde_json::from_str(FIXTURE.lines().next().unwrap()).unwrap();
    let table = parse_hex(case["table"].as_str().unwrap());
    let registers = &mut case["report"]["crash"]["threads"][0]["registers"]["basic"];
    let name = if registers["pc"].is_number() { "pc" } else { "rip" };
    let elsewhere = registers[name].as_u64().unwrap() + 4;
    registers[name] = elsewhere.into();
    assert!(read_variables(&enrich_report(case["report"].to_string().as_bytes(), Some(&table))).is_empty());
}

/// The output of the crash lab, with its symbols unpacked in a folder of its own.
pub struct CrashLab {
    pub folder: PathBuf,
    pub reports: Vec<Value>,
    pub truths: Vec<Value>,
}

impl CrashLab {
    /// Opens the lab that `UNSLIDE_CRASH_LAB` names. Returns `None`, and says so, if it names none.
    pub fn open(purpose: &str) -> Option<CrashLab> {
        let Some(lab) = std::env::var_os("UNSLIDE_CRASH_LAB").map(PathBuf::from) else {
            println!("not run: UNSLIDE_CRASH_LAB does not name the folder with the crash lab's output");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("unslide-{purpose}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let archive = lab.join("symbols.tar.xz");
        let tar = Command::new("tar").arg("xJf").arg(archive).arg("-C").arg(&folder).status();
        assert!(tar.unwrap().success());
        let lines = |name: &str| {
            let text = std::fs::read_to_string(lab.join(name)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
        };
        Some(CrashLab { folder, reports: lines("reports.ndjson"), truths: lines("truth.ndjson") })
    }

    pub fn find_report(&self, case: &str) -> &Value {
        self.reports.iter().find(|report| report["report"]["process_name"] == case).unwrap()
    }

    pub fn read_dsym(&self, case: &str) -> Vec<u8> {
        std::fs::read(self.folder.join(format!("dsyms/{case}.dSYM/Contents/Resources/DWARF/{case}"))).unwrap()
    }
}

impl Drop for CrashLab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn values_of_the_crash_lab_are_those_that_lldb_shows() {
    let Some(lab) = CrashLab::open("variables") else { return };
    let mut comparison = Comparison::default();
    for truth in &lab.truths {
        let case = truth["case"].as_str().unwrap();
        let report = lab.find_report(case);
        let table = (VARIABLES_TABLE.derive)(&lab.read_dsym(case)).unwrap().unwrap();
        let debug_id = report["binary_images"][0]["uuid"].as_str().unwrap().parse::<DebugId>().unwrap();
        let text = report.to_string();
        let read = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        // A crash in a function of the system has no variables of the app.
        let is_own = Plan::new(&read).find_crashed_image() == Some(debug_id);
        let ours = read_variables(&enrich_report(text.as_bytes(), is_own.then_some(&table)));
        comparison.compare(case, &ours, &truth["lldb"]["calls"]);
    }
    comparison.assert_right(100);
}
