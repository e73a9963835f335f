//! Verdicts and subjects of planned crashes, from their dSYMs alone and with the instructions of their binaries.
//!
//! `subjects.ndjson` has one crash a line: its report, the table of its dSYM and the instructions of its binary as hexadecimal
//! digits, and the plan. `UNSLIDE_CRASH_LAB` names a folder with more crashes.

use crate::fault_analysis::variables::{CrashLab, parse_hex};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_fault_analysis::{ANALYSIS, APP_TEXT, VARIABLES_TABLE};
use unslide_model::DebugId;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::{Context, Enrichment, ImageDerivative, Plan, enrich};

const FIXTURE: &str = include_str!("../data/subjects.ndjson");
/// The kinds of crashes that are built to mislead: a wrong name there is worse than none.
const MISLEADING_KINDS: [&str; 4] = ["decoy", "two_candidates", "caller_variables", "vector_registers"];
/// The smallest share of right verdicts, and of right subjects among those that are named.
const PRECISION: f64 = 0.98;

/// The derived objects of the image with the crash.
#[derive(Clone, Copy)]
pub struct Derived<'d> {
    table: &'d [u8],
    text: Option<&'d [u8]>,
}

/// Enriches a report of the lab with derived objects of its app.
pub fn enrich_crash(report: &Value, derived: Derived<'_>) -> Enrichment {
    let bytes = report.to_string();
    let read = Report::read(bytes.as_bytes(), &ReadLimits::default()).unwrap();
    let app = report["binary_images"][0]["uuid"].as_str().unwrap().parse::<DebugId>().unwrap();
    // A crash in a function of the system has no objects of the app.
    let debug_id = Plan::new(&read).find_crashed_image().filter(|id| *id == app);
    let object = |name, bytes| debug_id.map(|debug_id| ImageDerivative { debug_id, name, bytes });
    let table = object(VARIABLES_TABLE.name, derived.table);
    let text = derived.text.and_then(|text| object(APP_TEXT.name, text));
    let objects: Vec<ImageDerivative<'_>> = table.into_iter().chain(text).collect();
    let context = Context { analyses: &[ANALYSIS], derived: &objects, ..Context::default() };
    enrich(&read, &|_| None, &context)
}

fn find_fault(report: &Value, derived: Derived<'_>) -> Value {
    let whole: Value = serde_json::from_slice(&enrich_crash(report, derived).bytes).unwrap();
    whole["symbolication"]["fault"].clone()
}

/// Counts of one way to find verdicts and subjects.
#[derive(Default)]
struct Tally {
    verdicts: usize,
    right_verdicts: usize,
    /// Right, and less than what is planned.
    general_verdicts: Vec<String>,
    wrong_verdicts: Vec<String>,
    planned: usize,
    right: usize,
    wrong: Vec<String>,
    wrong_paths: Vec<String>,
    misled: Vec<String>,
    hints: Vec<String>,
    wrong_hints: Vec<String>,
    reasons: BTreeMap<String, usize>,
}

impl Tally {
    fn add_case(&mut self, truth: &Value, fault: &Value) {
        let case = truth["case"].as_str().unwrap();
        self.add_verdict(case, truth["plan"]["verdict"].as_str().unwrap(), fault);
        if !fault["hint"].is_null() {
            let is_planned = truth["plan"]["verdict"] == "bit_flip";
            let hints = if is_planned { &mut self.hints } else { &mut self.wrong_hints };
            hints.push(case.to_owned());
        }
        let plan = &truth["plan"]["subject"];
        self.planned += usize::from(!plan.is_null());
        let subject = &fault["subject"];
        if subject.is_null() {
            for abstained in fault["abstained"].as_array().into_iter().flatten() {
                let reason = abstained["reason"].as_str().unwrap();
                *self.reasons.entry(reason.to_owned()).or_default() += 1;
            }
        } else if subject["expression"] == plan["culprit"] {
            self.right += 1;
            let paths = [&plan["path"]].into_iter().chain(plan["alt"].as_array().into_iter().flatten());
            let is_planned = !plan["offset"].is_null() && !subject["path"].is_null();
            // A copy of a whole structure may begin at any of its members.
            if is_planned && !paths.clone().any(|known| *known == subject["path"]) {
                self.wrong_paths.push(format!("{case}: {subject}, planned {plan}"));
            }
            let stated = subject["value"].as_u64();
            if stated != plan["value"].as_u64().filter(|value| *value == 0) {
                self.wrong_paths.push(format!("{case}: value {stated:?}, planned {plan}"));
            }
        } else {
            let wrong = format!("{case}: {subject}, planned {plan}");
            if MISLEADING_KINDS.iter().any(|kind| truth["kind"] == *kind) {
                self.misled.push(wrong.clone());
            }
            self.wrong.push(wrong);
        }
    }

    fn add_verdict(&mut self, case: &str, planned: &str, fault: &Value) {
        let Some(verdict) = fault["verdict"].as_str().filter(|verdict| *verdict != "unknown") else { return };
        self.verdicts += 1;
        let is_general = matches!(
            (planned, verdict),
            ("small_address", "null_pointer")
                | ("freed_memory" | "bit_flip" | "pointer_authentication", "invalid_pointer")
        );
        let described = format!("{case}: {verdict}, planned {planned}");
        if verdict == planned {
            self.right_verdicts += 1;
        } else if is_general {
            self.right_verdicts += 1;
            self.general_verdicts.push(described);
        } else {
            self.wrong_verdicts.push(described);
        }
        let is_likely = fault["confidence"] == "likely";
        assert_eq!(fault["sentence"].as_str().unwrap().contains("probably"), is_likely, "{fault}");
    }

    /// Prints the counts and holds them to the gates. `cases` is the number of planned crashes.
    fn assert_gates(&self, name: &str, cases: usize, least_recall: f64) {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let recall = share(self.right, self.planned);
        let precision = share(self.right, self.right + self.wrong.len());
        let verdict_precision = share(self.right_verdicts, self.verdicts);
        println!(
            "{name}: {} of {} subjects, recall {recall:.2}, precision {precision:.3}; {} of {cases} verdicts, precision \
             {verdict_precision:.3}, general ones: {:?}; abstained: {:?}",
            self.right, self.planned, self.verdicts, self.general_verdicts, self.reasons
        );
        println!("{name}: hints of one bit in {:?}", self.hints);
        assert!(self.wrong_hints.is_empty(), "{:?}", self.wrong_hints);
        assert!(verdict_precision >= PRECISION, "{:?}", self.wrong_verdicts);
        assert!(share(self.verdicts, cases) >= 0.9, "{} of {cases} verdicts", self.verdicts);
        assert!(recall >= least_recall && precision >= PRECISION, "{recall} {:?}", self.wrong);
        assert!(self.wrong_paths.is_empty(), "{:?}", self.wrong_paths);
        assert!(self.misled.is_empty(), "{:?}", self.misled);
    }
}

/// A crash of the fixture.
pub struct StoredCrash {
    pub report: Value,
    table: Vec<u8>,
    text: Vec<u8>,
}

impl StoredCrash {
    pub fn find(case: &str) -> StoredCrash {
        let cases = FIXTURE.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let own = cases.into_iter().find(|own| own["case"] == case).unwrap();
        let bytes = |key: &str| parse_hex(own[key].as_str().unwrap());
        StoredCrash { table: bytes("table"), text: bytes("text"), report: own["report"].clone() }
    }

    fn without_binary(&self) -> Derived<'_> {
        Derived { table: &self.table, text: None }
    }

    pub fn with_binary(&self) -> Derived<'_> {
        Derived { text: Some(&self.text), ..self.without_binary() }
    }
}

#[test]
fn sentences_name_the_expression_with_the_bad_value() {
    for (case, verdict, confidence, sentence) in [
        (
            "null_field.arm64.O1",
            "null_pointer",
            "certain",
            "`p` (Player *) is null; the crash reads `p->score` (offset +0x28).",
        ),
        (
            "null_field.x86_64.O1",
            "null_pointer",
            "certain",
            "`p` (Player *) is null; the crash reads `p->score` (offset +0x28).",
        ),
        (
            "null_next.arm64.O1",
            "null_pointer",
            "certain",
            "`p->next` (Node *) is null; the crash reads `p->next->score` (offset +0x10).",
        ),
        (
            "reference_null.arm64.O1",
            "null_pointer",
            "certain",
            "Reference `o` (const Option &) refers to address 0; the crash reads `o.weight` (offset +0x8).",
        ),
        (
            "small_integer.arm64.O1",
            "small_address",
            "certain",
            "`h` (Handle *) holds a small number instead of an address; the crash reads `h->bytes` (offset +0x8).",
        ),
        (
            "freed_field.x86_64.O1",
            "freed_memory",
            "likely",
            "`car->owner` (Owner *) was probably read from freed memory; the crash uses `car->owner->age` (offset \
             +0x14).",
        ),
        (
            "wild_index.arm64.O1",
            "invalid_pointer",
            "certain",
            "`list` (i64 *) or its index leads to an address that the access may not use; the crash reads `list[i]`.",
        ),
        (
            "write_constant.arm64.O1",
            "write_to_read_only",
            "certain",
            "The crash writes address 0x100f4402c in write_constant.arm64.O1, which is read-only. The access is to \
             `*text`.",
        ),
    ] {
        let crash = StoredCrash::find(case);
        let fault = find_fault(&crash.report, crash.with_binary());
        assert_eq!(fault["sentence"], sentence, "{case}");
        assert_eq!(
            (&fault["verdict"], &fault["confidence"]),
            (&verdict.into(), &confidence.into()),
            "{case}"
        );
    }
}

#[test]
fn a_null_subject_has_its_value_and_its_evidence() {
    let crash = StoredCrash::find("null_field.arm64.O1");
    let fault = find_fault(&crash.report, crash.with_binary());
    let subject = json!({"expression": "p", "type": "Player *", "value": 0, "path": "p->score", "member": "score",
        "offset": 40});
    assert_eq!(fault["subject"], subject);
    let evidence = json!([{"esr": 2_449_473_542_u64}, {"far": 40}, {"register": "x0", "value": 0},
        {"code": "082840b9", "relative_address": 16_384},
        {"variable": "p", "call": 0, "debug_id": "4c4c448a-5555-3144-a12a-e47879506971", "die": 197,
            "location": "DW_OP_reg0"}]);
    assert_eq!(fault["evidence"], evidence);
    assert!(fault["abstained"].is_null());
    // The values of variables name it without the binary, by the same register and entry.
    let without = find_fault(&crash.report, crash.without_binary());
    assert_eq!(without["subject"], subject);
    let facts = evidence.as_array().unwrap();
    assert_eq!(without["evidence"], json!([facts[0], facts[1], facts[2], facts[4]]));
}

#[test]
fn values_other_than_null_are_not_in_a_fault() {
    for case in ["small_integer.arm64.O1", "freed_field.x86_64.O1", "wild_index.arm64.O1"] {
        let crash = StoredCrash::find(case);
        let fault = find_fault(&crash.report, crash.with_binary());
        assert!(fault["subject"]["expression"].is_string() && fault["subject"]["value"].is_null(), "{fault}");
        let named = fault["evidence"].as_array().unwrap().iter().any(|fact| !fact["register"].is_null());
        assert!(!named, "{fault}");
    }
    // The distance to an element is a value as well.
    let crash = StoredCrash::find("wild_index.arm64.O1");
    assert!(find_fault(&crash.report, crash.with_binary())["subject"]["offset"].is_null());
}

#[test]
fn a_null_member_is_the_headline_of_its_group() {
    let title = |case: &str| {
        let crash = StoredCrash::find(case);
        let grouping = enrich_crash(&crash.report, crash.with_binary()).grouping.unwrap();
        (grouping.title.clone(), grouping.headline)
    };
    let (shown, headline) = title("null_field.arm64.O1");
    assert_eq!(headline.as_deref(), Some("Null pointer: Player.score"));
    assert!(shown.starts_with("Null pointer: Player.score"), "{shown}");
    assert_eq!(title("reference_null.arm64.O1").1.as_deref(), Some("Null pointer: Option.weight"));
    assert_eq!(title("small_integer.arm64.O1").1, None);
}

/// A pointer to the heap, and another one in its neighbourhood.
pub const HEAP: u64 = 0x2_8000_1000;
pub const NEIGHBOUR: u64 = HEAP + 64;
const FLIPPED_BIT: u64 = 36;

/// Returns a planned crash in which the pointer in `register` has this value. Another register holds another pointer.
pub fn crash_through(case: &str, register: &str, pointer: u64) -> StoredCrash {
    let mut crash = StoredCrash::find(case);
    let registers = &mut crash.report["crash"]["threads"][0]["registers"];
    let before = registers["basic"][register].as_u64().unwrap();
    let offset = registers["exception"]["far"].as_u64().unwrap() - before;
    registers["basic"][register] = pointer.into();
    registers["basic"]["x20"] = NEIGHBOUR.into();
    registers["exception"]["far"] = (pointer + offset).into();
    crash
}

#[test]
fn a_pointer_with_one_flipped_bit_is_a_hint_without_its_value() {
    let flipped = HEAP ^ 1 << FLIPPED_BIT;
    let crash_through = |pointer| crash_through("null_field.arm64.O1", "x0", pointer);
    let crash = crash_through(flipped);
    for derived in [crash.with_binary(), crash.without_binary()] {
        let fault = find_fault(&crash.report, derived);
        let stated = (&fault["verdict"], &fault["hint"], &fault["bit"]);
        assert_eq!(
            stated,
            (&"invalid_pointer".into(), &"one_bit_from".into(), &FLIPPED_BIT.into()),
            "{fault}"
        );
        assert_eq!(
            fault["sentence"],
            "`p` (Player *) holds an address that the access may not use; the crash reads `p->score` (offset +0x28). \
             With bit 36 flipped, `p` would point near another pointer of the report."
        );
        // The address of the access is in the member with and without the hint.
        for value in [flipped, HEAP, NEIGHBOUR] {
            assert!(!fault.to_string().contains(&value.to_string()), "{value}: {fault}");
        }
    }
    // On the stack the other pointer is as good as in a register.
    let mut crash = crash_through(flipped);
    let thread = &mut crash.report["crash"]["threads"][0];
    thread["registers"]["basic"]["x20"] = 0.into();
    let word: String = NEIGHBOUR.to_le_bytes().iter().map(|byte| format!("{byte:02X}")).collect();
    let contents = thread["stack"]["contents"].as_str().unwrap();
    let rest = contents.get(word.len()..).unwrap();
    thread["stack"]["contents"] = format!("{word}{rest}").into();
    assert_eq!(find_fault(&crash.report, crash.with_binary())["hint"], "one_bit_from");
    // Two bits, a valid pointer and an index that may be wrong are none.
    for other in
        [crash_through(flipped ^ 1 << 40), crash_through(HEAP), StoredCrash::find("wild_index.arm64.O1")]
    {
        let fault = find_fault(&other.report, other.with_binary());
        assert_eq!((&fault["verdict"], &fault["hint"]), (&"invalid_pointer".into(), &Value::Null), "{fault}");
        assert!(
            fault["bit"].is_null() && !fault["sentence"].as_str().unwrap().contains("flipped"),
            "{fault}"
        );
    }
}

#[test]
fn a_missing_subject_has_a_reason() {
    let reason = |case: &str, derived: fn(&StoredCrash) -> Derived<'_>| {
        let crash = StoredCrash::find(case);
        let fault = find_fault(&crash.report, derived(&crash));
        assert!(fault["subject"].is_null(), "{fault}");
        fault["abstained"].as_array().unwrap().last().unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason("null_next.arm64.O1", StoredCrash::without_binary), "no_candidate");
    assert_eq!(reason("freed_field.x86_64.O1", StoredCrash::without_binary), "no_address");
    let mut crash = StoredCrash::find("null_field.arm64.O1");
    let pc = crash.report["crash"]["threads"][0]["registers"]["basic"]["pc"].as_u64().unwrap();
    crash.report["crash"]["threads"][0]["registers"]["basic"]["pc"] = (pc + 4).into();
    let fault = find_fault(&crash.report, crash.with_binary());
    let text = "The expression with the bad value in null_field.arm64.O1 is not named: the registers of the report do not \
                belong to its innermost frame.";
    assert_eq!(fault["abstained"], json!([{"what": "subject", "reason": "other_frame", "text": text}]));
    assert_eq!((&fault["verdict"], &fault["confidence"]), (&"null_pointer".into(), &"likely".into()));
}

/// Proves: bounded-input
#[test]
fn damaged_objects_cost_the_subject_only() {
    let crash = StoredCrash::find("null_next.arm64.O1");
    let (table, text) = (&crash.table, &crash.text);
    for length in 0..table.len().max(text.len()) {
        let cut = |bytes: &[u8]| bytes.get(..length).unwrap_or(bytes).to_vec();
        let changed = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if let Some(byte) = bytes.get_mut(length) {
                *byte ^= 0x55;
            }
            bytes
        };
        for (table, text) in
            [(cut(table), cut(text)), (changed(table), text.clone()), (table.clone(), changed(text))]
        {
            let fault = find_fault(&crash.report, Derived { table: &table, text: Some(&text) });
            assert!(fault["verdict"].is_string() && fault.to_string().len() < 8 << 10, "{fault}");
        }
    }
    assert!((APP_TEXT.derive)(b"no object").unwrap().is_none());
}

#[test]
fn verdicts_and_subjects_of_the_crash_lab_are_the_planned_ones() {
    let Some(lab) = CrashLab::open("subjects") else { return };
    let (mut by_values, mut by_instructions) = (Tally::default(), Tally::default());
    for truth in &lab.truths {
        let case = truth["case"].as_str().unwrap();
        let report = lab.find_report(case);
        let dsym = lab.read_dsym(case);
        let binary = std::fs::read(lab.folder.join(format!("apps/{case}"))).unwrap();
        assert!((APP_TEXT.derive)(&dsym).unwrap().is_none(), "a dSYM has no instructions");
        let table = (VARIABLES_TABLE.derive)(&dsym).unwrap().unwrap();
        let text = (APP_TEXT.derive)(&binary).unwrap().unwrap();
        by_values.add_case(truth, &find_fault(report, Derived { table: &table, text: None }));
        by_instructions.add_case(truth, &find_fault(report, Derived { table: &table, text: Some(&text) }));
    }
    by_values.assert_gates("dSYM only", lab.truths.len(), 0.40);
    by_instructions.assert_gates("dSYM and binary", lab.truths.len(), 0.75);
}
