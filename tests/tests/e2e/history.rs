//! `[history]` is turned on, off and on again, as docs/history.md says it, while processes and ClickHouse are killed at the steps.

use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use unslide_embedded::ClickHouse;
use unslide_proto::headers;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};
use unslide_tests::proxy::Proxy;

const SERVICES: [&str; 4] = ["builder", "api", "symbolizer", "indexer"];
const DATABASE: &str = "past";
/// Settings of the indexer: bodies move at once, so that their rows may.
const BODIES_MOVE: (&str, &str) = ("UNSLIDE_INDEXER__SEGMENT_AFTER", "1s");

/// An installation, and its ClickHouse behind a proxy.
struct Subject {
    installation: Installation,
    clickhouse: Option<ClickHouse>,
    folder: tempfile::TempDir,
    proxy: Proxy,
    /// The section `history`, its URL first.
    section: Vec<(&'static str, String)>,
}

fn start_clickhouse(folder: &Path) -> ClickHouse {
    ClickHouse::start(folder).expect("ClickHouse starts").expect("scripts/setup test has installed chdb-core")
}

fn borrow_settings<'s>(settings: &'s [(&'static str, String)]) -> Vec<(&'s str, &'s str)> {
    settings.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

impl Subject {
    async fn start() -> Subject {
        let folder = tempfile::tempdir().expect("a folder");
        let clickhouse = start_clickhouse(folder.path());
        let (proxy, url) = Proxy::for_url(&clickhouse.url()).await;
        let section = vec![
            ("UNSLIDE_HISTORY__URL", url),
            ("UNSLIDE_HISTORY__USER", "default".to_owned()),
            ("UNSLIDE_HISTORY__DATABASE", DATABASE.to_owned()),
            ("UNSLIDE_HISTORY__AFTER", "1s".to_owned()),
        ];
        let installation = Installation::prepare().await;
        Subject { installation, clickhouse: Some(clickhouse), folder, proxy, section }
    }

    fn settings(&self, is_on: bool) -> Vec<(&'static str, String)> {
        let section = self.section.iter().filter(|_| is_on).cloned();
        section.chain([(BODIES_MOVE.0, BODIES_MOVE.1.to_owned())]).collect()
    }

    fn with_after(&mut self, after: &str) {
        self.section.retain(|(name, _)| *name != "UNSLIDE_HISTORY__AFTER");
        self.section.push(("UNSLIDE_HISTORY__AFTER", after.to_owned()));
    }

    fn launch_services(&mut self, services: &[&str], is_on: bool) {
        let settings = self.settings(is_on);
        for service in services {
            self.installation.start_service(service, service, &borrow_settings(&settings));
        }
    }

    async fn start_services(&mut self, services: &[&str], is_on: bool) {
        self.launch_services(services, is_on);
        for service in services {
            self.installation.wait_ready(service).await;
        }
    }

    /// Runs a command with the section: its exit code, and all that it says.
    fn run_command(&self, arguments: &[&str]) -> (i32, String) {
        let (status, output, error) =
            self.installation.command_with(arguments, &borrow_settings(&self.settings(true)));
        (status, output + &error)
    }

    fn stop_services(&mut self, services: &[&str]) {
        for service in services {
            let process = self.installation.take_process(service);
            assert!(tokio::task::block_in_place(|| process.terminate()).success(), "{service}");
        }
    }

    fn kill_clickhouse(&mut self) {
        self.clickhouse.take().expect("it runs").kill();
    }

    fn restart_clickhouse(&mut self) {
        let clickhouse = start_clickhouse(self.folder.path());
        self.proxy.forward_to(clickhouse.listen());
        self.clickhouse = Some(clickhouse);
    }

    async fn number(&self, query: &str) -> i64 {
        let mut database =
            PgConnection::connect(&self.installation.database_url()).await.expect("PostgreSQL");
        let number = sqlx::query_scalar(sqlx::AssertSqlSafe(query.to_owned())).fetch_one(&mut database).await;
        let _ = database.close().await;
        number.unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// The rows of reports in PostgreSQL, and those that their keys say are in ClickHouse.
    async fn places(&self) -> (i64, i64) {
        let moved = "SELECT count(*) FROM report_keys WHERE history_version IS NOT NULL";
        (self.number("SELECT count(*) FROM reports").await, self.number(moved).await)
    }

    /// The rows in ClickHouse, with those that no key names.
    async fn count_in_clickhouse(&self) -> i64 {
        let client = Client::new(&self.clickhouse.as_ref().expect("it runs").url(), "");
        let counted = client.post("/", format!("SELECT count() FROM {DATABASE}.reports").into_bytes()).await;
        counted.1.as_i64().unwrap_or_else(|| panic!("{counted:?}"))
    }

    async fn wait_until(&self, what: &str, is_done: impl AsyncFn() -> bool) {
        let mut waited = Duration::ZERO;
        while !is_done().await {
            assert!(waited < EVENTUAL_TIMEOUT, "{what}: {:?}", self.places().await);
            tokio::time::sleep(Duration::from_millis(100)).await;
            waited += Duration::from_millis(100);
        }
    }

    /// Kills indexers until all rows have moved. The first round of an indexer moves what is due.
    async fn move_all(&mut self, rows: i64) {
        for _ in 0..20 {
            self.installation.take_process("indexer").kill();
            self.start_services(&["indexer"], true).await;
            for _ in 0..30 {
                if self.places().await == (0, rows) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        panic!("{rows} rows have not moved: {:?}", self.places().await);
    }

    async fn send(&self, app: &App, numbers: std::ops::RangeInclusive<u32>) {
        let topic = self.installation.topic_name("crash.reports");
        for number in numbers {
            let report = app.build_report(number).bytes();
            self.installation
                .topics
                .produce_record(&topic, None, &[(headers::TENANT, TENANT)], &report)
                .await;
        }
    }

    async fn wait_listed(&self, count: usize) {
        let client = self.installation.client();
        let has = |_, list: &Value| list["items"].as_array().is_some_and(|items| items.len() == count);
        client.wait_for("/v1/reports?limit=100", EVENTUAL_TIMEOUT, has).await;
    }

    /// All that the API says of reports, by their ids. Fails if a list has one twice.
    async fn read_all(&self) -> BTreeMap<String, [Value; 2]> {
        let client = self.installation.client();
        let (mut cursor, mut all) = (String::new(), BTreeMap::new());
        loop {
            let (status, page) = client.get(&format!("/v1/reports?limit=3{cursor}")).await;
            assert_eq!((status, page.get("history_unavailable")), (200, None), "{page}");
            for item in page["items"].as_array().expect("a list") {
                let id = item["id"].as_str().unwrap_or_else(|| panic!("{item}")).to_owned();
                let (status, report) = client.get(&format!("/v1/reports/{id}")).await;
                assert_eq!(status, 200, "{report}");
                assert!(all.insert(id, [item.clone(), report]).is_none(), "twice: {item}");
            }
            let Some(next) = page["next_cursor"].as_str() else { return all };
            cursor = format!("&cursor={next}");
        }
    }
}

/// Fails with the first difference.
#[track_caller]
fn assert_same(before: &BTreeMap<String, [Value; 2]>, after: &BTreeMap<String, [Value; 2]>) {
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (id, said) in before {
        assert_eq!(said, &after[id], "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_turned_on_off_and_on_again_and_nothing_is_lost_or_twice() {
    let mut subject = Subject::start().await;
    let (app, next) = (App::from_fixture("app"), App::from_fixture("app-next"));
    let (status, said) = subject.run_command(&["migrate"]);
    assert!(status == 0 && said.contains("history: the tables at ClickHouse are there"), "{said}");
    let (_, said) = subject.run_command(&["config", "check", "--connect"]);
    assert!(said.contains("ClickHouse at http://127.0.0.1:") && said.contains("history.url"), "{said}");
    subject.launch_services(&SERVICES, true);
    subject.installation.make_tenant(TENANT);
    for service in SERVICES {
        subject.installation.wait_ready(service).await;
    }
    subject.installation.client().upload_symbols(app.dsym.clone()).await;
    subject.send(&app, 1..=6).await;
    subject.send(&next, 7..=9).await;
    subject.wait_listed(9).await;
    let before = subject.read_all().await;
    subject.move_all(9).await;
    assert_same(&before, &subject.read_all().await);
    for command in ["fsck", "audit"] {
        let (status, said) = subject.run_command(&[command]);
        assert_eq!(status, 0, "{command}: {said}");
    }

    // ClickHouse dies. Reports are stored, lists say where they end, and late symbols wait.
    subject.kill_clickhouse();
    let client = subject.installation.client();
    client.upload_symbols(next.dsym.clone()).await;
    subject.send(&app, 10..=10).await;
    let is_cut = |_, list: &Value| {
        list["items"].as_array().is_some_and(|items| items.len() == 1)
            && list["history_unavailable"].is_string()
    };
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, is_cut).await;
    subject.restart_clickhouse();
    let complete = |_, list: &Value| list["items"].as_array().is_some_and(|items| items.len() == 10);
    client.wait_for("/v1/reports?status=complete", EVENTUAL_TIMEOUT, complete).await;

    // An indexer dies while ClickHouse does not answer its insert.
    subject.installation.take_process("indexer").kill();
    subject.send(&app, 11..=11).await;
    let (silent, url) = Proxy::for_url(&subject.clickhouse.as_ref().expect("it runs").url()).await;
    let mut caught = silent.trap_requests("insert_deduplication_token");
    let fair = std::mem::replace(&mut subject.section[0].1, url);
    subject.launch_services(&["indexer"], true);
    let insert = tokio::time::timeout(EVENTUAL_TIMEOUT, caught.recv()).await;
    assert!(insert.expect("a move begins").is_some());
    subject.installation.take_process("indexer").kill();
    subject.section[0].1 = fair;
    // Others give it up once it is old.
    let age = "WITH aged AS (UPDATE history_moves SET begun_at = begun_at - interval '1 hour' RETURNING 1) SELECT count(*) FROM aged";
    assert_eq!(subject.number(age).await, 1, "it died in the middle");
    subject.start_services(&["indexer"], true).await;
    subject.wait_listed(11).await;
    let before = subject.read_all().await;
    subject.move_all(11).await;
    assert_same(&before, &subject.read_all().await);

    // Off: as the page says.
    subject.with_after("3650d");
    subject.stop_services(&["indexer"]);
    subject.start_services(&["indexer"], true).await;
    subject.kill_clickhouse();
    let (status, said) = subject.run_command(&["leave-history", "--yes"]);
    assert!(status == 4 && said.contains("ClickHouse"), "{status}: {said}");
    subject.restart_clickhouse();
    for rows in ["acme: 11 rows", "acme: 0 rows"] {
        let (status, said) = subject.run_command(&["leave-history", "--yes"]);
        assert!(status == 0 && said.contains(rows) && said.contains("all rows are in PostgreSQL"), "{said}");
    }
    subject.stop_services(&SERVICES);
    subject.kill_clickhouse();
    subject.start_services(&SERVICES, false).await;
    assert_eq!(subject.places().await, (11, 0));
    let (status, said, _) = subject.installation.run_command(&["leave-history", "--yes"]);
    assert!(status == 2 && said.contains("history.url is not set"), "{status}: {said}");
    assert_same(&before, &subject.read_all().await);

    // On again, with an indexer that dies while rows move.
    subject.restart_clickhouse();
    subject.with_after("1s");
    subject.stop_services(&SERVICES);
    subject.start_services(&SERVICES, true).await;
    subject.move_all(11).await;
    assert_same(&before, &subject.read_all().await);
    // No row is left there that no key names.
    subject.installation.take_process("indexer").kill();
    subject.start_services(&["indexer"], true).await;
    subject.wait_until("outdated rows are deleted", async || subject.count_in_clickhouse().await == 11).await;
}
