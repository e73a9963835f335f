//! The commands of operators and administrators, each by its effect on an installation that runs.

use serde_json::Value;
use std::time::Duration;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// The id of a key that is not there.
const NO_KEY: &str = "7d444840-9dc0-41d1-b245-5ffdce74fad2";

/// Runs a command that ends with the exit code `code` and says `said` on standard error.
fn fails(installation: &Installation, code: i32, arguments: &[&str], said: &[&str]) {
    let (status, output, error) = installation.run_command(arguments);
    assert_eq!((status, output.as_str()), (code, ""), "unslide {arguments:?}: {output}{error}");
    assert!(said.iter().all(|words| error.contains(words)), "unslide {arguments:?}: {error}");
}

/// Makes a key; its text.
fn key(installation: &Installation, tenant: &str, more: &[&str]) -> String {
    let arguments = [&["key", "create", "--tenant", tenant], more].concat();
    let output = installation.command_succeeds(&arguments);
    assert_eq!((output.lines().count(), output.starts_with("unslide_")), (1, true), "{output}");
    output.trim().to_owned()
}

/// What `key list` says of a key.
fn listed(installation: &Installation, tenant: &str, key: &str) -> Value {
    let list = ["key", "list", "--tenant", tenant];
    let prefix = key.rsplit_once('_').expect("a key").0;
    let table = installation.command_succeeds(&list);
    assert!(table.starts_with("ID ") && table.contains(prefix), "{table}");
    let output = installation.command_succeeds(&[&list[..], &["--json"]].concat());
    assert!(!output.contains(key) && !table.contains(key), "a secret is shown once");
    let keys: Vec<Value> = serde_json::from_str(&output).expect("JSON");
    let is_it = |listed: &Value| listed["prefix"].as_str().is_some_and(|part| prefix.ends_with(part));
    keys.into_iter().find(is_it).unwrap_or_else(|| panic!("{output}"))
}

fn shown(installation: &Installation, tenant: &str) -> Value {
    serde_json::from_str(&installation.command_succeeds(&["tenant", "show", tenant])).expect("JSON")
}

/// The dead letters that a key sees, the newest first, once there are `count`.
async fn letters(installation: &Installation, key: &str, count: usize) -> Vec<Value> {
    let mut waited = Duration::ZERO;
    loop {
        let output = installation.command_succeeds(&["dead-letter", "list", "--json", "--api-key", key]);
        let found: Vec<Value> = serde_json::from_str(&output).expect("JSON");
        if found.len() >= count {
            return found;
        }
        assert!(waited < EVENTUAL_TIMEOUT, "{count} dead letters: {output}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        waited += Duration::from_millis(200);
    }
}

/// Sends records of stark that nobody can read, until the symbolizer refuses one because the tenant is suspended, or for
/// another reason. A command ends when a change is announced, which is before each worker has heard of it.
async fn until_refused(installation: &Installation, admin: &str, is_suspended: bool) {
    let input = installation.topic_name("crash.reports");
    for _ in 0..20 {
        let before = letters(installation, admin, 0).await.len();
        installation.topics.produce_record(&input, None, &[("tenant", "stark")], b"{\"report\":").await;
        let newest = letters(installation, admin, before + 1).await.swap_remove(0);
        if (newest["reason"] == "tenant_suspended") == is_suspended {
            return;
        }
    }
    panic!("the symbolizer does not hear whether stark is suspended");
}

async fn keys(installation: &Installation, app: &App) {
    let more = ["--scope", "reports:write,reports:read", "--app", "com.example.shop", "--expires", "90d"];
    let shop = key(installation, TENANT, &[&more[..], &["--name", "the shop"]].concat());
    let made = listed(installation, TENANT, &shop);
    let said = (&made["state"], &made["apps"][0], &made["name"]);
    assert_eq!(said, (&"in force".into(), &"com.example.shop".into(), &"the shop".into()));
    assert_eq!(made["scopes"], serde_json::json!(["reports:write", "reports:read"]));
    assert!(made["expires_at"].as_str().is_some_and(|at| at.starts_with('2') && at.contains('T')), "{made}");
    let id = made["id"].as_str().expect("an id");
    let client = Client::new(&installation.url, &shop);
    assert_eq!(client.get("/v1/reports").await.0, 200);
    assert_eq!(client.post("/v1/symbols", app.dsym.clone()).await.0, 403, "another scope");
    let mut other: Value = serde_json::from_slice(&app.build_report(9).bytes()).expect("JSON");
    other["system"]["CFBundleIdentifier"] = "com.example.bank".into();
    assert_eq!(client.post("/v1/reports", other.to_string().into_bytes()).await.0, 403, "another app");
    let revoke = ["key", "revoke", "--tenant", TENANT, id];
    fails(installation, 2, &revoke, &["cannot be undone", "--yes"]);
    assert_eq!(client.get("/v1/reports").await.0, 200, "nothing was done");
    let output = installation.command_succeeds(&[&revoke[..], &["--yes"]].concat());
    assert_eq!(output, "revoked\n");
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, |status, _| status == 401).await;
    assert_eq!(listed(installation, TENANT, &shop)["state"], "revoked");
    fails(
        installation,
        3,
        &["key", "create", "--tenant", "nobody", "--scope", "operator"],
        &["no tenant nobody", "tenant list"],
    );
    fails(installation, 3, &["key", "list", "--tenant", "nobody"], &["no tenant nobody", "tenant list"]);
    fails(installation, 3, &["key", "revoke", "--tenant", "nobody", id], &["no tenant nobody"]);
    let unknown = ["key", "revoke", "--tenant", TENANT, NO_KEY, "--yes"];
    fails(installation, 3, &unknown, &["has no key", "key list"]);
    let both = ["key", "create", "--tenant", TENANT, "--scope", "operator", "--app", "a"];
    fails(installation, 2, &both, &["cannot use operations of operators"]);
    let past =
        ["key", "create", "--tenant", TENANT, "--scope", "operator", "--expires", "2001-01-01T00:00:00Z"];
    fails(installation, 2, &past, &["--expires", "past"]);
}

/// A suspended tenant's upload is refused, and its report on Kafka becomes a dead letter: its id.
async fn suspended(installation: &Installation, app: &App, folder: &str, stark: &str, admin: &str) -> String {
    assert_eq!(installation.command_succeeds(&["tenant", "suspend", "stark"]), "stark\tsuspended\n");
    let client = Client::new(&installation.url, stark);
    // The api remembers a key and its tenant for a moment. Until then this is no report.
    client.post_until("/v1/reports", b"{", EVENTUAL_TIMEOUT, |status, _| status == 403).await;
    let file = format!("{folder}/usr/lib/libshop.dylib");
    let (status, _, error) = installation.run_command(&["upload", &file, "--api-key", stark]);
    assert!(status == 5 && error.contains("suspended"), "{error}");
    assert_eq!(client.post("/v1/reports", app.build_report(3).bytes()).await.0, 403);
    assert_eq!(client.get("/v1/reports").await.0, 200, "it can look");
    until_refused(installation, admin, true).await;
    let before = letters(installation, admin, 0).await.len();
    let input = installation.topic_name("crash.reports");
    installation
        .topics
        .produce_record(&input, None, &[("tenant", "stark")], &app.build_report(3).bytes())
        .await;
    let found = letters(installation, admin, before + 1).await;
    assert_eq!((found.len(), &found[0]["reason"]), (before + 1, &"tenant_suspended".into()), "{found:?}");
    let id = found[0]["id"].as_str().expect("an id").to_owned();
    let body =
        installation.command_succeeds(&["dead-letter", "show", &id, "--body", "-", "--api-key", admin]);
    assert_eq!(body.as_bytes(), app.build_report(3).bytes());
    fails(installation, 5, &["dead-letter", "replay", &id, "--api-key", admin], &["suspended"]);
    assert_eq!(installation.command_succeeds(&["tenant", "resume", "stark"]), "stark\tactive\n");
    let replay = format!("/v1/dead-letters/{id}/replay");
    let admins = Client::new(&installation.url, admin);
    admins.post_until(&replay, b"{", EVENTUAL_TIMEOUT, |status, _| status != 403).await;
    until_refused(installation, admin, false).await;
    id
}

async fn symbols(installation: &Installation, folder: &str, operator: &str) {
    let (status, _, error) = installation.run_command(&["upload", "--system", folder]);
    assert!(status == 5 && error.matches("(403").count() == 1, "{error}");
    let upload = ["upload", "--system", folder, "--api-key", operator];
    assert!(installation.command_succeeds(&upload).ends_with("1 uploaded, 0 known before, 0 failed\n"));
    assert!(installation.command_succeeds(&upload).ends_with("0 uploaded, 1 known before, 0 failed\n"));

    let backfill = |more: &[&str]| installation.command_succeeds(&[&["symbols", "backfill"], more].concat());
    assert_eq!(backfill(&["--tenant", TENANT]), format!("{TENANT}\tup to date\n"));
    let database = installation.database_url();
    let mut connection =
        <sqlx::PgConnection as sqlx::Connection>::connect(&database).await.expect("PostgreSQL");
    let older = "UPDATE objects SET symcache_version = 0 WHERE tenant = '~system'";
    sqlx::query(older).execute(&mut connection).await.expect("an older release's");
    fails(installation, 2, &["symbols", "backfill"], &["of every tenant", "--yes"]);
    assert!(backfill(&["--yes"]).contains("~system\tbegun\n"));
    let mut waited = Duration::ZERO;
    while !backfill(&["--yes"]).contains("~system\tup to date\n") {
        assert!(waited < EVENTUAL_TIMEOUT, "the backfill does not end");
        tokio::time::sleep(Duration::from_millis(200)).await;
        waited += Duration::from_millis(200);
    }
    fails(installation, 3, &["symbols", "backfill", "--tenant", "nobody"], &["no tenant nobody"]);
}

/// What came in and what became of it, once nothing is on its way.
async fn audited(installation: &Installation) -> Value {
    let mut waited = Duration::ZERO;
    loop {
        let (status, output, error) = installation.run_command(&["audit", "--json"]);
        assert_eq!(status, 0, "{output}{error}");
        let audit: Value = serde_json::from_str(&output).expect("JSON");
        if audit["total"]["unread"] == 0 && audit["total"]["waiting"] == 0 {
            return audit;
        }
        assert!(waited < EVENTUAL_TIMEOUT, "{output}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        waited += Duration::from_millis(200);
    }
}

async fn deleted(installation: &Installation, app: &App, stark: &str) {
    fails(installation, 2, &["tenant", "delete", "stark", "--wait"], &["cannot be undone", "--yes"]);
    assert_eq!(shown(installation, "stark")["state"], "active");
    let output = installation.command_succeeds(&["tenant", "delete", "stark", "--wait", "--yes"]);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines.first(), lines.last()), (Some(&"stark\tdeleted"), Some(&"left\t0")), "{output}");
    for removed in ["reports\t1 rows removed", "keys\t2 rows removed"] {
        assert!(lines.contains(&removed), "{removed}: {output}");
    }
    let proof = shown(installation, "stark");
    let left = proof["erasure"]["remaining"].as_object().expect("counted");
    assert!(proof["state"] == "deleted" && left.values().all(|rows| *rows == 0), "{proof}");
    let client = Client::new(&installation.url, stark);
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, |status, _| status == 401).await;
    let prefix = "SELECT count(*) FROM reports WHERE tenant = 'stark'";
    let database = installation.database_url();
    let mut connection =
        <sqlx::PgConnection as sqlx::Connection>::connect(&database).await.expect("PostgreSQL");
    let rows: i64 = sqlx::query_scalar(prefix).fetch_one(&mut connection).await.expect("a number");
    assert_eq!(rows, 0);
    // What still comes leaves nothing but its outcome.
    let before = audited(installation).await["total"]["other"].as_u64();
    let input = installation.topic_name("crash.reports");
    installation
        .topics
        .produce_record(&input, None, &[("tenant", "stark")], &app.build_report(4).bytes())
        .await;
    let after = audited(installation).await["total"]["other"].as_u64();
    assert_eq!(after, before.map(|before| before + 1));
    fails(installation, 1, &["tenant", "create", "stark"], &["was deleted", "cannot be used again"]);
    fails(installation, 1, &["tenant", "resume", "stark"], &["was deleted", "cannot be undone"]);
    fails(installation, 3, &["key", "list", "--tenant", "stark"], &["no tenant stark"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_an_operator_does_what_it_says() {
    let app = App::from_fixture("app");
    let installation = Installation::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("usr/lib/libshop.dylib");
    std::fs::create_dir_all(library.parent().expect("a folder")).expect("a folder");
    std::fs::write(&library, &app.dsym).expect("written");
    let folder = folder.path().to_str().expect("a path");
    keys(&installation, &app).await;

    let create = ["tenant", "create", "stark", "--name", "Stark", "--units-per-second", "50"];
    assert_eq!(installation.command_succeeds(&create), "stark\n");
    fails(&installation, 1, &create, &["exists already", "tenant show stark"]);
    let listed = installation.command_succeeds(&["tenant", "list"]);
    assert!(
        listed.starts_with("TENANT ") && listed.contains("  Stark\n") && listed.contains(TENANT),
        "{listed}"
    );
    let listed: Vec<Value> =
        serde_json::from_str(&installation.command_succeeds(&["tenant", "list", "--json"])).expect("JSON");
    let made = listed.iter().find(|tenant| tenant["id"] == "stark").expect("listed");
    assert_eq!((&made["state"], &made["name"]), (&"active".into(), &"Stark".into()));
    let used = installation.command_succeeds(&["tenant", "usage"]);
    assert!(
        used.starts_with("TENANT ") && used.contains("SYMBOLS MIB") && used.contains("\nstark "),
        "{used}"
    );
    let used = installation.command_succeeds(&["tenant", "usage", "--sort", "full", "--json"]);
    let used: Vec<Value> = serde_json::from_str(&used).expect("JSON");
    let made = used.iter().find(|tenant| tenant["id"] == "stark").expect("listed");
    let limits = (&made["limits"]["units_per_second"], &made["symbol_limit_bytes"]);
    assert_eq!(limits, (&50.into(), &(1_u64 << 40).into()));
    fails(&installation, 2, &["tenant", "usage", "--sort", "size"], &["reports, deferred, symbols or full"]);
    let stark =
        key(&installation, "stark", &["--scope", "symbols:write,symbols:read,reports:write,reports:read"]);
    let admin = key(&installation, "stark", &["--scope", "tenant:admin"]);
    let operator = key(&installation, TENANT, &["--scope", "operator"]);
    let limits = ["tenant", "limits", "stark", "--report-bytes", "1000"];
    assert_eq!(installation.command_succeeds(&limits), "stark\tactive\n");
    let tenant = shown(&installation, "stark");
    let said = (&tenant["limits"]["report_bytes"], &tenant["limits"]["units_per_second"]);
    assert_eq!(said, (&1000.into(), &50.into()), "an unnamed limit stays");
    let client = Client::new(&installation.url, &stark);
    assert_eq!(client.post("/v1/reports", app.build_report(3).bytes()).await.0, 413);
    installation.command_succeeds(&["tenant", "limits", "stark", "--report-bytes", "0"]);
    for command in ["show", "suspend", "resume", "limits", "delete"] {
        fails(&installation, 3, &["tenant", command, "nobody"], &["no tenant nobody", "tenant list"]);
    }

    let letter = suspended(&installation, &app, folder, &stark, &admin).await;
    symbols(&installation, folder, &operator).await;
    let audit = audited(&installation).await;
    let dead: Value = letters(&installation, &admin, 0).await.len().into();
    assert_eq!((&audit["total"]["in"], &audit["total"]["dead_letter"]), (&dead, &dead), "{audit}");

    fails(&installation, 5, &["dead-letter", "show", &letter], &["403"]);
    fails(
        &installation,
        2,
        &["dead-letter", "show", NO_KEY, "--api-key", &admin],
        &["not the id of a dead letter"],
    );
    let all = installation.command_succeeds(&["dead-letter", "list", "--all", "--api-key", &operator]);
    let row = all.lines().find(|line| line.contains(&letter)).unwrap_or_default();
    let is_complete = ["stark", "symbolize", "tenant_suspended"].iter().all(|word| row.contains(word));
    assert!(all.starts_with("ID ") && is_complete, "{all}");
    let everything = ["dead-letter", "replay", "--api-key", &admin];
    fails(&installation, 2, &everything, &["every dead letter", "--yes"]);
    let replay = ["dead-letter", "replay", &letter, "--api-key", &admin];
    assert!(installation.command_succeeds(&replay).contains("replayed as "));
    fails(&installation, 1, &replay, &["replayed already"]);
    let path = "/v1/reports/00000000-0000-4000-8000-000000000003";
    client.wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;

    let shop = ["reprocess", "--app", "com.example.shop", "--api-key", &admin];
    let reprocess = |more: &[&'static str]| installation.command_succeeds(&[&shop[..], more].concat());
    assert_eq!(reprocess(&["--dry-run"]), "1 reports fit\n");
    let output = reprocess(&["--wait"]);
    assert!(output.contains("done: 1 asked, 0 under way before, 0 better, 1 unchanged, 0 gone"), "{output}");
    fails(&installation, 5, &["reprocess", "--all"], &["403"]);
    assert_eq!(reprocess(&["--to", "1h", "--dry-run"]), "0 reports fit\n");

    deleted(&installation, &app, &stark).await;
    installation.stop().await;
}
