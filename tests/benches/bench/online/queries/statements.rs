//! The statements that answers and pages are made of, as the log of the API tells them.

use super::{BUDGET, quantiles};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The setting with which a service logs its statements.
pub const LOGGED: (&str, &str) = ("UNSLIDE_LOG__FILTER", "info,sqlx::query=debug");
/// How many are printed.
const SLOWEST: usize = 5;

/// Prints how many statements were sent, and the times of the slowest ones.
pub fn print(log: &str) {
    let mut times: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line["target"] == "sqlx::query" {
            let seconds = line["elapsed_secs"].as_f64().expect("a time");
            times.entry(text(&line)).or_default().push(Duration::from_secs_f64(seconds));
        }
    }
    let mut slowest: Vec<_> = times.into_iter().map(|(text, times)| (quantiles(times), text)).collect();
    slowest.sort_by_key(|([_, most], _)| std::cmp::Reverse(*most));
    let over = slowest.iter().filter(|([_, most], _)| *most > BUDGET).count();
    println!(
        "  {} statements of the API, {over} over {BUDGET:?} at p99; the slowest, with planning and the way there:",
        slowest.len()
    );
    for ([half, most], text) in slowest.iter().take(SLOWEST) {
        println!("    p50 {half:>8.1?}, p99 {most:>8.1?}  {text:.150}");
    }
}

/// A statement on one line.
fn text(line: &Value) -> String {
    let whole = line["db.statement"].as_str().filter(|text| !text.is_empty());
    let text = whole.or(line["summary"].as_str()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
