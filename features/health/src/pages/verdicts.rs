//! Sentences about versions: what is worse than in the version that each is compared with, or how much could be seen.

use super::health_rows::HealthRow;
use super::values::COLUMNS;
use crate::store::figures::comparison::ChangeVerdict;
use crate::store::figures::signals::{SignalFigure, VersionSignals};
use unslide_model::figures::format_decimals;

/// The share of the sessions from which on a version has a sentence.
const LEAST_SHARE: f64 = 0.1;
/// The fall of the share of crash-free sessions that has to be visible: with fewer sessions they are too few to tell.
const TOLD_FALL: f64 = 0.01;
/// The figure that says how much a version is used, and which fall could be seen.
const CRASH_FREE: &str = "crash_free_sessions";

/// A sentence about a version.
pub struct VersionVerdict {
    /// `bad`, `good` or empty.
    pub class: &'static str,
    pub text: String,
}

/// Returns a sentence about each version that has a tenth of the sessions and is compared with another, the bad ones first, then
/// the newest. If there is none, about the newest that is compared.
pub fn list_verdicts(rows: &[HealthRow], versions: &[VersionSignals]) -> Vec<VersionVerdict> {
    let uses = count_uses(versions);
    let all: f64 = uses.iter().sum();
    let described = |(row, version): (&HealthRow, &VersionSignals)| describe_row(row, version);
    let used = rows.iter().zip(versions).zip(&uses).filter(|(_, used)| **used >= LEAST_SHARE * all);
    let mut verdicts: Vec<VersionVerdict> = used.filter_map(|(pair, _)| described(pair)).collect();
    if verdicts.is_empty() {
        verdicts.extend(rows.iter().zip(versions).find_map(described));
    }
    verdicts.sort_by_key(|verdict| match verdict.class {
        "bad" => 0,
        "" => 1,
        _ => 2,
    });
    verdicts
}

/// Returns how much each version is used: its sessions, or the observations of its most frequent metric if no version has sessions.
fn count_uses(versions: &[VersionSignals]) -> Vec<f64> {
    let sessions =
        |version: &VersionSignals| find_crash_free(version).map_or(0.0, |figure| figure.observations);
    let most = |version: &VersionSignals| {
        version.signals.iter().map(|figure| figure.observations).fold(0.0, f64::max)
    };
    if versions.iter().any(|version| sessions(version) > 0.0) {
        versions.iter().map(sessions).collect()
    } else {
        versions.iter().map(most).collect()
    }
}

fn find_crash_free(version: &VersionSignals) -> Option<&SignalFigure> {
    version.signals.iter().find(|figure| figure.signal == CRASH_FREE)
}

/// Returns the sentence about a version. `None` if it is compared with none.
pub(super) fn describe_row(row: &HealthRow, signals: &VersionSignals) -> Option<VersionVerdict> {
    let (version, before) = (&row.version, row.before.as_ref()?);
    let changed = |class: &str| {
        let cells = row.cells.iter().filter(|cell| cell.change_class() == class);
        cells.map(|cell| lower_first(cell.head)).collect::<Vec<_>>().join(", ")
    };
    let (worse, better) = (changed("bad"), changed("good"));
    let better = if better.is_empty() { String::new() } else { format!(" It is better in: {better}.") };
    let visible = describe_visible(signals).map(|text| format!(" {text}")).unwrap_or_default();
    let text = match (worse.is_empty(), better.is_empty()) {
        (false, _) => format!("{version} is worse than {before} in: {worse}.{better}"),
        (true, false) => format!("{version} is not worse than {before}.{better}{visible}"),
        (true, true) => format!("{version} differs from {before} by no more than noise.{visible}"),
    };
    Some(VersionVerdict { class: row.change_class(), text })
}

/// Says which fall of the share of crash-free sessions would be told, if it is within noise.
fn describe_visible(signals: &VersionSignals) -> Option<String> {
    let figure = find_crash_free(signals)?;
    if figure.change != Some(ChangeVerdict::WithinNoise) {
        return None;
    }
    let Some(bound) = figure.worse_beyond else { return Some("It has too few sessions to tell.".to_owned()) };
    let head = head_of(CRASH_FREE);
    let visible = format!("fall of {head} below {} % would be seen", format_decimals(100.0 * bound, 1));
    Some(if figure.before.unwrap_or_default() - bound > TOLD_FALL {
        format!("It has too few sessions to tell: only a {visible}.")
    } else {
        format!("A {visible}.")
    })
}

fn head_of(signal: &str) -> String {
    COLUMNS
        .iter()
        .find(|(known, ..)| *known == signal)
        .map_or_else(String::new, |(_, head, _)| lower_first(head))
}

/// Returns a heading within a sentence: its first letter is small, unless it is an abbreviation.
fn lower_first(head: &str) -> String {
    let mut chars = head.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(chars).collect(),
        _ => head.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::health_rows::{HealthCell, HealthCellLine};
    use super::*;

    fn row(version: &str, changes: &[(&'static str, &'static str)]) -> HealthRow {
        let cell = |(head, class): &(&'static str, &'static str)| HealthCell {
            head,
            title: "",
            over_time: String::new(),
            lines: vec![HealthCellLine {
                statistic: "p95",
                value: "1 s".to_owned(),
                change: Some((class, "", "2 s".to_owned())),
            }],
            observations: String::new(),
        };
        HealthRow {
            version: version.to_owned(),
            breakdown: None,
            before: Some("1.0".to_owned()),
            cells: changes.iter().map(cell).collect(),
        }
    }

    /// A version with sessions of which a fall below a share would be told.
    fn signals(sessions: f64, worse_beyond: Option<f64>) -> VersionSignals {
        VersionSignals {
            version: String::new(),
            version_before: None,
            signals: vec![SignalFigure {
                signal: CRASH_FREE,
                statistic: "share",
                unit: "1",
                value: 0.99,
                observations: sessions,
                estimated: false,
                before: Some(0.99),
                change: Some(ChangeVerdict::WithinNoise),
                worse_beyond,
            }],
        }
    }

    fn texts(rows: &[HealthRow], versions: &[VersionSignals]) -> Vec<String> {
        list_verdicts(rows, versions).into_iter().map(|verdict| verdict.text).collect()
    }

    #[test]
    fn a_sentence_says_what_is_worse_or_what_would_be_seen() {
        let worse = row("2.0", &[("Users", "bad"), ("CPU", "bad"), ("Launch", "good"), ("Energy", "")]);
        let much = [signals(10_000.0, Some(0.9841))];
        assert_eq!(
            texts(&[worse], &much),
            ["2.0 is worse than 1.0 in: users, CPU. It is better in: launch."]
        );
        let noise = || [row("2.0", &[("Users", "")])];
        let start = "2.0 differs from 1.0 by no more than noise.";
        assert_eq!(
            texts(&noise(), &much),
            [format!("{start} A fall of crash-free sessions below 98.4 % would be seen.")]
        );
        assert_eq!(
            texts(&noise(), &[signals(843.0, Some(0.9712))]),
            [format!(
                "{start} It has too few sessions to tell: only a fall of crash-free sessions below 97.1 % would be seen."
            )]
        );
        assert_eq!(
            texts(&noise(), &[signals(3.0, None)]),
            [format!("{start} It has too few sessions to tell.")]
        );
        let better = [row("2.0", &[("Launch", "good")])];
        assert_eq!(
            texts(&better, &much),
            [
                "2.0 is not worse than 1.0. It is better in: launch. A fall of crash-free sessions below 98.4 % would be seen."
            ]
        );
        let first = HealthRow { before: None, ..row("1.0", &[]) };
        assert!(texts(&[first], &much).is_empty());
    }

    /// The newest is a beta that few use; the bad release is older.
    #[test]
    fn versions_in_wide_use_have_a_sentence_the_bad_ones_first() {
        let rows = [
            row("2.6", &[("Users", "")]),
            row("2.5.1", &[("Launch", "good")]),
            row("2.5", &[("Users", "bad")]),
            row("2.4", &[("Users", "")]),
        ];
        let versions = [843.0, 30_000.0, 40_000.0, 9_000.0].map(|sessions| signals(sessions, Some(0.98)));
        let begins = |texts: &[String]| -> Vec<String> {
            texts.iter().map(|text| text.split(' ').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(begins(&texts(&rows, &versions)), ["2.5", "2.4", "2.5.1"]);
        // Without sessions the metrics say how much a version is used.
        let metrics = [10.0, 500.0, 600.0, 0.0].map(|observations| {
            let mut version = signals(observations, None);
            version.signals[0].signal = "launch_time";
            version
        });
        assert_eq!(begins(&texts(&rows, &metrics)), ["2.5", "2.5.1"]);
        // Only the beta is compared with another.
        let alone: Vec<HealthRow> = rows
            .into_iter()
            .map(|row| if row.version == "2.6" { row } else { HealthRow { before: None, ..row } })
            .collect();
        assert_eq!(begins(&texts(&alone, &versions)), ["2.6"]);
    }
}
