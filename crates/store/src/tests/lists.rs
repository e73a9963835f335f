//! What dashboards ask.

use super::database::{Database, acme, arrival, debug_id, image, publish, revised, start};
use crate::cursor::ReportCursor;
use crate::queries::reports::{Filter, Listed, explain, list};
use crate::queries::{apps, missing, versions};
use crate::reports::Arrival;
use sqlx::Row;
use time::Duration;
use unslide_model::Quality;

fn varied() -> Vec<Arrival> {
    (1..=60)
        .map(|n| {
            let mut one = arrival(n);
            one.facts.app = if n % 3 == 0 { "com.acme.bank" } else { "com.acme.shop" }.into();
            one.facts.version = format!("1.{}", n % 2);
            one.facts.build = format!("{}", n % 5);
            one.facts.kind = if n % 4 == 0 { "nsexception" } else { "mach" }.into();
            one.facts.status = ["complete", "partial", "none"][usize::from(n % 3)].into();
            // Several at the same moment, over three days.
            one.received_at =
                start() - Duration::days(i64::from(n % 3)) + Duration::seconds(i64::from(n / 6));
            one.images = vec![image(n % 2 + 1, false, None), image(200, true, None)];
            one
        })
        .collect()
}

async fn all(database: &Database, filter: &Filter, page: u32) -> Vec<Listed> {
    let (mut found, mut after): (Vec<Listed>, Option<ReportCursor>) = (Vec::new(), None);
    loop {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = list(&mut tx, filter, after.as_ref(), page).await.unwrap();
        found.extend(page.reports);
        // Through its text, as a client would hand it back.
        after = page.next.map(|cursor| ReportCursor::read(&cursor.write()).unwrap());
        if after.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn every_filter_alone_and_together_in_pages_gives_what_a_scan_gives() {
    let database = Database::new().await;
    let mut arrivals = varied();
    for (n, one) in arrivals.iter_mut().enumerate() {
        // Some reports say of a system image that it is their app's.
        one.images.push(image(201, n % 7 != 0, None));
    }
    database.store(&arrivals).await;
    let text = |s: &str| Some(s.to_owned());
    let filters = [
        Filter::default(),
        Filter { app: text("com.acme.shop"), ..Filter::default() },
        Filter { version: text("1.1"), ..Filter::default() },
        Filter { app: text("com.acme.bank"), version: text("1.0"), build: text("2"), ..Filter::default() },
        Filter { kind: text("nsexception"), status: text("partial"), ..Filter::default() },
        Filter { from: Some(start()), ..Filter::default() },
        Filter { from: Some(start() - Duration::DAY), to: Some(start()), ..Filter::default() },
        Filter { debug_id: Some(debug_id(1)), ..Filter::default() },
        Filter {
            debug_id: Some(debug_id(2)),
            app: text("com.acme.shop"),
            to: Some(start()),
            ..Filter::default()
        },
        Filter { debug_id: Some(debug_id(200)), ..Filter::default() },
        Filter { debug_id: Some(debug_id(201)), ..Filter::default() },
        Filter { debug_id: Some(debug_id(201)), build: text("3"), to: Some(start()), ..Filter::default() },
        Filter { debug_id: Some(debug_id(77)), ..Filter::default() },
        Filter { app: text("com.acme.shop' OR true --\0"), ..Filter::default() },
    ];
    for filter in &filters {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|w| w == value);
        let mut wanted: Vec<&Arrival> = arrivals
            .iter()
            .filter(|a| {
                is(&filter.app, &a.facts.app)
                    && is(&filter.version, &a.facts.version)
                    && is(&filter.build, &a.facts.build)
                    && is(&filter.kind, &a.facts.kind)
                    && is(&filter.status, &a.facts.status)
                    && filter.from.is_none_or(|from| a.received_at >= from)
                    && filter.to.is_none_or(|to| a.received_at < to)
                    && filter.debug_id.is_none_or(|id| a.images.iter().any(|i| i.debug_id == id))
            })
            .collect();
        wanted.sort_by_key(|a| std::cmp::Reverse((a.received_at, a.report_id)));
        let wanted: Vec<_> = wanted.iter().map(|a| a.report_id).collect();
        for page in [1, 7, 100] {
            let found: Vec<_> = all(&database, filter, page).await.iter().map(|r| r.report_id).collect();
            assert_eq!(found, wanted, "{filter:?} in pages of {page}");
        }
    }
}

#[tokio::test]
async fn a_list_by_app_and_version_reads_an_index_in_order_and_stops() {
    let database = Database::new().await;
    database.store(&varied()).await;
    // As the service, under the policies; with little data only the dearer ways are switched off.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (connection, ..) = tx.parts();
    for way in ["enable_seqscan", "enable_bitmapscan", "enable_sort"] {
        let off = format!("SET LOCAL {way} = off");
        sqlx::query(sqlx::AssertSqlSafe(off)).execute(&mut *connection).await.unwrap();
    }
    let plan = sqlx::query(
        "EXPLAIN (COSTS off) SELECT report_id FROM reports r
         WHERE r.tenant = 'acme' AND r.app = 'com.acme.shop' AND r.version = '1.1'
         ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT 50",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(!plan.contains("Sort"), "{plan}");
    let condition =
        "Index Cond: ((tenant = 'acme'::text) AND (app = 'com.acme.shop'::text) AND (version = '1.1'::text))";
    assert!(plan.contains(condition), "{plan}");
    let indexes = database
        .number("SELECT count(*) FROM pg_indexes WHERE indexname IN ('reports_app', 'reports_version', 'waits_report')")
        .await;
    assert_eq!(indexes, 3);
}

#[tokio::test]
async fn of_a_system_image_only_the_days_that_have_it_are_read() {
    let database = Database::new().await;
    let mut arrivals = varied();
    for one in &mut arrivals {
        // The newest and the oldest day have it, and the one between has not.
        if one.received_at.date() == (start() - Duration::DAY).date() {
            one.images.retain(|image| image.debug_id != debug_id(200));
        }
    }
    database.store(&arrivals).await;
    let filter = Filter { debug_id: Some(debug_id(200)), ..Filter::default() };
    assert_eq!(all(&database, &filter, 100).await.len(), 40);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let mut plan = explain(&mut tx, &filter).await.unwrap();
    plan.retain(|line| line.contains(" on reports_"));
    assert_eq!(plan.len(), 2, "{plan:?}");
}

#[tokio::test]
async fn apps_versions_and_missing_symbols_are_counted() {
    let database = Database::new().await;
    let arrivals = varied();
    database.store(&arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let listed = apps::list(&mut tx).await.unwrap();
    assert_eq!(listed.iter().map(|a| a.app.as_str()).collect::<Vec<_>>(), ["com.acme.bank", "com.acme.shop"]);
    assert_eq!(listed.iter().map(|a| (a.reports, a.versions)).collect::<Vec<_>>(), [(20, 2), (40, 2)]);
    assert_eq!(listed[1].last_day, start().date() - Duration::DAY);
    let versions_listed = versions::list(&mut tx, "com.acme.shop").await.unwrap();
    for version in &versions_listed {
        let of: Vec<&Arrival> = arrivals
            .iter()
            .filter(|a| a.facts.app == "com.acme.shop" && a.facts.version == version.version)
            .collect();
        let devices: std::collections::BTreeSet<_> = of.iter().map(|a| &a.facts.device).collect();
        assert_eq!((version.reports, version.devices), (of.len() as i64, devices.len() as i64));
        assert_eq!(version.share_symbolicated(), Some(0.4));
        assert_eq!(version.missing.len(), 1, "its own image, not the system's: {:?}", version.missing);
        assert_eq!(version.missing[0].reports, of.len() as i64);
    }
    assert!(versions::list(&mut tx, "com.acme.none").await.unwrap().is_empty());
    let with_system = missing::list(&mut tx, None, None, true, 10).await.unwrap();
    assert_eq!((with_system.len(), with_system[0].system, with_system[0].image.reports), (3, true, 60));
    assert_eq!(with_system[0].apps, ["com.acme.bank", "com.acme.shop"]);
    let own = missing::list(&mut tx, Some("com.acme.shop"), Some("1.1"), false, 10).await.unwrap();
    assert_eq!(own.iter().map(|m| m.image.debug_id).collect::<Vec<_>>(), [debug_id(2)]);
    drop(tx);
    publish(&database, 2, Quality::Symtab).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let left = missing::list(&mut tx, None, None, false, 10).await.unwrap();
    assert_eq!(left.iter().map(|m| m.image.debug_id).collect::<Vec<_>>(), [debug_id(1)]);
    // A revision that found them changes no count of reports.
    let better = revised(&arrivals[0], 2, image(2, false, Some(1)));
    drop(tx);
    database.store(&[better]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(apps::list(&mut tx).await.unwrap()[1].reports, 40);
}

#[tokio::test]
async fn what_a_missing_image_is_does_not_depend_on_which_report_came_first() {
    let database = Database::new().await;
    let said = |n: u8, system: bool, name: &str| {
        let mut one = arrival(n);
        one.facts.version = format!("{}", n / 10);
        one.images = vec![image(1, system, None)];
        one.images[0].name = name.into();
        one
    };
    // Each order one by one, and both orders at once.
    let (shop, library, other) = ((false, "Shop"), (true, "A.dylib"), (false, "Bank"));
    for (decade, order) in
        [(1, [shop, library, other]), (2, [library, other, shop]), (3, [other, shop, library])]
    {
        let all: Vec<Arrival> =
            order.iter().zip(decade * 10..).map(|((system, name), n)| said(n, *system, name)).collect();
        for one in &all {
            database.store(std::slice::from_ref(one)).await;
        }
        let again: Vec<Arrival> =
            order.iter().zip(decade * 10 + 50..).map(|((system, name), n)| said(n, *system, name)).collect();
        database.store(&again).await;
    }
    let rows = "SELECT count(*) FROM wanted_images WHERE name = 'Bank' AND NOT system AND reports = 3";
    assert_eq!(database.number(rows).await, 6);
    assert_eq!(database.number("SELECT count(*) FROM wanted_images").await, 6);
}
