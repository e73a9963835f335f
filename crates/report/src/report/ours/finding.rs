//! The members of our report-level object that analyses have added, read back.

use crate::Number;
use crate::json::Value;

/// The maximum number of findings of a report.
const MOST_FINDINGS: usize = 8;
/// The maximum number of facts of a finding.
const MOST_FACTS: usize = 32;
/// The maximum number of statements that a finding does not make.
const MOST_ABSTENTIONS: usize = 8;
/// The maximum length of the text about one of them.
const ABSTENTION_BYTES: usize = 500;
/// The maximum length of a verdict and of a hint.
const WORD_BYTES: usize = 40;
/// The maximum length of the expression that a finding names.
const SUBJECT_BYTES: usize = 100;
/// Integers up to this one are shown in decimal digits.
const MOST_DECIMAL: u64 = 9;

/// The finding of an analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurFinding {
    /// The key of its member, such as `fault`.
    pub member: String,
    /// Its kind, in lower-case words with underscores, such as `null_pointer`.
    pub verdict: Option<String>,
    /// The expression that it names as the cause, such as `cart->total`.
    pub subject: Option<String>,
    /// A word like the verdict for a fact that proves nothing about one crash, and much about a device with many of them.
    pub hint: Option<String>,
    /// The finding in words.
    pub sentence: String,
    /// The index of the frame that it is about.
    pub frame: Option<u64>,
    /// The facts that it rests on, such as `far 0x28`.
    pub evidence: Vec<String>,
    /// Sentences about statements that it does not make: why, and what can be done.
    pub abstained: Vec<String>,
}

/// Adds a member with a sentence to the findings. Ignores all other members.
pub(super) fn read_finding(key: &[u8], value: Value<'_>, findings: &mut Vec<OurFinding>) {
    if !value.is_object() || findings.len() >= MOST_FINDINGS {
        return;
    }
    let [verdict, hint, sentence, frame, evidence, abstained] =
        value.find_members(["verdict", "hint", "sentence", "frame", "evidence", "abstained"]);
    let Some(sentence) = sentence.and_then(Value::decode_string) else { return };
    let facts = evidence.map(Value::items).unwrap_or_default();
    let evidence =
        facts.into_iter().take(MOST_FACTS).map(fact_text).filter(|fact| !fact.is_empty()).collect();
    let abstained = abstained.map(Value::items).unwrap_or_default();
    let texts = abstained.into_iter().filter_map(|statement| statement.get("text")?.decode_string());
    let texts = texts.filter(|text| (1..=ABSTENTION_BYTES).contains(&text.len()));
    let frame = frame.and_then(Value::as_unsigned);
    let subject = value.find_path(&["subject", "expression"]).and_then(Value::decode_string);
    findings.push(OurFinding {
        member: String::from_utf8_lossy(key).into_owned(),
        verdict: verdict.and_then(read_word),
        subject: subject.filter(|expression| (1..=SUBJECT_BYTES).contains(&expression.len())),
        hint: hint.and_then(read_word),
        sentence,
        frame,
        evidence,
        abstained: texts.take(MOST_ABSTENTIONS).collect(),
    });
}

/// Reads a verdict or a hint. Returns `None` if it is no word in lower case.
fn read_word(value: Value<'_>) -> Option<String> {
    let is_word = |word: &String| {
        (1..=WORD_BYTES).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    value.decode_string().filter(is_word)
}

/// Returns the members of a fact as text: `register x0, value 0`.
fn fact_text(fact: Value<'_>) -> String {
    let mut members = Vec::new();
    fact.each_member(|key, value| {
        let key = String::from_utf8_lossy(key).replace('_', " ");
        let value = match (value.as_number(), value.as_boolean()) {
            (Some(Number::Int { magnitude, negative: false }), _) if magnitude > MOST_DECIMAL => {
                format!(" {magnitude:#x}")
            }
            (Some(Number::Int { magnitude, negative: false }), _) => format!(" {magnitude}"),
            (_, Some(true)) => String::new(),
            _ => value.decode_string().map(|text| format!(" {text}")).unwrap_or_default(),
        };
        members.push(format!("{key}{value}"));
    });
    members.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadLimits, Report};

    #[test]
    fn members_with_a_sentence_are_findings() {
        let text = r#"{"crash":{"threads":[]},"symbolication":{"version":1,"engine":"unslide/0.1.0",
            "fault":{"verdict":"null_pointer","hint":"stale_cache","sentence":"A pointer is null.","subject":{"expression":"cart"},"frame":0,"evidence":[{"far":40},{"register":"x0","value":0},{"stack_error":true},7],"abstained":[{"what":"subject","text":"Upload the dSYM."},{"what":"access"},7]},
            "other":{"a":1},"list":[{"sentence":"a"}],"grouping":{"sentence":"no"}}}"#;
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        let fault = OurFinding {
            member: "fault".into(),
            verdict: Some("null_pointer".into()),
            subject: Some("cart".into()),
            hint: Some("stale_cache".into()),
            sentence: "A pointer is null.".into(),
            frame: Some(0),
            evidence: ["far 0x28", "register x0, value 0", "stack error"].map(str::to_owned).into(),
            abstained: vec!["Upload the dSYM.".into()],
        };
        assert_eq!(report.ours.unwrap().findings, [fault]);
    }

    #[test]
    fn texts_and_views_show_findings_without_control_characters() {
        let text = r#"{"crash":{"threads":[]},"symbolication":{"version":1,"engine":"unslide/0.1.0",
            "fault":{"sentence":"A\nB.","evidence":[{"far":40},{"function":"c\u001b"}],"abstained":[{"text":"C\nD."}]}}}"#;
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        let log = crate::text::apple_log(&report);
        assert!(
            log.contains("\nAnalysis: A\\nB.\nEvidence: far 0x28; function c\\u{1b}\nNote: C\\nD.\n"),
            "{log}"
        );
        let view = crate::text::view::build_view(&report);
        assert_eq!(view.findings[0].sentence, "A\\nB.");
        assert_eq!(view.findings[0].abstained, ["C\\nD."]);
    }

    /// Proves: bounded-input
    #[test]
    fn findings_and_facts_are_bounded() {
        let facts = vec![r#"{"a":1}"#; 100].join(",");
        let long = format!(r#"{{"text":"{}"}}"#, "t".repeat(ABSTENTION_BYTES + 1));
        let texts = [vec![long.as_str()], vec![r#"{"text":"t"}"#; 100]].concat().join(",");
        let members: String = (0..100)
            .map(|n| {
                format!(
                    r#","m{n}":{{"verdict":"A B","hint":"7","sentence":"s","evidence":[{facts}],"abstained":[{texts}]}}"#
                )
            })
            .collect();
        let text = format!(
            r#"{{"crash":{{"threads":[]}},"symbolication":{{"version":1,"engine":"unslide/0.1.0"{members}}}}}"#
        );
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        let findings = report.ours.unwrap().findings;
        assert_eq!((findings.len(), findings[0].evidence.len()), (MOST_FINDINGS, MOST_FACTS));
        assert_eq!((&findings[0].verdict, &findings[0].hint), (&None, &None));
        assert_eq!(findings[0].abstained, ["t"; MOST_ABSTENTIONS]);
    }
}
