//! A person, what came with a public key, and a tenant: a dry run counts, an erasure removes as many rows, and then no table,
//! object or log has a text of them.
//! Proves: deletion

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::path::Path;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

const SCOPES: &str = "symbols:write,reports:write,reports:read,tenant:admin";
/// Texts in reports that are erased.
const PERSON: &str = "planted-person-4711";
const SENDER: &str = "planted-sender-4712";
const CUSTOMER: &str = "planted-customer-4713";

/// A report that has a text as the id of its user, as a key of the app and as the name of its process.
pub fn planted_report(app: &App, number: u32, text: &str) -> Vec<u8> {
    let mut report: Value = serde_json::from_slice(&app.build_report(number).bytes()).expect("JSON");
    report["user"] = json!({"id": text, "note": text});
    report["system"]["process_name"] = text.into();
    report.to_string().into_bytes()
}

/// Returns the places that have a text: tables, and files of the installation (objects and logs).
pub async fn find_places(installation: &Installation, text: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let tables =
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.expect("names");
    let mut places = Vec::new();
    for table in tables {
        let rows = format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%{text}%'");
        let rows: i64 =
            sqlx::query_scalar(AssertSqlSafe(rows)).fetch_one(&mut connection).await.expect("a number");
        if rows > 0 {
            places.push(table);
        }
    }
    connection.close().await.expect("closed");
    find_files(installation.folder(), text, &mut places);
    places
}

fn find_files(folder: &Path, text: &str, places: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            find_files(&entry, text, places);
        } else if std::fs::read(&entry)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            places.push(entry.display().to_string());
        }
    }
}

async fn wait_for_reports(client: &Client, number: usize) {
    let are_there = |_, page: &Value| page["items"].as_array().is_some_and(|items| items.len() == number);
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, are_there).await;
}

async fn send_by_app(installation: &Installation, key: &str, report: Vec<u8>) {
    let request = reqwest::Client::new().post(format!("{}/i/{key}", installation.url));
    let request = request.header("content-type", "application/json").body(report);
    assert_eq!(request.send().await.expect("an answer").status().as_u16(), 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dry_run_counts_is_erased_and_is_nowhere_afterwards() {
    let mut installation = Installation::start().await;
    let stark = installation.make_tenant("stark");
    installation.key = installation.make_key(TENANT, SCOPES);
    let (client, customer) = (installation.client(), Client::new(&installation.url, &stark));
    let app = App::from_fixture("app");
    let create = ["key", "create", "--tenant", TENANT, "--kind", "public", "--app", app.bundle];
    let output = installation.command_succeeds(&create);
    let key = output.split_whitespace().find(|word| word.starts_with("usp_")).expect("a key").to_owned();

    let (status, answer) = client.post("/v1/reports", planted_report(&app, 1, PERSON)).await;
    assert_eq!(status, 202, "{answer}");
    let session = json!({"id": "0198c0de-0000-7000-8000-0000000000aa", "installation": "phone", "user": PERSON,
        "app": app.bundle, "version": "1.0", "started_at": "2026-11-20T07:00:00Z"});
    let (status, answer) = client.post("/v1/sessions", session.to_string().into_bytes()).await;
    assert_eq!(status, 202, "{answer}");
    let (status, answer) = customer.post("/v1/reports", planted_report(&app, 2, CUSTOMER)).await;
    assert_eq!(status, 202, "{answer}");
    send_by_app(&installation, &key, planted_report(&app, 3, SENDER)).await;
    let (status, answer) = client.post("/v1/reports", app.build_report(4).bytes()).await;
    assert_eq!(status, 202, "{answer}");
    wait_for_reports(&client, 3).await;
    wait_for_reports(&customer, 1).await;
    for text in [PERSON, SENDER, CUSTOMER] {
        assert!(!find_places(&installation, text).await.is_empty(), "{text} is stored");
    }

    let keys = client.get("/v1/public-keys").await.1;
    let key_id = keys["items"][0]["id"].as_str().expect("an id").to_owned();
    let person = ["erase", "--user", PERSON];
    let sender = ["public-key", "erase", &key_id, "--from", "1h"];
    let counted = |command: &[&str]| installation.command_succeeds(&[command, &["--dry-run"]].concat());
    assert_eq!(counted(&person), "would remove reports 1, sessions 1\n");
    assert_eq!(counted(&sender), "would remove reports 1\n");
    let tenant = counted(&["tenant", "delete", "stark"]);
    assert!(
        tenant.contains("reports\t1 rows would be removed\n") && !tenant.contains("audit_log"),
        "{tenant}"
    );
    wait_for_reports(&client, 3).await;

    installation.command_succeeds(&[&sender[..], &["--yes", "--no-wait"]].concat());
    let erased = installation.command_succeeds(&[&person[..], &["--yes"]].concat());
    assert!(erased.ends_with("  done  reports 1, sessions 1\n"), "{erased}");
    let is_over = |_, key: &Value| key["erasures"][0]["state"] == "done";
    let shown = client.wait_for(&format!("/v1/public-keys/{key_id}"), EVENTUAL_TIMEOUT, is_over).await;
    assert_eq!(shown["erasures"][0]["removed"], json!({"reports": 1}));
    let deleted = installation.command_succeeds(&["tenant", "delete", "stark", "--yes", "--wait"]);
    for line in tenant.lines().filter_map(|line| line.strip_suffix(" rows would be removed")) {
        assert!(deleted.contains(&format!("{line} rows removed\n")), "{line}: {deleted}");
    }
    wait_for_reports(&client, 1).await;
    for text in [PERSON, SENDER, CUSTOMER] {
        assert_eq!(find_places(&installation, text).await, Vec::<String>::new(), "{text}");
    }
    installation.stop().await;
}
