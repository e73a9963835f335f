//! Look-ups of symbols beside uploads, as text.

use serde_json::Value;

/// Returns the clause about a look-up, such as `asked source builds at 2026-11-29T10:00:00Z: not found, asked again at …`.
pub fn describe_lookup(lookup: &Value) -> String {
    let member = |name: &str| lookup[name].as_str();
    let (source, outcome) =
        (member("source").unwrap_or_default(), member("outcome").unwrap_or_default().replace('_', " "));
    let mut text = match outcome.as_str() {
        "found" => return format!("from source {source}"),
        "waiting" => format!("source {source} will be asked"),
        outcome => {
            let at = member("asked_at").map_or_else(String::new, |at| format!(" at {}", cut_fraction(at)));
            format!("asked source {source}{at}: {outcome}")
        }
    };
    if let Some(detail) = member("detail") {
        text = format!("{text} ({detail})");
    }
    match member("again_at") {
        Some(at) => format!("{text}, asked again at {}", cut_fraction(at)),
        None => text,
    }
}

/// Returns a time in UTC without the fraction of its second.
fn cut_fraction(at: &str) -> String {
    at.split_once('.').map_or_else(|| at.to_owned(), |(whole, _)| format!("{whole}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_look_up_says_its_source_and_when_it_is_made_again() {
        let not_found = json!({"source": "builds", "outcome": "not_found", "asked_at": "2026-11-29T10:00:00.123456Z",
            "again_at": "2026-11-29T11:00:00Z"});
        let refused = json!({"source": "builds", "outcome": "refused", "detail": "too large", "asked_at": "2026-11-29T10:00:00Z"});
        for (lookup, text) in [
            (
                not_found,
                "asked source builds at 2026-11-29T10:00:00Z: not found, asked again at 2026-11-29T11:00:00Z",
            ),
            (refused, "asked source builds at 2026-11-29T10:00:00Z: refused (too large)"),
            (json!({"source": "builds", "outcome": "found"}), "from source builds"),
            (json!({"source": "builds", "outcome": "waiting"}), "source builds will be asked"),
        ] {
            assert_eq!(describe_lookup(&lookup), text);
        }
    }
}
