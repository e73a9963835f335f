//! Groups that late symbols empty: their ids, state and comments go with their reports.

use crate::groups::{self, GroupAction, GroupActivity, GroupActor, GroupStatus, GroupUpdate};
use crate::groups::{MergeOutcome, UpdateOutcome};
use crate::queries::groups::{self as listed, GroupCounts, GroupFilter, GroupOrder, ListedGroup};
use crate::queries::reports::{self as reports_listed, ReportFilter};
use crate::reports::{self, Arrival, Effects, count_once};
use crate::tests::database::{Database, acme, arrival, grouping, tenant_id};
use crate::{GroupId, StoreError, Uuid};
use time::Duration;
use unslide_testkit::statements;

const ROBIN: GroupActor<'static> = GroupActor { actor: "key", name: Some("Robin") };
const APP: &str = "com.acme.shop";

/// A revision of a report, which says that it is of this bug.
fn of(n: u8, revision: u32, bug: u8, provisional: bool) -> Arrival {
    let mut arrival = arrival(n);
    arrival.revision = revision;
    arrival.body =
        unslide_proto::body::compress_report(format!("{{\"n\":{n},\"revision\":{revision}}}").as_bytes());
    arrival.facts.grouping = Some(grouping(bug, provisional));
    arrival
}

/// A report whose symbols are missing, in the provisional group of this number.
fn missing(n: u8, bug: u8) -> Arrival {
    of(n, 1, bug, true)
}

/// Its next revision, of this bug.
fn found(n: u8, bug: u8) -> Arrival {
    of(n, 2, bug, false)
}

fn id(bug: u8, provisional: bool) -> GroupId {
    groups::id_of(APP, grouping(bug, provisional).fingerprint)
}

fn provisional(bug: u8) -> GroupId {
    id(bug, true)
}

fn known(bug: u8) -> GroupId {
    id(bug, false)
}

async fn update(database: &Database, id: GroupId, update: GroupUpdate) -> UpdateOutcome {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = groups::update_group(&mut tx, id, None, ROBIN, &update).await.unwrap();
    tx.commit().await.unwrap();
    outcome
}

async fn assign(database: &Database, id: GroupId, name: &str) {
    let assignee = Some(name.to_owned());
    update(database, id, GroupUpdate { assignee, ..GroupUpdate::default() }).await;
}

async fn set(database: &Database, id: GroupId, status: GroupStatus, resolved_in: Option<&str>) {
    let resolved_in = resolved_in.map(str::to_owned);
    update(database, id, GroupUpdate { status: Some(status), resolved_in, ..GroupUpdate::default() }).await;
}

async fn comment(database: &Database, id: GroupId, text: &str) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = groups::update_group(&mut tx, id, None, ROBIN, &GroupUpdate::default()).await.unwrap();
    let UpdateOutcome::Done(id) = outcome else { panic!("{outcome:?}") };
    groups::add_comment(&mut tx, ROBIN, id, text).await.unwrap();
    tx.commit().await.unwrap();
}

async fn get(database: &Database, id: GroupId) -> Option<GroupCounts> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    listed::get(&mut tx, id, Some(APP)).await.unwrap()
}

/// The group that an id leads to.
async fn group(database: &Database, id: GroupId) -> ListedGroup {
    get(database, id).await.unwrap().group
}

async fn leads_to(database: &Database, id: GroupId) -> Option<GroupId> {
    get(database, id).await.map(|found| found.group.id)
}

/// The activity, the oldest first.
async fn activity(database: &Database, id: GroupId) -> Vec<GroupActivity> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let mut activity = groups::list_activity(&mut tx, id, None, 100).await.unwrap();
    activity.reverse();
    activity
}

async fn delete(database: &Database, n: u8) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
}

async fn merge(database: &Database, target: GroupId, ids: &[GroupId]) -> MergeOutcome {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = groups::merge_groups(&mut tx, target, ids, None, ROBIN).await.unwrap();
    tx.commit().await.unwrap();
    outcome
}

/// Everything that reports and people leave behind, and what old ids lead to.
async fn dump(database: &Database) -> String {
    let rows = database
        .rows("SELECT t::text FROM group_redirects t UNION ALL SELECT t::text FROM group_moves t ORDER BY 1")
        .await;
    let rows = rows.iter().map(|row| sqlx::Row::get::<String, _>(row, 0));
    rows.collect::<Vec<_>>().join("\n") + &database.dump().await
}

/// Proves: late-symbols
#[tokio::test]
async fn the_id_the_state_and_the_comments_of_a_provisional_group_go_with_its_reports() {
    let database = Database::new().await;
    database.store(&[missing(1, 4), missing(2, 4)]).await;
    let (old, new) = (provisional(4), known(7));
    let begin = database.clock_now();
    assign(&database, old, "Ana").await;
    database.wait(Duration::MINUTE);
    comment(&database, old, "Who has the dSYM?").await;
    database.wait(Duration::MINUTE);
    set(&database, old, GroupStatus::Ignored, None).await;
    // Half of its reports have moved: both groups are there.
    database.store(&[found(1, 7)]).await;
    assert_eq!(leads_to(&database, old).await, Some(old));
    database.wait(Duration::MINUTE);
    comment(&database, new, "It has names now.").await;
    database.wait(Duration::MINUTE);
    database.store(&[found(2, 7)]).await;
    let answer = get(&database, old).await.unwrap();
    assert_eq!((answer.group.id, answer.redirected_from, answer.group.reports), (new, Some(old), 2));
    assert_eq!(get(&database, new).await.unwrap().redirected_from, None);
    assert_eq!((answer.group.assignee.as_deref(), answer.group.status), (Some("Ana"), GroupStatus::Ignored));
    assert_eq!(answer.versions.len(), 1);
    let noted = activity(&database, new).await;
    let entries: Vec<_> = noted
        .iter()
        .map(|one| (one.action, one.text.as_deref(), one.name.as_deref(), one.moved_from))
        .collect();
    assert_eq!(
        entries,
        [
            (GroupAction::Assigned, Some("Ana"), Some("Robin"), Some(old)),
            (GroupAction::Commented, Some("Who has the dSYM?"), Some("Robin"), Some(old)),
            (GroupAction::Ignored, None, Some("Robin"), Some(old)),
            (GroupAction::Commented, Some("It has names now."), Some("Robin"), None),
            (GroupAction::Replaced, Some("bug 4"), None, None),
        ]
    );
    assert_eq!(noted[0].at, begin, "as it was written");
    assert_eq!((noted[4].actor.as_str(), noted[4].group), ("indexer", Some(old)));
    // What asks or changes by the old id reaches the group.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let filter = ReportFilter { group: Some(old), ..ReportFilter::default() };
    let found_reports = reports_listed::list_reports(&mut tx, &filter, None, 10).await.unwrap().reports;
    assert_eq!(found_reports.iter().map(|report| report.group).collect::<Vec<_>>(), [Some(new); 2]);
    assert_eq!(reports_listed::count_reports(&mut tx, &filter).await.unwrap(), 2);
    drop(tx);
    let open = GroupUpdate { status: Some(GroupStatus::Open), ..GroupUpdate::default() };
    assert_eq!(update(&database, old, open).await, UpdateOutcome::Done(new));
    comment(&database, old, "By an old link.").await;
    assert_eq!(group(&database, new).await.status, GroupStatus::Open);
    assert_eq!(activity(&database, new).await.len(), 7);
    // Neither a replay nor later reports of the bug change a thing of what was said.
    let before = dump(&database).await;
    database.store(&[missing(1, 4), missing(2, 4), found(1, 7), found(2, 7)]).await;
    database.store_as(&[found(2, 7), missing(1, 4)], Effects::Deferred).await;
    assert_eq!(dump(&database).await, before);
    database.store(&[of(3, 1, 7, false)]).await;
    assert_eq!(activity(&database, new).await.len(), 7);
    // Another tenant and another app's key know neither id.
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(listed::get(&mut other, old, None).await.unwrap().is_none());
    assert_eq!(groups::follow_redirects(&mut other, &[old]).await.unwrap(), [old]);
    drop(other);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(listed::get(&mut tx, old, Some("com.acme.bank")).await.unwrap().is_none());
    let refused =
        groups::update_group(&mut tx, old, Some("com.acme.bank"), ROBIN, &GroupUpdate::default()).await;
    assert_eq!(refused.unwrap(), UpdateOutcome::NotFound);
    let refused = groups::merge_groups(&mut tx, old, &[], Some("com.acme.bank"), ROBIN).await.unwrap();
    assert_eq!(refused, MergeOutcome::NotFound(old));
}

/// Proves: late-symbols
#[tokio::test]
async fn the_group_that_got_most_reports_replaces_a_group_and_the_others_link_to_it() {
    for order in [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [1, 4, 2, 5, 3]] {
        let database = Database::new().await;
        database.store(&(1..=5).map(|n| missing(n, 4)).collect::<Vec<_>>()).await;
        comment(&database, provisional(4), "Who has the dSYM?").await;
        database.wait(Duration::MINUTE);
        // Three reports are of bug 7, the others of two more.
        for n in order {
            let bug = if n <= 3 { 7 } else { 4 + n };
            database.store(&[found(n, bug)]).await;
        }
        assert_eq!(leads_to(&database, provisional(4)).await, Some(known(7)));
        let actions = |noted: Vec<GroupActivity>| noted.iter().map(|one| one.action).collect::<Vec<_>>();
        let noted = actions(activity(&database, known(7)).await);
        assert_eq!(noted, [GroupAction::Commented, GroupAction::Replaced], "{order:?}");
        for bug in [8, 9] {
            let noted = activity(&database, known(bug)).await;
            assert_eq!((noted[0].action, noted[0].group), (GroupAction::ReplacedInPart, Some(known(7))));
            assert_eq!((noted.len(), noted[0].text.as_deref()), (1, Some("bug 7")));
        }
    }
    // Without a word of anybody there is nothing to link to.
    let database = Database::new().await;
    database.store(&[missing(1, 4), missing(2, 4)]).await;
    database.store(&[found(1, 7), found(2, 8)]).await;
    assert!([Some(known(7)), Some(known(8))].contains(&leads_to(&database, provisional(4)).await));
    assert_eq!(database.number("SELECT count(*) FROM group_activity").await, 0);
    assert_eq!(database.number("SELECT count(*) FROM group_moves").await, 0);
}

#[tokio::test]
async fn the_state_of_a_known_bug_wins_over_that_of_a_group_that_it_replaces() {
    let database = Database::new().await;
    // Bug 7 is older than the report that moves to it.
    database.store(&[of(1, 1, 7, false), missing(2, 4), missing(3, 5)]).await;
    let bug = known(7);
    assign(&database, bug, "Bo").await;
    assign(&database, provisional(4), "Ana").await;
    set(&database, provisional(4), GroupStatus::Ignored, None).await;
    database.store(&[found(2, 7)]).await;
    let after = group(&database, provisional(4)).await;
    assert_eq!((after.id, after.status, after.assignee.as_deref()), (bug, GroupStatus::Open, Some("Bo")));
    // What people set of the bug stays set.
    set(&database, bug, GroupStatus::Resolved, Some("3.0")).await;
    set(&database, provisional(5), GroupStatus::Ignored, None).await;
    database.store(&[found(3, 7)]).await;
    let after = group(&database, provisional(5)).await;
    assert_eq!((after.id, after.status), (bug, GroupStatus::Resolved));
    // And so does what was reopened.
    let database = Database::new().await;
    database.store(&[missing(1, 4), of(2, 1, 7, false)]).await;
    set(&database, provisional(4), GroupStatus::Ignored, None).await;
    set(&database, bug, GroupStatus::Resolved, None).await;
    set(&database, bug, GroupStatus::Open, None).await;
    database.store(&[found(1, 7)]).await;
    assert_eq!(group(&database, provisional(4)).await.status, GroupStatus::Open);
}

#[tokio::test]
async fn a_resolution_moves_unless_a_report_contradicts_it() {
    let newer = |n: u8, version: &str| {
        let mut arrival = of(n, 1, 7, false);
        arrival.facts.version = version.into();
        arrival.received_at += Duration::hours(1);
        arrival
    };
    for (resolved_in, version, expected) in [
        (Some("2.0"), "2.0", GroupStatus::Resolved),
        (Some("2.0"), "2.1", GroupStatus::Open),
        (None, "1.0", GroupStatus::Open),
    ] {
        let database = Database::new().await;
        database.store(&[missing(1, 4)]).await;
        database.wait(Duration::MINUTE);
        set(&database, provisional(4), GroupStatus::Resolved, resolved_in).await;
        // A report that came with symbols, before the others moved.
        database.store(&[newer(9, version)]).await;
        database.store(&[found(1, 7)]).await;
        let after = group(&database, provisional(4)).await;
        assert_eq!((after.id, after.status), (known(7), expected), "{resolved_in:?} {version}");
    }
    // A group that came back stays so.
    let database = Database::new().await;
    database.store(&[missing(1, 4)]).await;
    set(&database, provisional(4), GroupStatus::Resolved, Some("0.9")).await;
    database.store(&[missing(2, 4)]).await;
    database.store(&[found(1, 7), found(2, 7)]).await;
    let after = group(&database, provisional(4)).await;
    assert_eq!((after.status, after.regressed_in.as_deref()), (GroupStatus::Regressed, Some("1.0")));
}

#[tokio::test]
async fn an_id_is_a_group_again_with_the_next_report_of_it() {
    let database = Database::new().await;
    database.store(&[missing(1, 4)]).await;
    comment(&database, provisional(4), "first").await;
    database.store(&[found(1, 7)]).await;
    // An old version whose symbols were deleted.
    database.store(&[missing(2, 4)]).await;
    let again = get(&database, provisional(4)).await.unwrap();
    assert_eq!((again.group.id, again.redirected_from, again.group.reports), (provisional(4), None, 1));
    assert!(activity(&database, provisional(4)).await.is_empty(), "it went with the reports");
    comment(&database, provisional(4), "second").await;
    database.store(&[found(2, 8)]).await;
    assert_eq!(leads_to(&database, provisional(4)).await, Some(known(8)), "where its own report went");
    let texts = |noted: Vec<GroupActivity>| noted.into_iter().filter_map(|one| one.text).collect::<Vec<_>>();
    assert!(texts(activity(&database, known(7)).await).contains(&"first".into()));
    assert!(texts(activity(&database, known(8)).await).contains(&"second".into()));
}

#[tokio::test]
async fn a_redirect_follows_to_the_end_and_back() {
    let database = Database::new().await;
    database.store(&[missing(1, 4), missing(2, 4)]).await;
    comment(&database, provisional(4), "first").await;
    // One of two missing dSYMs comes, and then the other.
    database.store(&[of(1, 2, 5, true), of(2, 2, 5, true)]).await;
    assert_eq!(leads_to(&database, provisional(4)).await, Some(provisional(5)));
    comment(&database, provisional(4), "second").await;
    database.store(&[of(1, 3, 7, false), of(2, 3, 7, false)]).await;
    for old in [provisional(4), provisional(5)] {
        assert_eq!(leads_to(&database, old).await, Some(known(7)));
    }
    let from = activity(&database, known(7)).await.iter().map(|one| one.moved_from).collect::<Vec<_>>();
    assert_eq!(from.iter().filter(|from| **from == Some(provisional(4))).count(), 1);
    assert_eq!(from.iter().filter(|from| **from == Some(provisional(5))).count(), 2);
    // The symbols are gone again: the reports go back to the group where they began.
    database.store(&[of(1, 4, 4, true), of(2, 4, 4, true)]).await;
    for old in [provisional(4), provisional(5), known(7)] {
        assert_eq!(leads_to(&database, old).await, Some(provisional(4)));
    }
    assert_eq!(database.number("SELECT count(*) FROM group_redirects").await, 2);
    let comments = "SELECT count(*) FROM group_activity WHERE action = 'commented'";
    assert_eq!(database.number(comments).await, 2);
}

#[tokio::test]
async fn groups_that_one_batch_empties_follow_each_other() {
    let database = Database::new().await;
    database.store(&[missing(1, 4), missing(2, 4), missing(3, 4)]).await;
    comment(&database, provisional(4), "first").await;
    database.store(&[of(1, 2, 5, true), of(2, 2, 5, true)]).await;
    // Two of three reports went on through the other provisional group.
    database.store(&[of(1, 3, 7, false), of(2, 3, 7, false), found(3, 8)]).await;
    for old in [provisional(4), provisional(5)] {
        assert_eq!(leads_to(&database, old).await, Some(known(7)));
    }
    // Each has sent reports to the other.
    let database = Database::new().await;
    database.store(&[missing(1, 4), missing(2, 4), missing(3, 5), missing(4, 5)]).await;
    database.store(&[of(1, 2, 5, true), of(3, 2, 4, true)]).await;
    let last = [of(1, 3, 7, false), of(2, 3, 7, false), of(3, 3, 7, false), of(4, 3, 7, false)];
    database.store(&last).await;
    for old in [provisional(4), provisional(5)] {
        assert_eq!(leads_to(&database, old).await, Some(known(7)));
    }
}

#[tokio::test]
async fn a_report_that_is_deleted_takes_no_words_along() {
    let database = Database::new().await;
    database.store(&[missing(1, 4), missing(2, 4), missing(3, 5), missing(4, 6)]).await;
    for bug in [4, 5] {
        comment(&database, provisional(bug), "said").await;
    }
    // One has moved, and the last one is deleted before it could.
    database.store(&[found(1, 7)]).await;
    delete(&database, 2).await;
    assert_eq!(leads_to(&database, provisional(4)).await, Some(known(7)));
    // None has moved: what was said stays under the id, in no list.
    delete(&database, 3).await;
    let kept = get(&database, provisional(5)).await.unwrap();
    assert_eq!((kept.group.id, kept.group.reports), (provisional(5), 0));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let all =
        listed::list_groups(&mut tx, &GroupFilter::default(), GroupOrder::LastSeen, None, 10).await.unwrap();
    assert!(!all.iter().any(|one| one.id == provisional(5)));
    drop(tx);
    database.store(&[missing(5, 5)]).await;
    assert_eq!(group(&database, provisional(5)).await.reports, 1);
    assert_eq!(activity(&database, provisional(5)).await.len(), 1);
    // Without a word the group goes with its last report.
    delete(&database, 4).await;
    assert_eq!(leads_to(&database, provisional(6)).await, None);
    // A redirect goes with its target.
    let database = Database::new().await;
    database.store(&[missing(1, 4)]).await;
    database.store(&[found(1, 7)]).await;
    delete(&database, 1).await;
    assert_eq!(leads_to(&database, provisional(4)).await, None);
    assert_eq!(database.number("SELECT count(*) FROM group_redirects").await, 0);
}

#[tokio::test]
async fn a_crash_that_is_told_twice_takes_its_comments_to_the_report_that_counts() {
    let database = Database::new().await;
    let run = Some(Uuid::from_u128(1));
    let mut second = of(1, 1, 4, false);
    (second.facts.metric_kit, second.facts.run_id) = (true, run);
    database.store(&[second]).await;
    comment(&database, known(4), "said").await;
    let mut first = of(2, 1, 7, false);
    first.facts.run_id = run;
    database.store(&[first]).await;
    assert_eq!(count_once(&database.store, 10).await.unwrap(), 1);
    assert_eq!(leads_to(&database, known(4)).await, Some(known(7)));
    // Both entries have the same time.
    let told = activity(&database, known(7)).await;
    assert!(told.iter().any(|one| one.text.as_deref() == Some("said")));
}

#[tokio::test]
async fn a_merge_and_a_redirect_lead_to_the_group_that_is_listed() {
    let database = Database::new().await;
    database
        .store(&[of(1, 1, 7, false), of(2, 1, 8, false), missing(3, 4), missing(4, 4), missing(5, 5)])
        .await;
    assert_eq!(merge(&database, known(8), &[known(7)]).await, MergeOutcome::Done);
    comment(&database, provisional(4), "said").await;
    // Two merged groups are one destination: with one report each they have all of them.
    database.store(&[found(3, 7), found(4, 8)]).await;
    assert_eq!(leads_to(&database, provisional(4)).await, Some(known(8)));
    let said =
        activity(&database, known(8)).await.iter().filter(|one| one.text.as_deref() == Some("said")).count();
    assert_eq!(said, 1);
    // An old id merges as the group that it leads to.
    database.store(&[found(5, 9)]).await;
    assert_eq!(merge(&database, provisional(4), &[provisional(5)]).await, MergeOutcome::Done);
    assert_eq!(group(&database, known(9)).await.merged_into, Some(known(8)));
    assert_eq!(
        merge(&database, provisional(4), &[known(8)]).await,
        MergeOutcome::Done,
        "it is the same group"
    );
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let split = groups::split_group(&mut tx, provisional(4), provisional(5), None, ROBIN).await.unwrap();
    assert_eq!(split, MergeOutcome::Done);
    tx.commit().await.unwrap();
    assert_eq!(group(&database, known(9)).await.merged_into, None);
    // A provisional group that is merged keeps its words under its id until it is split off.
    database.store(&[missing(6, 6)]).await;
    comment(&database, provisional(6), "merged").await;
    assert_eq!(merge(&database, known(8), &[provisional(6)]).await, MergeOutcome::Done);
    database.store(&[found(6, 9)]).await;
    let merged = group(&database, provisional(6)).await;
    assert_eq!((merged.id, merged.merged_into), (provisional(6), Some(known(8))));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    groups::split_group(&mut tx, known(8), provisional(6), None, ROBIN).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(leads_to(&database, provisional(6)).await, Some(known(9)));
    assert!(activity(&database, known(9)).await.iter().any(|one| one.text.as_deref() == Some("merged")));
}

/// Proves: late-symbols
#[tokio::test]
async fn groups_are_replaced_in_the_same_statements_however_many_there_are() {
    let database = Database::new().await;
    let mut costs = Vec::new();
    for (first, many, bug) in [(0, 2, 60), (10, 40, 70)] {
        let all = first..first + many;
        database.store(&all.clone().map(|n| missing(n, n)).collect::<Vec<_>>()).await;
        for n in all.clone() {
            comment(&database, provisional(n), "said").await;
            assign(&database, provisional(n), "Ana").await;
        }
        let batch: Vec<_> = all.map(|n| found(n, bug + n % 2)).collect();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let (stored, cost) =
            statements::counted(reports::store_arrivals(&mut tx, &batch, Effects::Now, None)).await;
        stored.unwrap();
        tx.commit().await.unwrap();
        costs.push(cost);
        assert_eq!(leads_to(&database, provisional(first)).await, Some(known(bug)));
    }
    assert!(costs[0] > 0 && costs[0] == costs[1], "{costs:?}");
}

/// Proves: late-symbols
#[tokio::test]
async fn batches_that_empty_groups_at_the_same_time_agree_on_what_replaces_them() {
    let database = Database::new().await;
    // Forty reports in four provisional groups, each of which is two bugs: three reports in five are of the first.
    let bug = |n: u8| if n % 5 < 3 { 50 + n % 4 } else { 60 + n % 4 };
    let reports: Vec<u8> = (0..40).collect();
    database.store(&reports.iter().map(|n| missing(*n, n % 4)).collect::<Vec<_>>()).await;
    for n in 0..4 {
        comment(&database, provisional(n), "said").await;
    }
    database.wait(Duration::MINUTE);
    let store = async |numbers: Vec<u8>| {
        for n in numbers {
            loop {
                let mut tx = database.store.tenant(&acme()).await.unwrap();
                match reports::store_arrivals(&mut tx, &[found(n, bug(n))], Effects::Now, None).await {
                    Ok(_) => break tx.commit().await.unwrap(),
                    Err(error) => assert!(is_busy(&error), "{error:?}"),
                }
            }
        }
    };
    let part = |at: usize| reports.iter().skip(at).step_by(3).copied().collect::<Vec<_>>();
    tokio::join!(store(part(0)), store(part(1)), store(part(2)));
    for n in 0..4 {
        assert_eq!(leads_to(&database, provisional(n)).await, Some(known(50 + n)));
        let actions =
            activity(&database, known(50 + n)).await.iter().map(|one| one.action).collect::<Vec<_>>();
        assert_eq!(actions, [GroupAction::Commented, GroupAction::Replaced]);
    }
    let both = "SELECT count(*) FROM group_redirects r JOIN groups g ON g.id = r.id";
    assert_eq!(database.number(both).await, 0);
}

fn is_busy(error: &StoreError) -> bool {
    matches!(error, StoreError::Database(sqlx::Error::Database(error)) if error.code().is_some_and(|code| code == "55P03"))
}
