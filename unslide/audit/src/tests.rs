//! The arithmetic: each test breaks one thing.
//! Proves: one-outcome

use super::{
    AuditScope, AuditTally, Extent, Finding, RecordPosition, Role, Summary, SummaryRow, Taken, Traced,
};
use unslide_model::TenantId;
use unslide_proto::report::Outcome;

const IN: &str = "crash.reports";
const TIER: &str = "unslide.retry.10s";
const OVER: &str = "unslide.overflow";
const REQUESTS: &str = "unslide.resymbolicate";
const ALL: AuditScope = AuditScope { everything: true, whole_ledger: true };

fn extent(topic: &str, role: Role, offsets: std::ops::Range<i64>, committed: i64) -> Extent {
    Extent {
        topic: topic.into(),
        partition: 0,
        role,
        tenant: None,
        start: offsets.start,
        from: offsets.start,
        to: offsets.end,
        counted: offsets,
        committed: Some(committed),
    }
}

/// Ten offsets of input, of which eight were taken; two tiers with five offsets, of which three were.
fn tally() -> AuditTally {
    AuditTally::new(vec![
        extent(IN, Role::Input, 0..10, 8),
        extent(TIER, Role::Copies, 0..5, 3),
        extent(OVER, Role::Copies, 0..5, 3),
        extent(REQUESTS, Role::Requests, 0..5, 3),
    ])
    .unwrap()
}

const INPUT: usize = 0;
const TIERS: usize = 1;
const OVERFLOW: usize = 2;

fn at(topic: &str, offset: i64) -> Option<RecordPosition<'_>> {
    Some(RecordPosition { topic, partition: 0, offset })
}

fn of(topic: &str, offset: i64) -> Traced<'_> {
    Traced { source: at(topic, offset), origin: at(topic, offset), index: None }
}

/// The copy of an input record, or what became of that copy.
fn from<'t>(topic: &'t str, offset: i64, origin: i64) -> Traced<'t> {
    Traced { source: at(topic, offset), origin: at(IN, origin), index: None }
}

fn element(offset: i64, index: u32, count: u32) -> Traced<'static> {
    Traced { index: Some((index, count)), ..of(IN, offset) }
}

fn took(
    tally: &mut AuditTally,
    topic: &str,
    offsets: std::ops::Range<i64>,
    records: u64,
    outcomes: &[(Outcome, u64)],
) {
    let mut counts = [0; super::tally::KINDS];
    for (outcome, count) in outcomes {
        counts[*outcome as usize] += count;
    }
    let taken = Taken { first: offsets.start, next: offsets.end, records, outcomes: counts };
    tally.add_account(topic, 0, taken);
}

/// Eight records of input that were taken and published, and two that wait, with the ledger of it.
fn fine() -> AuditTally {
    let mut tally = tally();
    for offset in 0..10 {
        tally.add_record(INPUT, offset, b"acme");
    }
    for offset in 0..8 {
        tally.add_end(Outcome::Symbolicated, &of(IN, offset));
    }
    took(&mut tally, IN, 0..5, 5, &[(Outcome::Symbolicated, 5)]);
    took(&mut tally, IN, 5..8, 3, &[(Outcome::Symbolicated, 3)]);
    tally
}

/// Sums up a tally without a look at its ledger.
fn unaccounted(mut tally: AuditTally) -> Summary {
    tally.taken.clear();
    let mut summary = tally.into_summary(ALL);
    summary.contradictions.retain(|what| !what.contains("by no transaction of the ledger"));
    summary
}

fn row(summary: &Summary) -> &SummaryRow {
    assert_eq!(summary.rows.len(), 1, "{:?}", summary.rows);
    &summary.rows[0]
}

/// In, out, dead-letter, waiting, unread, duplicates, lost.
fn numbers(row: &SummaryRow) -> [u64; 7] {
    [row.input, row.out, row.dead_letter, row.waiting, row.unread, row.duplicates, row.lost]
}

#[test]
fn what_is_fine_is_called_fine() {
    let summary = fine().into_summary(ALL);
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!((row(&summary).tenant.as_str(), row(&summary).records), ("acme", 10));
    assert_eq!(numbers(row(&summary)), [10, 8, 0, 0, 2, 0, 0]);
    assert_eq!(summary.notes, Vec::<String>::new());
}

#[test]
fn the_order_in_which_records_are_read_does_not_matter() {
    let mut tally = tally();
    tally.add_end(Outcome::DeadLetter, &from(TIER, 1, 0));
    tally.add_copy(TIERS, 1, b"acme", Outcome::Retry, &of(IN, 0));
    tally.add_end(Outcome::Symbolicated, &of(IN, 1));
    tally.add_record(INPUT, 1, b"acme");
    tally.add_record(INPUT, 0, b"acme");
    let summary = unaccounted(tally);
    assert_eq!(numbers(row(&summary)), [2, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_taken_record_without_an_outcome_is_lost() {
    let mut tally = fine();
    tally.parts[INPUT].slots[3] = super::tally::RecordState::default();
    tally.add_record(INPUT, 3, b"other");
    let summary = unaccounted(tally);
    assert!(!summary.is_clean());
    let lost = summary.rows.iter().find(|row| row.tenant == "other").unwrap();
    assert_eq!(numbers(lost), [1, 0, 0, 0, 0, 0, 1]);
    assert_eq!((summary.findings[0].what, summary.findings[0].offset), ("lost", 3));
}

#[test]
fn a_second_outcome_is_a_duplicate_of_whatever_kind() {
    for kind in [Outcome::Symbolicated, Outcome::DeadLetter, Outcome::Unchanged] {
        let mut tally = fine();
        tally.add_end(kind, &of(IN, 7));
        let summary = tally.into_summary(ALL);
        assert_eq!(row(&summary).duplicates, 1, "{kind:?}");
        assert_eq!((summary.findings[0].what, summary.findings[0].offset), ("doubled", 7));
    }
    // Also of a record that the group has not committed.
    let mut tally = fine();
    tally.add_end(Outcome::Symbolicated, &of(IN, 9));
    tally.add_end(Outcome::Symbolicated, &of(IN, 9));
    assert_eq!(row(&tally.into_summary(ALL)).duplicates, 1);
}

#[test]
fn an_outcome_and_a_copy_of_one_record_are_one_too_many() {
    let mut tally = fine();
    tally.add_copy(TIERS, 0, b"acme", Outcome::Retry, &of(IN, 7));
    tally.add_end(Outcome::Symbolicated, &from(TIER, 0, 7));
    let summary = unaccounted(tally);
    assert_eq!((row(&summary).duplicates, summary.findings[0].offset), (1, 7));
}

#[test]
fn each_report_of_an_array_has_one_outcome() {
    let array = |indexes: &[u32]| {
        let mut tally = tally();
        tally.add_record(INPUT, 0, b"acme");
        for index in indexes {
            let kind = if *index == 1 { Outcome::DeadLetter } else { Outcome::Symbolicated };
            tally.add_end(kind, &element(0, *index, 70));
        }
        unaccounted(tally)
    };
    let all: Vec<u32> = (0..70).rev().collect();
    let whole = array(&all);
    assert!(whole.is_clean(), "{whole:?}");
    assert_eq!(numbers(row(&whole)), [70, 69, 1, 0, 0, 0, 0]);
    assert_eq!(row(&whole).records, 1);
    let without_last = array(&all[1..]);
    assert_eq!(numbers(row(&without_last)), [70, 68, 1, 0, 0, 0, 1]);
    let with_a_second: Vec<u32> = all.iter().copied().chain([64]).collect();
    assert_eq!(numbers(row(&array(&with_a_second))), [70, 69, 1, 0, 0, 1, 0]);
}

#[test]
fn outcomes_that_disagree_on_the_size_of_an_array_are_a_contradiction() {
    for wrong in [element(0, 1, 3), element(0, 2, 2), element(0, 0, u32::MAX)] {
        let mut tally = tally();
        tally.add_record(INPUT, 0, b"acme");
        tally.add_end(Outcome::Symbolicated, &element(0, 0, 2));
        tally.add_end(Outcome::Symbolicated, &element(0, 1, 2));
        tally.add_end(Outcome::Symbolicated, &wrong);
        let summary = unaccounted(tally);
        assert_eq!((summary.contradictions.len(), summary.is_clean()), (1, false), "{wrong:?}");
    }
    // One outcome for the whole and one for a part of it.
    let mut tally = tally();
    tally.add_record(INPUT, 0, b"acme");
    tally.add_end(Outcome::DeadLetter, &of(IN, 0));
    tally.add_end(Outcome::Symbolicated, &element(0, 0, 1));
    assert_eq!(row(&unaccounted(tally)).duplicates, 1);
}

#[test]
fn a_part_of_an_array_is_no_loss_before_its_offset_is_committed() {
    let mut tally = tally();
    tally.add_record(INPUT, 9, b"acme");
    tally.add_end(Outcome::Symbolicated, &element(9, 0, 3));
    assert_eq!(numbers(row(&unaccounted(tally))), [3, 1, 0, 0, 2, 0, 0]);
}

#[test]
fn a_copy_counts_for_the_record_that_it_is_a_copy_of() {
    let mut tally = tally();
    for offset in 0..4 {
        tally.add_record(INPUT, offset, b"acme");
    }
    // Published from the second tier it went to; waiting; lost; twice.
    tally.add_copy(TIERS, 0, b"acme", Outcome::Retry, &of(IN, 0));
    tally.add_copy(OVERFLOW, 0, b"acme", Outcome::Overflow, &from(TIER, 0, 0));
    tally.add_end(Outcome::Symbolicated, &from(OVER, 0, 0));
    tally.add_copy(OVERFLOW, 4, b"acme", Outcome::Overflow, &of(IN, 1));
    tally.add_copy(TIERS, 1, b"acme", Outcome::Retry, &of(IN, 2));
    tally.add_copy(TIERS, 2, b"acme", Outcome::Retry, &of(IN, 3));
    tally.add_end(Outcome::Symbolicated, &from(TIER, 2, 3));
    tally.add_end(Outcome::Symbolicated, &from(TIER, 2, 3));
    let summary = unaccounted(tally);
    assert_eq!(row(&summary).topic, IN);
    assert_eq!(numbers(row(&summary)), [4, 2, 0, 1, 0, 1, 1]);
    assert_eq!(row(&summary).records, 4);
    let found: Vec<_> = summary.findings.iter().map(|f| (f.what, f.topic.as_str(), f.offset)).collect();
    assert_eq!(found, [("lost", TIER, 1), ("doubled", TIER, 2)]);
}

#[test]
fn an_array_that_is_copied_unread_counts_its_reports_once_it_was_read() {
    let mut tally = tally();
    tally.add_record(INPUT, 0, b"acme");
    tally.add_copy(OVERFLOW, 0, b"acme", Outcome::Overflow, &of(IN, 0));
    for index in 0..3 {
        tally.add_end(Outcome::Symbolicated, &Traced { index: Some((index, 3)), ..from(OVER, 0, 0) });
    }
    let summary = unaccounted(tally);
    assert_eq!(numbers(row(&summary)), [3, 3, 0, 0, 0, 0, 0]);
}

#[test]
fn copies_that_retention_deleted_after_they_were_taken_are_no_loss() {
    let tier = Extent { start: 2, from: 2, counted: 2..5, ..extent(TIER, Role::Copies, 0..5, 3) };
    let over = extent(OVER, Role::Copies, 0..5, 3);
    let mut tally = AuditTally::new(vec![extent(IN, Role::Input, 0..10, 8), tier, over]).unwrap();
    tally.add_record(INPUT, 0, b"acme");
    tally.add_record(INPUT, 1, b"acme");
    tally.add_end(Outcome::Symbolicated, &from(TIER, 0, 0));
    // The next copy is held, the one before is not.
    tally.add_copy(OVERFLOW, 4, b"acme", Outcome::Overflow, &from(TIER, 1, 1));
    let summary = unaccounted(tally);
    assert_eq!(numbers(row(&summary)), [2, 1, 0, 1, 0, 0, 0]);
}

#[test]
fn what_was_deleted_before_it_was_taken_expired() {
    let input = Extent { start: 6, from: 6, counted: 6..10, ..extent(IN, Role::Input, 6..10, 4) };
    let summary = AuditTally::new(vec![input.clone()]).unwrap().into_summary(ALL);
    assert_eq!((row(&summary).expired, summary.is_clean()), (2, false));
    // Who asks for a time does not ask for what came before.
    let summary = AuditTally::new(vec![input]).unwrap().into_summary(AuditScope::default());
    assert!(summary.is_clean(), "{summary:?}");
}

#[test]
fn what_expired_unread_may_be_anybodys_and_is_shown_apart_beside_each_tenants() {
    let row = |tenant: &str, expired, dead_letter| SummaryRow {
        topic: "in".into(),
        partition: 3,
        tenant: tenant.into(),
        input: 1 + dead_letter,
        out: 1,
        dead_letter,
        expired,
        ..SummaryRow::default()
    };
    let finding = |tenant: &str| Finding {
        what: "lost",
        topic: "in".into(),
        partition: 3,
        offset: 1,
        tenant: tenant.into(),
        reports: 1,
    };
    let mut summary = Summary {
        rows: vec![row("", 2, 1), row("acme", 0, 0), row("other", 0, 0), row("", 0, 4)],
        findings: ["", "acme", "other"].map(finding).into(),
        ..Summary::default()
    };
    summary.retain_tenant("acme");
    let apart = SummaryRow { topic: "in".into(), partition: 3, expired: 2, ..SummaryRow::default() };
    assert_eq!(summary.rows, [apart, row("acme", 0, 0)]);
    assert_eq!(summary.findings, [finding("acme")]);
    assert!(!summary.is_clean());
}

#[test]
fn markers_below_the_start_of_a_tier_are_no_loss_and_copies_are() {
    let tier = Extent { start: 6, from: 6, counted: 6..8, ..extent(TIER, Role::Copies, 6..8, 4) };
    let started = |written: u64| {
        let mut tally = AuditTally::new(vec![extent(IN, Role::Input, 0..0, 8), tier.clone()]).unwrap();
        took(&mut tally, IN, 0..8, 8, &[(Outcome::Retry, written), (Outcome::Symbolicated, 8 - written)]);
        took(&mut tally, TIER, 0..4, 2, &[(Outcome::Symbolicated, 2)]);
        tally.add_copy(1, 7, b"acme", Outcome::Retry, &of(IN, 7));
        tally
    };
    // Three copies: two taken, one there.
    let summary = started(3).into_summary(ALL);
    assert!(summary.is_clean(), "{summary:?}");
    // A fourth is nowhere.
    let summary = started(4).into_summary(ALL);
    let expired: u64 = summary.rows.iter().map(|row| row.expired).sum();
    assert_eq!((expired, summary.is_clean()), (1, false));
    // With a part of the ledger there is no telling.
    let summary = started(4).into_summary(AuditScope { whole_ledger: false, ..ALL });
    assert!(summary.is_clean() && summary.notes.len() == 1, "{summary:?}");
}

#[test]
fn the_ledger_has_to_cover_what_was_taken_once() {
    let with = |batches: &[std::ops::Range<i64>]| {
        let mut tally = fine();
        tally.taken.clear();
        for batch in batches {
            let records = (batch.end - batch.start) as u64;
            took(&mut tally, IN, batch.clone(), records, &[(Outcome::Symbolicated, records)]);
        }
        tally.into_summary(ALL)
    };
    assert!(with(&[5..8, 0..3, 3..5]).is_clean());
    for (wrong, word) in
        [(&[0..3, 5..8][..], "2 records from 3 to 4 were taken by no"), (&[0..5, 4..8], "took offsets 4..5")]
    {
        let summary = with(wrong);
        assert_eq!(summary.contradictions.len(), 1, "{summary:?}");
        assert!(summary.contradictions[0].contains(word) && !summary.is_clean(), "{summary:?}");
    }
}

#[test]
fn the_ledger_has_to_count_what_the_topics_show() {
    let said = |records: u64, outcomes: &[(Outcome, u64)]| {
        let mut tally = fine();
        tally.taken.clear();
        took(&mut tally, IN, 0..8, records, outcomes);
        tally.into_summary(ALL).contradictions
    };
    assert_eq!(said(8, &[(Outcome::Symbolicated, 8)]), Vec::<String>::new());
    assert!(said(9, &[(Outcome::Symbolicated, 8)])[0].contains("says 9 records, and there are 8"));
    let other = said(8, &[(Outcome::Symbolicated, 7), (Outcome::DroppedDeleted, 1)]);
    assert!(other[0].contains("says 7 reports published, and the topics show 8"), "{other:?}");
    assert!(other[1].contains("says 1 reports of deleted tenants, and the topics show 0"), "{other:?}");
}

#[test]
fn offsets_of_markers_and_aborted_records_are_no_records() {
    let mut tally = tally();
    for offset in [0, 3, 4] {
        tally.add_record(INPUT, offset, b"acme");
        tally.add_end(Outcome::Symbolicated, &of(IN, offset));
    }
    took(&mut tally, IN, 0..5, 3, &[(Outcome::Symbolicated, 3)]);
    let summary = tally.into_summary(ALL);
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!(row(&summary).records, 3);
}

#[test]
fn an_outcome_of_a_record_that_is_not_there_is_a_contradiction() {
    let mut tally = fine();
    tally.parts[INPUT].slots[2] = super::tally::RecordState::default();
    tally.add_end(Outcome::Symbolicated, &of(IN, 2));
    let summary = unaccounted(tally);
    assert!(summary.contradictions[0].contains("there is no such record"), "{summary:?}");
    // Unless the log has lost its beginning while it was read.
    let mut tally = fine();
    tally.parts[INPUT].slots[..3].fill(super::tally::RecordState::default());
    tally.add_end(Outcome::Symbolicated, &of(IN, 2));
    tally.begins_now(INPUT, 3);
    assert!(unaccounted(tally).is_clean());
}

#[test]
fn only_records_of_the_audited_time_count() {
    let input = Extent { from: 4, to: 6, counted: 4..6, ..extent(IN, Role::Input, 0..10, 8) };
    let tier = Extent { counted: 2..5, ..extent(TIER, Role::Copies, 0..5, 5) };
    let mut tally = AuditTally::new(vec![input, tier]).unwrap();
    for offset in 0..10 {
        tally.add_record(INPUT, offset, b"acme");
        if offset < 4 {
            tally.add_end(Outcome::Symbolicated, &of(IN, offset));
        }
    }
    // A copy of a counted record, though it seems older; one of an older record, and an old one.
    tally.add_copy(TIERS, 0, b"acme", Outcome::Retry, &of(IN, 4));
    tally.add_copy(TIERS, 1, b"acme", Outcome::Retry, &of(IN, 3));
    tally.add_copy(TIERS, 3, b"acme", Outcome::Retry, &of(IN, 3));
    tally.add_end(Outcome::DeadLetter, &from(TIER, 0, 4));
    tally.add_end(Outcome::DeadLetter, &from(TIER, 3, 3));
    let summary = unaccounted(tally);
    let told: Vec<_> = summary.rows.iter().map(|row| (row.topic.as_str(), numbers(row))).collect();
    assert_eq!(told, [(IN, [2, 0, 1, 0, 0, 0, 1]), (TIER, [1, 0, 1, 0, 0, 0, 0])]);
}

#[test]
fn the_topic_names_the_tenant_else_a_valid_header_does() {
    let owned = Extent {
        topic: "crash.reports.acme".into(),
        tenant: Some(TenantId::new("acme").unwrap()),
        ..extent(IN, Role::Input, 0..1, 0)
    };
    let mut tally = AuditTally::new(vec![extent(IN, Role::Input, 0..3, 0), owned]).unwrap();
    tally.add_record(0, 0, b"other");
    tally.add_record(0, 1, b"No Slug");
    tally.add_record(0, 2, b"\xff");
    tally.add_record(1, 0, b"other");
    let summary = tally.into_summary(ALL);
    let told: Vec<_> = summary.rows.iter().map(|r| (r.topic.as_str(), r.tenant.as_str(), r.unread)).collect();
    assert_eq!(told, [(IN, "", 2), (IN, "other", 1), ("crash.reports.acme", "acme", 1)]);
}

#[test]
fn requests_have_rows_of_their_own() {
    let mut tally = tally();
    for (offset, kind) in [(0, Outcome::Unchanged), (1, Outcome::SourceGone), (2, Outcome::Symbolicated)] {
        tally.add_record(3, offset, b"acme");
        tally.add_end(kind, &from(REQUESTS, offset, 2));
    }
    tally.add_record(3, 3, b"acme");
    let summary = unaccounted(tally);
    assert_eq!((row(&summary).topic.as_str(), row(&summary).other_outcomes()), (REQUESTS, 2));
    assert_eq!(numbers(row(&summary)), [4, 1, 0, 0, 1, 0, 0]);
}

#[test]
fn requests_whose_symbols_could_not_be_fetched_are_counted_and_held_against_the_ledger() {
    for (said, contradictions) in [(Outcome::FetchingFailed, 0), (Outcome::Unchanged, 2)] {
        let mut tally = tally();
        for offset in 0..3 {
            tally.add_record(3, offset, b"acme");
            tally.add_end(Outcome::FetchingFailed, &from(REQUESTS, offset, 2));
        }
        took(&mut tally, REQUESTS, 0..3, 3, &[(said, 3)]);
        let summary = tally.into_summary(ALL);
        assert_eq!((row(&summary).fetching_failed, row(&summary).other_outcomes()), (3, 3));
        assert_eq!(numbers(row(&summary)), [3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(summary.contradictions.len(), contradictions, "{:?}", summary.contradictions);
    }
}

#[test]
fn records_that_were_passed_on_have_ended_here_and_their_copies_begin_there() {
    let mut tally = tally();
    for offset in 0..3 {
        tally.add_record(INPUT, offset, b"acme");
        tally.add_passed_on("east.in", &of(IN, offset));
    }
    // A record that another cell has passed on to a tier of this one: answered, and lost.
    let there = Traced::default();
    tally.add_copy(TIERS, 1, b"other", Outcome::Retry, &there);
    tally.add_end(
        Outcome::Symbolicated,
        &Traced { source: at(TIER, 1), origin: at("west.in", 5), index: None },
    );
    tally.add_copy(TIERS, 2, b"other", Outcome::Retry, &there);
    took(&mut tally, IN, 0..3, 3, &[(Outcome::PassedOn, 3)]);
    let summary = tally.into_summary(ALL);
    let told: Vec<_> =
        summary.rows.iter().map(|row| (row.topic.as_str(), row.passed_on, numbers(row))).collect();
    assert_eq!(told, [(IN, 3, [3, 0, 0, 0, 0, 0, 0]), (TIER, 0, [2, 1, 0, 0, 0, 0, 1])]);
    assert!(summary.notes.iter().any(|note| note == "3 records were passed on to east.in of another cell"));
    assert!(!summary.contradictions.iter().any(|what| what.contains("passed on")), "{summary:?}");
}

#[test]
fn outcomes_of_a_topic_that_was_deleted_are_noted_and_its_copies_are_left_out() {
    let mut tally = fine();
    tally.add_end(Outcome::Symbolicated, &of("crash.reports.gone", 3));
    tally.add_copy(TIERS, 0, b"gone", Outcome::Retry, &of("crash.reports.gone", 4));
    let summary = tally.into_summary(ALL);
    assert_eq!(summary.rows.len(), 1);
    assert_eq!(summary.notes.len(), 1);
}
