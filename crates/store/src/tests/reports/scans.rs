//! Lists by conditions that no index decides, a page at a time.

use crate::cursor::ReportCursor;
use crate::groups::id_of;
use crate::history::{begin_move, finish_move};
use crate::queries::reports::{ReportFilter, ScanBudget, list_within};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, arrival, debug_id, execute, grouping, image, start};
use crate::tests::history::create_history;
use crate::{GroupId, Uuid};
use sqlx::{FromRow, Row};
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId};

/// More groups than are looked up one by one.
const REPORTS: u64 = 700;
const GROUPS: u64 = 530;
/// Filters of a run; `UNSLIDE_TEST_FILTERS=4000` tries more, and `UNSLIDE_TEST_FILTERS_SEED` others.
const FILTERS: u64 = 400;
const SEED: u64 = 20_261_128;
/// Days before the last ones on which some reports arrived.
const DAYS: u64 = 30;
const KEY_VALUES: [&str; 3] = ["pro", "free", "pro, trial"];

/// Numbers that look random and are the same in each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `bound`.
    fn draw(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Returns a value in one of `chances` cases.
    fn sometimes<T>(&mut self, chances: u64, value: impl FnOnce(&mut Numbers) -> T) -> Option<T> {
        (self.draw(chances) == 0).then(|| value(self))
    }
}

/// A report, many of which arrived at the same moment.
fn draw_arrival(numbers: &mut Numbers, n: u64) -> Arrival {
    let mut one = arrival(0);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&numbers.draw(u64::MAX).to_be_bytes());
    id[8..].copy_from_slice(&n.to_be_bytes());
    one.report_id = ReportId(id);
    one.content_hash = ContentHash([id, id].concat().try_into().unwrap());
    one.received_at = start() - time::Duration::hours(numbers.draw(90).cast_signed());
    one.received_at -= time::Duration::seconds((numbers.draw(4) * numbers.draw(900)).cast_signed());
    if numbers.draw(3) == 0 {
        one.received_at -= time::Duration::days(numbers.draw(DAYS).cast_signed());
    }
    let facts = &mut one.facts;
    facts.app = format!("app-{}", numbers.draw(3));
    facts.version = format!("1.{}", numbers.draw(3));
    facts.build = numbers.draw(5).to_string();
    facts.kind = ["mach", "nsexception", "hang"][usize::try_from(numbers.draw(3)).unwrap()].into();
    facts.status = ["complete", "partial", "none"][usize::try_from(numbers.draw(3)).unwrap()].into();
    facts.model = numbers.sometimes(2, |numbers| format!("iPhone{},1", numbers.draw(9)));
    facts.os_name = numbers.sometimes(2, |_| "iOS".into());
    facts.os_version = numbers.sometimes(2, |numbers| format!("18.{}", numbers.draw(3)));
    facts.summary = serde_json::json!({"fatal": numbers.draw(2) == 0});
    facts.context =
        serde_json::json!({"keys": {"plan": KEY_VALUES[usize::try_from(numbers.draw(3)).unwrap()]}});
    let group = numbers.draw(GROUPS);
    let mut grouping = grouping(0, true);
    grouping.fingerprint[..8].copy_from_slice(&group.to_be_bytes());
    grouping.title = format!("bug {group}");
    facts.grouping = Some(grouping);
    let images = [image(1, false, None), image(2, false, Some(1)), image(200, true, None)];
    one.images = images.into_iter().filter(|_| numbers.draw(3) > 0).collect();
    one
}

fn draw_filter(numbers: &mut Numbers, arrivals: &[Arrival], stored: &[StoredRow]) -> ReportFilter {
    let text = |prefix: &str, number: u64| format!("{prefix}{number}");
    // Values of a report, so that conditions meet, or of none.
    let one = &arrivals[usize::try_from(numbers.draw(arrivals.len() as u64)).unwrap()];
    let time = |numbers: &mut Numbers| {
        let any = &arrivals[usize::try_from(numbers.draw(arrivals.len() as u64)).unwrap()];
        any.received_at
    };
    ReportFilter {
        app: numbers.sometimes(3, |numbers| text("app-", numbers.draw(4))),
        version: numbers.sometimes(3, |numbers| text("1.", numbers.draw(4))),
        build: numbers.sometimes(5, |_| one.facts.build.clone()),
        from: numbers.sometimes(4, time),
        to: numbers.sometimes(4, time),
        kind: numbers.sometimes(4, |_| one.facts.kind.clone()),
        status: numbers.sometimes(4, |_| one.facts.status.clone()),
        fatal: numbers.sometimes(5, |numbers| numbers.draw(2) == 0),
        counted: numbers.sometimes(6, |numbers| numbers.draw(4) > 0),
        symbols_missing: numbers.sometimes(5, |numbers| numbers.draw(2) == 0),
        model: numbers.sometimes(4, |_| one.facts.model.clone().unwrap_or_default()),
        os_version: numbers.sometimes(4, |_| name_system(one)),
        debug_id: numbers
            .sometimes(6, |numbers| debug_id([1, 2, 200, 77][usize::try_from(numbers.draw(4)).unwrap()])),
        group: numbers.sometimes(6, |numbers| match numbers.draw(3) {
            // A target with what is merged into it.
            0 => {
                let targets: Vec<GroupId> = stored.iter().filter_map(|one| one.target).collect();
                targets[usize::try_from(numbers.draw(targets.len() as u64)).unwrap()]
            }
            _ => group_of(one),
        }),
        same_crash_as: numbers.sometimes(20, |_| {
            let other = stored.iter().find_map(|one| one.same_crash_as).unwrap();
            ReportId(other.into_bytes())
        }),
        key: numbers.sometimes(8, |numbers| {
            let value = ["pro", "trial", "free", "pro, trial"][usize::try_from(numbers.draw(4)).unwrap()];
            ("plan".to_owned(), value.to_owned())
        }),
        text: numbers.sometimes(4, |numbers| match numbers.draw(4) {
            0 => "bug".into(),
            1 => text("bug ", numbers.draw(10)),
            2 => text("bug ", numbers.draw(GROUPS)),
            _ => "no such bug".into(),
        }),
    }
}

fn name_system(one: &Arrival) -> String {
    let words = [one.facts.os_name.as_deref(), one.facts.os_version.as_deref()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn group_of(one: &Arrival) -> crate::GroupId {
    id_of(&one.facts.app, one.facts.grouping.as_ref().unwrap().fingerprint)
}

/// A stored report as its row has it, with what other tables say of it.
#[derive(sqlx::FromRow)]
struct StoredRow {
    report_id: Uuid,
    received_at: OffsetDateTime,
    app: String,
    version: String,
    build: String,
    #[sqlx(rename = "type")]
    kind: String,
    status: String,
    fatal: bool,
    symbols_missing: bool,
    model: Option<String>,
    os_name: Option<String>,
    os_version: Option<String>,
    group_id: Option<GroupId>,
    same_crash_as: Option<Uuid>,
    context: serde_json::Value,
    system_images: Vec<Uuid>,
    /// The images of its app.
    #[sqlx(skip)]
    images: Vec<Uuid>,
    /// Title of its group, and the group that this one is merged into.
    #[sqlx(skip)]
    title: String,
    #[sqlx(skip)]
    target: Option<GroupId>,
}

impl StoredRow {
    /// Reads all reports, the newest first.
    async fn list_all(database: &Database) -> Vec<StoredRow> {
        let rows = database.rows("SELECT * FROM reports").await;
        let mut stored: Vec<StoredRow> = rows.iter().map(|row| StoredRow::from_row(row).unwrap()).collect();
        let waits = database.rows("SELECT report_id, debug_id FROM waits").await;
        let waits: Vec<(Uuid, Uuid)> = waits.iter().map(|row| (row.get(0), row.get(1))).collect();
        let groups = database.rows("SELECT id, title, merged_into FROM groups").await;
        for one in &mut stored {
            one.images = waits.iter().filter(|wait| wait.0 == one.report_id).map(|wait| wait.1).collect();
            if let Some(group) = groups.iter().find(|row| Some(row.get::<GroupId, _>(0)) == one.group_id) {
                (one.title, one.target) = (group.get(1), group.get(2));
            }
        }
        stored.sort_by_key(|one| std::cmp::Reverse((one.received_at, one.report_id)));
        stored
    }

    /// Decides by the row itself, without a database.
    fn matches(&self, filter: &ReportFilter) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let os_version = self.os_version.as_deref().unwrap_or_default();
        let system = [self.os_name.as_deref(), self.os_version.as_deref()];
        let system = system.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let has_image = |id: Uuid| self.images.contains(&id) || self.system_images.contains(&id);
        is(&filter.app, &self.app)
            && is(&filter.version, &self.version)
            && is(&filter.build, &self.build)
            && is(&filter.kind, &self.kind)
            && is(&filter.status, &self.status)
            && is(&filter.model, self.model.as_deref().unwrap_or_default())
            && (is(&filter.os_version, &system)
                || self.os_version.is_some() && is(&filter.os_version, os_version))
            && filter.from.is_none_or(|from| self.received_at >= from)
            && filter.to.is_none_or(|to| self.received_at < to)
            && filter.fatal.is_none_or(|fatal| fatal == self.fatal)
            && filter.counted.is_none_or(|counted| counted == self.same_crash_as.is_none())
            && filter.symbols_missing.is_none_or(|missing| missing == self.symbols_missing)
            && filter.debug_id.is_none_or(|id| has_image(id.uuid()))
            && filter.group.is_none_or(|group| [self.group_id, self.target].contains(&Some(group)))
            && filter.same_crash_as.is_none_or(|other| self.same_crash_as == Some(other.uuid()))
            && filter.key.as_ref().is_none_or(|(name, value)| {
                let stored = self.context["keys"][name].as_str();
                stored.is_some_and(|stored| stored == value || stored.split(", ").any(|one| one == value))
            })
            && filter
                .text
                .as_ref()
                .is_none_or(|text| self.group_id.is_some() && self.title.contains(text.as_str()))
    }
}

/// What jobs and people do to stored reports: groups are merged, and reports are not counted any more. Counts of days say more than
/// there is, as they do of sampled reports.
const CHANGES: &str = "
    UPDATE groups g SET merged_into = t.target
    FROM (SELECT id, first_value(id) OVER (PARTITION BY app ORDER BY id) AS target, row_number() OVER (PARTITION BY app ORDER BY id) AS n
          FROM groups) t
    WHERE t.id = g.id AND t.n BETWEEN 2 AND 9;
    UPDATE reports r SET same_crash_as = o.report_id, group_id = NULL
    FROM (SELECT report_id, row_number() OVER (ORDER BY report_id) AS n FROM reports) n,
         (SELECT report_id FROM reports ORDER BY report_id LIMIT 1) o
    WHERE n.report_id = r.report_id AND n.n % 11 = 5;
    UPDATE app_days SET reports = 7 * reports WHERE version = '1.1';
    UPDATE group_deltas SET reports = 7 * reports WHERE version = '1.1'";

/// Reads a list page by page, through the texts of the cursors. Returns true with the reports if these are all.
async fn read_pages(
    database: &Database,
    filter: &ReportFilter,
    limit: u32,
    budget: ScanBudget,
    pages: usize,
) -> (Vec<ReportId>, bool) {
    let (mut found, mut after): (Vec<ReportId>, Option<ReportCursor>) = (Vec::new(), None);
    let mut reached: Option<OffsetDateTime> = None;
    for _ in 0..pages {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = list_within(&mut tx, filter, after.as_ref(), limit, budget).await.unwrap();
        if let Some(to) = page.searched_to {
            assert!(page.next.is_some() && page.reports.len() <= limit as usize, "{filter:?}");
            assert!(reached.is_none_or(|before| to < before), "{filter:?}: a page searches further back");
            assert!(page.reports.iter().all(|report| report.received_at >= to), "{filter:?}");
            reached = Some(to);
        } else {
            assert!(
                page.next.is_none() || page.reports.len() == limit as usize,
                "{filter:?}: a page is full"
            );
        }
        found.extend(page.reports.iter().map(|report| report.report_id));
        after = page.next.map(|cursor| cursor.to_string().parse().unwrap());
        if after.is_none() {
            return (found, true);
        }
    }
    (found, false)
}

/// Reports, and what one plain look says of them.
struct Filled {
    numbers: Numbers,
    arrivals: Vec<Arrival>,
    stored: Vec<StoredRow>,
}

impl Filled {
    async fn fill(database: &Database) -> Filled {
        let seed = std::env::var("UNSLIDE_TEST_FILTERS_SEED").map_or(SEED, |text| text.parse().unwrap());
        let mut numbers = Numbers(seed);
        let arrivals: Vec<Arrival> = (0..REPORTS).map(|n| draw_arrival(&mut numbers, n)).collect();
        let day = start().date();
        let first = day - time::Duration::days(DAYS.cast_signed() + 5);
        crate::partitions::ensure_partitions(&database.store, first, day).await.unwrap();
        for batch in arrivals.chunks(100) {
            database.store(batch).await;
        }
        execute(database, CHANGES).await;
        let stored = StoredRow::list_all(database).await;
        Filled { numbers, arrivals, stored }
    }

    /// Compares lists by random filters with the plain look, in pages of one of these sizes, up to a number of pages.
    async fn check_filters(&mut self, database: &Database, sizes: &[u32], pages: usize) {
        let Filled { numbers, arrivals, stored } = self;
        let filters = std::env::var("UNSLIDE_TEST_FILTERS").map_or(FILTERS, |text| text.parse().unwrap());
        let (mut met, mut early) = (0, 0);
        for _ in 0..filters {
            let filter = draw_filter(numbers, arrivals, stored);
            let wanted = stored.iter().filter(|one| one.matches(&filter));
            let mut wanted: Vec<_> = wanted.map(|one| ReportId(one.report_id.into_bytes())).collect();
            met += usize::from(!wanted.is_empty());
            let limit = sizes[usize::try_from(numbers.draw(sizes.len() as u64)).unwrap()];
            let first_rows = usize::try_from(numbers.draw(200)).unwrap() + 1;
            let timeout = if numbers.draw(3) == 0 { Duration::MAX } else { Duration::ZERO };
            early += usize::from(timeout.is_zero());
            let budget = ScanBudget { first_rows, timeout };
            let (found, is_all) = read_pages(database, &filter, limit, budget, pages).await;
            if !is_all {
                wanted.truncate(found.len());
            }
            assert_eq!(found, wanted, "{filter:?} in pages of {limit} with steps of {first_rows} rows");
        }
        assert!(
            met * 4 > usize::try_from(filters).unwrap() && early > 0,
            "{met} of {filters} filters match reports"
        );
    }
}

#[tokio::test]
async fn random_filters_give_page_by_page_what_one_plain_scan_gives() {
    let database = Database::new().await;
    let mut filled = Filled::fill(&database).await;
    filled.check_filters(&database, &[1, 7, 50, 500], usize::MAX).await;
}

/// Pages that are read with rows in ClickHouse.
const MOVED_PAGES: usize = 6;

#[tokio::test]
async fn random_filters_give_the_same_with_half_of_the_rows_in_clickhouse() {
    let mut database = Database::new().await;
    let history = create_history().await;
    database.store = database.store.clone().with_history(Some(history.clone()));
    let mut filled = Filled::fill(&database).await;
    // As if all bodies were in segments.
    execute(&database, "DELETE FROM report_bodies").await;
    let (mut moved, mut unfinished) = (0, 0);
    for days in 0..DAYS.cast_signed() + 5 {
        let day = start().date() - time::Duration::days(days);
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let begun = begin_move(&mut tx, day, start() + time::Duration::days(9), 70, 1 << 24).await.unwrap();
        tx.commit().await.unwrap();
        let Some(begun) = begun else { continue };
        history.insert(&acme(), begun.token, &begun.to_history_rows()).await.unwrap();
        // Of a process that died its rows are in both.
        if days % 5 == 4 {
            unfinished += begun.rows.len();
            continue;
        }
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        moved += finish_move(&mut tx, &begun).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }
    assert!(moved > REPORTS / 4 && unfinished > 0, "{moved} moved, {unfinished} in both");
    assert!(database.number("SELECT count(*) FROM reports").await > 100);
    filled.check_filters(&database, &[7, 50, 500], MOVED_PAGES).await;
}

/// A filter that no index decides, in a tenant with many reports.
#[tokio::test]
async fn a_page_that_takes_long_says_how_far_it_searched_and_the_next_goes_on() {
    let database = Database::new().await;
    let arrivals: Vec<Arrival> = (1..=60).map(arrival).collect();
    database.store(&arrivals).await;
    let filter = ReportFilter { model: Some("iPhone1,1".into()), ..ReportFilter::default() };
    let wanted: Vec<_> = arrivals
        .iter()
        .rev()
        .filter(|one| one.facts.model == filter.model)
        .map(|one| one.report_id)
        .collect();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let budget = ScanBudget { first_rows: 9, timeout: Duration::ZERO };
    let page = list_within(&mut tx, &filter, None, 100, budget).await.unwrap();
    // The newest report is number 60: the tenth has number 51.
    assert_eq!(page.searched_to, Some(arrivals[50].received_at));
    let ids: Vec<_> = page.reports.iter().map(|report| report.report_id).collect();
    assert_eq!(ids, wanted[..ids.len()]);
    assert!(!ids.is_empty() && ids.len() < wanted.len());
    let budget = ScanBudget { timeout: Duration::MAX, ..budget };
    let rest = list_within(&mut tx, &filter, page.next.as_ref(), 100, budget).await.unwrap();
    assert_eq!((rest.next, rest.searched_to), (None, None));
    assert_eq!(rest.reports.iter().map(|report| report.report_id).collect::<Vec<_>>(), wanted[ids.len()..]);
}
