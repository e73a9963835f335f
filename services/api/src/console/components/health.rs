//! Crash-free shares as pages show them.

use crate::console::words::grouped;
use crate::operations::apps::health::SignificantChanges;
use unslide_store::queries::health::HealthFigures;

/// What is said of approximate counts.
const APPROXIMATE: &str =
    "Installations are counted approximately: the standard error of each count is 1.6 %.";

/// One figure of the overview.
pub struct HealthLine {
    pub label: &'static str,
    pub value: String,
    /// What to know of the value; empty where it is exact.
    pub title: &'static str,
    pub note: String,
}

/// The figures of a period of so many days beside those of the one before it; none without sessions.
pub fn lines(now: &HealthFigures, before: &HealthFigures, days: i64) -> Vec<HealthLine> {
    if now.sessions == 0 {
        return Vec::new();
    }
    let changes = SignificantChanges::between(now, before);
    let note = |(crashed, all): (i64, i64), (crashed_before, all_before): (i64, i64), significant: bool| {
        let Some(share) = crash_free(crashed_before, all_before) else {
            return format!("no sessions in the {days} days before");
        };
        let rose =
            i128::from(crashed) * i128::from(all_before) < i128::from(crashed_before) * i128::from(all);
        let verdict = match (significant, rose) {
            (false, _) => "the change is no more than noise",
            (true, true) => "better, by more than noise",
            (true, false) => "worse, by more than noise",
        };
        format!("{share} in the {days} days before: {verdict}")
    };
    let sessions = [now, before].map(HealthFigures::crashed_of_sessions);
    let installations = [now, before].map(HealthFigures::crashed_of_installations);
    let share = |(crashed, all)| crash_free(crashed, all).unwrap_or_else(|| "–".to_owned());
    vec![
        HealthLine {
            label: "Crash-free sessions",
            value: share(sessions[0]),
            title: "",
            note: note(sessions[0], sessions[1], changes.crash_free_sessions),
        },
        HealthLine {
            label: "Crash-free installations",
            value: format!("≈ {}", share(installations[0])),
            title: APPROXIMATE,
            note: match now.is_whole() && before.is_whole() {
                true => note(installations[0], installations[1], changes.crash_free_installations),
                false => "not comparable: only a part of the sessions was kept".to_owned(),
            },
        },
        HealthLine {
            label: "Out of memory",
            value: per_thousand(now.out_of_memory_sessions, now.sessions),
            title: "Sessions on the screen that the system ended for lack of memory, of a thousand. “By exclusion”: nothing \
                    else explains the end.",
            note: format!(
                "of 1\u{202f}000 sessions; {} by exclusion, {} more in the background",
                grouped(now.unexplained_sessions),
                grouped(now.background_out_of_memory_sessions)
            ),
        },
        HealthLine {
            label: "Sessions",
            value: grouped(now.sessions),
            title: "",
            note: format!("of ≈ {} installations", grouped(installations[0].1)),
        },
    ]
}

/// The share without a crash in percent, with two decimals, never rounded up to all of it.
pub fn crash_free(crashed: i64, all: i64) -> Option<String> {
    let share = (i128::from(all) - i128::from(crashed)) * 10_000 / (all > 0).then(|| i128::from(all))?;
    Some(format!("{}.{:02} %", share / 100, share % 100))
}

/// Sessions of a thousand, with one decimal.
pub fn per_thousand(some: i64, all: i64) -> String {
    let tenths = i128::from(some) * 10_000 / i128::from(all.max(1));
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(crashed: i64, sessions: i64) -> HealthFigures {
        let [crashed_installations, installations] =
            [crashed, sessions].map(|count| u64::try_from(count / 2).unwrap());
        HealthFigures {
            sessions,
            crashed_sessions: crashed,
            crashed_installations,
            installations,
            squares: sessions,
            ..HealthFigures::default()
        }
    }

    #[test]
    fn a_share_is_never_rounded_up_to_all() {
        assert_eq!(crash_free(1, 1_000_000).as_deref(), Some("99.99 %"));
        assert_eq!(crash_free(2, 1_000).as_deref(), Some("99.80 %"));
        assert_eq!(crash_free(0, 3).as_deref(), Some("100.00 %"));
        assert_eq!(crash_free(0, 0), None);
    }

    #[test]
    fn a_change_is_told_in_words_with_whether_it_is_noise() {
        let notes = |now: HealthFigures, before: HealthFigures| {
            lines(&now, &before, 14).into_iter().map(|line| line.note).collect::<Vec<_>>()
        };
        let better = notes(figures(100, 10_000), figures(200, 10_000));
        assert_eq!(better[0], "98.00 % in the 14 days before: better, by more than noise");
        assert_eq!(better[1], "98.00 % in the 14 days before: better, by more than noise");
        let sampled = HealthFigures { squares: 100_000, ..figures(200, 10_000) };
        assert!(notes(figures(100, 10_000), sampled)[1].starts_with("not comparable"));
        assert!(notes(figures(200, 10_000), figures(100, 10_000))[0].ends_with("worse, by more than noise"));
        assert!(notes(figures(100, 10_000), figures(101, 10_000))[0].ends_with("no more than noise"));
        assert_eq!(notes(figures(1, 10), figures(0, 0))[0], "no sessions in the 14 days before");
        assert!(notes(figures(0, 0), figures(1, 10)).is_empty());
    }
}
