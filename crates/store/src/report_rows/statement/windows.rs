//! Windows of days: a statement that wants the newest reports reads the days that have enough of them.
//!
//! A statement over `reports` that no day bounds locks each day and each index of it, and a server has few locks (see
//! [`partitions`](crate::partitions)). So it begins with a window, of which the bounds are bound values that the planner leaves
//! days out by, and is repeated with more days only if it has found too few.

use crate::segments::{day_bounds, utc_day};
use sqlx::{Postgres, QueryBuilder};
use std::mem;
use time::{Date, Duration, OffsetDateTime};

/// Days of the first window of a list.
pub(in crate::report_rows) const PAGE_DAYS: i64 = 8;
/// Days of the first window of a sample, which has many rows.
pub(in crate::report_rows) const SAMPLE_DAYS: i64 = 28;
/// Days with reports that are read at least: a count of a day is that of reports which samples represent.
const LEAST_DAYS: usize = 4;
/// More ranges of days become one.
const RANGES_LIMIT: usize = 64;

/// A time from which reports are read, and the time before which they are.
type Range = (OffsetDateTime, Option<OffsetDateTime>);

/// A day (UTC) on which reports arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedDay {
    pub(crate) day: Date,
    /// Reports of the day, with those that samples represent or less.
    pub(crate) reports: i64,
}

/// The days before a window that have reports.
#[derive(Clone, Debug, Default)]
pub(in crate::report_rows) struct OlderDays {
    /// The newest first.
    pub(in crate::report_rows) days: Vec<CountedDay>,
    /// True if there may be more.
    pub(in crate::report_rows) is_cut: bool,
}

/// The days that a statement reads, and those that it reads next if it finds too few reports.
#[derive(Clone, Debug)]
pub(in crate::report_rows) struct DayWindow {
    /// `None`: all days.
    ranges: Option<Vec<Range>>,
    /// The ranges of the first statement.
    base: Vec<Range>,
    /// No report before this day is wanted.
    first_day: Option<Date>,
    wider: Wider,
}

#[derive(Clone, Debug)]
enum Wider {
    /// All has been read.
    Nothing,
    /// These days and those of the first statement.
    Days(Vec<CountedDay>),
    /// The days before this one: the statement itself says which have reports.
    Before(Date),
    Everything,
}

impl DayWindow {
    /// Reads all days.
    pub(in crate::report_rows) fn everything() -> DayWindow {
        DayWindow { ranges: None, base: Vec::new(), first_day: None, wider: Wider::Nothing }
    }

    /// Reads the newest of these days, which have all reports that are wanted, the newest first.
    pub(in crate::report_rows) fn for_days(
        days: &[CountedDay],
        from: Option<OffsetDateTime>,
        limit: i64,
    ) -> DayWindow {
        let first_day = from.map(utc_day);
        let days: Vec<CountedDay> =
            days.iter().filter(|one| first_day.is_none_or(|first| one.day >= first)).copied().collect();
        let chosen = choose(&days, limit);
        let wider = if chosen.len() < days.len() { Wider::Days(days.clone()) } else { Wider::Nothing };
        DayWindow { ranges: Some(join_days(chosen)), base: Vec::new(), first_day, wider }
    }

    /// Reads what arrived at a time or later.
    pub(in crate::report_rows) fn since(from: OffsetDateTime) -> DayWindow {
        DayWindow { ranges: Some(vec![(from, None)]), ..DayWindow::everything() }
    }

    /// Reads these days and no others.
    pub(in crate::report_rows) fn for_dates(mut days: Vec<Date>) -> DayWindow {
        days.sort_unstable_by(|a, b| b.cmp(a));
        days.dedup();
        let days: Vec<CountedDay> = days.into_iter().map(|day| CountedDay { day, reports: 0 }).collect();
        DayWindow::for_days(&days, None, i64::MAX)
    }

    /// Reads the last days up to a time.
    pub(in crate::report_rows) fn before(
        to: OffsetDateTime,
        from: Option<OffsetDateTime>,
        days: i64,
    ) -> DayWindow {
        let first_day = from.map(utc_day);
        let day = utc_day(to).saturating_sub(Duration::days(days - 1));
        let base = vec![(day_bounds(day).0, None)];
        let wider = match first_day {
            Some(first) if first >= day => Wider::Nothing,
            _ => Wider::Before(day),
        };
        DayWindow { ranges: Some(base.clone()), base, first_day, wider }
    }

    /// Returns the day before which the statement is to say the days with reports.
    pub(in crate::report_rows) fn asks_before(&self) -> Option<Date> {
        match self.wider {
            Wider::Before(day) => Some(day),
            _ => None,
        }
    }

    /// Returns true if days are left out.
    pub(in crate::report_rows) fn is_bounded(&self) -> bool {
        self.ranges.is_some()
    }

    /// Takes more days. Returns false if there are none.
    pub(in crate::report_rows) fn widen(&mut self, found: i64, limit: i64, older: OlderDays) -> bool {
        match mem::replace(&mut self.wider, Wider::Nothing) {
            Wider::Nothing => false,
            Wider::Everything => {
                self.ranges = None;
                true
            }
            Wider::Days(days) => {
                self.ranges = Some([self.base.clone(), join_days(&days)].concat());
                true
            }
            Wider::Before(_) => {
                let OlderDays { mut days, is_cut } = older;
                days.retain(|one| self.first_day.is_none_or(|first| one.day >= first));
                let chosen = choose(&days, limit - found);
                if chosen.is_empty() {
                    return false;
                }
                self.ranges = Some([self.base.clone(), join_days(chosen)].concat());
                self.wider = match (is_cut, chosen.len() < days.len()) {
                    (true, _) => Wider::Everything,
                    (false, true) => Wider::Days(days),
                    (false, false) => Wider::Nothing,
                };
                true
            }
        }
    }

    /// Adds the condition on the time of the table `key`.
    pub(in crate::report_rows) fn push(&self, query: &mut QueryBuilder<Postgres>, key: &str) {
        let Some(ranges) = &self.ranges else { return };
        query.push(" AND (");
        for (place, (from, to)) in ranges.iter().enumerate() {
            query.push(if place == 0 { "" } else { " OR " });
            query.push(format!("{key}.received_at >= ")).push_bind(*from);
            if let Some(to) = to {
                query.push(format!(" AND {key}.received_at < ")).push_bind(*to);
            }
        }
        query.push(if ranges.is_empty() { "false)" } else { ")" });
    }
}

/// Returns the newest days that have this number of reports.
fn choose(days: &[CountedDay], reports: i64) -> &[CountedDay] {
    let mut sum = 0;
    let enough = days.iter().position(|one| {
        sum += one.reports;
        sum >= reports
    });
    &days[..enough.map_or(days.len(), |last| (last + 1).max(LEAST_DAYS).min(days.len()))]
}

/// Returns the times of days, the newest first, with one range for those that follow each other.
fn join_days(days: &[CountedDay]) -> Vec<Range> {
    let mut ranges: Vec<(OffsetDateTime, OffsetDateTime)> = Vec::new();
    for (from, to) in days.iter().map(|one| day_bounds(one.day)) {
        match ranges.last_mut() {
            Some(last) if last.0 <= to => last.0 = from,
            _ => ranges.push((from, to)),
        }
    }
    if let (true, Some(newest), Some(oldest)) = (ranges.len() > RANGES_LIMIT, ranges.first(), ranges.last()) {
        ranges = vec![(oldest.0, newest.1)];
    }
    ranges.into_iter().map(|(from, to)| (from, Some(to))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};

    fn days(days: &[(Date, i64)]) -> Vec<CountedDay> {
        days.iter().map(|(day, reports)| CountedDay { day: *day, reports: *reports }).collect()
    }

    #[test]
    fn a_window_has_as_many_days_as_there_have_to_be_and_then_the_rest() {
        let counted: Vec<CountedDay> = (0..10)
            .map(|n| CountedDay { day: date!(2026 - 11 - 20) - Duration::days(2 * n), reports: 10 })
            .collect();
        let mut window = DayWindow::for_days(&counted, None, 60);
        assert_eq!(window.ranges.as_ref().map(Vec::len), Some(6));
        assert!(window.widen(0, 60, OlderDays::default()));
        assert_eq!(window.ranges.as_ref().map(Vec::len), Some(10));
        assert!(!window.widen(0, 60, OlderDays::default()));
        let from = Some(datetime!(2026-11-18 12:00 UTC));
        assert_eq!(DayWindow::for_days(&counted, from, 60).ranges.map(|ranges| ranges.len()), Some(2));
    }

    #[test]
    fn days_that_follow_each_other_are_one_range() {
        let three =
            days(&[(date!(2026 - 11 - 20), 1), (date!(2026 - 11 - 19), 1), (date!(2026 - 11 - 10), 1)]);
        let ranges = [
            (datetime!(2026-11-19 0:00 UTC), Some(datetime!(2026-11-21 0:00 UTC))),
            (datetime!(2026-11-10 0:00 UTC), Some(datetime!(2026-11-11 0:00 UTC))),
        ];
        assert_eq!(join_days(&three), ranges);
        let sparse: Vec<CountedDay> = (0..100)
            .map(|n| CountedDay { day: date!(2026 - 11 - 20) - Duration::days(2 * n), reports: 1 })
            .collect();
        assert_eq!(join_days(&sparse).len(), 1);
    }

    #[test]
    fn the_days_before_a_window_are_those_that_the_statement_names() {
        let now = datetime!(2026-11-20 8:00 UTC);
        let mut window = DayWindow::before(now, None, 8);
        assert_eq!(window.asks_before(), Some(date!(2026 - 11 - 13)));
        assert!(!window.clone().widen(3, 50, OlderDays::default()));
        let older = OlderDays { days: days(&[(date!(2026 - 10 - 1), 7)]), is_cut: false };
        assert!(window.widen(3, 50, older.clone()) && !window.widen(10, 50, OlderDays::default()));
        assert_eq!(window.ranges.map(|ranges| ranges.len()), Some(2));
        let from = Some(datetime!(2026-10-02 8:00 UTC));
        assert!(!DayWindow::before(now, from, 8).widen(3, 50, older), "nothing of that day is wanted");
        assert_eq!(DayWindow::before(now, Some(now), 8).asks_before(), None);
    }
}
