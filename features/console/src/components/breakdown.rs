//! A table of counts with bars: the reports of a group by one property.

use unslide_model::figures::round_share;
use unslide_site::words::format_percentage;
use unslide_site::{Template, escaping, estimate, grouped, text_or};

/// Maximum number of values in a table, those with the most reports.
const MOST_LINES: usize = 10;

/// Reports by one of their properties.
#[derive(Template)]
#[template(path = "console/components/breakdown.html", askama = escaping)]
pub struct Breakdown {
    by: String,
    head: String,
    pub lines: Vec<BreakdownLine>,
}

pub struct BreakdownLine {
    pub name: String,
    pub href: Option<String>,
    pub count: String,
    pub reports: i64,
    /// Share of all reports, 0 to 100.
    pub percent: u64,
    /// The same as a text.
    pub share: String,
}

/// Words of one table.
#[derive(Clone, Copy)]
pub struct BreakdownWords<'w> {
    /// Caption: the property by which reports are counted.
    pub by: &'w str,
    /// Head of the column of values.
    pub head: &'w str,
    /// Shown instead of an empty value.
    pub unknown: &'w str,
}

impl Breakdown {
    /// Creates the table of values with their counts and links; an empty value is shown as `unknown`.
    pub fn from_values<'v>(
        words: BreakdownWords<'_>,
        total: i64,
        estimated: bool,
        values: impl Iterator<Item = (&'v str, i64, Option<String>)>,
    ) -> Breakdown {
        let BreakdownWords { by, head, unknown } = words;
        let line = |(name, reports, href): (&str, i64, Option<String>)| BreakdownLine {
            name: text_or(name, unknown).to_owned(),
            href,
            count: estimate(grouped(reports), estimated),
            reports,
            percent: bar_percent(reports, total),
            share: format_percentage(reports.min(total), total).unwrap_or_default(),
        };
        Breakdown {
            by: by.to_owned(),
            head: head.to_owned(),
            lines: values.take(MOST_LINES).map(line).collect(),
        }
    }
}

/// Returns the share of some reports in percent.
pub fn bar_percent(reports: i64, total: i64) -> u64 {
    let unsigned = |count: i64| u64::try_from(count).unwrap_or(0);
    round_share(unsigned(reports), unsigned(total), 100).min(100)
}
