//! What a team does with groups, and what reports make of it.

use super::groups::of_bug;
use crate::GroupId;
use crate::groups::{self, GroupAction, GroupActivity, GroupActor, GroupEvent, GroupStatus, GroupUpdate};
use crate::groups::{MergeOutcome, UpdateOutcome};
use crate::queries::groups::{self as listed, CountScope, GroupFilter, GroupOrder, ListedGroup};
use crate::queries::reports::{self as reports_listed, ReportFilter};
use crate::reports::{self, Arrival, Effects};
use crate::tests::database::{Database, acme, arrival, grouping, image, revised, tenant_id};
use time::Duration;

const ROBIN: GroupActor<'static> = GroupActor { actor: "key", name: Some("Robin") };

async fn update(database: &Database, id: GroupId, update: GroupUpdate) -> UpdateOutcome {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = groups::update_group(&mut tx, id, None, ROBIN, &update).await.unwrap();
    tx.commit().await.unwrap();
    outcome
}

fn resolved(version: Option<&str>) -> GroupUpdate {
    let resolved_in = version.map(str::to_owned);
    GroupUpdate { status: Some(GroupStatus::Resolved), resolved_in, ..GroupUpdate::default() }
}

fn to(status: GroupStatus) -> GroupUpdate {
    GroupUpdate { status: Some(status), ..GroupUpdate::default() }
}

async fn find(database: &Database, id: GroupId) -> ListedGroup {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    listed::find_group(&mut tx, id, None).await.unwrap().unwrap()
}

async fn list(database: &Database, filter: GroupFilter) -> Vec<ListedGroup> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    listed::list_groups(&mut tx, &filter, GroupOrder::LastSeen, None, 100).await.unwrap()
}

async fn activity(database: &Database, id: GroupId) -> Vec<GroupActivity> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    groups::list_activity(&mut tx, id, None, 100).await.unwrap()
}

async fn actions(database: &Database, id: GroupId) -> Vec<GroupAction> {
    activity(database, id).await.into_iter().rev().map(|one| one.action).collect()
}

async fn events(database: &Database, arrivals: &[Arrival]) -> Vec<GroupEvent> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let batch = reports::store_batch(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    batch.events
}

async fn merge(database: &Database, target: GroupId, ids: &[GroupId]) -> MergeOutcome {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = groups::merge_groups(&mut tx, target, ids, None, ROBIN).await.unwrap();
    tx.commit().await.unwrap();
    outcome
}

/// Bug 7 with one report of version 1.0; its id.
async fn one_bug(database: &Database) -> GroupId {
    database.store(&[of_bug(1, "1.0", 0)]).await;
    list(database, GroupFilter::default()).await[0].id
}

fn of(n: u8, version: &str, bug: u8) -> Arrival {
    let mut arrival = of_bug(n, version, 0);
    arrival.facts.grouping = Some(grouping(bug, false));
    arrival
}

#[tokio::test]
async fn a_team_resolves_assigns_and_reopens_and_every_step_is_noted_once() {
    let database = Database::new().await;
    let id = one_bug(&database).await;
    assert_eq!(find(&database, id).await.status, GroupStatus::Open);
    let assigned = |name: &str| GroupUpdate { assignee: Some(name.into()), ..GroupUpdate::default() };
    for one in [
        GroupUpdate { assignee: Some("Kim".into()), ..resolved(Some("1.1")) },
        resolved(Some("1.1")),
        assigned("Kim"),
        resolved(None),
        to(GroupStatus::Ignored),
        to(GroupStatus::Open),
        to(GroupStatus::Open),
        assigned(""),
        GroupUpdate::default(),
    ] {
        database.wait(Duration::seconds(1));
        assert_eq!(update(&database, id, one).await, UpdateOutcome::Done(id));
    }
    let noted = activity(&database, id).await;
    let noted: Vec<_> = noted.iter().rev().map(|one| (one.action, one.text.as_deref())).collect();
    assert_eq!(noted.len(), 6, "{noted:?}");
    assert!(noted[..2].contains(&(GroupAction::Resolved, Some("1.1"))), "{noted:?}");
    assert!(noted[..2].contains(&(GroupAction::Assigned, Some("Kim"))), "{noted:?}");
    assert_eq!(
        noted[2..],
        [
            (GroupAction::Resolved, None),
            (GroupAction::Ignored, None),
            (GroupAction::Reopened, None),
            (GroupAction::Assigned, None)
        ]
    );
    let group = find(&database, id).await;
    assert_eq!((group.resolved_in, group.resolved_at, group.assignee), (None, None, None));
    // Another app's key, another tenant, no such group.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let other =
        groups::update_group(&mut tx, id, Some("com.acme.bank"), ROBIN, &resolved(None)).await.unwrap();
    assert_eq!(other, UpdateOutcome::NotFound);
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    let other = groups::update_group(&mut tx, id, None, ROBIN, &resolved(None)).await.unwrap();
    assert_eq!(other, UpdateOutcome::NotFound);
    assert!(groups::list_activity(&mut tx, id, None, 9).await.unwrap().is_empty());
    assert_eq!(
        groups::merge_groups(&mut tx, id, &[], None, ROBIN).await.unwrap(),
        MergeOutcome::NotFound(id)
    );
}

#[tokio::test]
async fn activity_has_pages_and_names_its_authors() {
    let database = Database::new().await;
    let id = one_bug(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for n in 0..5 {
        groups::add_comment(&mut tx, ROBIN, id, &format!("comment {n}")).await.unwrap();
    }
    let whole = groups::list_activity(&mut tx, id, None, 100).await.unwrap();
    assert_eq!((whole.len(), whole[0].name.as_deref()), (5, Some("Robin")));
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = groups::list_activity(&mut tx, id, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.at, last.id));
        paged.extend(page);
    }
    assert_eq!(paged, whole);
}

#[tokio::test]
async fn lists_filter_by_status_and_assignee() {
    let database = Database::new().await;
    database.store(&[of(1, "1.0", 1), of(2, "1.0", 2), of(3, "1.0", 3)]).await;
    let ids: Vec<GroupId> =
        list(&database, GroupFilter::default()).await.iter().map(|group| group.id).collect();
    update(&database, ids[0], GroupUpdate { assignee: Some("Kim".into()), ..resolved(None) }).await;
    update(&database, ids[1], to(GroupStatus::Ignored)).await;
    let by = async |status: &[GroupStatus], assignee: Option<&str>| {
        let assignee = assignee.map(str::to_owned);
        let filter = GroupFilter { status: status.to_vec(), assignee, ..GroupFilter::default() };
        list(&database, filter).await.iter().map(|group| group.id).collect::<Vec<_>>()
    };
    assert_eq!(by(&[GroupStatus::Open, GroupStatus::Regressed], None).await, [ids[2]]);
    assert_eq!(by(&[GroupStatus::Resolved], None).await, [ids[0]]);
    assert_eq!(by(&[], Some("Kim")).await, [ids[0]]);
    assert_eq!(by(&[], Some("")).await, ids[1..]);
}

#[tokio::test]
async fn a_report_of_a_newer_version_reopens_a_resolved_group_once() {
    let database = Database::new().await;
    let id = one_bug(&database).await;
    update(&database, id, resolved(Some("2.9"))).await;
    // What is older, the same or of no version proves nothing.
    for (n, version) in [(2, "1.0"), (3, "2.9.0"), (4, "")] {
        assert_eq!(events(&database, &[of(n, version, 7)]).await, []);
    }
    assert_eq!(find(&database, id).await.status, GroupStatus::Resolved);
    let newer = [of(6, "2.11", 7), of(5, "2.10", 7)];
    let found = events(&database, &newer).await;
    let [GroupEvent::Regressed { group, version, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((*group, version.as_str()), (id, "2.10"), "the first of the batch");
    let group = find(&database, id).await;
    assert_eq!((group.status, group.regressed_in.as_deref()), (GroupStatus::Regressed, Some("2.10")));
    assert_eq!((group.regressed_at, group.resolved_in.as_deref()), (Some(database.clock_now()), Some("2.9")));
    // Neither the same again nor others say it a second time.
    assert_eq!(events(&database, &newer).await, []);
    assert_eq!(events(&database, &[of(7, "3.0", 7)]).await, []);
    // Nor does a replay once it is resolved again.
    update(&database, id, resolved(Some("2.9"))).await;
    assert_eq!(events(&database, &newer).await, []);
    assert_eq!(
        actions(&database, id).await.iter().filter(|action| **action == GroupAction::Regressed).count(),
        1
    );
    let again = GroupFilter { new_in: Some("2.10".into()), ..GroupFilter::default() };
    assert_eq!(list(&database, again).await.len(), 1, "it came back in it");
    // What is ignored stays so.
    update(&database, id, to(GroupStatus::Ignored)).await;
    assert_eq!(events(&database, &[of(8, "9.0", 7)]).await, []);
}

#[tokio::test]
async fn without_a_version_any_later_report_reopens_it() {
    let database = Database::new().await;
    let id = one_bug(&database).await;
    database.wait(Duration::hours(1));
    update(&database, id, resolved(None)).await;
    assert_eq!(events(&database, &[of(2, "1.0", 7)]).await, [], "received before");
    let mut late = of(3, "1.0", 7);
    late.received_at += Duration::hours(2);
    assert_eq!(events(&database, &[late]).await.len(), 1);
    assert_eq!(find(&database, id).await.status, GroupStatus::Regressed);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_report_that_moves_in_with_its_symbols_is_no_regression() {
    let database = Database::new().await;
    let better = |n: u8| revised(&arrival(n), 2, image(1, false, Some(1)));
    let first = events(&database, &[better(3)]).await;
    let [GroupEvent::Created { group: id, provisional: false, .. }] = first.as_slice() else {
        panic!("{first:?}")
    };
    update(&database, *id, resolved(Some("0.9"))).await;
    let came = events(&database, &[arrival(5)]).await;
    assert!(matches!(came.as_slice(), [GroupEvent::Created { provisional: true, .. }]), "{came:?}");
    assert_eq!(events(&database, &[better(5)]).await, []);
    // The same in one batch.
    assert_eq!(events(&database, &[arrival(7), better(7)]).await, []);
    assert_eq!(find(&database, *id).await.status, GroupStatus::Resolved);
    assert_eq!(find(&database, *id).await.reports, 3);
    // Its symbols came before the report did.
    assert_eq!(events(&database, &[better(9)]).await.len(), 1);
}

#[tokio::test]
async fn a_merged_group_counts_for_its_target_until_it_is_split_off() {
    let database = Database::new().await;
    let mut earlier = of(1, "0.9", 1);
    earlier.received_at -= Duration::days(2);
    database.store(&[earlier, of(2, "1.0", 1), of(3, "1.1", 2), of(4, "1.0", 3)]).await;
    let groups = list(&database, GroupFilter { text: Some("bug".into()), ..GroupFilter::default() }).await;
    let id = |bug: u8| groups.iter().find(|group| group.title == format!("bug {bug}")).unwrap().id;
    let before = find(&database, id(1)).await;
    assert_eq!(merge(&database, id(2), &[id(1), id(1), id(2)]).await, MergeOutcome::Done);
    let target = find(&database, id(2)).await;
    assert_eq!(
        (target.reports, target.first_version.as_str(), target.last_version.as_str()),
        (3, "0.9", "1.1")
    );
    assert_eq!(list(&database, GroupFilter::default()).await.len(), 2);
    let scope = CountScope { version: Some("0.9".into()), ..CountScope::default() };
    let of_version = GroupFilter { scope, ..GroupFilter::default() };
    let found = list(&database, of_version).await;
    let counts: Vec<_> = found.iter().map(|group| (group.id, group.reports, group.all_reports)).collect();
    assert_eq!(counts, [(target.id, 1, Some(3))]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let detail = listed::get(&mut tx, id(2), None).await.unwrap().unwrap();
    assert_eq!(
        (detail.merged.len(), detail.merged[0].reports, detail.versions.len(), detail.days.len()),
        (1, 2, 3, 2)
    );
    let filter = ReportFilter { group: Some(id(2)), ..ReportFilter::default() };
    let page = reports_listed::list_reports(&mut tx, &filter, None, 10).await.unwrap();
    assert_eq!(page.reports.len(), 3);
    assert!(page.reports.iter().all(|report| report.group == Some(id(2))));
    let around = reports_listed::find_neighbours(&mut tx, &page.reports[1]).await.unwrap();
    let place = |at: usize| Some((page.reports[at].report_id, 0));
    assert_eq!(around, (place(0), place(2)), "across the merged groups");
    drop(tx);
    // A new report of the merged group counts for the target, and is a regression of that.
    update(&database, id(2), resolved(Some("1.1"))).await;
    let found = events(&database, &[of(5, "1.2", 1)]).await;
    assert!(
        matches!(found.as_slice(), [GroupEvent::Regressed { group, .. }] if *group == id(2)),
        "{found:?}"
    );
    assert_eq!(find(&database, id(2)).await.reports, 4);
    assert_eq!(update(&database, id(1), resolved(None)).await, UpdateOutcome::Merged(id(2)));
    // A target that is merged takes along what it has; a group is merged once.
    assert_eq!(merge(&database, id(1), &[id(3)]).await, MergeOutcome::Merged { group: id(1), into: id(2) });
    assert_eq!(merge(&database, id(3), &[id(1)]).await, MergeOutcome::Merged { group: id(1), into: id(2) });
    assert_eq!(merge(&database, id(3), &[id(2)]).await, MergeOutcome::Done);
    assert_eq!(find(&database, id(3)).await.reports, 5);
    assert_eq!(find(&database, id(2)).await.reports, 1);
    let split = async |target, group| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let outcome = groups::split_group(&mut tx, target, group, None, ROBIN).await.unwrap();
        tx.commit().await.unwrap();
        outcome
    };
    assert_eq!(split(id(2), id(1)).await, MergeOutcome::NotMerged(id(1)));
    database.wait(Duration::seconds(1));
    assert_eq!(split(id(3), id(1)).await, MergeOutcome::Done);
    let after = find(&database, id(1)).await;
    assert_eq!((after.reports, after.first_seen, after.merged_into), (3, before.first_seen, None));
    assert_eq!(find(&database, id(3)).await.reports, 2);
    assert_eq!(actions(&database, id(1)).await, [GroupAction::MergedInto, GroupAction::SplitFrom]);
    // Of another app, or not there.
    let mut bank = of(6, "1.0", 1);
    bank.facts.app = "com.acme.bank".into();
    let found = events(&database, &[bank]).await;
    let [GroupEvent::Created { group: bank, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(merge(&database, id(1), &[*bank]).await, MergeOutcome::OtherApp(*bank));
    assert_eq!(
        merge(&database, id(1), &[GroupId::default()]).await,
        MergeOutcome::NotFound(GroupId::default())
    );
}

#[tokio::test]
async fn a_merge_outlives_the_last_report_of_either_group() {
    let database = Database::new().await;
    database.store(&[of(1, "1.0", 1), of(2, "1.0", 2)]).await;
    let groups = list(&database, GroupFilter::default()).await;
    let (target, merged) = (groups[0].id, groups[1].id);
    merge(&database, target, &[merged]).await;
    for n in [1, 2] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert!(list(&database, GroupFilter::default()).await.is_empty());
    assert_eq!(events(&database, &[of(3, "1.0", 1)]).await, [], "it is known");
    let found = list(&database, GroupFilter::default()).await;
    assert_eq!((found.len(), found[0].id, found[0].reports), (1, target, 1));
    assert_eq!((found[0].first_seen, found[0].last_seen), (arrival(3).received_at, arrival(3).received_at));
}

#[tokio::test]
async fn merges_and_batches_at_the_same_time_neither_deadlock_nor_miscount() {
    let database = Database::new().await;
    database.store(&[of(1, "1.0", 1), of(2, "1.0", 2), of(3, "1.0", 3)]).await;
    let ids: Vec<GroupId> =
        list(&database, GroupFilter::default()).await.iter().map(|group| group.id).collect();
    let store = async |from: u8| {
        for n in from..from + 20 {
            database.store(&[of(n, "1.0", n % 3 + 1), of(n + 20, "1.0", (n + 1) % 3 + 1)]).await;
        }
    };
    let merging = async {
        for _ in 0..10 {
            merge(&database, ids[0], &ids[1..]).await;
            for id in &ids[1..] {
                let mut tx = database.store.tenant(&acme()).await.unwrap();
                groups::split_group(&mut tx, ids[0], *id, None, ROBIN).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
        merge(&database, ids[0], &ids[1..]).await;
    };
    tokio::join!(store(10), store(60), merging);
    assert_eq!(find(&database, ids[0]).await.reports, 83);
    assert_eq!(database.number("SELECT sum(own_reports)::bigint FROM groups").await, 83);
}
