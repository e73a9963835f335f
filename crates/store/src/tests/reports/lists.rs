//! What dashboards ask.

use crate::cursor::ReportCursor;
use crate::keys::{self, NewApiKey};
use crate::queries::reports::{ReportFilter, ReportRow, explain, list_reports, read_total};
use crate::queries::{apps, missing, versions};
use crate::reports::Arrival;
use crate::symbols;
use crate::tests::database::{Database, acme, arrival, debug_id, execute, image, publish, revised, start};
use sqlx::Row;
use time::Duration;
use unslide_model::{Quality, Scope};

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

async fn all(database: &Database, filter: &ReportFilter, page: u32) -> Vec<ReportRow> {
    let (mut found, mut after): (Vec<ReportRow>, Option<ReportCursor>) = (Vec::new(), None);
    loop {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = list_reports(&mut tx, filter, after.as_ref(), page).await.unwrap();
        found.extend(page.reports);
        // Through its text, as a client would hand it back.
        after = page.next.map(|cursor| cursor.to_string().parse().unwrap());
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
        ReportFilter::default(),
        ReportFilter { app: text("com.acme.shop"), ..ReportFilter::default() },
        ReportFilter { version: text("1.1"), ..ReportFilter::default() },
        ReportFilter {
            app: text("com.acme.bank"),
            version: text("1.0"),
            build: text("2"),
            ..ReportFilter::default()
        },
        ReportFilter { kind: text("nsexception"), status: text("partial"), ..ReportFilter::default() },
        ReportFilter { model: text("iPhone1,1"), ..ReportFilter::default() },
        ReportFilter { os_version: text("18.1"), version: text("1.1"), ..ReportFilter::default() },
        ReportFilter { model: text("iPhone2,1"), os_version: text("iOS 18.0"), ..ReportFilter::default() },
        ReportFilter { os_version: text("iOS"), ..ReportFilter::default() },
        ReportFilter { from: Some(start()), ..ReportFilter::default() },
        ReportFilter { from: Some(start() - Duration::DAY), to: Some(start()), ..ReportFilter::default() },
        ReportFilter { debug_id: Some(debug_id(1)), ..ReportFilter::default() },
        ReportFilter {
            debug_id: Some(debug_id(2)),
            app: text("com.acme.shop"),
            to: Some(start()),
            ..ReportFilter::default()
        },
        ReportFilter { debug_id: Some(debug_id(200)), ..ReportFilter::default() },
        ReportFilter { debug_id: Some(debug_id(201)), ..ReportFilter::default() },
        ReportFilter {
            debug_id: Some(debug_id(201)),
            build: text("3"),
            to: Some(start()),
            ..ReportFilter::default()
        },
        ReportFilter { debug_id: Some(debug_id(77)), ..ReportFilter::default() },
        ReportFilter { app: text("com.acme.shop' OR true --\0"), ..ReportFilter::default() },
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
                    && is(&filter.model, a.facts.model.as_deref().unwrap_or_default())
                    && filter.os_version.as_ref().is_none_or(|os| {
                        let version = a.facts.os_version.as_deref().unwrap_or_default();
                        os == version || *os == format!("iOS {version}")
                    })
                    && filter.from.is_none_or(|from| a.received_at >= from)
                    && filter.to.is_none_or(|to| a.received_at < to)
                    && filter.debug_id.is_none_or(|id| a.images.iter().any(|i| i.debug_id == id))
            })
            .collect();
        wanted.sort_by_key(|a| std::cmp::Reverse((a.received_at, a.report_id)));
        let wanted: Vec<_> = wanted.iter().map(|a| a.report_id).collect();
        for page in [1, 7, 100] {
            let found = all(&database, filter, page).await;
            let found: Vec<_> = found.iter().map(|r| r.report_id).collect();
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
    let filter = ReportFilter { debug_id: Some(debug_id(200)), ..ReportFilter::default() };
    assert_eq!(all(&database, &filter, 100).await.len(), 40);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let mut plan = explain(&mut tx, &filter).await.unwrap();
    plan.retain(|line| line.contains(" on reports_"));
    assert_eq!(plan.len(), 2, "{plan:?}");
}

fn with(app: Option<&str>, version: Option<&str>, system: bool) -> missing::MissingFilter {
    missing::MissingFilter { app: app.map(str::to_owned), version: version.map(str::to_owned), system }
}

#[tokio::test]
async fn apps_versions_and_missing_symbols_come_in_pages_newest_or_most_wanted_first() {
    let database = Database::new().await;
    let arrivals: Vec<Arrival> = (0..30)
        .map(|n| {
            let mut one = arrival(n);
            // Nine apps over three days, each with several versions; a few images for all of them.
            one.facts.app = format!("app-{}", n % 9);
            one.facts.version = format!("{}", n / 9);
            one.received_at = start() - Duration::days(i64::from(n % 3));
            one.images = (0..=n % 5).map(|image_of| image(image_of + 1, image_of == 3, None)).collect();
            one
        })
        .collect();
    database.store(&arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let whole = apps::list_apps(&mut tx, None, None, 100).await.unwrap();
    let order: Vec<_> = whole.iter().map(|app| (app.last_day, app.app.clone())).collect();
    assert!(order.len() == 9 && order.is_sorted_by(|a, b| a > b), "{order:?}");
    assert_eq!(whole.iter().map(|app| app.reports).sum::<i64>(), 30);
    for page in [1, 2, 9] {
        let mut found: Vec<apps::AppSummary> = Vec::new();
        loop {
            let after = found.last().map(|app| (app.last_day, app.app.clone()));
            let after = after.as_ref().map(|(day, app)| (*day, app.as_str()));
            let next = apps::list_apps(&mut tx, None, after, page).await.unwrap();
            if next.is_empty() {
                break;
            }
            found.extend(next);
        }
        assert_eq!(found, whole, "in pages of {page}");
        let one = apps::list_apps(&mut tx, Some("app-4"), None, page).await.unwrap();
        assert_eq!(one, [whole.iter().find(|app| app.app == "app-4").unwrap().clone()]);
    }
    let whole = versions::list_versions(&mut tx, "app-0", None, 100).await.unwrap();
    assert_eq!(whole.iter().map(|v| v.version.as_str()).collect::<Vec<_>>(), ["3", "2", "1", "0"]);
    for page in [1, 3] {
        let mut found: Vec<versions::VersionSummary> = Vec::new();
        loop {
            let after = found.last().map(|version| (version.last_day, version.version.clone()));
            let after = after.as_ref().map(|(day, version)| (*day, version.as_str()));
            let next = versions::list_versions(&mut tx, "app-0", after, page).await.unwrap();
            if next.is_empty() {
                break;
            }
            found.extend(next);
        }
        assert_eq!(found, whole, "in pages of {page}");
    }
    for system in [false, true] {
        let filter = with(None, None, system);
        let whole = missing::list_missing(&mut tx, &filter, None, 100).await.unwrap();
        assert_eq!(whole.len(), if system { 5 } else { 4 });
        let mut found: Vec<missing::MissingDebugId> = Vec::new();
        loop {
            let after = found.last().map(|last| (last.image.reports, last.image.debug_id));
            let next = missing::list_missing(&mut tx, &filter, after, 2).await.unwrap();
            if next.is_empty() {
                break;
            }
            found.extend(next);
        }
        assert_eq!(found, whole);
    }
}

/// Whoever can send reports can send them of ever new apps and versions: a page of the newest ones costs
/// no more by it.
#[tokio::test]
async fn a_page_of_apps_or_versions_reads_no_more_than_it_shows() {
    let database = Database::new().await;
    execute(
        &database,
        "INSERT INTO app_days (tenant, app, version, day, reports, devices, frames_total, frames_symbolicated,
                               complete, partial, none)
         SELECT 'acme', CASE WHEN n % 2 = 0 THEN 'one' ELSE 'app ' || n END, n::text,
                DATE '2026-11-20' - n / 5000, 1, 0, 0, 0, 0, 0, 0
         FROM generate_series(1, 40000) n;
         ANALYZE app_days",
    )
    .await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let newest = versions::list_versions(&mut tx, "one", None, 10).await.unwrap();
    assert_eq!((newest.len(), newest[0].last_day), (10, start().date()));
    let apps = apps::list_apps(&mut tx, None, None, 10).await.unwrap();
    assert_eq!((apps.len(), apps[0].app.as_str()), (10, "one"));
    drop(tx);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    versions::list_versions(&mut tx, "one", None, 10).await.unwrap();
    apps::list_apps(&mut tx, None, Some((start().date(), "app 777")), 10).await.unwrap();
    let read: i64 = sqlx::query_scalar(
        "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables WHERE relname = 'app_days'",
    )
    .fetch_one(tx.parts().0)
    .await
    .unwrap();
    assert!(read < 2_000, "{read} rows were read for two pages of ten");
}

#[tokio::test]
async fn keys_come_in_pages_and_their_number_has_a_limit() {
    let database = Database::new().await;
    let new = |app: Option<&str>| NewApiKey {
        name: "ci".into(),
        scopes: vec![Scope::SymbolsWrite],
        app: app.map(str::to_owned),
        expires_at: None,
    };
    let mut made = Vec::new();
    for n in 0..7 {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let app = (n % 2 == 0).then_some("com.acme.shop");
        made.push(keys::create_key(&mut tx, &new(app), &[n; 30]).await.unwrap().0);
        tx.commit().await.unwrap();
        // Some at the same moment.
        database.wait(Duration::seconds(i64::from(n % 3)));
    }
    made.sort_by_key(|key| (key.created_at, key.id));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for app in [None, Some("com.acme.shop")] {
        let mut found: Vec<keys::ApiKey> = Vec::new();
        loop {
            let after = found.last().map(|key| (key.created_at, key.id));
            let page = keys::list_keys(&mut tx, app, after, 2).await.unwrap();
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        let wanted: Vec<_> = made.iter().filter(|key| app.is_none() || key.app.as_deref() == app).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted);
    }
    drop(tx);
    execute(
        &database,
        "INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, created_at, revoked_at, expires_at)
         SELECT gen_random_uuid(), 'acme', 'api', '', lpad(n::text, 8, '0'), repeat('0', 32)::bytea, '2026-11-20',
                CASE WHEN n > 994 THEN '2026-11-20'::timestamptz END, CASE WHEN n > 993 THEN '2026-11-20'::timestamptz END
         FROM generate_series(1, 1100) n",
    )
    .await;
    // 7 and 993 are in force; the others are revoked or expired.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let refused = keys::create_key(&mut tx, &new(None), &[100; 30]).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Key limit reached for tenant acme: 1000 keys are in force. Revoke one first."
    );
    assert!(keys::revoke_key(&mut tx, made[0].id, None).await.unwrap());
    keys::create_key(&mut tx, &new(None), &[100; 30]).await.unwrap();
}

#[tokio::test]
async fn apps_versions_and_missing_symbols_are_counted() {
    let database = Database::new().await;
    let arrivals = varied();
    database.store(&arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let listed = apps::list_apps(&mut tx, None, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|a| a.app.as_str()).collect::<Vec<_>>(), ["com.acme.bank", "com.acme.shop"]);
    assert_eq!(listed.iter().map(|a| (a.reports, a.versions)).collect::<Vec<_>>(), [(20, 2), (40, 2)]);
    assert_eq!(listed[1].last_day, start().date() - Duration::DAY);
    let versions_listed = versions::list_versions(&mut tx, "com.acme.shop", None, 10).await.unwrap();
    for version in &versions_listed {
        let of: Vec<&Arrival> = arrivals
            .iter()
            .filter(|a| a.facts.app == "com.acme.shop" && a.facts.version == version.version)
            .collect();
        let devices: std::collections::BTreeSet<_> = of.iter().map(|a| &a.facts.device).collect();
        assert_eq!((version.reports, version.devices), (of.len() as i64, devices.len() as i64));
        assert_eq!(version.share_symbolicated, Some(0.4));
        assert_eq!(version.missing.len(), 1, "its own image, not the system's: {:?}", version.missing);
        assert_eq!(version.missing[0].reports, of.len() as i64);
    }
    assert!(versions::list_versions(&mut tx, "com.acme.none", None, 10).await.unwrap().is_empty());
    let with_system = missing::list_missing(&mut tx, &with(None, None, true), None, 10).await.unwrap();
    assert_eq!((with_system.len(), with_system[0].system, with_system[0].image.reports), (3, true, 60));
    assert_eq!(with_system[0].apps, ["com.acme.bank", "com.acme.shop"]);
    let own = missing::list_missing(&mut tx, &with(Some("com.acme.shop"), Some("1.1"), false), None, 10)
        .await
        .unwrap();
    assert_eq!(own.iter().map(|m| m.image.debug_id).collect::<Vec<_>>(), [debug_id(2)]);
    drop(tx);
    // A stripped binary does not replace a dSYM.
    for quality in [Quality::None, Quality::Exports] {
        publish(&database, 2, quality).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let still = missing::list_missing(&mut tx, &with(None, None, false), None, 10).await.unwrap();
        assert!(still.iter().any(|missing| missing.image.debug_id == debug_id(2)), "{quality:?}");
        let versions = versions::list_versions(&mut tx, "com.acme.shop", None, 10).await.unwrap();
        assert!(versions.iter().all(|version| version.missing.len() == 1), "{quality:?}");
        let checked = symbols::check_readiness(&mut tx, &[debug_id(2)]).await.unwrap();
        assert_eq!(checked[0].1, symbols::SymbolReadiness::Missing, "{quality:?}");
    }
    publish(&database, 2, Quality::Symtab).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(
        symbols::check_readiness(&mut tx, &[debug_id(2)]).await.unwrap()[0].1,
        symbols::SymbolReadiness::Ready
    );
    let left = missing::list_missing(&mut tx, &with(None, None, false), None, 10).await.unwrap();
    assert_eq!(left.iter().map(|m| m.image.debug_id).collect::<Vec<_>>(), [debug_id(1)]);
    // A revision that found them changes no count of reports.
    let better = revised(&arrivals[0], 2, image(2, false, Some(1)));
    drop(tx);
    database.store(&[better]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(apps::list_apps(&mut tx, None, None, 10).await.unwrap()[1].reports, 40);
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

#[tokio::test]
async fn beyond_a_thousand_apps_and_versions_the_least_recently_seen_give_way_in_the_lists_alone() {
    let database = Database::new().await;
    let (mut oldest, mut newest) = (arrival(1), arrival(2));
    oldest.facts.app = "com.acme.old".into();
    (newest.facts.app, newest.facts.version) = ("com.acme.many".into(), "0".into());
    oldest.received_at = start() - Duration::days(2);
    newest.received_at = start() - Duration::days(2);
    database.store(&[oldest, newest]).await;
    // Both got 1,000 more since then.
    for (app, version) in [("'com.acme.app' || n", "'1.0'"), ("'com.acme.many'", "n::text")] {
        let rows = format!(
            "INSERT INTO app_days (tenant, app, version, day, reports, devices, frames_total, frames_symbolicated, \
                 complete, partial, none)
             SELECT 'acme', {app}, {version}, '2026-11-20'::date - n % 2, 1, 1, 0, 0, 1, 0, 0
             FROM generate_series(1, 1000) n"
        );
        execute(&database, &rows).await;
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let place = after.as_ref().map(|(day, app): &(time::Date, String)| (*day, app.as_str()));
        let page = apps::list_apps(&mut tx, None, place, 300).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.last_day, last.app.clone()));
        listed.extend(page.into_iter().map(|app| app.app));
    }
    assert_eq!(listed.len(), 1_000);
    assert!(!listed.contains(&"com.acme.old".to_owned()));
    let only = apps::list_apps(&mut tx, Some("com.acme.old"), None, 10).await.unwrap();
    assert_eq!(only.len(), 1, "a key of that app sees it");
    let of_many = versions::list_versions(&mut tx, "com.acme.many", None, 2_000).await.unwrap();
    assert_eq!((of_many.len(), of_many.iter().any(|v| v.version == "0")), (1_000, false));
    for (app, version) in [("com.acme.old", None), ("com.acme.many", Some("0".to_owned()))] {
        let filter = ReportFilter { app: Some(app.into()), version, ..ReportFilter::default() };
        assert_eq!(
            list_reports(&mut tx, &filter, None, 10).await.unwrap().reports.len(),
            1,
            "{app} is found"
        );
    }
}

#[tokio::test]
async fn a_revoked_key_is_forgotten_after_a_while_unless_a_key_that_it_made_is_there() {
    let database = Database::new().await;
    let key = |name: &str| NewApiKey {
        name: name.into(),
        scopes: vec![Scope::ReportsRead],
        app: None,
        expires_at: None,
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (alone, _) = keys::create_key(&mut tx, &key("alone"), &[1; 30]).await.unwrap();
    let (maker, _) = keys::create_key(&mut tx, &key("maker"), &[2; 30]).await.unwrap();
    let (made, _) = keys::create_by(&mut tx, &key("made"), &[3; 30], maker.id).await.unwrap().unwrap();
    for id in [alone.id, maker.id] {
        assert!(keys::revoke_key(&mut tx, id, None).await.unwrap());
    }
    tx.commit().await.unwrap();
    let purge = async || keys::purge_keys(&database.store).await.unwrap();
    database.wait(keys::KEPT_AFTER_END - Duration::SECOND);
    assert_eq!(purge().await, 0, "still shown");
    database.wait(Duration::minutes(1));
    assert_eq!(purge().await, 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let left = keys::list_keys(&mut tx, None, None, 10).await.unwrap().into_iter().map(|k| k.id);
    let left: std::collections::BTreeSet<_> = left.collect();
    assert_eq!(
        left,
        [maker.id, made.id].into(),
        "what a key made can be revoked with it as long as that is there"
    );
    assert!(keys::revoke_key(&mut tx, made.id, None).await.unwrap());
    tx.commit().await.unwrap();
    database.wait(keys::KEPT_AFTER_END + Duration::SECOND);
    assert_eq!((purge().await, purge().await, purge().await), (1, 1, 0));
}

#[tokio::test]
async fn a_key_that_ran_out_is_forgotten_after_a_while() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let key = |name: &str, days: Option<i64>| NewApiKey {
        name: name.into(),
        scopes: vec![Scope::ReportsRead],
        app: None,
        expires_at: days.map(|days| database.clock_now() + Duration::days(days)),
    };
    keys::create_key(&mut tx, &key("short", Some(1)), &[1; 30]).await.unwrap();
    let (long, _) = keys::create_key(&mut tx, &key("long", Some(90)), &[2; 30]).await.unwrap();
    let (endless, _) = keys::create_key(&mut tx, &key("endless", None), &[3; 30]).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(keys::KEPT_AFTER_END + Duration::DAY);
    assert_eq!(keys::purge_keys(&database.store).await.unwrap(), 0, "still shown");
    database.wait(Duration::SECOND);
    assert_eq!(keys::purge_keys(&database.store).await.unwrap(), 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let left: std::collections::BTreeSet<_> =
        keys::list_keys(&mut tx, None, None, 10).await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(left, [long.id, endless.id].into());
}

#[tokio::test]
async fn a_tenant_has_a_limited_number_of_keys_in_force() {
    let database = Database::new().await;
    let key = NewApiKey { name: "one".into(), scopes: vec![Scope::ReportsRead], app: None, expires_at: None };
    // All but one of those that may be, and as many that are over.
    let rows = format!(
        "INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, created_at, expires_at)
         SELECT gen_random_uuid(), 'acme', 'api', 'many', lpad(n::text, 8, '0'), decode(repeat('00', 32), 'hex'), at,
                CASE WHEN n > {most} THEN at END
         FROM generate_series(2, 2 * {most}) AS n, (VALUES ('2026-11-20 07:00:00Z'::timestamptz)) AS t (at)",
        most = keys::MOST_IN_FORCE
    );
    database.rows(&rows).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (last, _) = keys::create_key(&mut tx, &key, &[1; 30]).await.unwrap();
    let refused = keys::create_key(&mut tx, &key, &[2; 30]).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Key limit reached for tenant acme: 1000 keys are in force. Revoke one first."
    );
    assert!(keys::revoke_key(&mut tx, last.id, None).await.unwrap());
    keys::create_key(&mut tx, &key, &[2; 30]).await.unwrap();
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn reports_are_found_by_a_key_of_the_app_also_with_several_values() {
    let database = Database::new().await;
    let with_keys = |n: u8, keys: serde_json::Value| {
        let mut one = arrival(n);
        one.facts.context = serde_json::json!({ "keys": keys });
        one
    };
    let screen = "state com.acme.screen";
    database
        .store(&[
            with_keys(1, serde_json::json!({ screen: "cart, map" })),
            with_keys(2, serde_json::json!({ screen: "map" })),
            with_keys(3, serde_json::json!({ "plan": "map" })),
            arrival(4),
        ])
        .await;
    for (value, expected) in [("map", vec![2, 1]), ("cart", vec![1]), ("ma", vec![]), ("cart, map", vec![1])]
    {
        let key = Some((screen.to_owned(), value.to_owned()));
        let filter = ReportFilter { key, ..ReportFilter::default() };
        let found = all(&database, &filter, 10).await;
        let ids: Vec<u8> = found.iter().map(|row| row.report_id.0[0]).collect();
        assert_eq!(ids, expected, "{value}");
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let total = read_total(&mut tx, &filter).await.unwrap().unwrap();
        assert_eq!(total.rows, i64::try_from(expected.len()).unwrap(), "{value}");
    }
}
