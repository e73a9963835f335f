//! Signals beside reports: sessions, metrics and captures.

pub mod capture_blocks;
pub mod captures;
pub mod metrics;
mod run_summaries;
pub mod sessions;

/// Reads the first example that a page sends with curl. The shell's current time becomes `now`: the example has no date
/// that grows old.
fn sent_example(page: &str, now: &str) -> serde_json::Value {
    let (_, body) = page.split_once("--data-binary '").expect("an example");
    let (body, _) = body.split_once("'\n```").expect("its end");
    let example = body.replace("'$(date -u +%FT%TZ)'", now);
    assert!(example.contains(now), "its time is that of the shell: {body}");
    serde_json::from_str(&example).expect("JSON")
}
