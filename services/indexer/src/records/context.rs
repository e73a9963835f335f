//! The context of a report, for the shares of its group.

use crate::rewriting::ChangeCounts;
use serde_json::{Map, Value, json};
use unslide_report::{ContextKey, OurFinding, Report, list_state_facts};

/// Maximum size of the app's own keys as members of a JSON object, in bytes. Further keys are left out, so that the rest of the context is stored.
const KEYS_BYTES_LIMIT: usize = 6 << 10;
/// Maximum number of characters of a finding.
const TEXT_CHARS_LIMIT: usize = 64;

/// Returns the known facts about the app and the device, the app's own keys that are texts, numbers or booleans, and the
/// verdicts and hints of analyses with the expressions that they name. `changes` is what features have changed in the report.
pub fn build_context(report: &Report<'_>, changes: Option<&ChangeCounts>) -> Value {
    let (app, device, keys) = report.read_state();
    let facts: Map<String, Value> = list_state_facts(&app, &device)
        .into_iter()
        .map(|(name, fact)| (name.to_owned(), json!(fact)))
        .collect();
    let cut = |text: &str| text.chars().take(TEXT_CHARS_LIMIT).collect::<String>();
    let keys = collect_keys(keys);
    let findings = report.ours.as_ref().map(|ours| ours.findings.as_slice()).unwrap_or_default();
    let by_member = |text: fn(&OurFinding) -> Option<&String>| -> Map<String, Value> {
        let found = |one: &OurFinding| Some((cut(&one.member), Value::String(cut(text(one)?))));
        findings.iter().filter_map(found).collect()
    };
    let mut context = json!({
        "facts": facts,
        "keys": keys,
        "verdicts": by_member(|finding| finding.verdict.as_ref()),
        "subjects": by_member(|finding| finding.subject.as_ref()),
        "hints": by_member(|finding| finding.hint.as_ref()),
    });
    if let Some(changes) = changes {
        context["changes"] = json!(changes);
    }
    context
}

/// Returns the first keys that fit the limit.
fn collect_keys(keys: Vec<ContextKey>) -> Map<String, Value> {
    let mut capacity = KEYS_BYTES_LIMIT;
    let fitting = keys.into_iter().map_while(|key| {
        let value = Value::String(key.value);
        // With the colon and the comma.
        let bytes = json!(key.name).to_string().len() + value.to_string().len() + 2;
        capacity = capacity.checked_sub(bytes)?;
        Some((key.name, value))
    });
    fitting.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::ReadLimits;

    #[test]
    fn facts_and_keys_are_known_and_bounded() {
        let keys: Vec<String> = (0..60).map(|n| format!(r#""key{n}":"{}""#, "\\\"".repeat(128))).collect();
        let input = format!(
            r#"{{"crash":{{"error":{{"type":"mach"}}}},"user":{{"plan":"pro","cart":{{}},{}}},"system":{{"jailbroken":false,
            "freeStorage":1048576,"battery_level":55,"application_stats":{{"application_in_foreground":false}}}},
            "symbolication":{{"version":1,"engine":"unslide/0.1.0","fault":{{"verdict":"trap","hint":"stale_cache","sentence":"A trap.",
            "subject":{{"expression":"cart"}}}}}}}}"#,
            keys.join(",")
        );
        let report = Report::read(input.as_bytes(), &ReadLimits::default()).unwrap();
        let context = build_context(&report, None);
        let facts =
            json!({"in_background": true, "low_storage": true, "low_battery": false, "jailbroken": false});
        assert_eq!((&context["facts"], &context["verdicts"]), (&facts, &json!({"fault": "trap"})));
        assert_eq!(context["subjects"], json!({"fault": "cart"}));
        assert_eq!(context["hints"], json!({"fault": "stale_cache"}));
        let stored = context["keys"].to_string().len();
        assert!((5 << 10..=KEYS_BYTES_LIMIT + 2).contains(&stored), "{stored}");
        assert_eq!((&context["keys"]["plan"], &context["keys"]["cart"]), (&json!("pro"), &Value::Null));
        assert_eq!(context["keys"]["key0"], json!("\"".repeat(128)));
        assert!(context.to_string().len() < 8 << 10);
    }
}
