//! Charts: plain SVG without a style or a script. A table beside each chart has the same data.

use std::collections::BTreeMap;
use time::macros::format_description;
use time::{Date, Duration, OffsetDateTime};
use unslide_site::{Template, escaping, filters, grouped, text_or};
use unslide_store::GroupId;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::trends::{FirstDay, GroupTrend, TrendStep, VersionCount};

const CHART_WIDTH: i64 = 720;
const CHART_HEIGHT: i64 = 160;
const BAR_GAP: i64 = 2;
/// Maximum number of versions that a chart marks.
pub const RELEASES_LIMIT: u32 = 12;
/// Maximum number of versions with a name and a colour in a chart.
pub const CHART_VERSIONS_LIMIT: u32 = 5;
/// Maximum number of versions that a mark names.
const NAMED_RELEASES: usize = 3;

/// Note of a chart with estimated counts.
const ESTIMATED: &str = "Estimated from a sample.";

/// The days or hours with a bar in a chart.
pub struct ChartTimes {
    step: TrendStep,
    first: OffsetDateTime,
    last: OffsetDateTime,
}

impl ChartTimes {
    /// Returns the days (UTC) from `first` to `last`.
    pub fn from_days(first: Date, last: Date) -> ChartTimes {
        let begin = |day: Date| day.midnight().assume_utc();
        ChartTimes { step: TrendStep::Day, first: begin(first), last: begin(last) }
    }

    /// Returns the hours from the one that begins with `first` to the one that begins with `last`.
    pub fn from_hours(first: OffsetDateTime, last: OffsetDateTime) -> ChartTimes {
        ChartTimes { step: TrendStep::Hour, first, last }
    }

    fn list_times(&self) -> Vec<OffsetDateTime> {
        let step = self.step.length();
        let number = (self.last - self.first).whole_seconds() / step.whole_seconds();
        (0..=number.clamp(0, 400)).map(|at| self.first + step * i32::try_from(at).unwrap_or(0)).collect()
    }

    fn format_label(&self, at: OffsetDateTime) -> String {
        match self.step {
            TrendStep::Hour => {
                at.format(format_description!("[month]-[day] [hour]:00 UTC")).unwrap_or_default()
            }
            TrendStep::Day => at.date().to_string(),
        }
    }
}

/// Bars of one day or hour each, stacked by version.
#[derive(Debug, Template)]
#[template(path = "console/components/bars.html", askama = escaping)]
pub struct StackedBars {
    /// Name of the counted things, such as `Crashes`.
    what: &'static str,
    unit: &'static str,
    series: Vec<BarSeries>,
    bars: Vec<StackedBar>,
    first: String,
    last: String,
    /// Labels of the vertical axis, from its top.
    scale: Vec<String>,
    note: Option<&'static str>,
    /// Days on which versions had their first report.
    releases: Vec<ReleaseMark>,
    empty: bool,
}

/// A vertical mark of a chart: the first day of versions.
#[derive(Debug)]
struct ReleaseMark {
    x: i64,
    text: String,
}

/// A version of a chart.
#[derive(Debug)]
struct BarSeries {
    label: String,
    total: String,
    count: i64,
    /// A row of the version; absent for other versions together.
    row: Option<VersionCount>,
    /// The list with the entries of the series.
    href: Option<String>,
}

/// A day or an hour of a chart.
#[derive(Debug)]
struct StackedBar {
    at: String,
    /// The values of the bar, one in a line.
    title: String,
    total: String,
    counts: Vec<String>,
    /// Series, x, y, width and height.
    pieces: Vec<(usize, i64, i64, i64, i64)>,
}

impl StackedBars {
    /// Creates the bars for these times. Rows may have other times.
    pub fn from_rows(
        what: &'static str,
        is_estimated: bool,
        mut rows: Vec<VersionCount>,
        times: &ChartTimes,
    ) -> StackedBars {
        rows.retain(|row| (times.first..=times.last).contains(&row.at));
        let several_apps = rows.iter().any(|row| row.version.is_some() && row.app != rows_app(&rows));
        let label = |row: &VersionCount| match &row.version {
            None => (1, "other versions".to_owned()),
            Some(version) if several_apps => {
                (0, format!("{} {}", text_or(&row.app, "unknown app"), text_or(version, "no version")))
            }
            Some(version) => (0, text_or(version, "no version").to_owned()),
        };
        let mut totals: BTreeMap<(u8, String), i64> = BTreeMap::new();
        for row in &rows {
            *totals.entry(label(row)).or_default() += row.count;
        }
        // The most frequent version is at the foot of each bar, and the other versions together at its top.
        let mut series: Vec<((u8, String), i64)> = totals.into_iter().collect();
        series.sort_by_key(|((other, _), total)| (*other, -*total));
        let place = |row: &VersionCount| series.iter().position(|(key, _)| *key == label(row)).unwrap_or(0);
        let mut by_time: BTreeMap<OffsetDateTime, Vec<i64>> = BTreeMap::new();
        for row in &rows {
            let counts = by_time.entry(row.at).or_insert_with(|| vec![0; series.len()]);
            counts[place(row)] += row.count;
        }
        let highest = by_time.values().map(|counts| counts.iter().sum::<i64>()).max().unwrap_or(0);
        let top = axis_top(highest);
        let of_label = |key: &(u8, String)| rows.iter().find(|row| label(row) == *key).cloned();
        let legend: Vec<BarSeries> = series
            .iter()
            .map(|(key, total)| BarSeries {
                label: key.1.clone(),
                total: grouped(*total),
                count: *total,
                row: of_label(key).filter(|row| row.version.is_some()),
                href: None,
            })
            .collect();
        let all = times.list_times();
        let step = CHART_WIDTH / i64::try_from(all.len().max(1)).unwrap_or(1);
        let none = vec![0; series.len()];
        let bars = (0..).zip(&all).map(|(at, time)| {
            let counts = by_time.get(time).unwrap_or(&none);
            let place = (at * step, step - BAR_GAP);
            build_bar(times.format_label(*time), &legend, counts, place, top)
        });
        let bars = bars.collect();
        StackedBars {
            what,
            unit: times.step.as_str(),
            bars,
            series: legend,
            first: times.format_label(times.first),
            last: times.format_label(times.last),
            scale: build_scale(top),
            note: is_estimated.then_some(ESTIMATED),
            releases: Vec::new(),
            empty: highest == 0,
        }
    }

    /// Adds links from the versions to the lists with their entries.
    pub fn with_links(mut self, href: impl Fn(&VersionCount) -> Option<String>) -> StackedBars {
        for series in &mut self.series {
            series.href = series.row.as_ref().and_then(&href);
        }
        self
    }

    /// Marks the first days of versions, in a chart by day.
    pub fn with_releases(mut self, first_days: &[FirstDay], times: &ChartTimes) -> StackedBars {
        let mut by_day: BTreeMap<Date, Vec<&str>> = BTreeMap::new();
        for one in first_days {
            by_day.entry(one.day).or_default().push(&one.version);
        }
        let all = times.list_times();
        let step = CHART_WIDTH / i64::try_from(all.len().max(1)).unwrap_or(1);
        if times.step == TrendStep::Hour {
            return self;
        }
        for ((at, time), bar) in (0..).zip(&all).zip(&mut self.bars) {
            let Some(versions) = by_day.get(&time.date()) else { continue };
            let named = versions.iter().take(NAMED_RELEASES).copied().collect::<Vec<_>>().join(", ");
            let more = versions.len().saturating_sub(NAMED_RELEASES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            bar.title.push_str(&format!("\nFirst reports of {named}{more}"));
            self.releases.push(ReleaseMark { x: at * step, text: format!("{}: {named}{more}", time.date()) });
        }
        self
    }

    /// Returns the label of the bar in the middle.
    fn middle(&self) -> &str {
        self.bars.get(self.bars.len() / 2).map_or("", |bar| bar.at.as_str())
    }

    fn width(&self) -> i64 {
        let days = i64::try_from(self.bars.len().max(1)).unwrap_or(1);
        CHART_WIDTH / days * days - BAR_GAP
    }
}

fn rows_app(rows: &[VersionCount]) -> &str {
    rows.iter().find(|row| row.version.is_some()).map_or("", |row| row.app.as_str())
}

fn list_days(first: Date, last: Date) -> Vec<Date> {
    let number = (last - first).whole_days().clamp(0, 400);
    (0..=number).map(|at| first + Duration::days(at)).collect()
}

/// Returns the end of an axis for values up to `highest`: 1, 2, 4, 6, 8 or 10 with zeros.
fn axis_top(highest: i64) -> i64 {
    let mut unit: i64 = 1;
    while unit.saturating_mul(10) < highest {
        unit = unit.saturating_mul(10);
    }
    let tops = [1, 2, 4, 6, 8, 10].map(|digit| unit.saturating_mul(digit));
    tops.into_iter().find(|top| *top >= highest).unwrap_or(highest)
}

fn build_scale(top: i64) -> Vec<String> {
    let middle = (top > 1).then(|| grouped(top / 2));
    [Some(grouped(top)), middle, Some("0".to_owned())].into_iter().flatten().collect()
}

/// Builds a bar at a horizontal position and with a width, on an axis up to `top`.
fn build_bar(
    at: String,
    series: &[BarSeries],
    counts: &[i64],
    (x, width): (i64, i64),
    top: i64,
) -> StackedBar {
    let (mut pieces, mut below) = (Vec::new(), 0);
    let mut values = String::new();
    let height = |count: i64| count.saturating_mul(CHART_HEIGHT) / top.max(1);
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (from, to) = (height(below), height(below + count).max(height(below) + 1));
        pieces.push((index, x, CHART_HEIGHT - to, width, to - from));
        below += count;
        let label = series.get(index).filter(|_| series.len() > 1).map(|one| &one.label);
        values.extend(label.map(|label| format!("\n{label}: {}", grouped(*count))));
    }
    let total = grouped(below);
    StackedBar {
        title: format!("{at}: {total}{values}"),
        at,
        total,
        counts: counts.iter().map(|count| grouped(*count)).collect(),
        pieces,
    }
}

/// A line of small bars, one per day.
#[derive(Debug, Default, Template)]
#[template(path = "console/components/spark.html", askama = escaping)]
pub struct Sparkline {
    label: String,
    bars: Vec<(i64, i64, i64)>,
    width: i64,
}

const SPARK_STEP: i64 = 6;
const SPARK_HEIGHT: i64 = 20;

impl Sparkline {
    /// Creates the bars of the days from `first` to `last`, with their reports.
    pub fn from_counts(
        counts: &BTreeMap<Date, i64>,
        is_estimated: bool,
        first: Date,
        last: Date,
    ) -> Sparkline {
        let days = list_days(first, last);
        let highest = days.iter().filter_map(|date| counts.get(date)).copied().max().unwrap_or(0);
        let total: i64 = days.iter().filter_map(|date| counts.get(date)).sum();
        let bars = (0..).zip(&days).map(|(at, date)| {
            let count = counts.get(date).copied().unwrap_or(0);
            let height = match count {
                0 => 1,
                count => (count.saturating_mul(SPARK_HEIGHT) / highest.max(1)).max(2),
            };
            (at * SPARK_STEP, SPARK_HEIGHT - height, height)
        });
        let number = i64::try_from(days.len()).unwrap_or(0);
        let label =
            format!("{} reports in {number} days, {} on the busiest", grouped(total), grouped(highest));
        Sparkline {
            label: if is_estimated { format!("{label}. {ESTIMATED}") } else { label },
            bars: bars.collect(),
            width: number * SPARK_STEP - 2,
        }
    }
}

/// The reports of groups by day, for a range of days.
pub struct GroupTrends {
    groups: BTreeMap<GroupId, BTreeMap<Date, i64>>,
    days: (Date, Date),
}

impl GroupTrends {
    /// Groups the rows by group and day.
    pub fn from_rows(rows: &[GroupTrend], days: (Date, Date)) -> GroupTrends {
        let mut groups: BTreeMap<GroupId, BTreeMap<Date, i64>> = BTreeMap::new();
        for row in rows {
            groups.entry(row.group).or_default().insert(row.day, row.reports);
        }
        GroupTrends { groups, days }
    }

    /// Returns the trend of a group.
    pub fn line(&self, group: &ListedGroup) -> Sparkline {
        let none = BTreeMap::new();
        {
            let counts = self.groups.get(&group.id).unwrap_or(&none);
            Sparkline::from_counts(counts, group.estimated, self.days.0, self.days.1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};

    fn row(day: Date, version: Option<&str>, count: i64) -> VersionCount {
        VersionCount {
            at: day.midnight().assume_utc(),
            app: "a".to_owned(),
            version: version.map(str::to_owned),
            count,
        }
    }

    #[test]
    fn hours_have_a_bar_each() {
        let first = datetime!(2026 - 11 - 01 22:00 UTC);
        let rows = vec![VersionCount { at: first + Duration::HOUR, ..row(first.date(), Some("1.0"), 4) }];
        let bars = StackedBars::from_rows(
            "Crashes",
            false,
            rows,
            &ChartTimes::from_hours(first, first + Duration::hours(2)),
        );
        let shown: Vec<_> = bars.bars.iter().map(|bar| (bar.at.as_str(), bar.total.as_str())).collect();
        assert_eq!(shown, [("11-01 22:00 UTC", "0"), ("11-01 23:00 UTC", "4"), ("11-02 00:00 UTC", "0")]);
        assert_eq!((bars.unit, bars.scale.join(" ")), ("hour", "4 2 0".to_owned()));
    }

    #[test]
    fn bars_stack_up_to_the_highest_day() {
        let (first, last) = (date!(2026 - 11 - 01), date!(2026 - 11 - 03));
        let rows = vec![
            row(date!(2026 - 10 - 31), Some("0.9"), 500),
            row(first, Some("1.0"), 30),
            row(first, Some("2.0"), 10),
            row(last, Some("2.0"), 5),
            row(last, None, 15),
        ];
        let bars = StackedBars::from_rows("Crashes", false, rows, &ChartTimes::from_days(first, last));
        let labels: Vec<_> = bars.series.iter().map(|series| series.label.as_str()).collect();
        assert_eq!(labels, ["1.0", "2.0", "other versions"]);
        assert_eq!(bars.bars.len(), 3);
        assert_eq!(bars.bars[0].pieces, [(0, 0, 40, 238, 120), (1, 0, 0, 238, 40)]);
        assert!(bars.bars[1].pieces.is_empty());
        assert_eq!(bars.bars[2].total, "20");
        assert_eq!(bars.scale, ["40", "20", "0"]);
        assert_eq!(bars.bars[0].title, "2026-11-01: 40\n1.0: 30\n2.0: 10");
        let none = StackedBars::from_rows("Crashes", false, Vec::new(), &ChartTimes::from_days(first, last));
        assert!(!bars.empty && none.empty);
    }

    #[test]
    fn an_axis_ends_at_a_round_number_with_a_whole_half() {
        let tops = [0, 1, 2, 3, 5, 9, 11, 40, 41, 99, 101, 1_234].map(axis_top);
        assert_eq!(tops, [1, 1, 2, 4, 6, 10, 20, 40, 60, 100, 200, 2_000]);
        assert_eq!(build_scale(1), ["1", "0"]);
        assert_eq!(build_scale(2_000), ["2\u{202f}000", "1\u{202f}000", "0"]);
    }

    #[test]
    fn the_first_day_of_a_version_is_marked() {
        let (first, last) = (date!(2026 - 11 - 01), date!(2026 - 11 - 03));
        let times = ChartTimes::from_days(first, last);
        let release = |version: &str, day| FirstDay { app: "a".to_owned(), version: version.to_owned(), day };
        let days = [release("2.0", last), release("2.1", last), release("0.9", date!(2026 - 10 - 01))];
        let bars = StackedBars::from_rows("Crashes", false, vec![row(last, Some("2.0"), 1)], &times);
        let page = bars.with_releases(&days, &times).render().unwrap();
        assert_eq!(page.matches("class=\"release\"").count(), 1, "{page}");
        assert!(page.contains("2026-11-03: 2.0, 2.1"), "{page}");
    }

    #[test]
    fn charts_of_estimates_say_so() {
        let day = date!(2026 - 11 - 01);
        let counts = BTreeMap::from([(day, 8)]);
        for is_estimated in [false, true] {
            let rows = vec![row(day, Some("1.0"), 8)];
            let bars =
                StackedBars::from_rows("Reports", is_estimated, rows, &ChartTimes::from_days(day, day));
            let line = Sparkline::from_counts(&counts, is_estimated, day, day);
            for chart in [bars.render().unwrap(), line.render().unwrap()] {
                assert_eq!(chart.contains(ESTIMATED), is_estimated, "{chart}");
            }
        }
    }
}
