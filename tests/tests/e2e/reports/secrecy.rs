//! Values of registers and variables stay in the report: no title, fingerprint, alert, log line or metric has them.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use std::time::Duration;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::Installation;

const SERVICES: [&str; 4] = ["api", "builder", "indexer", "symbolizer"];
/// Every line of the service's own, those for developers too.
const LOG_FILTER: &str = "info,unslide=trace,unslide_alerts=trace,unslide_api=trace,unslide_builder=trace,\
    unslide_fault_analysis=trace,unslide_indexer=trace,unslide_store=trace,unslide_stream=trace,\
    unslide_symbolicate=trace,unslide_symbolizer=trace";
const SCOPES: &str = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin";
const MESSAGE_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The bad pointer of two crashes of one bug.
const PLANTED: [u64; 2] = [0x4ead_1de5_7a18, 0x5bee_fca7_9c28];

/// A crash through a bad pointer, which is the value of a register and of a variable.
fn crash_through(app: &App, number: u32, pointer: u64) -> Vec<u8> {
    let mut crash: Value = serde_json::from_slice(&app.build_report(number).bytes()).expect("JSON");
    let registers = &mut crash["crash"]["threads"][0]["registers"];
    registers["basic"]["x0"] = pointer.into();
    registers["exception"] = json!({"esr": 0x9200_0046_u64, "far": pointer});
    crash["crash"]["error"] = json!({"type": "mach", "mach": {"exception": 1}});
    crash.to_string().into_bytes()
}

/// The forms in which a value may be written: decimal, hexadecimal, and the bytes in memory.
fn written_forms(value: u64) -> [String; 3] {
    let bytes = value.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    [value.to_string(), format!("{value:x}"), bytes]
}

fn assert_is_secret(place: &str, text: &str) {
    let text = text.to_lowercase();
    for form in PLANTED.into_iter().flat_map(written_forms) {
        assert!(!text.contains(&form), "{form} is in {place}: {text}");
    }
}

/// The rows of a table as the superuser sees them.
async fn dump_table(installation: &Installation, table: &str) -> String {
    let mut connection = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let rows = sqlx::query(AssertSqlSafe(format!("SELECT t::text FROM {table} t")));
    let rows = rows.fetch_all(&mut connection).await.expect(table);
    connection.close().await.expect("closed");
    rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_in_the_report_and_nowhere_else() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(204, "")).await;
    let ports = format!("[{}]", receiver.port());
    let mut installation = Installation::start_with(&[
        ("UNSLIDE_LOG__FILTER", LOG_FILTER),
        ("UNSLIDE_API__ALERTS__NETWORKS", "[127.0.0.0/8]"),
        ("UNSLIDE_API__ALERTS__PORTS", ports.as_str()),
        ("UNSLIDE_API__PUBLIC_URL", "https://crashes.example.com"),
    ])
    .await;
    let output = installation.command_succeeds(&["key", "create", "--tenant", "acme", "--scope", SCOPES]);
    let key = output.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key");
    key.clone_into(&mut installation.key);
    installation.command_succeeds(&["fault-analysis", "--variables", "on"]);
    let client = installation.client();
    make_rules(&client, &receiver.url()).await;
    let app = App::from_fixture("app");
    client.upload_symbols(app.dsym.clone()).await;

    let input = installation.topic_name("crash.reports");
    let by_gateway = crash_through(&app, 1, PLANTED[0]);
    installation.topics.produce_record(&input, None, &[("tenant", "acme")], &by_gateway).await;
    let (status, accepted) = client.post("/v1/reports", crash_through(&app, 2, PLANTED[1])).await;
    assert_eq!(status, 202, "{accepted}");
    // A report that cannot be read has values as well.
    let cut = &by_gateway[..by_gateway.len() - 2];
    installation.topics.produce_record(&input, None, &[("tenant", "acme")], cut).await;

    let both = |status: u16, page: &Value| {
        status == 200 && page["items"].as_array().is_some_and(|all| all.len() == 2)
    };
    let reports = client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, both).await;
    client.wait_for("/v1/dead-letters", EVENTUAL_TIMEOUT, |_, page| page["items"][0].is_object()).await;
    for report in reports["items"].as_array().expect("reports") {
        let (_, stored) = client.get(&format!("/v1/reports/{}", report["id"].as_str().expect("an id"))).await;
        let (ours, text) = (&stored["symbolication"], stored["symbolication"].to_string());
        let value = ours["fault"]["access"]["address"].as_u64().expect("an address");
        let [_, _, bytes] = written_forms(value);
        assert!(PLANTED.contains(&value) && text.contains(&format!("\"bytes\":\"{bytes}\"")), "{ours}");
        assert_eq!(ours["fault"]["subject"]["expression"], "p", "{ours}");
        assert_is_secret("the grouping of the report", &ours["grouping"].to_string());
    }

    let groups = client.get("/v1/groups").await.1;
    let group = groups["items"][0]["id"].as_str().expect("a group");
    assert_eq!(
        (groups["items"].as_array().map(Vec::len), &groups["items"][0]["reports"]),
        (Some(1), &2.into())
    );
    for path in ["", "/context", "/activity"].map(|end| format!("/v1/groups/{group}{end}")) {
        assert_is_secret(&path, &client.get(&path).await.1.to_string());
    }
    for path in ["/v1/groups", "/v1/reports", "/v1/dead-letters", "/v1/alert-messages", "/v1/audit-log"] {
        let (status, list) = client.get(path).await;
        assert_eq!(status, 200, "{path}: {list}");
        assert_is_secret(path, &list.to_string());
    }
    let alerts = installation.topic_name("crash.alerts");
    let alerts = installation.topics.wait_for(&alerts, EVENTUAL_TIMEOUT, |sent| !sent.is_empty()).await;
    let mut bodies = wait_for_messages(&receiver).await;
    bodies.extend(alerts.iter().map(|alert| String::from_utf8_lossy(&alert.value).into_owned()));
    for body in &bodies {
        assert!(body.contains(group), "{body}");
        assert_is_secret("an alert", body);
    }
    for table in ["reports", "groups", "group_activity", "alert_events", "alert_messages"] {
        let rows = dump_table(&installation, table).await;
        assert_is_secret(table, &rows);
    }
    for service in SERVICES {
        let metrics = installation.fetch_metrics(service).await;
        assert!(metrics.contains("unslide_"), "{metrics}");
        assert_is_secret(&format!("the metrics of the {service}"), &metrics);
        let log = installation.read_log(service);
        assert!(log.contains("INFO"), "{log}");
        assert_is_secret(&format!("the log of the {service}"), &log);
    }
    installation.stop().await;
}

/// Waits for the bodies of messages at a receiver.
async fn wait_for_messages(receiver: &HttpReceiver) -> Vec<String> {
    let received = async {
        while receiver.received().is_empty() {
            tokio::time::sleep(MESSAGE_POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(EVENTUAL_TIMEOUT, received).await.expect("a message");
    receiver.received().into_iter().map(|request| request.body).collect()
}

async fn make_rules(client: &Client, url: &str) {
    for receiver in [json!({"channel": "kafka"}), json!({"channel": "webhook", "address": url})] {
        let mut rule = json!({"name": "new bugs", "condition": "new_group"});
        rule.as_object_mut().expect("an object").extend(receiver.as_object().expect("an object").clone());
        let (status, answer) = client.post("/v1/alert-rules", rule.to_string().into_bytes()).await;
        assert_eq!(status, 201, "{answer}");
    }
}
