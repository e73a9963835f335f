//! `unslide groups show`: one bug, with the stack of its newest report.

use super::change::Target;
use super::{format_state, format_versions};
use crate::online::reports::show::ShowFormat;
use crate::prelude::*;
use unslide_cli::listing::item_text;
use unslide_cli::print_facts;

/// The most rows of each table.
const MAX_ROWS: usize = 10;
/// Lines of the newest report's stack.
const MAX_STACK_LINES: usize = 60;

/// Shows a group with its newest stack.
pub async fn show_group(target: &Target, format: ShowFormat, names_evidence: bool) -> Outcome {
    let client = Client::new(&target.server)?;
    if format == ShowFormat::Markdown {
        let path = format!("/v1/groups/{}?format=markdown&evidence={names_evidence}", target.id);
        let text = client.get_bytes(&path, "text/markdown").await?.unwrap_or_default();
        Console::get().say_lines(String::from_utf8_lossy(&text).trim_end());
        return Ok(Exit::Ready);
    }
    let group: Value = client.get(&format!("/v1/groups/{}", target.id)).await?;
    if target.json || format == ShowFormat::Json {
        Console::get().print_json(&group)?;
        return Ok(Exit::Ready);
    }
    say!("{}", item_text(&group, "title"));
    let estimate = if group["estimated"] == true { "about " } else { "" };
    print_facts(&[
        ("culprit", item_text(&group, "culprit")),
        ("short id", item_text(&group, "short_id")),
        ("id", item_text(&group, "id")),
        ("app", item_text(&group, "app")),
        ("kind", item_text(&group, "kind")),
        ("state", format_state(&group)),
        ("assignee", item_text(&group, "assignee")),
        ("ticket", item_text(&group, "ticket_url")),
        ("reports", group["reports"].to_string()),
        ("devices", format!("{estimate}{}", group["affected_devices"])),
        ("versions", format_versions(&group)),
        ("first seen", item_text(&group, "first_seen")),
        ("last seen", item_text(&group, "last_seen")),
        ("merged into", item_text(&group, "merged_into")),
    ]);
    if group["provisional"] == true {
        note!("the group is provisional: its reports lack symbols, and it will have another title with them");
    }
    print_shares(&group, "versions", &["VERSION", "REPORTS"], "version");
    print_shares(&group, "devices", &["DEVICE", "REPORTS"], "model");
    print_shares(&group, "os_versions", &["SYSTEM", "REPORTS"], "os_version");
    show_newest_report(&client, &item_text(&group, "id")).await?;
    Ok(Exit::Ready)
}

/// Prints a table of the reports by one of their facts.
fn print_shares(group: &Value, list: &str, head: &'static [&'static str], member: &str) {
    let items = group[list].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return;
    }
    say!("");
    let mut table = Table::new(head);
    for item in items.iter().take(MAX_ROWS) {
        table.add_row([item_text(item, member), item["reports"].to_string()]);
    }
    table.print();
    if items.len() > MAX_ROWS {
        say!("and {} more", items.len() - MAX_ROWS);
    }
}

/// Prints the crashed thread of the newest report.
async fn show_newest_report(client: &Client, group: &str) -> Result<(), BoxError> {
    let newest: Value = client.get(&format!("/v1/reports?group={group}&limit=1")).await?;
    let Some(report) = newest["items"].get(0) else { return Ok(()) };
    let path = format!("/v1/reports/{}?variant={}", item_text(report, "id"), report["variant"]);
    let log = client.get_bytes(&path, "text/plain").await?.unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    say!("");
    say!("newest report {}, {}", item_text(report, "id"), item_text(report, "received_at"));
    for line in crashed_lines(&log).take(MAX_STACK_LINES) {
        say!("{line}");
    }
    Ok(())
}

/// Returns the lines of the crashed thread, or of the first one if none crashed.
fn crashed_lines(log: &str) -> impl Iterator<Item = &str> {
    let is_head = |line: &str| line.starts_with("Thread ") || line.starts_with("Last Exception");
    let crashed = log.lines().position(|line| is_head(line) && line.contains("Crashed"));
    let first = log.lines().position(is_head);
    let begin = crashed.or(first).unwrap_or(usize::MAX);
    log.lines().skip(begin).take_while(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_is_that_of_the_thread_that_crashed() {
        let log = "Process: Shop\n\nThread 0:\n0 main\n\nThread 3 Crashed:\n0 pay\n1 run\n\nBinary Images:\n";
        assert_eq!(crashed_lines(log).collect::<Vec<_>>(), ["Thread 3 Crashed:", "0 pay", "1 run"]);
        assert_eq!(crashed_lines("Thread 0:\n0 main\n\nThread 1:\n").count(), 2);
        assert_eq!(crashed_lines("Process: Shop\n").count(), 0);
    }
}
