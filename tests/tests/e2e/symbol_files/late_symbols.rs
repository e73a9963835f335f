//! A dSYM that comes after its reports.

use futures::{StreamExt, stream};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, FUNCTIONS, list_functions};
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// Reports that wait for one dSYM: enough that they are woken in several pages and come back in many
/// transactions. `make bench` has ten thousand.
const WAITING: u32 = 2_500;
/// The tenant with reports that have their symbols and come in all the time.
const LIVE: &str = "globex";

/// Waits until `count` reports of the waiting tenant are stored in this revision.
async fn stored(installation: &Installation, revision: u32, count: u32) {
    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let question =
        format!("SELECT count(*) FROM reports WHERE tenant = '{TENANT}' AND revision = {revision}");
    let mut last = 0;
    for _ in 0..3_000 {
        let asked = sqlx::query_scalar(AssertSqlSafe(question.clone())).fetch_one(&mut database).await;
        last = asked.expect("an answer");
        if last == i64::from(count) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{last} of {count} reports are stored in revision {revision}");
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn thousands_that_wait_for_one_dsym_come_back_once_each_while_another_tenants_go_on() {
    let app = App::from_fixture("app");
    let mut installation = Installation::start().await;
    let late = installation.client();
    installation.make_tenant(LIVE);
    installation.client().upload_symbols(app.dsym.clone()).await;
    let input = installation.topic_name("crash.reports");
    let send = async |tenant: &str, number: u32| {
        let report = app.build_report(number).bytes();
        installation.topics.produce_record(&input, None, &[("tenant", tenant)], &report).await;
    };
    stream::iter(0..WAITING)
        .map(|number| send(TENANT, number))
        .buffer_unordered(500)
        .collect::<Vec<_>>()
        .await;
    stored(&installation, 1, WAITING).await;

    let healed = AtomicBool::new(false);
    let live = async {
        let mut sent = 0;
        while !healed.load(Ordering::Relaxed) {
            send(LIVE, sent).await;
            sent += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        sent
    };
    let heal = async {
        late.upload_symbols(app.dsym.clone()).await;
        stored(&installation, 2, WAITING).await;
        healed.store(true, Ordering::Relaxed);
    };
    let (sent, ()) = tokio::join!(live, heal);
    assert!(sent > 0);
    let output = installation.topic_name("crash.symbolicated");
    let all = (2 * WAITING + sent) as usize;
    let records =
        installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= all).await;
    let mut revisions: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for record in &records {
        let (tenant, revision) = (record.header_text("tenant"), record.header_text("revision"));
        revisions.entry((tenant, record.header_text("report-id"))).or_default().push(revision);
        let expected = if (tenant, revision) == (TENANT, "1") {
            vec![Vec::<String>::new(), Vec::new()]
        } else {
            FUNCTIONS.map(|calls| calls.iter().map(|call| (*call).to_owned()).collect()).to_vec()
        };
        assert_eq!(list_functions(&record.parse_json()), expected, "{:?}", record.headers);
    }
    let with = |tenant: &str, all: &[&str]| {
        revisions.iter().filter(|((of, _), revisions)| *of == tenant && revisions.as_slice() == all).count()
    };
    assert_eq!(with(TENANT, &["1", "2"]), WAITING as usize);
    assert_eq!(with(LIVE, &["1"]), sent as usize);
    assert_eq!(records.len(), all);
    let audit = tokio::task::block_in_place(|| installation.command_succeeds(&["audit", "--json"]));
    let audit: serde_json::Value = serde_json::from_str(&audit).expect("JSON");
    assert_eq!(audit["clean"], true, "{audit}");
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_dsym_heals_the_reports_that_waited_for_it() {
    let app = App::from_fixture("app");
    let installation = Installation::start().await;
    let client = installation.client();
    let input = installation.topic_name("crash.reports");
    let output = installation.topic_name("crash.symbolicated");
    let reports = 20;
    for number in 0..reports {
        let report = app.build_report(number).bytes();
        installation.topics.produce_record(&input, None, &[("tenant", TENANT)], &report).await;
    }
    let all = reports as usize;
    let first = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= all).await;
    for record in &first {
        let report = record.parse_json();
        assert_eq!(report["symbolication"]["revision"], 1);
        assert_eq!(report["symbolication"]["missing"][0], app.debug_id.to_string(), "{report}");
        assert_eq!(list_functions(&report), [Vec::<String>::new(), Vec::new()], "nothing is guessed");
    }
    client
        .wait_for("/v1/missing-symbols", EVENTUAL_TIMEOUT, |_, page| {
            let wanted = |item: &serde_json::Value| {
                item["debug_id"] == app.debug_id.to_string() && item["reports"] == reports
            };
            page["items"].as_array().is_some_and(|items| items.iter().any(wanted))
        })
        .await;
    // A team talks about the group that lacks symbols.
    let scopes = "reports:read,groups:write";
    let made = installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", scopes]);
    let key = made.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key is printed");
    let team = Client::new(&installation.url, key);
    let (_, groups) = team.get("/v1/groups?provisional=true").await;
    let old = groups["items"][0]["id"].as_str().expect("a group").to_owned();
    let comment = r#"{"text": "Who has the dSYM?"}"#;
    let answer = team.attempt_json(&format!("/v1/groups/{old}/comments"), comment).await;
    assert_eq!(answer.expect("an answer").0, 201);

    client.upload_symbols(app.dsym.clone()).await;
    let healed =
        installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= 2 * all).await;
    let again: Vec<_> = healed.iter().filter(|record| record.header_text("revision") == "2").collect();
    assert_eq!(again.len(), all, "each report comes back once");
    for record in again {
        let report = record.parse_json();
        assert_eq!(report["symbolication"]["supersedes"], 1);
        assert_eq!(report["symbolication"]["status"], "complete");
        assert_eq!(list_functions(&report), FUNCTIONS.map(<[_]>::to_vec));
    }
    let id = "00000000-0000-4000-8000-000000000001";
    let stored = client
        .wait_for(&format!("/v1/reports/{id}"), EVENTUAL_TIMEOUT, |_, report| {
            report["symbolication"]["revision"] == 2
        })
        .await;
    assert_eq!(list_functions(&stored), FUNCTIONS.map(<[_]>::to_vec));
    let path = format!("/v1/groups/{old}");
    let group =
        team.wait_for(&path, EVENTUAL_TIMEOUT, |_, group| group["redirected_from"] == old.as_str()).await;
    assert_eq!((&group["reports"], &group["provisional"]), (&reports.into(), &false.into()), "{group}");
    let (_, activity) = team.get(&format!("{path}/activity")).await;
    let said =
        |item: &serde_json::Value| item["text"] == "Who has the dSYM?" && item["moved_from"] == old.as_str();
    assert!(activity["items"].as_array().is_some_and(|items| items.iter().any(said)), "{activity}");
    installation.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn late_system_symbols_heal_the_reports_of_every_tenant() {
    let app = App::from_fixture("app");
    let mut installation = Installation::start().await;
    let acme = installation.client();
    installation.make_tenant("umbrella");
    let umbrella = installation.client();
    let input = installation.topic_name("crash.reports");
    for tenant in [TENANT, "umbrella"] {
        let report = app.system_report(1).bytes();
        installation.topics.produce_record(&input, None, &[("tenant", tenant)], &report).await;
    }
    let path = "/v1/reports/00000000-0000-4000-8000-000000000001";
    for client in [&acme, &umbrella] {
        let report = client.wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
        assert_eq!(report["symbolication"]["missing"][0], app.debug_id.to_string(), "{report}");
        assert_eq!(report["symbolication"]["images"][0]["system"], true);
    }
    // A tenant's key is no operator's.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("usr/lib")).unwrap();
    std::fs::write(folder.path().join("usr/lib/libshop.dylib"), &app.dsym).unwrap();
    let folder = folder.path().to_str().unwrap();
    let (status, _, error) = installation.run_command(&["upload", "--system", folder]);
    assert!(status != 0 && error.contains("403"), "{error}");
    let made = installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", "operator"]);
    let key = made.split_whitespace().find(|word| word.starts_with("unslide_")).unwrap();
    let printed = installation.command_succeeds(&["upload", "--system", "--api-key", key, folder]);
    assert!(printed.contains("1 uploaded"), "{printed}");
    let printed = installation.command_succeeds(&["upload", "--system", "--api-key", key, folder]);
    assert!(printed.contains("1 known before"), "{printed}");
    for client in [&acme, &umbrella] {
        let report = client
            .wait_for(path, EVENTUAL_TIMEOUT, |_, report| report["symbolication"]["revision"] == 2)
            .await;
        assert_eq!(list_functions(&report), FUNCTIONS.map(<[_]>::to_vec));
    }
    installation.stop().await;
}
