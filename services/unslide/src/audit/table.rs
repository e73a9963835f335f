//! The balance as a table.

use crate::moment;
use std::fmt::Write as _;
use unslide_stream::audit::{Audit, SummaryRow};

const HEAD: [&str; 14] = [
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

/// Everything that the audit has to say.
pub fn render(audit: &Audit) -> String {
    let mut text = String::new();
    let (from, to) = (audit.window.from.map(moment::text), audit.window.to.map(moment::text));
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
    let mut lines: Vec<Vec<String>> = vec![HEAD.iter().map(|word| (*word).to_owned()).collect()];
    lines.extend(audit.summary.rows.iter().map(cells));
    let mut total = cells(&audit.summary.total());
    for cell in &mut total[1..3] {
        cell.clear();
    }
    lines.push(total);
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let mut shown = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let _ = match column {
                0 | 2 | 13 => write!(shown, "{cell:width$}  "),
                _ => write!(shown, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(text, "{}", shown.trim_end());
    }
    for finding in &audit.summary.findings {
        let _ = writeln!(
            text,
            "{}: {}/{}@{} ({} of {})",
            finding.what,
            finding.topic,
            finding.partition,
            finding.offset,
            finding.reports,
            if finding.tenant.is_empty() { "nobody" } else { &finding.tenant }
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

fn cells(row: &SummaryRow) -> Vec<String> {
    let numbers = [
        row.records,
        row.input,
        row.out,
        row.dead_letter,
        row.other(),
        row.waiting,
        row.unread,
        row.expired,
        row.duplicates,
        row.lost,
    ];
    let tenant = if row.tenant.is_empty() { "-" } else { &row.tenant };
    let mut cells = vec![row.topic.clone(), row.partition.to_string(), tenant.to_owned()];
    cells.extend(numbers.iter().map(u64::to_string));
    cells.push(if row.is_wrong() { "!" } else { "" }.to_owned());
    cells
}
