//! The crash lab: planned crashes with registers and stack bytes, their dSYMs and binaries, and the planned subjects.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_fault_analysis_subject::{
    BinaryError, FaultState, FaultSubject, ImageText, SubjectAbstention, find_subject, read_image_text,
    read_variable_table,
};
use unslide_fault_analysis_variables::{ReportState, TableLimits, VariableTable};

/// The kinds of crashes that are built to mislead: a wrong name there is worse than none.
const MISLEADING_KINDS: [&str; 4] = ["decoy", "two_candidates", "caller_variables", "vector_registers"];

fn parse_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

type Found = Result<FaultSubject, SubjectAbstention>;

/// Returns the subject of a report of the lab; `None` if its fault is no access of the app to data.
fn subject_of_report(report: &Value, table: &[u8], text: Option<&ImageText<'_>>) -> Option<Found> {
    let table = VariableTable::parse(table).unwrap();
    let threads = report["crash"]["threads"].as_array().unwrap();
    let thread = threads.iter().find(|thread| thread["crashed"] == true).unwrap();
    let number = |value: &Value| value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
    let registers = &thread["registers"];
    let read = |name: &str| number(&registers["basic"][name]);
    let exception = |name: &str| number(&registers["exception"][name]);
    let address = match (exception("esr"), exception("trapno")) {
        (Some(esr), _) if esr >> 26 == 0x24 => exception("far"),
        (_, Some(14)) => exception("faultvaddr"),
        (_, Some(13)) => None,
        _ => return None,
    };
    let stack = parse_hex(thread["stack"]["contents"].as_str().unwrap_or_default());
    let stack_start = thread["stack"]["dump_start"].as_u64().unwrap_or(0);
    let report_state = ReportState { register: &read, stack_start, stack: &stack };
    let state = FaultState { report: report_state, address };
    let pc = read("pc").or_else(|| read("rip")).unwrap();
    let image = &report["binary_images"][0];
    let offset = pc.checked_sub(image["image_addr"].as_u64().unwrap())?;
    (offset < image["image_size"].as_u64().unwrap()).then(|| find_subject(&table, offset, &state, text))
}

/// Counts of one way to find subjects.
#[derive(Default)]
struct Tally {
    planned: usize,
    right: usize,
    wrong: Vec<String>,
    wrong_paths: Vec<String>,
    reasons: BTreeMap<&'static str, Vec<String>>,
}

impl Tally {
    fn add_case(&mut self, truth: &Value, found: Option<&Found>) {
        let plan = &truth["plan"]["subject"];
        let case = truth["case"].as_str().unwrap();
        self.planned += usize::from(!plan.is_null());
        match found {
            Some(Ok(subject)) if plan["culprit"] == subject.expression.as_str() => {
                self.right += 1;
                let paths = [&plan["path"]].into_iter().chain(plan["alt"].as_array().into_iter().flatten());
                let is_right = |path: &String| paths.clone().any(|known| known == path.as_str());
                // A copy of a whole structure may begin at any of its members.
                let is_planned = !plan["offset"].is_null();
                let is_wrong_path = is_planned && subject.path.as_ref().is_some_and(|path| !is_right(path));
                let is_wrong_value = plan["value"].as_u64() != Some(subject.value.value);
                if is_wrong_path || is_wrong_value {
                    self.wrong_paths.push(format!("{case}: {subject:?}, planned {plan}"));
                }
            }
            Some(Ok(subject)) => self.wrong.push(format!("{case}: {subject:?}, planned {plan}")),
            Some(Err(reason)) => {
                self.reasons.entry(reason.as_str()).or_default().push(case.to_owned());
            }
            None => {}
        }
    }

    fn recall(&self) -> f64 {
        self.right as f64 / self.planned as f64
    }

    fn precision(&self) -> f64 {
        self.right as f64 / (self.right + self.wrong.len()) as f64
    }

    fn describe(&self, name: &str) -> String {
        let (recall, precision) = (self.recall(), self.precision());
        let head = format!(
            "{name}: {} of {} subjects, recall {recall:.2}, precision {precision:.3}",
            self.right, self.planned
        );
        let reasons = self.reasons.iter();
        let reasons =
            reasons.map(|(reason, cases)| format!("  {reason}: {}: {}", cases.len(), cases.join(" ")));
        let wrong = self.wrong.iter().map(|case| format!("  wrong: {case}"));
        let wrong_paths = self.wrong_paths.iter().map(|case| format!("  wrong path: {case}"));
        [head].into_iter().chain(reasons).chain(wrong).chain(wrong_paths).collect::<Vec<_>>().join("\n")
    }
}

fn unpack(lab: &Path) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("unslide-subjects-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tar = Command::new("tar").arg("xJf").arg(lab.join("symbols.tar.xz")).arg("-C").arg(&folder).status();
    assert!(tar.unwrap().success());
    folder
}

#[test]
fn subjects_of_the_crash_lab_are_the_planned_ones() {
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
    let (mut by_values, mut by_instructions) = (Tally::default(), Tally::default());
    for truth in &truths {
        let case = truth["case"].as_str().unwrap();
        let report = reports.iter().find(|report| report["report"]["process_name"] == case).unwrap();
        let dsym = folder.join(format!("dsyms/{case}.dSYM/Contents/Resources/DWARF/{case}"));
        let binary = std::fs::read(folder.join(format!("apps/{case}"))).unwrap();
        let uuid: [u8; 16] = parse_hex(&truth["uuid"].as_str().unwrap().replace('-', "")).try_into().unwrap();
        let dsym = std::fs::read(dsym).unwrap();
        let table = read_variable_table(&dsym, &uuid, &TableLimits::default()).unwrap();
        assert_eq!(read_image_text(&dsym, &uuid).unwrap_err(), BinaryError::NoText);
        let text = read_image_text(&binary, &uuid).unwrap();
        by_values.add_case(truth, subject_of_report(report, &table, None).as_ref());
        by_instructions.add_case(truth, subject_of_report(report, &table, Some(&text)).as_ref());
    }
    std::fs::remove_dir_all(&folder).unwrap();
    println!("{}", by_values.describe("dSYM only"));
    println!("{}", by_instructions.describe("dSYM and binary"));
    for (tally, least_recall) in [(&by_values, 0.40), (&by_instructions, 0.75)] {
        assert!(tally.recall() >= least_recall && tally.precision() >= 0.98, "{:?}", tally.wrong);
        assert!(tally.wrong_paths.is_empty(), "{:?}", tally.wrong_paths);
        let is_misleading = |case: &&String| {
            let kind = truths.iter().find(|truth| case.starts_with(truth["case"].as_str().unwrap()));
            kind.is_some_and(|truth| MISLEADING_KINDS.iter().any(|kind| truth["kind"] == *kind))
        };
        assert_eq!(tally.wrong.iter().find(is_misleading), None);
    }
}
