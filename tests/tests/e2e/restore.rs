//! The database is restored to an earlier moment, and Kafka and object storage are as they were: what backup.md says of
//! that, step by step.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::time::Duration;
use unslide_proto::headers;
use unslide_tests::app::App;
use unslide_tests::installation::{Installation, TENANT};

const SERVICES: [&str; 4] = ["builder", "api", "indexer", "symbolizer"];
/// The tenant that is made after the backup.
const LATER: &str = "later";
const SOON: Duration = Duration::from_secs(300);

/// Copies a database that nobody is connected to, in the place of one that may be there.
async fn copy_database(installation: &Installation, from: &str, to: &str) {
    let mut admin = PgConnection::connect(&installation.place().postgres).await.expect("PostgreSQL");
    for statement in [
        format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)"),
        format!("CREATE DATABASE {to} TEMPLATE {from}"),
    ] {
        admin.execute(AssertSqlSafe(statement)).await.expect("a copy");
    }
}

fn stop_services(installation: &mut Installation) {
    for service in SERVICES {
        let process = installation.take_process(service);
        assert!(tokio::task::block_in_place(|| process.terminate()).success(), "{service}");
    }
}

async fn start_services(installation: &mut Installation) {
    for service in SERVICES {
        installation.start_service(service, service, &[]);
    }
    for service in SERVICES {
        installation.wait_ready(service).await;
    }
}

async fn send(installation: &Installation, tenant: &str, app: &App, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let topic = installation.topic_name("crash.reports");
        let report = app.build_report(number).bytes();
        installation.topics.produce_record(&topic, None, &[(headers::TENANT, tenant)], &report).await;
    }
}

/// Waits until the tenant of the installation's key has so many reports of an app.
async fn wait_stored(installation: &Installation, app: &App, count: usize) {
    let path = format!("/v1/reports?app={}", app.bundle);
    let has = |_, list: &Value| list["items"].as_array().is_some_and(|items| items.len() == count);
    installation.client().wait_for(&path, SOON, has).await;
}

/// Runs fsck. Returns its exit code, and problems with their subjects.
fn fsck(installation: &Installation) -> (i32, Vec<[String; 2]>) {
    let (code, output, error) = installation.run_command(&["fsck", "--json", "--age", "0s"]);
    let answer: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}{error}"));
    let findings = answer["disagreements"].as_array().expect("a list").iter();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    (code, findings.map(|finding| [text(finding, "problem"), text(finding, "subject")]).collect())
}

fn problems(findings: &[[String; 2]]) -> Vec<&str> {
    findings.iter().map(|[problem, _]| problem.as_str()).collect()
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restore_of_the_database_nothing_is_lost_and_fsck_says_what_is_to_be_done() {
    let mut installation = Installation::start().await;
    let (app, next) = (App::from_fixture("app"), App::from_fixture("app-next"));
    installation.client().upload_symbols(app.dsym.clone()).await;
    send(&installation, TENANT, &app, 1..4).await;
    wait_stored(&installation, &app, 3).await;
    let database = installation.database_url().rsplit_once('/').expect("a name").1.to_owned();
    let backup = format!("{database}_backup");
    stop_services(&mut installation);
    copy_database(&installation, &database, &backup).await;
    start_services(&mut installation).await;
    assert_eq!(fsck(&installation), (0, Vec::new()));

    // What the backup does not have.
    send(&installation, TENANT, &app, 4..6).await;
    wait_stored(&installation, &app, 5).await;
    installation.client().upload_symbols(next.dsym.clone()).await;
    let key = installation.key.clone();
    installation.make_tenant(LATER);
    installation.client().upload_symbols(app.dsym.clone()).await;
    send(&installation, LATER, &app, 1..3).await;
    wait_stored(&installation, &app, 2).await;

    stop_services(&mut installation);
    copy_database(&installation, &backup, &database).await;
    start_services(&mut installation).await;
    // The reports that came since are stored again, without a command.
    installation.key = key.clone();
    wait_stored(&installation, &app, 5).await;
    let (code, findings) = fsck(&installation);
    let found = ["reports_without_tenant", "files_without_tenant", "symbols_without_row"];
    assert!(found.iter().all(|problem| problems(&findings).contains(problem)), "{findings:?}");
    assert_eq!(code, 6);
    let of_later: Vec<&str> =
        findings.iter().filter(|[_, of]| of == LATER).map(|[problem, _]| problem.as_str()).collect();
    assert_eq!(of_later, ["reports_without_tenant", "files_without_tenant"]);

    // What it says repairs them.
    installation.client().upload_symbols(next.dsym.clone()).await;
    installation.make_tenant(LATER);
    wait_stored(&installation, &app, 2).await;
    installation.client().upload_symbols(app.dsym.clone()).await;
    let (_, findings) = fsck(&installation);
    // What is left is bytes that nobody reads.
    assert!(findings.iter().all(|[problem, _]| problem == "file_without_row"), "{findings:?}");

    // A file that a row needs is gone.
    let objects = installation.folder().join("objects");
    let gone = format!("t/{LATER}/symbols");
    let folder = walk(&objects, &gone).expect("the folder of symbols");
    std::fs::remove_dir_all(&folder).expect("removed");
    let (code, findings) = fsck(&installation);
    let missing = findings.iter().filter(|[problem, of]| problem == "file_missing" && of.starts_with(&gone));
    assert_eq!((code, missing.count()), (6, 2), "{findings:?}");
    installation.command_succeeds(&["symbols", "backfill", "--all", "--tenant", LATER]);
    let end = tokio::time::Instant::now() + SOON;
    while problems(&fsck(&installation).1).contains(&"file_missing") {
        assert!(tokio::time::Instant::now() < end, "nothing is built again");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut admin = PgConnection::connect(&installation.place().postgres).await.expect("PostgreSQL");
    let drop = format!("DROP DATABASE {backup} WITH (FORCE)");
    admin.execute(AssertSqlSafe(drop)).await.expect("dropped");
    installation.stop().await;
}

/// Finds the folder below `root` that ends with this path.
fn walk(root: &std::path::Path, path: &str) -> Option<std::path::PathBuf> {
    let here = root.join(path);
    if here.is_dir() {
        return Some(here);
    }
    let entries = std::fs::read_dir(root).ok()?.filter_map(Result::ok);
    entries.filter(|entry| entry.path().is_dir()).find_map(|entry| walk(&entry.path(), path))
}
