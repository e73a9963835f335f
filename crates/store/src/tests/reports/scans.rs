//! Lists by conditions that no index decides, a page at a time.

use crate::cursor::ReportCursor;
use crate::groups::id_of;
use crate::queries::reports::{ReportFilter, ScanBudget, list_within};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, arrival, debug_id, grouping, image, start};
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId};

/// More groups than are looked up one by one.
const REPORTS: u64 = 700;
const GROUPS: u64 = 530;
/// Filters of a run; `UNSLIDE_TEST_FILTERS=4000` tries more.
const FILTERS: u64 = 300;

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
    let group = numbers.draw(GROUPS);
    let mut grouping = grouping(0, true);
    grouping.fingerprint[..8].copy_from_slice(&group.to_be_bytes());
    grouping.title = format!("bug {group}");
    facts.grouping = Some(grouping);
    let images = [image(1, false, None), image(2, false, Some(1)), image(200, true, None)];
    one.images = images.into_iter().filter(|_| numbers.draw(3) > 0).collect();
    one
}

fn draw_filter(numbers: &mut Numbers, arrivals: &[Arrival]) -> ReportFilter {
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
        group: numbers.sometimes(6, |_| group_of(one)),
        same_crash_as: None,
        key: None,
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

/// Decides by the report itself, without a database.
fn matches(filter: &ReportFilter, one: &Arrival) -> bool {
    let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
    let facts = &one.facts;
    let is_missing = one.images.iter().any(|image| !image.system && !image.found);
    let title = &facts.grouping.as_ref().unwrap().title;
    is(&filter.app, &facts.app)
        && is(&filter.version, &facts.version)
        && is(&filter.build, &facts.build)
        && is(&filter.kind, &facts.kind)
        && is(&filter.status, &facts.status)
        && is(&filter.model, facts.model.as_deref().unwrap_or_default())
        && (is(&filter.os_version, &name_system(one))
            || filter.os_version.is_some() && filter.os_version == facts.os_version)
        && filter.from.is_none_or(|from| one.received_at >= from)
        && filter.to.is_none_or(|to| one.received_at < to)
        && filter.fatal.is_none_or(|fatal| fatal == facts.is_fatal())
        && filter.counted != Some(false)
        && filter.symbols_missing.is_none_or(|missing| missing == is_missing)
        && filter.debug_id.is_none_or(|id| one.images.iter().any(|image| image.debug_id == id))
        && filter.group.is_none_or(|group| group == group_of(one))
        && filter.text.as_ref().is_none_or(|text| title.contains(text.as_str()))
}

/// Reads a list page by page, through the texts of the cursors.
async fn read_pages(
    database: &Database,
    filter: &ReportFilter,
    limit: u32,
    budget: ScanBudget,
) -> Vec<ReportId> {
    let (mut found, mut after): (Vec<ReportId>, Option<ReportCursor>) = (Vec::new(), None);
    let mut reached: Option<OffsetDateTime> = None;
    loop {
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
            return found;
        }
    }
}

#[tokio::test]
async fn random_filters_give_page_by_page_what_one_plain_scan_gives() {
    let database = Database::new().await;
    let mut numbers = Numbers(20_261_128);
    let mut arrivals: Vec<Arrival> = (0..REPORTS).map(|n| draw_arrival(&mut numbers, n)).collect();
    let day = start().date();
    crate::partitions::ensure_partitions(&database.store, day - time::Duration::days(5), day).await.unwrap();
    for batch in arrivals.chunks(100) {
        database.store(batch).await;
    }
    arrivals.sort_by_key(|one| std::cmp::Reverse((one.received_at, one.report_id)));
    let filters = std::env::var("UNSLIDE_TEST_FILTERS").map_or(FILTERS, |text| text.parse().unwrap());
    let (mut met, mut early) = (0, 0);
    for _ in 0..filters {
        let filter = draw_filter(&mut numbers, &arrivals);
        let wanted: Vec<_> =
            arrivals.iter().filter(|one| matches(&filter, one)).map(|one| one.report_id).collect();
        met += usize::from(!wanted.is_empty());
        let limit = [1, 7, 50, 500][usize::try_from(numbers.draw(4)).unwrap()];
        let first_rows = usize::try_from(numbers.draw(200)).unwrap() + 1;
        let timeout = if numbers.draw(3) == 0 { Duration::MAX } else { Duration::ZERO };
        early += usize::from(timeout.is_zero());
        let found = read_pages(&database, &filter, limit, ScanBudget { first_rows, timeout }).await;
        assert_eq!(found, wanted, "{filter:?} in pages of {limit} with steps of {first_rows} rows");
    }
    assert!(
        met * 4 > usize::try_from(filters).unwrap() && early > 0,
        "{met} of {filters} filters match reports"
    );
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
