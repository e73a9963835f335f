//! The rules on what the row of a report without a body has of its texts. The row becomes a small report, so that each text is in the
//! part of a report that it came from, and the same rules apply.

use crate::rewriting::TenantRules;
use serde_json::{Map, Value, json};
use unslide_feature::RewriteReports;
use unslide_model::TenantId;
use unslide_store::reports::row_texts::RowTexts;

/// Texts of the summary that a report has beside its structure.
const SUMMARY_TEXTS: [&str; 3] = ["exception", "code", "thread_name"];
/// Texts of analyses in the context.
const FINDINGS: [&str; 3] = ["verdicts", "subjects", "hints"];

/// Returns the texts as the rules leave them. Returns None if the rules change nothing.
///
/// # Errors
/// Returns why the rules of the app cannot be used.
pub fn scrub_row(rules: &TenantRules, tenant: &TenantId, row: &RowTexts) -> Result<Option<RowTexts>, String> {
    let document = build_document(row).to_string();
    let Some(rewritten) = rules.rewrite_report(tenant, &row.app, document.as_bytes())? else {
        return Ok(None);
    };
    let document: Value = serde_json::from_slice(&rewritten.document).map_err(|error| error.to_string())?;
    let mut scrubbed = RowTexts {
        reason: read_text(&document["crash"]["reason"]),
        title: read_text(&document["symbolication"]["grouping"]["title"]),
        ..row.clone()
    };
    copy_members(&document["crash"], &SUMMARY_TEXTS, &mut scrubbed.summary);
    copy_members(&document["symbolication"]["fault"], &FINDINGS, &mut scrubbed.context);
    if let Some(context) = scrubbed.context.as_object_mut() {
        if context.contains_key("keys") {
            context.insert("keys".to_owned(), document["user"].clone());
        }
        let changes = context.entry("changes").or_insert_with(|| json!({}));
        for (rule, count) in rewritten.changes {
            let earlier = changes[crate::NAME][&rule].as_u64().unwrap_or(0);
            changes[crate::NAME][&rule] = json!(earlier + count);
        }
    }
    Ok(Some(scrubbed))
}

fn build_document(row: &RowTexts) -> Value {
    let (mut crash, mut fault) = (json!({"reason": row.reason}), json!({}));
    copy_members(&row.summary, &SUMMARY_TEXTS, &mut crash);
    copy_members(&row.context, &FINDINGS, &mut fault);
    let keys = row.context.get("keys").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"crash": crash, "user": keys, "symbolication": {"grouping": {"title": row.title}, "fault": fault}})
}

fn copy_members(from: &Value, names: &[&str], to: &mut Value) {
    for name in names {
        if let (Some(value), Some(to)) = (from.get(name), to.as_object_mut()) {
            to.insert((*name).to_owned(), value.clone());
        }
    }
}

fn read_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewriting::tests::rules_for_all;
    use unslide_model::ReportId;
    use unslide_scrubbing_rules::{KeyRule, OwnRule, ScrubAction, ScrubConfig};

    fn row(text: &str) -> RowTexts {
        RowTexts {
            report_id: ReportId::from_uuid(unslide_store::Uuid::nil()),
            variant: 0,
            app: "com.example.shop".to_owned(),
            reason: Some(format!("no cart of {text}")),
            title: Some(format!("cart of {text}")),
            summary: json!({"exception": text, "thread_name": text, "fatal": true, "top_frames": [{"function": "red_black"}]}),
            context: json!({"facts": {"active": "true"}, "keys": {"plan": "pro", "note": text, "secret": "4711"},
                "subjects": {"cart": text}, "changes": {"scrubbing": {"mine": 2}}}),
        }
    }

    #[test]
    fn each_text_of_a_row_is_scrubbed_as_the_same_text_of_a_body() {
        let own = OwnRule { name: "mine".to_owned(), pattern: "red".to_owned(), action: ScrubAction::Mask };
        let key = KeyRule { key: "secret".to_owned(), action: ScrubAction::Drop };
        let rules = rules_for_all(&ScrubConfig { own: vec![own], keys: vec![key], ..ScrubConfig::default() });
        let acme = TenantId::new("acme").unwrap();
        let scrubbed = scrub_row(&rules, &acme, &row("red")).unwrap().unwrap();
        let mut wanted = row("[scrubbed:mine]");
        wanted.context = json!({"facts": {"active": "true"}, "keys": {"plan": "pro", "note": "[scrubbed:mine]"},
            "subjects": {"cart": "[scrubbed:mine]"}, "changes": {"scrubbing": {"mine": 8, "key": 1}}});
        assert_eq!(scrubbed, wanted);
        assert_eq!(
            scrub_row(&rules, &acme, &scrubbed).unwrap(),
            None,
            "rules find nothing in their own marks"
        );
        let foreign = TenantId::new("umbrella").unwrap();
        assert_eq!(scrub_row(&rules, &foreign, &row("red")).unwrap(), None);
    }
}
