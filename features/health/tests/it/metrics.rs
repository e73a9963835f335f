//! Metric payloads: counted once, whatever comes how often, and compared by version.

use crate::health::database::{APP, database, dump, payload, store_payloads_for};
use serde_json::{Value, json};
use time::{Date, Duration};
use unslide_harness::database::{TestDatabase, acme, start, umbrella};
use unslide_health::store::figures::comparison::ChangeVerdict;
use unslide_health::store::figures::metric_breakdown::{self, DimensionFigures};
use unslide_health::store::figures::requests::{self, FoldedRequests, RequestFilter};
use unslide_health::store::figures::signals::{self, SignalFigure};
use unslide_health::store::metrics::{MOST_VALUES, MOST_VERSIONS, MetricArrival, MetricDimension, OTHER};
use unslide_health_formats::MetricName;
use unslide_model::TenantId;
use unslide_store::expire_features;
use unslide_store::gateway_events::EventOutcome;

fn period() -> (Date, Date) {
    ((start() - Duration::days(13)).date(), (start() + Duration::DAY).date())
}

/// Filters the requests of the app, perhaps those of one version.
fn filter(version: Option<&str>) -> RequestFilter<'_> {
    RequestFilter { app: APP, version, period: period() }
}

fn figure<'s>(signals: &'s [SignalFigure], signal: &str, statistic: &str) -> &'s SignalFigure {
    let found = signals.iter().find(|one| one.signal == signal && one.statistic == statistic);
    found.unwrap_or_else(|| panic!("{signal} {statistic} in {signals:?}"))
}

/// Proves: replay
#[tokio::test]
async fn a_payload_counts_once_however_often_it_comes() {
    use EventOutcome::{Duplicate, Expired, New};
    let database = database().await;
    let first = payload("m1", 0, &json!({}));
    assert_eq!(
        store_payloads_for(&database, &acme(), &[first.clone(), first.clone()]).await,
        [New, Duplicate]
    );
    let before = dump(&database).await;
    let later =
        payload("m1", 0, &json!({"measurements": [{"name": "launch_time", "unit": "ms", "value": 9000}]}));
    assert_eq!(store_payloads_for(&database, &acme(), &[later, first]).await, [Duplicate; 2]);
    assert_eq!(dump(&database).await, before);
    let old = [payload("m2", 31, &json!({})), payload("m3", 100, &json!({}))];
    assert_eq!(store_payloads_for(&database, &acme(), &old).await, [Expired; 2]);
    assert_eq!(dump(&database).await, before);
    assert_eq!(
        store_payloads_for(&database, &acme(), &[payload("m1", 1, &json!({}))]).await,
        [New],
        "of another day"
    );
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let hosts = requests::compare_hosts(&mut tx, filter(Some("1.0"))).await.unwrap();
    assert_eq!((hosts.len(), hosts[0].host.as_str(), hosts[0].requests), (1, "api.example.com", 2.0));
    assert_eq!(expire_features(&mut tx, Date::MAX, 1).await.unwrap(), 1);
    assert_eq!(expire_features(&mut tx, Date::MAX, 10).await.unwrap(), 1);
    assert_eq!(
        signals::compare_version_signals(&mut tx, APP, period()).await.unwrap().versions.len(),
        1,
        "counts stay"
    );
}

#[tokio::test]
async fn versions_are_compared_with_the_one_before() {
    let database = database().await;
    let mut arrivals = Vec::new();
    for (version, launch, failed) in [("1.9", 800, 0), ("1.10", 1_600, 3), ("2.0", 1_602, 3)] {
        for n in 0..400 {
            let spread = launch + n % 100;
            arrivals.push(payload(
                &format!("{version}-{n}"),
                n % 3,
                &json!({"version": version,
                "measurements": [{"name": "launch_time", "unit": "ms", "value": spread}],
                "requests": [{"host": "api.example.com", "total": 100, "failed": n % 10 < failed}]}),
            ));
        }
    }
    // Those beyond a bound are no version, wherever they stand.
    arrivals.push(payload("others", 0, &json!({"version": OTHER})));
    arrivals.push(payload("word", 0, &json!({"version": "beta"})));
    store_payloads_for(&database, &acme(), &arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = signals::compare_version_signals(&mut tx, APP, period()).await.unwrap().versions;
    let order: Vec<_> =
        found.iter().map(|one| (one.version.as_str(), one.version_before.as_deref())).collect();
    assert_eq!(
        order,
        [("2.0", Some("1.10")), ("1.10", Some("1.9")), ("1.9", Some("beta")), (OTHER, None), ("beta", None)]
    );
    let changes = |place: usize| {
        let signals = &found[place].signals;
        [("launch_time", "p50"), ("launch_time", "p95"), ("request_failures", "share")]
            .map(|(signal, statistic)| figure(signals, signal, statistic).change)
    };
    assert_eq!(changes(0), [Some(ChangeVerdict::WithinNoise); 3]);
    assert_eq!(changes(1), [Some(ChangeVerdict::Worse); 3]);
    assert_eq!(changes(4), [None; 3]);
    let median = figure(&found[1].signals, "launch_time", "p50");
    assert!((median.value / 1_650.0 - 1.0).abs() < 0.02, "{median:?}");
    assert!((median.before.unwrap() / 850.0 - 1.0).abs() < 0.02, "{median:?}");
    assert_eq!((median.unit, median.observations), ("ms", 400.0));
    assert_eq!(figure(&found[1].signals, "request_failures", "share").value, 0.3);
}

#[tokio::test]
async fn what_was_sampled_counts_as_many_as_it_stands_for() {
    let database = database().await;
    store_payloads_for(
        &database,
        &acme(),
        &[payload("m1", 0, &json!({"sampled": 0.1})), payload("m2", 0, &json!({}))],
    )
    .await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let hosts = requests::compare_hosts(&mut tx, filter(None)).await.unwrap();
    assert_eq!((hosts[0].requests, hosts[0].estimated), (11.0, true));
    let versions = signals::compare_version_signals(&mut tx, APP, period()).await.unwrap().versions;
    assert!(figure(&versions[0].signals, "launch_time", "p50").estimated);
    assert_eq!(
        database.number("SELECT squares::bigint FROM metric_days WHERE metric = 'launch_time'").await,
        101
    );
    store_payloads_for(&database, &acme(), &[payload("m3", 0, &json!({"version": "0.9"}))]).await;
    let versions = signals::compare_version_signals(&mut tx, APP, period()).await.unwrap().versions;
    assert!(!figure(&versions[1].signals, "launch_time", "p50").estimated);
}

/// Proves: fairness
#[tokio::test]
async fn hosts_beyond_a_bound_count_together() {
    let database = database().await;
    let many = |from: usize, to: usize| {
        let requests: Vec<Value> =
            (from..to).map(|n| json!({"host": format!("h{n}.example.com"), "total": 5})).collect();
        json!({ "requests": requests })
    };
    let tens = |tens: std::ops::Range<usize>| -> Vec<_> {
        tens.map(|ten| payload(&format!("m{ten}"), 0, &many(10 * ten, 10 * ten + 10))).collect()
    };
    let half = MOST_VALUES / 20;
    store_payloads_for(&database, &acme(), &tens(0..half)).await;
    store_payloads_for(&database, &acme(), &tens(half..4 * half)).await;
    let hosts = "SELECT count(DISTINCT value) FROM metric_days WHERE dimension = 'host'";
    assert_eq!(database.number(hosts).await, i64::try_from(MOST_VALUES).unwrap() + 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = requests::compare_hosts(&mut tx, filter(None)).await.unwrap();
    assert_eq!(found.len(), requests::MOST_HOSTS);
    assert_eq!((found[0].host.as_str(), found[0].requests), (OTHER, 200.0));
    // One payload alone may name as many.
    let mut one = many(0, MOST_VALUES + 30);
    one["version"] = "9.9".into();
    store_payloads_for(&database, &acme(), &[payload("one", 0, &one)]).await;
    let hosts = "SELECT count(DISTINCT value) FROM metric_days WHERE dimension = 'host' AND version = '9.9'";
    assert_eq!(database.number(hosts).await, i64::try_from(MOST_VALUES).unwrap() + 1);
}

/// What comes at the end of a session is lost if the order decides: the payment comes after all else, and fails.
#[tokio::test]
async fn the_endpoints_with_the_most_requests_and_failures_have_rows_of_their_own() {
    let database = database().await;
    let rare = |n: usize| {
        let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
        format!("/{}{}", letter(n / 26), letter(n))
    };
    let request = |path: &str, status: u16| json!({"host": "a.example.com", "path": path, "status": status, "protocol": "h2"});
    let mut requests: Vec<Value> = (0..MOST_VALUES + 50).map(|n| request(&rare(n), 200)).collect();
    requests.extend([request("/payment", 503), request("/checkout", 200), request("/checkout", 200)]);
    store_payloads_for(&database, &acme(), &[payload("m1", 0, &json!({ "requests": requests }))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = requests::compare_requests(&mut tx, filter(None), MetricDimension::Endpoint).await.unwrap();
    let named = |path: &str| {
        let row = found.figures.iter().find(|row| row.value == format!("a.example.com{path}"));
        row.map(|row| (row.requests, row.failed))
    };
    assert_eq!(named("/checkout"), Some((2.0, 0.0)), "most requests");
    assert_eq!(named("/payment"), Some((1.0, 1.0)), "of those with one the failed ones");
    assert_eq!(named(&rare(0)), Some((1.0, 0.0)));
    assert_eq!(named(&rare(MOST_VALUES + 49)), None);
    let other = found.figures.iter().find(|row| row.value == OTHER).unwrap().requests;
    assert_eq!(other, 52.0);
    let folded = FoldedRequests { by: MetricDimension::Endpoint, other, unlisted: 1 };
    assert_eq!(found.folded, Some(folded));
    let all = requests::compare_app_requests(&mut tx, filter(None)).await.unwrap();
    assert_eq!((all.folded, all.results.len(), all.protocols.len()), (vec![folded], 2, 1));
    drop(tx);
    // Results and models of one payload or batch follow the same rule.
    let results: Vec<Value> =
        (0..300_u16).map(|n| request("/a", n)).chain([request("/a", 599), request("/a", 599)]).collect();
    store_payloads_for(&database, &acme(), &[payload("m2", 1, &json!({ "requests": results }))]).await;
    let own = "SELECT observations::bigint FROM metric_days WHERE dimension = 'result' AND value = '599' \
               AND metric = 'requests'";
    assert_eq!(database.number(own).await, 2);
    let device = |n: usize| {
        let name = if n > MOST_VALUES { "Mac999".to_owned() } else { format!("Mac{n:03}") };
        payload(&format!("d{n}"), 2, &json!({ "device": name }))
    };
    store_payloads_for(&database, &acme(), &(0..MOST_VALUES + 5).map(device).collect::<Vec<_>>()).await;
    let own = "SELECT observations::bigint FROM metric_days WHERE dimension = 'model' AND value = 'Mac999' \
               AND metric = 'launch_time'";
    assert_eq!(database.number(own).await, 4);
}

/// The truth is a sum over what is sent, each with its weight.
#[tokio::test]
async fn bytes_are_added_up_by_endpoint_and_version() {
    let database = database().await;
    let mut truth = std::collections::BTreeMap::<(String, String), f64>::new();
    let mut arrivals = Vec::new();
    for n in 0..60_u32 {
        let (version, path) = (["1.0", "2.0"][n as usize % 2], ["/cart", "/feed", "/login"][n as usize % 3]);
        let (received, sampled) = (100 * n * n + 7, if n % 5 == 0 { 0.5 } else { 1.0 });
        let endpoint = format!("GET api.example.com{path}");
        *truth.entry((endpoint, version.to_owned())).or_default() += f64::from(received) / sampled;
        arrivals.push(payload(
            &format!("m{n}"),
            i64::from(n % 3),
            &json!({"version": version, "sampled": sampled,
                "requests": [{"host": "api.example.com", "path": path, "method": "GET", "received": received}]}),
        ));
    }
    store_payloads_for(&database, &acme(), &arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = requests::list_requests_by_version(&mut tx, filter(None), MetricDimension::Endpoint);
    let found = found.await.unwrap();
    assert_eq!((found.figures.len(), found.folded), (truth.len(), None));
    for row in &found.figures {
        let phase = |name: &str| row.phases.iter().find(|phase| phase.phase == name);
        let sum = phase("request_received").unwrap().sum.unwrap();
        let expected = truth[&(row.value.clone(), row.version.clone().unwrap())];
        assert!((sum / expected - 1.0).abs() < 0.011, "{row:?} {expected}");
    }
    let by = MetricDimension::Endpoint;
    let broken =
        metric_breakdown::break_down(&mut tx, APP, "1.0", MetricName::RequestReceived, by, period()).await;
    let cart = truth[&("GET api.example.com/cart".to_owned(), "1.0".to_owned())];
    let broken = broken.unwrap();
    let sum = broken.iter().find(|row| row.value.ends_with("/cart")).unwrap().sum.unwrap();
    assert!((sum / cart - 1.0).abs() < 0.011);
}

/// The truth is a count over the requests that are sent.
#[tokio::test]
async fn requests_are_counted_by_facts_about_their_connection() {
    let database = database().await;
    let sent = |n: i64| {
        json!({"requests": [{"host": "api.example.com", "network": if n % 4 == 0 { "cellular" } else { "wifi" },
            "expensive": n % 4 == 0, "constrained": n == 0, "reused": n % 2 == 0, "tls_version": "TLSv1.3",
            "proxy": n == 1, "failed": n % 4 == 0, "total": 100}]})
    };
    let arrivals: Vec<_> = (0..20).map(|n| payload(&format!("m{n}"), n % 3, &sent(n))).collect();
    store_payloads_for(&database, &acme(), &arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for version in [None, Some("1.0")] {
        let found = requests::compare_requests(&mut tx, filter(version), MetricDimension::Connection).await;
        let found = found.unwrap().figures;
        let rows: Vec<_> = found.iter().map(|row| (row.value.as_str(), row.requests, row.failed)).collect();
        let expected = [
            ("tls 1.3", 20.0, 0.25),
            ("network wifi", 15.0, 0.0),
            ("connection reused", 10.0, 0.5),
            ("connection new", 10.0, 0.0),
            ("network cellular", 5.0, 1.0),
            ("network expensive", 5.0, 1.0),
            ("network constrained", 1.0, 1.0),
            ("connection by proxy", 1.0, 0.0),
        ];
        assert_eq!(rows, expected);
    }
}

/// The truth is a count over the requests that are sent.
#[tokio::test]
async fn requests_are_counted_by_endpoint_result_and_protocol() {
    let database = database().await;
    let sent = |n: i64| {
        let (path, status) =
            if n % 4 == 0 { (format!("/orders/{n}?token={n}"), 503) } else { ("/cart".to_owned(), 200) };
        json!({"requests": [{"host": "api.example.com", "path": path, "method": "get", "status": status, "protocol": "h2",
            "total": 100 + n, "received": 1_000, "wait": 2}]})
    };
    let arrivals: Vec<_> = (0..40).map(|n| payload(&format!("m{n}"), n % 3, &sent(n))).collect();
    store_payloads_for(&database, &acme(), &arrivals).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let mut seen = Vec::new();
    for version in [None, Some("1.0")] {
        for dimension in
            [MetricDimension::Endpoint, MetricDimension::RequestResult, MetricDimension::Protocol]
        {
            let found = requests::compare_requests(&mut tx, filter(version), dimension).await.unwrap();
            seen.extend(found.figures.into_iter().map(|one| (one.value, one.requests, one.failed)));
        }
        let found = requests::compare_requests(&mut tx, filter(version), MetricDimension::Endpoint)
            .await
            .unwrap()
            .figures;
        let phase = |name: &str| found[0].phases.iter().find(|phase| phase.phase == name).unwrap();
        assert_eq!((phase("request_received").p50, phase("request_received").unit), (1_000.0, "B"));
        assert_eq!((phase("request_wait").p95, phase("request_wait").unit), (2.0, "ms"));
        let totals: Vec<f64> = (0..40_u8).filter(|n| n % 4 != 0).map(|n| 100.0 + f64::from(n)).collect();
        let median = totals[(totals.len() - 1) / 2];
        assert!((phase("request_total").p50 / median - 1.0).abs() < 0.011, "{:?} {median}", found[0]);
    }
    let one_version = [
        ("GET api.example.com/cart", 30.0, 0.0),
        ("GET api.example.com/orders/#", 10.0, 1.0),
        ("200", 30.0, 0.0),
        ("503", 10.0, 1.0),
        ("h2", 40.0, 0.25),
    ];
    let expected = one_version.map(|(value, requests, failed)| (value.to_owned(), requests, failed));
    assert_eq!(seen, [expected.clone(), expected].concat());
    assert_eq!(
        database
            .number("SELECT count(*) FROM metric_days WHERE value LIKE '%token%' OR value LIKE '%/4%'")
            .await,
        0
    );
    let other = umbrella();
    let mut tx = database.store.tenant(&other).await.unwrap();
    assert_eq!(
        requests::compare_requests(&mut tx, filter(None), MetricDimension::Endpoint).await.unwrap().figures,
        []
    );
}

/// Proves: fairness
#[tokio::test]
async fn endpoints_beyond_a_bound_count_together() {
    let database = database().await;
    let letters =
        |n: usize| format!("/{}{}", char::from(b'a' + (n / 26) as u8), char::from(b'a' + (n % 26) as u8));
    let sent = |n: usize| {
        let requests: Vec<Value> =
            (n * 10..n * 10 + 10).map(|n| json!({"host": "a.example.com", "path": letters(n)})).collect();
        payload(&format!("m{n}"), 0, &json!({ "requests": requests }))
    };
    store_payloads_for(&database, &acme(), &(0..30).map(sent).collect::<Vec<_>>()).await;
    let endpoints = "SELECT count(DISTINCT value) FROM metric_days WHERE dimension = 'endpoint'";
    assert_eq!(database.number(endpoints).await, i64::try_from(MOST_VALUES).unwrap() + 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found =
        requests::compare_requests(&mut tx, filter(None), MetricDimension::Endpoint).await.unwrap().figures;
    assert_eq!((found[0].value.as_str(), found[0].requests), (OTHER, 100.0));
}

/// A metric of version 1.0 by a dimension.
async fn broken_down(
    database: &TestDatabase,
    of: &TenantId,
    metric: MetricName,
    by: MetricDimension,
) -> Vec<DimensionFigures> {
    let mut tx = database.store.tenant(of).await.unwrap();
    metric_breakdown::break_down(&mut tx, APP, "1.0", metric, by, period()).await.unwrap()
}

/// Proves: isolation
#[tokio::test]
async fn a_metric_of_a_version_is_broken_down_by_device_system_and_host() {
    use MetricDimension::{Host, Model, OsVersion};
    let database = database().await;
    let mut arrivals = Vec::new();
    for n in 0..30 {
        let (device, launch) = if n < 20 { ("iPhone16,1", 500) } else { ("iPhone12,8", 2_000) };
        let more = json!({"device": device, "os": format!("iOS 26.{}", n % 2),
            "measurements": [{"name": "launch_time", "unit": "ms", "value": launch}],
            "requests": [{"host": "api.example.com", "total": 100, "failed": n >= 25}]});
        arrivals.push(payload(&format!("m{n}"), n % 3, &more));
    }
    let other = payload("other", 0, &json!({"version": "2.0", "device": "iPad14,1"}));
    arrivals.extend([payload("unnamed", 0, &json!({})), other]);
    store_payloads_for(&database, &acme(), &arrivals).await;
    let stored = dump(&database).await;
    store_payloads_for(&database, &acme(), &arrivals).await;
    assert_eq!(dump(&database).await, stored);
    let launches = broken_down(&database, &acme(), MetricName::LaunchTime, Model).await;
    let named: Vec<_> = launches.iter().map(|one| (one.value.as_str(), one.observations)).collect();
    assert_eq!(named, [("iPhone16,1", 20.0), ("iPhone12,8", 10.0)]);
    for (figures, expected) in launches.iter().zip([500.0, 2_000.0]) {
        for value in [figures.p5, figures.p50, figures.p95] {
            assert!((value.unwrap() / expected - 1.0).abs() < 0.011, "{figures:?}");
        }
        assert_eq!(figures.failed, None);
    }
    let requests = broken_down(&database, &acme(), MetricName::Requests, Model).await;
    let failed: Vec<_> = requests.iter().map(|one| (one.failed, one.p50)).collect();
    assert_eq!(failed, [(Some(0.0), None), (Some(0.5), None)]);
    let systems = broken_down(&database, &acme(), MetricName::LaunchTime, OsVersion).await;
    let named: Vec<_> = systems.iter().map(|one| (one.value.as_str(), one.observations)).collect();
    assert_eq!(named, [("iOS 26.0", 15.0), ("iOS 26.1", 15.0)]);
    let hosts = broken_down(&database, &acme(), MetricName::RequestTotal, Host).await;
    assert_eq!((hosts.len(), hosts[0].observations), (1, 31.0), "also of what names no device");
    assert_eq!(broken_down(&database, &umbrella(), MetricName::LaunchTime, Model).await, []);
}

/// Proves: fairness
#[tokio::test]
async fn device_models_beyond_a_bound_count_together() {
    let database = database().await;
    let named = |n: usize| payload(&format!("m{n}"), 0, &json!({"device": format!("Mac{n:03}")}));
    let all: Vec<MetricArrival> = (0..MOST_VALUES + 20).map(named).collect();
    for part in all.chunks(MOST_VALUES - 10) {
        store_payloads_for(&database, &acme(), part).await;
    }
    let again = payload("again", 0, &json!({"device": "Mac000"}));
    store_payloads_for(&database, &acme(), &[again]).await;
    let models = "SELECT count(DISTINCT value) FROM metric_days WHERE dimension = 'model'";
    assert_eq!(database.number(models).await, i64::try_from(MOST_VALUES).unwrap() + 1);
    let found = broken_down(&database, &acme(), MetricName::LaunchTime, MetricDimension::Model).await;
    assert_eq!(found.len(), MOST_VALUES);
    assert_eq!((found[0].value.as_str(), found[0].observations), (OTHER, 20.0));
    assert_eq!((found[1].value.as_str(), found[1].observations), ("Mac000", 2.0));
}

/// Proves: fairness
#[tokio::test]
async fn versions_beyond_a_bound_count_together() {
    let database = database().await;
    let named =
        |version: usize| payload(&format!("m{version}"), 0, &json!({"version": format!("1.{version}")}));
    let versions = "SELECT count(DISTINCT version) FROM metric_days";
    let all: Vec<MetricArrival> = (0..MOST_VERSIONS + 20).map(named).collect();
    for part in all.chunks(MOST_VERSIONS - 10) {
        store_payloads_for(&database, &acme(), part).await;
    }
    let bound = i64::try_from(MOST_VERSIONS).unwrap() + 1;
    assert_eq!(database.number(versions).await, bound);
    let together = "SELECT sum(observations)::bigint FROM metric_days WHERE version = '(other)' AND metric = 'launch_time'";
    assert_eq!(database.number(together).await, 20);
    // A version that is known is counted by itself, and another app and day have their own.
    let known = payload("again", 0, &json!({"version": "1.0"}));
    let bank = payload("bank", 0, &json!({"app": "com.acme.bank"}));
    store_payloads_for(&database, &acme(), &[known, bank, payload("before", 1, &json!({"version": "new"}))])
        .await;
    assert_eq!(database.number(together).await, 20);
    assert_eq!(database.number(versions).await, bound + 1);
}

#[tokio::test]
async fn totals_are_compared_for_each_hour_that_the_app_ran() {
    let database = database().await;
    let of = |id: &str, hours: u32, hangs: u32| {
        let cpu = json!({"name": "cpu_time", "unit": "min", "value": 6 * hours});
        let hung =
            json!({"name": "hang_time", "unit": "s", "histogram": [{"from": 1, "to": 3, "count": hangs}]});
        let on = json!({"name": "foreground_time", "unit": "h", "value": hours});
        payload(id, 0, &json!({ "measurements": [cpu, hung, on] }))
    };
    store_payloads_for(&database, &acme(), &[of("m1", 1, 0), of("m2", 4, 8), of("m3", 10, 20)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = signals::compare_version_signals(&mut tx, APP, period()).await.unwrap().versions;
    let near = |signal: &str, statistic: &str, value: f64| {
        let figure = figure(&found[0].signals, signal, statistic);
        assert!((figure.value / value - 1.0).abs() < 0.01, "{figure:?}");
    };
    for statistic in ["p50", "p95"] {
        near("cpu_time_per_hour", statistic, 360_000.0);
        near("hang_rate", statistic, 2.0);
    }
    near("cpu_time", "p50", 24.0 * 60_000.0);
}

/// Proves: isolation
#[tokio::test]
async fn metrics_of_tenants_are_apart() {
    let database = database().await;
    let other = umbrella();
    let payload = payload("m1", 0, &json!({}));
    assert_eq!(
        store_payloads_for(&database, &acme(), std::slice::from_ref(&payload)).await,
        [EventOutcome::New]
    );
    let mut tx = database.store.tenant(&other).await.unwrap();
    assert_eq!(signals::compare_version_signals(&mut tx, APP, period()).await.unwrap().versions, []);
    assert_eq!(requests::compare_hosts(&mut tx, filter(None)).await.unwrap(), []);
    drop(tx);
    assert_eq!(store_payloads_for(&database, &other, &[payload]).await, [EventOutcome::New]);
}
