//! The balance as a table.

use std::fmt::Write as _;
use unslide_audit::{Audit, SummaryRow};
use unslide_cli::Table;
use unslide_model::format_time;

const AUDIT_COLUMNS: [&str; 14] = [
    "topic",
    "partition",
    "tenant",
    "records",
    "in",
    "out",
    "dead-letter",
    "other",
    "waiting",
    "unread",
    "expired",
    "duplicates",
    "lost",
    "",
];

/// A cell that stays empty.
const BLANK: &str = " ";

/// Returns the whole audit as text.
pub fn render_audit(audit: &Audit) -> String {
    let mut text = String::new();
    let (from, to) = (audit.window.from.map(format_time), audit.window.to.map(format_time));
    // Writing to a String has no error.
    let _ = writeln!(
        text,
        "inputs {}, {}; {} records read",
        from.map_or("from the start".to_owned(), |from| format!("from {from}")),
        to.map_or("to now".to_owned(), |to| format!("to {to}")),
        audit.read
    );
    if let Some(why) = &audit.because {
        let _ = writeln!(text, "(starts there because {why})");
    }
    let mut table = Table::new(&AUDIT_COLUMNS);
    audit.summary.rows.iter().for_each(|row| table.add_row(row_cells(row)));
    let mut total = row_cells(&audit.summary.total());
    total[1..3].fill(BLANK.to_owned());
    table.add_row(total);
    text.push_str(&table.render());
    for finding in &audit.summary.findings {
        let _ = writeln!(
            text,
            "{}: {}/{}@{} ({} of {})",
            finding.what,
            finding.topic,
            finding.partition,
            finding.offset,
            finding.reports,
            if finding.tenant.is_empty() { "no tenant" } else { &finding.tenant }
        );
    }
    for what in &audit.summary.contradictions {
        let _ = writeln!(text, "contradiction: {what}");
    }
    for what in &audit.summary.notes {
        let _ = writeln!(text, "note: {what}");
    }
    let total = audit.summary.total();
    let _ = writeln!(
        text,
        "{} lost, {} doubled, {} contradictions",
        total.lost + total.expired,
        total.duplicates,
        audit.summary.contradictions.len()
    );
    text
}

fn row_cells(row: &SummaryRow) -> [String; 14] {
    [
        row.topic.clone(),
        row.partition.to_string(),
        row.tenant.clone(),
        row.records.to_string(),
        row.input.to_string(),
        row.out.to_string(),
        row.dead_letter.to_string(),
        row.other_outcomes().to_string(),
        row.waiting.to_string(),
        row.unread.to_string(),
        row.expired.to_string(),
        row.duplicates.to_string(),
        row.lost.to_string(),
        if row.is_wrong() { "!" } else { BLANK }.to_owned(),
    ]
}
