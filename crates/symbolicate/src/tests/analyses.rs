//! Members of our key that analyses add.

use super::{APP, APP_PATH, BASE, Have, at};
use crate::grouping::{GroupingRules, regroup_report};
use crate::{
    Analysis, AnalysisFinding, AnalysisPhrases, Context, MOST_FINDING_BYTES, SymbolicatedCrash,
    enabled_analyses, explain_report,
};
use serde_json::{Value, json};
use unslide_report::{ReadLimits, Report};
use unslide_testkit::reports::{ARM64, Frame, Image, Report as Made, Thread};

fn state_functions(crash: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    let frames: Vec<_> = (0..crash.frames()).filter_map(|index| crash.frame(index)).collect();
    let stated: Vec<Value> =
        frames.iter().map(|frame| json!([frame.functions, frame.image, frame.address])).collect();
    AnalysisFinding::from_value(&json!({"sentence": "Found.", "frames": stated}))
}

fn fill(_: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    AnalysisFinding::from_value(&"x".repeat(MOST_FINDING_BYTES - 2))
}

fn overflow(_: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    AnalysisFinding::from_value(&"x".repeat(MOST_FINDING_BYTES - 1))
}

fn say_nothing(_: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    None
}

type Run = for<'c, 'a> fn(&'c SymbolicatedCrash<'c, 'a>) -> Option<AnalysisFinding>;

const fn always(name: &'static str, run: Run) -> Analysis {
    Analysis { name, member: name, run, is_opt_in: false, derived: &[], phrases: AnalysisPhrases::NONE }
}

const ANALYSES: [Analysis; 4] = [
    always("functions", state_functions),
    always("fill", fill),
    always("overflow", overflow),
    always("nothing", say_nothing),
];

/// A report whose second thread crashed.
fn report() -> Vec<u8> {
    let image = Image::new(APP_PATH, APP, BASE).cpu(ARM64);
    let crashed =
        Thread::new(1).crashed().frames([at::INLINED, at::SYMBOL + 4].map(|offset| Frame::at(BASE + offset)));
    let other = Thread::new(0).frames([Frame::at(BASE + at::SYMBOL + 4), Frame::at(BASE + at::SYMBOL + 4)]);
    Made::standard().image(image).thread(other).thread(crashed).bytes()
}

#[test]
fn analyses_see_the_crashed_thread_and_add_members_within_their_limit() {
    let context = Context { analyses: &ANALYSES, ..Context::default() };
    let enriched = Have::app().enrich_with(&report(), &context).bytes;
    let whole: Value = serde_json::from_slice(&enriched).unwrap();
    let ours = &whole["symbolication"];
    assert_eq!(ours["analyses"], json!(["functions", "fill", "overflow", "nothing"]), "all that were on");
    let frames = ours["functions"]["frames"].as_array().unwrap();
    assert_eq!(frames.len(), 2);
    let own = &whole["crash"]["threads"][1]["backtrace"]["contents"];
    for (index, frame) in frames.iter().enumerate() {
        let calls = own[index]["symbolication"]["calls"].as_array().unwrap();
        let names: Vec<&Value> = calls.iter().map(|call| &call["function"]).collect();
        assert_eq!((&frame[0], &frame[1]), (&json!(names), &json!("Shop")), "{frame}");
    }
    assert_eq!(ours["fill"].as_str().unwrap().len(), MOST_FINDING_BYTES - 2);
    assert!(ours.get("overflow").is_none() && ours.get("nothing").is_none());
    let read = Report::read_stored(&enriched).unwrap();
    let found: Vec<_> =
        read.ours.as_ref().unwrap().findings.iter().map(|found| found.member.as_str()).collect();
    assert_eq!(found, ["functions"], "those with a sentence");
    let again = Have::app().enrich_with(&enriched, &context).bytes;
    assert_eq!(again, enriched);
}

fn name_pointer(_: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    let finding = AnalysisFinding::from_value(&json!({"sentence": "Found."}))?;
    Some(AnalysisFinding { headline: Some("Null pointer: Cart.total".to_owned()), ..finding })
}

#[test]
fn a_headline_replaces_the_exception_in_the_title_and_stays_when_the_report_is_grouped_again() {
    let analyses = [always("pointer", name_pointer)];
    let context = Context { analyses: &analyses, ..Context::default() };
    let plain = Have::app().enrich_with(&report(), &Context::default()).grouping.unwrap();
    let enriched = Have::app().enrich_with(&report(), &context);
    let grouping = enriched.grouping.unwrap();
    let place = plain.title.split_once(" in ").unwrap().1;
    assert_eq!(grouping.title, format!("Null pointer: Cart.total in {place}"));
    assert_eq!(grouping.fingerprint, plain.fingerprint);
    let stored = Report::read_stored(&enriched.bytes).unwrap();
    assert_eq!(regroup_report(&stored, &GroupingRules::default()).unwrap().unwrap(), grouping);
    let (bytes, have) = (report(), Have::app());
    let read = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let explanation = explain_report(&read, &|id| have.0.get(id), &GroupingRules::default(), &analyses);
    assert_eq!(explanation.grouping.unwrap().title, grouping.title);
}

#[test]
fn an_explanation_has_the_same_findings() {
    let (bytes, have) = (report(), Have::app());
    let read = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let explanation = explain_report(&read, &|id| have.0.get(id), &GroupingRules::default(), &ANALYSES);
    let members: Vec<_> = explanation.findings.iter().map(|finding| finding.member).collect();
    assert_eq!(members, ["functions", "fill"]);
}

#[test]
fn a_tenant_turns_analyses_on_and_off_by_their_names_whatever_the_default_is() {
    let switches =
        [("fill".to_owned(), false), ("nothing".to_owned(), true), ("other".to_owned(), false)].into();
    let names = |is_opt_in: bool| {
        let all = ANALYSES.map(|analysis| Analysis { is_opt_in, ..analysis });
        enabled_analyses(&all, &switches).iter().map(|analysis| analysis.name).collect::<Vec<_>>()
    };
    assert_eq!(names(false), ["functions", "overflow", "nothing"]);
    assert_eq!(names(true), ["nothing"]);
}
