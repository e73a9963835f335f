//! A team's morning: groups that are ignored until something, short names, one change of several groups, and
//! saved views.

use super::groups::of_bug;
use crate::GroupId;
use crate::groups::views::{self, GroupViewFilter, ViewOutcome, ViewReader};
use crate::groups::{self, GroupAction, GroupActor, GroupEvent, GroupStatus, GroupUpdate, IgnoreLimits};
use crate::groups::{MergeOutcome, UpdateOutcome};
use crate::queries::groups::{self as listed, ListedGroup};
use crate::reports::{self, Arrival, Effects};
use crate::tests::database::{Database, acme, execute, grouping, tenant_id};
use time::Duration;

const ROBIN: GroupActor<'static> = GroupActor { actor: "key", name: Some("Robin") };
const APP: &str = "com.acme.shop";
const KEY: ViewReader<'static> = ViewReader { key: "key", app: None };

fn report(n: u8, version: &str, bug: u8) -> Arrival {
    let mut arrival = of_bug(n, version, 0);
    arrival.facts.grouping = Some(grouping(bug, false));
    arrival
}

fn id(bug: u8) -> GroupId {
    groups::id_of(APP, grouping(bug, false).fingerprint)
}

async fn update_all(database: &Database, ids: &[GroupId], update: GroupUpdate) -> Vec<UpdateOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcomes = groups::update_groups(&mut tx, ids, None, ROBIN, &update).await.unwrap();
    tx.commit().await.unwrap();
    outcomes
}

fn ignored(ignore: IgnoreLimits) -> GroupUpdate {
    GroupUpdate { status: Some(GroupStatus::Ignored), ignore, ..GroupUpdate::default() }
}

async fn find(database: &Database, id: GroupId) -> ListedGroup {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    listed::find_group(&mut tx, id, None).await.unwrap().unwrap()
}

async fn store(database: &Database, arrivals: &[Arrival]) -> Vec<GroupEvent> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let batch = reports::store_batch(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    batch.events
}

async fn newest_entry(database: &Database, id: GroupId) -> (GroupAction, Option<String>) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let mut found = groups::list_activity(&mut tx, id, None, 1).await.unwrap();
    let entry = found.remove(0);
    (entry.action, entry.text)
}

#[tokio::test]
async fn an_ignored_group_opens_with_the_report_that_reaches_its_limit() {
    let database = Database::new().await;
    database.store(&[report(1, "1.0", 7)]).await;
    update_all(
        &database,
        &[id(7)],
        ignored(IgnoreLimits { more_reports: Some(2), ..IgnoreLimits::default() }),
    )
    .await;
    assert_eq!(find(&database, id(7)).await.ignored_until_reports, Some(3));
    database.wait(Duration::SECOND);
    assert_eq!(store(&database, &[report(2, "1.0", 7)]).await, []);
    let found = store(&database, &[report(3, "1.0", 7)]).await;
    let [GroupEvent::Reopened { group, reason, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((*group, reason.as_str()), (id(7), "3 reports"));
    let group = find(&database, id(7)).await;
    assert_eq!((group.status, group.ignored_until_reports), (GroupStatus::Open, None));
    assert_eq!(
        newest_entry(&database, id(7)).await,
        (GroupAction::IgnoreEnded, Some("3 reports".to_owned()))
    );
    // A replay and further reports say it no second time.
    assert_eq!(store(&database, &[report(3, "1.0", 7), report(4, "1.0", 7)]).await, []);
    // Without a limit it stays ignored.
    update_all(&database, &[id(7)], ignored(IgnoreLimits::default())).await;
    assert_eq!(store(&database, &[report(5, "9.0", 7)]).await, []);
}

#[tokio::test]
async fn an_ignored_group_opens_when_its_time_comes() {
    let database = Database::new().await;
    database.store(&[report(1, "1.0", 7), report(2, "1.0", 8)]).await;
    let until = Some(database.clock_now() + Duration::HOUR);
    update_all(&database, &[id(7), id(8)], ignored(IgnoreLimits { until, ..IgnoreLimits::default() })).await;
    assert_eq!(groups::reopen_ignored(&database.store, 10).await.unwrap(), 0);
    database.wait(Duration::HOUR);
    // A report that comes first opens its group, and the clock opens the other one.
    let found = store(&database, &[report(3, "1.0", 7)]).await;
    assert!(matches!(found.as_slice(), [GroupEvent::Reopened { group, .. }] if *group == id(7)), "{found:?}");
    assert_eq!(groups::reopen_ignored(&database.store, 10).await.unwrap(), 1);
    assert_eq!(groups::reopen_ignored(&database.store, 10).await.unwrap(), 0);
    for bug in [7, 8] {
        let group = find(&database, id(bug)).await;
        assert_eq!((group.status, group.ignored_until), (GroupStatus::Open, None), "{bug}");
        assert_eq!(newest_entry(&database, id(bug)).await.0, GroupAction::IgnoreEnded, "{bug}");
    }
}

#[tokio::test]
async fn a_group_that_is_ignored_until_the_next_version_opens_with_a_report_of_it() {
    let database = Database::new().await;
    database.store(&[report(1, "1.9", 7), report(2, "1.10", 8), report(3, "", 9)]).await;
    let next = || ignored(IgnoreLimits { until_next_version: true, ..IgnoreLimits::default() });
    assert_eq!(update_all(&database, &[id(7)], next()).await, [UpdateOutcome::Done(id(7))]);
    assert_eq!(find(&database, id(7)).await.ignored_after.as_deref(), Some("1.10"));
    let entry = newest_entry(&database, id(7)).await;
    assert_eq!(entry, (GroupAction::Ignored, Some("a version after 1.10".to_owned())));
    assert_eq!(store(&database, &[report(4, "1.10", 7)]).await, []);
    let found = store(&database, &[report(5, "1.11", 7)]).await;
    let [GroupEvent::Reopened { reason, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(reason, "version 1.11");
    let group = find(&database, id(7)).await;
    assert_eq!((group.status, group.ignored_after, group.can_undo), (GroupStatus::Open, None, false));
}

#[tokio::test]
async fn the_newest_change_is_taken_back_with_all_that_it_forgot() {
    let database = Database::new().await;
    database.store(&[report(1, "1.0", 7), report(2, "1.0", 8)]).await;
    let more = ignored(IgnoreLimits { more_reports: Some(5), ..IgnoreLimits::default() });
    update_all(&database, &[id(7)], more).await;
    let state = |group: ListedGroup| (group.status, group.ignored_until_reports, group.assignee);
    let before = state(find(&database, id(7)).await);
    let open = GroupUpdate {
        status: Some(GroupStatus::Open),
        assignee: Some("Kim".to_owned()),
        ..GroupUpdate::default()
    };
    update_all(&database, &[id(7)], open).await;
    let after = state(find(&database, id(7)).await);
    assert_eq!(after, (GroupStatus::Open, None, Some("Kim".to_owned())));
    let undo = || GroupUpdate { undo: true, ..GroupUpdate::default() };
    // Entries of one moment have no order.
    database.wait(Duration::SECOND);
    update_all(&database, &[id(7)], undo()).await;
    assert_eq!(state(find(&database, id(7)).await), before);
    assert_eq!(newest_entry(&database, id(7)).await, (GroupAction::Undone, None));
    // Taking that back is a change, too.
    update_all(&database, &[id(7)], undo()).await;
    assert_eq!(state(find(&database, id(7)).await), after);
    // Nothing was changed, or a report changed the state since.
    assert_eq!(update_all(&database, &[id(8)], undo()).await, [UpdateOutcome::Done(id(8))]);
    let resolved = GroupUpdate { status: Some(GroupStatus::Resolved), ..GroupUpdate::default() };
    update_all(&database, &[id(8)], resolved).await;
    assert!(find(&database, id(8)).await.can_undo);
    database.wait(Duration::SECOND);
    store(&database, &[report(3, "1.0", 8)]).await;
    update_all(&database, &[id(8)], undo()).await;
    let group = find(&database, id(8)).await;
    assert_eq!((group.status, group.can_undo), (GroupStatus::Regressed, false));
}

#[tokio::test]
async fn a_comment_is_changed_and_deleted_by_its_author_alone() {
    let database = Database::new().await;
    database.store(&[report(1, "1.0", 7), report(2, "1.0", 8)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let comment = groups::add_comment(&mut tx, ROBIN, id(7), "It is the card.").await.unwrap();
    let kim = GroupActor { name: Some("Kim"), ..ROBIN };
    let other_key = GroupActor { actor: "other", ..ROBIN };
    for (actor, group, is_own) in
        [(kim, id(7), false), (other_key, id(7), false), (ROBIN, id(8), false), (ROBIN, id(7), true)]
    {
        let changed = groups::change_comment(&mut tx, actor, group, comment, Some("It is the cart.")).await;
        assert_eq!(changed.unwrap(), is_own, "{actor:?}");
    }
    let shown = groups::list_activity(&mut tx, id(7), None, 1).await.unwrap().remove(0);
    assert_eq!((shown.text.as_deref(), shown.edited_at.is_some()), (Some("It is the cart."), true));
    for is_there in [true, false] {
        let deleted = groups::change_comment(&mut tx, ROBIN, id(7), comment, None).await.unwrap();
        assert_eq!(deleted, is_there);
    }
    let shown = groups::list_activity(&mut tx, id(7), None, 1).await.unwrap().remove(0);
    assert_eq!((shown.action, shown.text), (GroupAction::CommentDeleted, None));
}

#[tokio::test]
async fn a_group_that_is_resolved_in_the_next_version_comes_back_with_that_one() {
    let database = Database::new().await;
    database.store(&[report(1, "1.9", 7), report(2, "1.10", 8), report(3, "", 9)]).await;
    let next =
        GroupUpdate { status: Some(GroupStatus::Resolved), resolved_in_next: true, ..GroupUpdate::default() };
    assert_eq!(update_all(&database, &[id(7)], next).await, [UpdateOutcome::Done(id(7))]);
    assert_eq!(find(&database, id(7)).await.resolved_after.as_deref(), Some("1.10"));
    assert_eq!(
        newest_entry(&database, id(7)).await,
        (GroupAction::Resolved, Some("the version after 1.10".to_owned()))
    );
    // The newest version does not have the change.
    assert_eq!(store(&database, &[report(4, "1.10", 7)]).await, []);
    let found = store(&database, &[report(5, "1.11", 7)]).await;
    assert!(
        matches!(found.as_slice(), [GroupEvent::Regressed { version, .. }] if version == "1.11"),
        "{found:?}"
    );
}

#[tokio::test]
async fn one_change_of_several_groups_has_an_outcome_for_each() {
    let database = Database::new().await;
    database
        .store(&[report(1, "1.0", 1), report(2, "1.0", 2), report(3, "1.0", 3), report(4, "1.0", 3)])
        .await;
    let merge = async |target: u8, ids: &[u8]| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let ids: Vec<GroupId> = ids.iter().map(|bug| id(*bug)).collect();
        let outcomes = groups::merge_each(&mut tx, id(target), &ids, None, ROBIN).await.unwrap();
        tx.commit().await.unwrap();
        outcomes
    };
    let none = id(99);
    assert_eq!(
        merge(3, &[3, 2, 99]).await,
        [MergeOutcome::Done, MergeOutcome::Done, MergeOutcome::NotFound(none)]
    );
    assert_eq!(find(&database, id(3)).await.reports, 3);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let largest = listed::find_most_reports(&mut tx, &[id(1), id(2), none, id(3)], None).await.unwrap();
    assert_eq!(largest, Some(id(3)));
    drop(tx);
    let kim = GroupUpdate { assignee: Some("Kim".to_owned()), ..GroupUpdate::default() };
    let outcomes = update_all(&database, &[id(1), id(2), none, id(3), id(1)], kim).await;
    assert_eq!(
        outcomes,
        [
            UpdateOutcome::Done(id(1)),
            UpdateOutcome::Merged(id(3)),
            UpdateOutcome::NotFound,
            UpdateOutcome::Done(id(3)),
            UpdateOutcome::Done(id(1)),
        ]
    );
    for bug in [1, 3] {
        assert_eq!(find(&database, id(bug)).await.assignee.as_deref(), Some("Kim"));
    }
    let entries = database.number("SELECT count(*) FROM group_activity WHERE action = 'assigned'").await;
    assert_eq!(entries, 2, "a group that is named twice is changed once");
}

#[tokio::test]
async fn short_names_are_unique_and_stay_with_their_group() {
    let database = Database::new().await;
    database.store(&[report(1, "1.0", 7), report(2, "1.0", 8)]).await;
    let [one, other] = [find(&database, id(7)).await, find(&database, id(8)).await];
    let name = one.short_id.unwrap();
    assert!(name.starts_with("SHOP-") && name.len() == 9, "{name}");
    assert_ne!(Some(&name), other.short_id.as_ref());
    let by_name = async |tenant: &str, name: &str| {
        let mut tx = database.store.tenant(&tenant_id(tenant)).await.unwrap();
        groups::find_short_ids(&mut tx, &[name.to_lowercase()]).await.unwrap()[0]
    };
    assert_eq!(by_name("acme", &name).await, Some(id(7)));
    assert_eq!(by_name("umbrella", &name).await, None);
    assert_eq!(by_name("acme", "SHOP-ZZZZ").await, None);
    // Another group has the name that the next one would have: it gets more digits.
    let taken = format!(
        "UPDATE group_short_ids SET group_id = '{}' WHERE short_id = '{name}'",
        crate::Uuid::from_u128(1)
    );
    execute(&database, &taken).await;
    execute(&database, &format!("DELETE FROM groups WHERE id = '{}'", id(7))).await;
    database.store(&[report(3, "1.0", 7)]).await;
    let longer = find(&database, id(7)).await.short_id.unwrap();
    assert!(longer.len() == name.len() + 1 && longer.starts_with(&name), "{longer}");
}

#[tokio::test]
async fn a_group_has_the_variants_of_its_stack() {
    let database = Database::new().await;
    let stack = |n: u8, functions: &[&str]| {
        let mut arrival = report(n, "1.0", 7);
        let frames: Vec<_> = functions.iter().map(|name| serde_json::json!({"function": name})).collect();
        arrival.facts.summary = serde_json::json!({"top_frames": frames});
        arrival
    };
    let reports = [stack(1, &["total", "pay"]), stack(2, &["total", "refund"]), stack(3, &["total", "pay"])];
    database.store(&reports).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = listed::get(&mut tx, id(7), None).await.unwrap().unwrap();
    let variants: Vec<_> = found.variants.iter().map(|one| (one.functions.join(" "), one.reports)).collect();
    assert_eq!(variants, [("total pay".to_owned(), 2), ("total refund".to_owned(), 1)]);
    assert_eq!(found.variants[0].report_id.0, [3; 16], "the newest one");
}

#[tokio::test]
async fn views_are_of_a_key_or_of_the_tenant() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let filter = GroupViewFilter { app: Some(APP.to_owned()), ..GroupViewFilter::default() };
    let save = async |tx: &mut crate::TenantTx, reader, shared, name: &str| {
        views::save_view(tx, reader, shared, name, &filter).await.unwrap()
    };
    let ViewOutcome::Done(own) = save(&mut tx, KEY, false, "mine").await else { panic!() };
    let ViewOutcome::Done(shared) = save(&mut tx, KEY, true, "mine").await else { panic!() };
    assert_eq!(save(&mut tx, KEY, false, "mine").await, ViewOutcome::NameTaken);
    let names = async |tx: &mut crate::TenantTx, reader| {
        let found = views::list_views(tx, reader).await.unwrap();
        found.into_iter().map(|view| view.id).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut tx, KEY).await, [shared.id, own.id]);
    let other = ViewReader { key: "other", app: None };
    assert_eq!(names(&mut tx, other).await, [shared.id]);
    assert!(names(&mut tx, ViewReader { key: "key", app: Some("com.acme.bank") }).await.is_empty());
    // No other key changes a view of this one.
    let renamed = views::change_view(&mut tx, other, own.id, Some("x"), None).await.unwrap();
    assert_eq!(renamed, ViewOutcome::NotFound);
    let ViewOutcome::Done(renamed) =
        views::change_view(&mut tx, KEY, own.id, Some("ours"), None).await.unwrap()
    else {
        panic!()
    };
    assert_eq!((renamed.name.as_str(), &renamed.filter), ("ours", &filter));
    for n in 1..views::MAX_VIEWS {
        assert!(matches!(save(&mut tx, KEY, false, &n.to_string()).await, ViewOutcome::Done(_)));
    }
    assert_eq!(save(&mut tx, KEY, false, "one more").await, ViewOutcome::TooMany);
    assert!(matches!(save(&mut tx, other, false, "mine").await, ViewOutcome::Done(_)));
    views::delete_view(&mut tx, own.id).await.unwrap();
    assert!(views::find_view(&mut tx, KEY, own.id).await.unwrap().is_none());
}
