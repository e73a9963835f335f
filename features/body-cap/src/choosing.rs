//! The choice among the bodies of a group and day: the first, the newest, one for each version, model and system, then the oldest.

use std::collections::{BTreeMap, BTreeSet};
use unslide_store::reports::kept_bodies::StoredRevision;

/// What a report was made on. Of reports that are equal in this, one body tells most.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportLikeness {
    pub version: String,
    pub model: String,
    pub os_name: String,
    pub os_version: String,
}

/// A report with a body that may be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyCandidate {
    pub report: StoredRevision,
    pub likeness: ReportLikeness,
    /// True if it was chosen before: others may name it as the one that is like them.
    pub is_kept: bool,
}

/// The choice among candidates, by their places in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayChoice {
    /// The places that are kept.
    pub kept: BTreeSet<usize>,
    /// The places that are dropped, each with the kept one that is most like it.
    pub dropped: Vec<(usize, usize)>,
}

/// Sorts the candidates of a group and day by their arrival, and chooses at most `cap` of them.
pub fn choose_bodies(candidates: &mut [BodyCandidate], cap: usize) -> DayChoice {
    candidates.sort_by_key(|candidate| {
        let StoredRevision { received_at, report_id, variant, .. } = candidate.report;
        (received_at, report_id, variant)
    });
    let Some(newest) = candidates.len().checked_sub(1) else { return DayChoice::default() };
    let examples = list_examples(candidates);
    let in_order = || examples.iter().copied().chain(0..=newest);
    let fill = |kept: &mut BTreeSet<usize>, limit: usize| {
        for place in in_order() {
            if kept.len() >= limit {
                break;
            }
            kept.insert(place);
        }
    };
    // The newest one has a place of its own, and gives way to the next one unless it is kept for another reason too.
    let mut kept = BTreeSet::from([0]);
    fill(&mut kept, cap.saturating_sub(1));
    let lasting = kept.clone();
    if cap > 1 {
        kept.insert(newest);
    }
    fill(&mut kept, cap);
    let (mut by_kind, mut by_version) = (BTreeMap::new(), BTreeMap::new());
    for place in kept.iter().copied().filter(|place| *place != newest || lasting.contains(place)) {
        let likeness = &candidates[place].likeness;
        by_kind.entry(likeness).or_insert(place);
        by_version.entry(&likeness.version).or_insert(place);
    }
    let find_like = |likeness: &ReportLikeness| {
        let like = by_kind.get(likeness).or_else(|| by_version.get(&likeness.version));
        like.copied().unwrap_or(0)
    };
    let dropped = candidates.iter().enumerate().filter(|(place, _)| !kept.contains(place));
    let dropped = dropped.map(|(place, candidate)| (place, find_like(&candidate.likeness))).collect();
    DayChoice { kept, dropped }
}

/// Returns a place for each kind of report: one that was chosen before, else the oldest. Those that were chosen before come first,
/// then the oldest.
fn list_examples(candidates: &[BodyCandidate]) -> Vec<usize> {
    let mut examples: BTreeMap<&ReportLikeness, usize> = BTreeMap::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let example = examples.entry(&candidate.likeness).or_insert(place);
        if candidate.is_kept && !candidates[*example].is_kept {
            *example = place;
        }
    }
    let mut places: Vec<usize> = examples.into_values().collect();
    places.sort_by_key(|place| (!candidates[*place].is_kept, *place));
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::{Duration, OffsetDateTime};
    use unslide_model::ReportId;

    fn candidate(n: u8, version: &str, model: &str) -> BodyCandidate {
        BodyCandidate {
            report: StoredRevision {
                received_at: OffsetDateTime::UNIX_EPOCH + Duration::minutes(n.into()),
                report_id: ReportId([n; 16]),
                variant: 0,
                revision: 1,
            },
            likeness: ReportLikeness {
                version: version.into(),
                model: model.into(),
                ..ReportLikeness::default()
            },
            is_kept: false,
        }
    }

    fn places(kept: &BTreeSet<usize>) -> Vec<usize> {
        kept.iter().copied().collect()
    }

    #[test]
    fn the_first_the_newest_and_one_for_each_kind_come_before_the_oldest() {
        let mut day: Vec<BodyCandidate> = (0..20).map(|n| candidate(n, "1.0", "a")).collect();
        day[12] = candidate(12, "1.1", "a");
        day[15] = candidate(15, "1.1", "b");
        day[16] = candidate(16, "1.1", "b");
        // The order in which they are read does not matter.
        day.reverse();
        let choice = choose_bodies(&mut day, 6);
        assert_eq!(places(&choice.kept), [0, 1, 2, 12, 15, 19]);
        let like: BTreeMap<usize, usize> = choice.dropped.into_iter().collect();
        assert_eq!((like.len(), like[&3], like[&16], like[&18]), (14, 0, 15, 0));
    }

    #[test]
    fn few_bodies_are_all_kept_and_a_cap_of_one_keeps_the_first() {
        let mut day: Vec<BodyCandidate> = (0..3).map(|n| candidate(n, "1.0", "a")).collect();
        assert_eq!(places(&choose_bodies(&mut day, 3).kept), [0, 1, 2]);
        let choice = choose_bodies(&mut day, 1);
        assert_eq!((places(&choice.kept), choice.dropped), (vec![0], vec![(1, 0), (2, 0)]));
        assert_eq!(choose_bodies(&mut [], 1), DayChoice::default());
    }

    #[test]
    fn more_kinds_than_the_cap_leave_one_of_the_same_version_or_the_first() {
        let models = ["a", "b", "c", "d"];
        let mut day: Vec<BodyCandidate> =
            (0..8).map(|n| candidate(n, if n < 4 { "1" } else { "2" }, models[usize::from(n % 4)])).collect();
        let choice = choose_bodies(&mut day, 3);
        assert_eq!(places(&choice.kept), [0, 1, 7]);
        // The newest is kept for its time alone, so that no other one names it.
        assert!(choice.dropped.iter().all(|(_, like)| *like == 0), "{choice:?}");
    }

    #[test]
    fn an_example_that_was_chosen_before_stays_when_an_older_report_comes_late() {
        let mut day: Vec<BodyCandidate> = (10..20).map(|n| candidate(n, "1.0", "a")).collect();
        day[3] = candidate(13, "1.1", "a");
        day[3].is_kept = true;
        day.push(candidate(1, "1.1", "a"));
        let choice = choose_bodies(&mut day, 4);
        // The late one is the first of the day, and the example before stays.
        assert_eq!(places(&choice.kept), [0, 1, 4, 10]);
    }
}
