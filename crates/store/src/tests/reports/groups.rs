//! Groups: what they count, whatever happens to their reports.

use crate::groups::rules;
use crate::groups::{self as actions, GroupActor, MergeOutcome};
use crate::queries::groups::{self, CountScope, GroupFilter, GroupOrder, ListedGroup};
use crate::queries::reports as listed;
use crate::reports::regroup::{self, RegroupPage, RegroupStep, Regrouped};
use crate::reports::{self, Arrival};
use crate::tests::database::{Database, acme, arrival, execute, grouping, image, revised, start, tenant_id};
use crate::{GroupId, Uuid, partitions, retention};
use sqlx::{AssertSqlSafe, Row};
use time::{Duration, OffsetDateTime};
use unslide_model::{ReportGrouping, ReportId};

const ACTOR: GroupActor<'static> = GroupActor { actor: "test", name: None };

async fn list(database: &Database, filter: &GroupFilter, order: GroupOrder) -> Vec<ListedGroup> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    groups::list_groups(&mut tx, filter, order, None, 100).await.unwrap()
}

async fn all(database: &Database) -> Vec<ListedGroup> {
    list(database, &GroupFilter::default(), GroupOrder::LastSeen).await
}

async fn delete(database: &Database, n: u8) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap();
    tx.commit().await.unwrap();
}

/// A report of bug 7, in this version, `days` days ago.
pub fn of_bug(n: u8, version: &str, days: i64) -> Arrival {
    let mut arrival = arrival(n);
    arrival.received_at -= Duration::days(days);
    arrival.facts.version = version.into();
    arrival.facts.grouping = Some(grouping(7, false));
    arrival
}

#[tokio::test]
async fn a_group_has_its_reports_by_version_and_day() {
    let database = Database::new().await;
    let mut without = arrival(9);
    without.facts.grouping = None;
    let mut unknown = of_bug(10, "1.1", 0);
    unknown.facts.device = None;
    // Reports 1 and 13 are of one device.
    database.store(&[of_bug(1, "1.0", 2), of_bug(13, "1.1", 0), unknown, without]).await;
    let found = all(&database).await;
    let [group] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((group.app.as_str(), group.title.as_str(), group.reports), ("com.acme.shop", "bug 7", 3));
    assert_eq!(group.affected_devices, 1);
    assert_eq!((group.first_version.as_str(), group.last_version.as_str()), ("1.0", "1.1"));
    assert_eq!((group.first_seen, group.last_seen), (of_bug(1, "", 2).received_at, arrival(13).received_at));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let detail = groups::get(&mut tx, group.id, Some("com.acme.shop")).await.unwrap().unwrap();
    let versions: Vec<_> = detail.versions.iter().map(|one| (one.version.as_str(), one.reports)).collect();
    assert_eq!(versions, [("1.1", 2), ("1.0", 1)]);
    assert_eq!(detail.days.iter().map(|day| day.reports).collect::<Vec<_>>(), [2, 1]);
    let models: Vec<_> = detail.devices.iter().map(|one| (one.model.as_str(), one.reports)).collect();
    assert_eq!(models, [("iPhone1,1", 2), ("", 1)]);
    let systems: Vec<_> =
        detail.os_versions.iter().map(|one| (one.os_version.as_str(), one.reports)).collect();
    assert_eq!(systems, [("iOS 18.1", 2), ("iOS 18.0", 1)]);
    assert!(groups::get(&mut tx, group.id, Some("com.acme.bank")).await.unwrap().is_none());
    let filter = listed::ReportFilter { group: Some(group.id), ..listed::ReportFilter::default() };
    assert_eq!(listed::count_reports(&mut tx, &filter).await.unwrap(), 3);
    drop(tx);
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(groups::get(&mut other, group.id, None).await.unwrap().is_none(), "another tenant's");
    assert!(
        groups::list_groups(&mut other, &GroupFilter::default(), GroupOrder::Reports, None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

/// Proves: late-symbols
#[tokio::test]
async fn late_symbols_move_a_report_and_every_count_with_it_once() {
    let database = Database::new().await;
    // Two of the first bug, which symbols show to be different ones.
    database.store(&[arrival(3), arrival(6)]).await;
    assert_eq!(
        all(&database).await.iter().map(|g| (g.provisional, g.reports)).collect::<Vec<_>>(),
        [(true, 2)]
    );
    let better = revised(&arrival(3), 2, image(1, false, Some(1)));
    for _ in 0..2 {
        database.store(std::slice::from_ref(&better)).await;
        let found = all(&database).await;
        let counts: Vec<_> = found.iter().map(|g| (g.provisional, g.reports, g.first_seen)).collect();
        let expected = [(true, 1, arrival(6).received_at), (false, 1, arrival(3).received_at)];
        assert_eq!(counts, expected);
    }
    database.store(&[revised(&arrival(6), 2, image(1, false, Some(1)))]).await;
    assert!(
        all(&database).await.iter().all(|g| !g.provisional && g.reports == 1),
        "the provisional one is gone"
    );
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM group_day_counts").await, 2);
}

#[tokio::test]
async fn filters_combine_and_every_order_has_pages() {
    let database = Database::new().await;
    database.store(&(1..=30).map(arrival).collect::<Vec<_>>()).await;
    database.store(&[of_bug(40, "2.0", 0), of_bug(41, "2.0", 1)]).await;
    let by = async |filter: GroupFilter| list(&database, &filter, GroupOrder::LastSeen).await.len();
    let app = || Some("com.acme.shop".to_owned());
    assert_eq!(by(GroupFilter { app: app(), ..GroupFilter::default() }).await, 4);
    assert_eq!(
        by(GroupFilter {
            app: app(),
            scope: CountScope { version: Some("2.0".into()), ..CountScope::default() },
            ..GroupFilter::default()
        })
        .await,
        1
    );
    assert_eq!(by(GroupFilter { text: Some("BUG 2".into()), ..GroupFilter::default() }).await, 1);
    assert_eq!(by(GroupFilter { text: Some("cart.SWIFT".into()), ..GroupFilter::default() }).await, 4);
    assert_eq!(by(GroupFilter { text: Some("100%_".into()), ..GroupFilter::default() }).await, 0);
    assert_eq!(by(GroupFilter { provisional: Some(false), ..GroupFilter::default() }).await, 1);
    assert_eq!(by(GroupFilter { kind: Some("hang".into()), ..GroupFilter::default() }).await, 0);
    for order in [GroupOrder::LastSeen, GroupOrder::FirstSeen, GroupOrder::Reports] {
        let whole = list(&database, &GroupFilter::default(), order).await;
        let (mut paged, mut after): (Vec<ListedGroup>, _) = (Vec::new(), None);
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        loop {
            let page = groups::list_groups(&mut tx, &GroupFilter::default(), order, after, 1).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(order.position(last));
            paged.extend(page);
        }
        assert_eq!(paged, whole, "{order:?}");
    }
}

/// A report of which every third was made by MetricKit, of the run that KSCrash reported before it.
fn of_run(n: u8) -> Arrival {
    let mut arrival = arrival(n);
    arrival.facts.version = format!("1.{}", n % 2);
    // The app survived some of them.
    match n % 7 {
        0 => arrival.facts.kind = "hang".into(),
        3 => arrival.facts.summary = serde_json::json!({"fatal": false}),
        _ => {}
    }
    // What it survived stands for others, too.
    if n.is_multiple_of(7) {
        arrival.facts.grouping = Some(ReportGrouping { kind: "hang".into(), ..grouping(n % 3, true) });
        arrival.facts.sampled = Some(1.0 / f64::from(n % 5 + 1));
    }
    arrival.facts.run_id = Some(Uuid::from_bytes([(n + 1) / 3; 16]));
    arrival.facts.metric_kit = n.is_multiple_of(3);
    arrival
}

async fn count_once(database: &Database) -> u64 {
    reports::count_once(&database.store, 1).await.unwrap()
}

#[tokio::test]
async fn a_crash_that_metric_kit_tells_too_counts_once_whichever_came_first() {
    let database = Database::new().await;
    // Report 3 comes before the one of its run; 6 is of a run that only MetricKit tells; 12 of one with an error that
    // the app survived; 15 of one that tells how an earlier run ended; 21 is a hang of a run that crashed later.
    let mut third = of_run(3);
    third.facts.summary = arrival(3).facts.summary;
    let mut survived = of_run(11);
    survived.facts.summary = serde_json::json!({"fatal": false});
    let mut out_of_memory = of_run(14);
    out_of_memory.facts.kind = "out_of_memory".into();
    out_of_memory.facts.sampled = None;
    database.store(std::slice::from_ref(&third)).await;
    assert_eq!(count_once(&database).await, 0);
    database.store(&[of_run(2), of_run(6), of_run(8), of_run(9), survived, of_run(12)]).await;
    database.store(&[out_of_memory, of_run(15), of_run(20), of_run(21)]).await;
    assert_eq!(count_once(&database).await, 2);
    assert_eq!(count_once(&database).await, 0);
    let other = "SELECT same_crash_as FROM reports WHERE same_crash_as IS NOT NULL ORDER BY report_id";
    let other: Vec<Uuid> = database.rows(other).await.iter().map(|row| row.get(0)).collect();
    assert_eq!(other, [arrival(2).report_id.uuid(), arrival(8).report_id.uuid()]);
    // The hang stands for two.
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 10);
    check_counts(&database).await;
    // Late symbols and a deletion change nothing of that.
    database.store(&[revised(&third, 2, image(1, false, Some(1)))]).await;
    check_counts(&database).await;
    delete(&database, 9).await;
    check_counts(&database).await;
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 10);
}

#[tokio::test]
async fn a_crash_is_found_again_by_its_process_where_one_report_names_no_run() {
    let database = Database::new().await;
    let told = |n: u8, process: u8, run: Option<u8>, metric_kit: bool| {
        let mut arrival = of_bug(n, "1.0", 0);
        arrival.facts.process_identity = Some(Uuid::from_bytes([process; 16]));
        arrival.facts.run_id = run.map(|run| Uuid::from_bytes([run; 16]));
        arrival.facts.metric_kit = metric_kit;
        arrival
    };
    // 3 and 4 name different runs, whatever their process is; 6 is of another process; 8 is of another app; the app
    // survived 9; 10 and 11 both name no run.
    let mut survived = told(9, 1, None, true);
    survived.facts.summary = serde_json::json!({"fatal": false});
    let mut other_app = told(8, 1, None, true);
    other_app.facts.app = "com.acme.bank".into();
    database.store(&[told(1, 1, Some(1), false), told(2, 1, None, true), told(3, 3, Some(3), false)]).await;
    database.store(&[told(4, 3, Some(4), true), told(5, 5, None, false), told(6, 6, None, true)]).await;
    database.store(&[told(7, 5, Some(7), true), other_app, survived]).await;
    database.store(&[told(10, 10, None, false), told(11, 10, None, true)]).await;
    assert_eq!(count_once(&database).await, 3);
    assert_eq!(count_once(&database).await, 0);
    let same =
        "SELECT report_id, same_crash_as FROM reports WHERE same_crash_as IS NOT NULL ORDER BY report_id";
    let same: Vec<(Uuid, Uuid)> =
        database.rows(same).await.iter().map(|row| (row.get(0), row.get(1))).collect();
    let id = |n: u8| arrival(n).report_id.uuid();
    assert_eq!(same, [(id(2), id(1)), (id(7), id(5)), (id(11), id(10))]);
    check_counts(&database).await;
}

/// Three thousand reports of one process, of which every tenth is MetricKit's: each names a run of its own.
const OF_ONE_PROCESS: &str =
    "INSERT INTO reports (tenant, received_at, report_id, variant, revision, app, version, build, type, fatal, status,
         summary, frames_total, frames_symbolicated, frames_device, frames_device_app, frames_missing,
         symbols_missing, system_images, wanted, run_id, process_identity, metric_kit, stored_at)
     SELECT 'acme', to_timestamp({at}) - n * interval '1 second', gen_random_uuid(), 0, 1, 'com.acme.shop', '1.0', '1',
         'mach', true, 'complete', '{}', 0, 0, 0, 0, 0, false, '{}', '{}', gen_random_uuid(),
         '11111111-1111-1111-1111-111111111111', n % 10 = 0, to_timestamp({at})
     FROM generate_series(1, 3000) n;
     ANALYZE reports";

#[tokio::test]
async fn a_crash_told_twice_is_found_in_few_rows_however_many_reports_name_its_process() {
    let database = Database::new().await;
    let at = start().unix_timestamp();
    execute(&database, &OF_ONE_PROCESS.replace("{at}", &at.to_string())).await;
    let look = format!(
        "SELECT count(*) FROM unslide_crash_tellings(to_timestamp({at}) - interval '1 day', '{}', -1, to_timestamp({at}), 3, 30, 500)",
        Uuid::nil()
    );
    for (without_runs, expected) in [("false", 0), ("metric_kit", 300)] {
        let change = format!("UPDATE reports SET run_id = NULL WHERE {without_runs}; ANALYZE reports");
        execute(&database, &change).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let (connection, ..) = tx.parts();
        let found: i64 =
            sqlx::query_scalar(AssertSqlSafe(look.clone())).fetch_one(&mut *connection).await.unwrap();
        assert_eq!(found, expected);
        let read = "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
                    WHERE relname LIKE 'reports\\_2%'";
        let read: i64 = sqlx::query_scalar(read).fetch_one(connection).await.unwrap();
        assert!((300..30_000).contains(&read), "{read} rows read");
    }
}

/// Report `n` of a random history: of one of three days. Some of MetricKit's name no run.
fn of_history(n: u8) -> Arrival {
    let mut arrival = of_run(n);
    arrival.received_at -= Duration::days(i64::from(n % 3));
    arrival.facts.process_identity = arrival.facts.run_id;
    if arrival.facts.metric_kit && n.is_multiple_of(2) {
        arrival.facts.run_id = None;
    }
    // Ends out of memory are sampled and no crashes, whatever the device says.
    if n % 10 == 4 {
        arrival.facts.kind = "out_of_memory".into();
        arrival.facts.summary = serde_json::json!({"fatal": true});
        arrival.facts.grouping =
            Some(ReportGrouping { kind: "out_of_memory".into(), ..grouping(n % 3, true) });
        arrival.facts.sampled = Some(0.6);
    }
    arrival
}

/// A better answer for it, which says the same of what happened.
fn better(n: u8) -> Arrival {
    let first = of_history(n);
    let mut better = revised(&first, 2, image(1, false, Some(1)));
    let kind = first.facts.grouping.unwrap().kind;
    better.facts.grouping = better.facts.grouping.map(|grouping| ReportGrouping { kind, ..grouping });
    better
}

/// What groups count is what was stored and not deleted, after any history of arrivals, better answers, deletions, merges,
/// splits, other rules, retention and folding. Nothing lags behind.
#[tokio::test]
async fn every_count_is_that_of_the_stored_reports() {
    let database = Database::new().await;
    let done = random_history(&database, true).await;
    assert!(done.merges > 5 && done.splits > 2 && done.twice > 2, "{done:?}");
    assert!(done.expired > 2 && done.regrouped > 9 && done.most_groups > 3, "{done:?}");
    drop_days(&database).await;
    check_counts(&database).await;
}

/// The same without other rules and retention, which leave groups without reports.
#[tokio::test]
async fn a_group_goes_with_its_last_report() {
    let database = Database::new().await;
    let done = random_history(&database, false).await;
    assert!(done.merges > 2 && done.splits > 0 && done.most_groups > 3, "{done:?}");
    for n in 1..=40 {
        delete(&database, n).await;
        check_counts(&database).await;
    }
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 0);
}

/// What happened in a random history.
#[derive(Debug, Default)]
struct History {
    merges: u32,
    splits: u32,
    twice: u64,
    expired: u64,
    regrouped: usize,
    most_groups: i64,
}

/// Two hundred random steps, after each of which all counts are checked.
async fn random_history(database: &Database, with_rules_and_retention: bool) -> History {
    let mut seed = 1_107_u64;
    let mut next = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let (mut done, mut rules) = (History::default(), OtherRules::default());
    // What is older than what retention has removed does not come any more.
    let oldest: Vec<Arrival> = (1..=40).filter(|n| n % 3 == 2).map(of_history).collect();
    database.store(&oldest).await;
    for _ in 0..200 {
        let n = u8::try_from(next(40) + 1).unwrap();
        match next(15) {
            0 => delete(database, n).await,
            1 | 2 => drop(database.store(&[better(n)]).await),
            3 => drop(database.store(&[of_history(n), better(n)]).await),
            4..=6 => {
                let groups = database.rows("SELECT id, merged_into FROM groups ORDER BY id").await;
                let pick = |at: u64| groups.get(usize::try_from(at).unwrap() % groups.len().max(1));
                let (Some(one), Some(other)) = (pick(next(9)), pick(next(9))) else { continue };
                let (one, into): (GroupId, Option<GroupId>) = (one.get(0), one.get(1));
                match into {
                    Some(into) if next(2) == 0 => done.splits += u32::from(split(database, into, one).await),
                    _ => done.merges += u32::from(merge(database, other.get(0), one).await),
                }
            }
            7 => done.twice += count_once(database).await,
            11 => database.fold(3, 2).await,
            8 | 9 if with_rules_and_retention => rules.next_page(database).await,
            10 if with_rules_and_retention => done.expired += expire_one(database).await,
            _ => drop(database.store(&[of_history(n), of_history(n % 40 + 1)]).await),
        }
        check_counts(database).await;
        done.most_groups = done.most_groups.max(database.number("SELECT count(*) FROM groups").await);
    }
    History { regrouped: rules.regrouped, ..done }
}

/// Rules that change, and the pages of reports that move by them.
#[derive(Default)]
struct OtherRules {
    version: u64,
    regrouped: usize,
}

impl OtherRules {
    /// Moves the next page, or sets other rules where all reports were gone through.
    async fn next_page(&mut self, database: &Database) {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        match regroup::next(&mut tx, self.version, 7).await.unwrap() {
            RegroupStep::Page(page) => {
                let regrouped = self.regrouped(database, &page).await;
                assert!(regroup::store_regrouped(&mut tx, &page, &regrouped).await.unwrap());
                self.regrouped += regrouped.len();
            }
            RegroupStep::Wait(_) | RegroupStep::Over => {
                let set =
                    rules::set_rules(&mut tx, "key", &format!("ignore function f{}", self.version)).await;
                self.version = set.unwrap().unwrap().0.version;
            }
        }
        tx.commit().await.unwrap();
    }

    /// The page's reports by these rules: every other version knows two bugs, the others five.
    async fn regrouped(&self, database: &Database, page: &RegroupPage) -> Vec<Regrouped> {
        let bugs = if self.version.is_multiple_of(2) { 2 } else { 5 };
        let rows = database.rows("SELECT report_id, variant, revision FROM reports").await;
        let revision = |(id, variant): &(ReportId, u32)| {
            let is_of = |row: &&sqlx::postgres::PgRow| {
                row.get::<Uuid, _>(0) == id.uuid() && row.get::<i32, _>(1) == i32::try_from(*variant).unwrap()
            };
            rows.iter().find(is_of).map_or(0, |row| u32::try_from(row.get::<i32, _>(2)).unwrap())
        };
        let of = |report: &(ReportId, u32)| Regrouped {
            report_id: report.0,
            variant: report.1,
            revision: revision(report),
            grouping: Some(grouping(report.0.0[0] % bugs, false)),
            terms: Vec::new(),
        };
        page.reports.iter().map(of).collect()
    }
}

/// Lets retention delete the oldest report, of two days ago. It stays counted.
async fn expire_one(database: &Database) -> u64 {
    let before = (start() - Duration::DAY).date();
    remember(database, before).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let gone = retention::expire_reports(&mut tx, before, 1).await.unwrap();
    tx.commit().await.unwrap();
    execute(
        database,
        "DELETE FROM expired_reports e USING reports r WHERE (e.tenant, e.received_at, e.report_id, e.variant)
                                                           = (r.tenant, r.received_at, r.report_id, r.variant)",
    )
    .await;
    gone
}

/// Lets retention drop the tables of all days before the last.
async fn drop_days(database: &Database) {
    let before = start().date();
    remember(database, before).await;
    assert!(partitions::drop_before(&database.store, before).await.unwrap() > 0);
}

/// Keeps a copy of the reports that are about to expire, which [`check_counts`] counts.
async fn remember(database: &Database, before: time::Date) {
    execute(database, COUNTED).await;
    let copy =
        format!("INSERT INTO expired_reports SELECT * FROM reports WHERE received_at < '{before}T00:00:00Z'");
    execute(database, &copy).await;
}

async fn merge(database: &Database, target: GroupId, group: GroupId) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = actions::merge_groups(&mut tx, target, &[group], None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    outcome == MergeOutcome::Done && group != target
}

async fn split(database: &Database, target: GroupId, group: GroupId) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = actions::split_group(&mut tx, target, group, None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    outcome == MergeOutcome::Done
}

/// Stored reports, and those that were counted before retention removed them.
const COUNTED: &str = "CREATE TABLE IF NOT EXISTS expired_reports (LIKE reports);
    CREATE OR REPLACE VIEW counted_reports AS SELECT * FROM reports UNION ALL SELECT * FROM expired_reports";

/// A group, its reports, the first and the last of them, and whether retention has removed some.
type Count = (GroupId, i64, OffsetDateTime, OffsetDateTime, bool);

/// Compares what groups count with what was stored: of their own, with what is merged into them, and by day.
async fn check_counts(database: &Database) {
    execute(database, COUNTED).await;
    let row = |row: &sqlx::postgres::PgRow| -> Count {
        (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))
    };
    let read = async |query: &str| database.rows(query).await.iter().map(row).collect::<Vec<Count>>();
    let counted = |id: &str| {
        format!(
            "SELECT {id}, sum(r.weight)::bigint, min(r.received_at), max(r.received_at), bool_or(s.report_id IS NULL)
             FROM counted_reports r JOIN groups g ON g.id = r.group_id
             LEFT JOIN reports s ON (s.tenant, s.received_at, s.report_id, s.variant)
                                  = (r.tenant, r.received_at, r.report_id, r.variant)
             GROUP BY 1 ORDER BY 1"
        )
    };
    let own = "SELECT id, own_reports, own_first_seen, own_last_seen, false FROM groups
               WHERE own_reports <> 0 ORDER BY 1";
    compare(&read(own).await, &read(&counted("g.id")).await);
    let listed = "SELECT id, reports, first_seen, last_seen, false FROM groups
                  WHERE merged_into IS NULL AND reports <> 0 ORDER BY 1";
    compare(&read(listed).await, &read(&counted("coalesce(g.merged_into, g.id)")).await);
    check_devices(database).await;
    check_apps(database).await;
    let grouped = "SELECT coalesce(sum(weight), 0)::bigint FROM counted_reports WHERE group_id IS NOT NULL";
    let total = "SELECT coalesce(sum(own_reports), 0)::bigint FROM groups";
    assert_eq!(database.number(total).await, database.number(grouped).await);
    // Rules leave groups empty that other rules may fill again.
    let useless = "SELECT count(*) FROM groups g WHERE g.reports <= 0 AND g.merged_into IS NULL
                   AND NOT EXISTS (SELECT FROM groups m WHERE m.merged_into = g.id)
                   AND NOT EXISTS (SELECT FROM grouping_rules)";
    assert_eq!(database.number(useless).await, 0);
    // Where retention has removed all other reports, the group's kind is its title.
    let unfound = "SELECT count(*) FROM groups g WHERE g.own_reports > 0 AND g.title <> g.kind AND NOT EXISTS (
                       SELECT FROM group_terms t WHERE t.group_id = g.id AND position(g.title IN t.terms) > 0)";
    assert_eq!(database.number(unfound).await, 0);
    let standing =
        "SELECT coalesce(sum(weight - 1), 0)::bigint FROM counted_reports WHERE group_id IS NOT NULL";
    let extrapolated = "SELECT coalesce(sum(own_extrapolated), 0)::bigint FROM groups";
    assert_eq!(database.number(extrapolated).await, database.number(standing).await);
    let redirected = "SELECT count(*) FROM group_redirects r JOIN groups g ON g.id = r.id";
    assert_eq!(database.number(redirected).await, 0);
    let chains =
        "SELECT count(*) FROM groups g JOIN groups t ON t.id = g.merged_into WHERE t.merged_into IS NOT NULL";
    assert_eq!(database.number(chains).await, 0);
}

/// What retention has removed stays first seen. It may have been last seen: what was known of that stays, too.
fn compare(groups: &[Count], counted: &[Count]) {
    let without_last =
        |counts: &[Count]| -> Vec<_> { counts.iter().map(|one| (one.0, one.1, one.2)).collect() };
    assert_eq!(without_last(groups), without_last(counted));
    for (group, counted) in groups.iter().zip(counted) {
        assert!(group.3 == counted.3 || (counted.4 && group.3 > counted.3), "{group:?}, {counted:?}");
    }
}

/// The same of apps, versions and days: reports, crashes, frames and status, and devices, each on one day.
async fn check_apps(database: &Database) {
    let read = async |query: &str| {
        let rows = database.rows(query).await;
        rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>()
    };
    let day = "(received_at AT TIME ZONE 'UTC')::date";
    let survived = "type IN ('hang', 'out_of_memory') OR coalesce(summary -> 'fatal' = 'false', false)";
    let counted = format!(
        "SELECT concat_ws(' ', app, version, {day}, sum(weight), count(*) FILTER (WHERE NOT ({survived})),
                          sum(frames_total * weight), sum(frames_symbolicated * weight), sum(frames_own * weight),
                          sum(frames_own_symbolicated * weight),
                          coalesce(sum(weight) FILTER (WHERE status = 'complete'), 0),
                          coalesce(sum(weight) FILTER (WHERE status = 'partial'), 0),
                          coalesce(sum(weight) FILTER (WHERE status = 'none'), 0), sum(weight - 1))
         FROM counted_reports WHERE same_crash_as IS NULL GROUP BY app, version, {day} ORDER BY 1"
    );
    let days = "SELECT concat_ws(' ', app, version, day, reports, fatal, frames_total, frames_symbolicated,
                                 frames_own, frames_own_symbolicated, complete, partial, none, extrapolated)
                FROM app_days WHERE (reports, fatal, frames_total, frames_symbolicated, complete, partial, none)
                                    <> (0, 0, 0, 0, 0, 0, 0) ORDER BY 1";
    assert_eq!(read(days).await, read(&counted).await);
    let hour = "date_trunc('hour', received_at, 'UTC')";
    let counted = format!(
        "SELECT concat_ws(' ', app, version, {hour}, sum(weight), count(*) FILTER (WHERE NOT ({survived})))
         FROM counted_reports WHERE same_crash_as IS NULL GROUP BY app, version, {hour} ORDER BY 1"
    );
    let hours = "SELECT concat_ws(' ', app, version, hour, reports, fatal) FROM app_hours ORDER BY 1";
    assert_eq!(read(hours).await, read(&counted).await);
    let devices = "SELECT concat_ws(' ', app, version, encode(device, 'hex'), count(*)) FROM counted_reports
                   WHERE same_crash_as IS NULL AND device IS NOT NULL GROUP BY app, version, device ORDER BY 1";
    let rows =
        "SELECT concat_ws(' ', app, version, encode(device, 'hex'), reports) FROM app_devices ORDER BY 1";
    assert_eq!(read(rows).await, read(devices).await);
    let first_days = "SELECT concat_ws(' ', app, version, day, count(*)) FROM app_devices
                      GROUP BY app, version, day ORDER BY 1";
    let days =
        "SELECT concat_ws(' ', app, version, day, devices) FROM app_days WHERE devices <> 0 ORDER BY 1";
    assert_eq!(read(days).await, read(first_days).await);
}

/// The same of the devices that groups have, and of the models and OS versions of their reports.
async fn check_devices(database: &Database) {
    let row =
        |row: &sqlx::postgres::PgRow| -> (GroupId, String, i64) { (row.get(0), row.get(1), row.get(2)) };
    let read = async |query: &str| {
        let mut rows: Vec<_> = database.rows(query).await.iter().map(row).collect();
        rows.sort_unstable();
        rows
    };
    let of_reports = "FROM counted_reports r JOIN groups g ON g.id = r.group_id";
    let counted =
        |value: &str| format!("SELECT g.id, {value}, sum(r.weight)::bigint {of_reports} GROUP BY 1, 2");
    let by_dimension = |dimension: &str| {
        format!(
            "SELECT group_id, value || ' ' || day, sum(reports)::bigint FROM group_breakdown_counts
             WHERE dimension = '{dimension}' GROUP BY 1, 2"
        )
    };
    let day = "(r.received_at AT TIME ZONE 'UTC')::date";
    let by_day = "SELECT group_id, day::text, sum(reports)::bigint FROM group_day_counts GROUP BY 1, 2";
    assert_eq!(read(by_day).await, read(&counted(&format!("{day}::text"))).await);
    let version = format!("r.version || ' ' || {day}");
    assert_eq!(read(&by_dimension("version")).await, read(&counted(&version)).await);
    let model = format!("coalesce(r.model, '') || ' ' || {day}");
    assert_eq!(read(&by_dimension("model")).await, read(&counted(&model)).await);
    let os = format!("concat_ws(' ', r.os_name, r.os_version) || ' ' || {day}");
    assert_eq!(read(&by_dimension("os_version")).await, read(&counted(&os)).await);
    let rows = "SELECT group_id, encode(device, 'hex'), reports FROM group_devices";
    let device = format!("{of_reports} WHERE r.device IS NOT NULL GROUP BY 1, 2");
    let device = format!("SELECT g.id, encode(r.device, 'hex'), count(*) {device}");
    assert_eq!(read(rows).await, read(&device).await);
    let distinct = |id: &str| format!("SELECT {id}, '', count(DISTINCT r.device) {of_reports} GROUP BY 1");
    let own = "SELECT id, '', own_devices FROM groups WHERE own_reports <> 0";
    assert_eq!(read(own).await, read(&distinct("g.id")).await);
    let listed = "SELECT id, '', devices FROM groups WHERE merged_into IS NULL AND reports <> 0";
    assert_eq!(read(listed).await, read(&distinct("coalesce(g.merged_into, g.id)")).await);
    let empty = "SELECT count(*) FROM groups WHERE own_reports = 0 AND own_devices <> 0";
    assert_eq!(database.number(empty).await, 0);
}
