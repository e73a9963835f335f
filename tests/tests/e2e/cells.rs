//! Two cells behind one door: what comes through it reaches the cell of its tenant, and no byte of it the other one.
//! Proves: cells

use crate::erasures::{find_places, planted_report};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::binary;
use unslide_tests::cells::{CELL_SERVICES, Cells};
use unslide_tests::client::Client;
use unslide_tests::installation::Installation;
use unslide_tests::topics::Topics;

const SCOPES: &str = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin";
/// The name of each cell's tenant, which is also in all that the tenant sends. As long as the name of a function of the fixture.
const TENANT_MARKS: [&str; 2] = ["mrk4alpha7", "mrk4omega7"];
const CRASHING_FUNCTION: &str = "leaf_crash";
const MESSAGE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The fixture's app, whose crashing function has the mark as its name.
fn marked_app(mark: &str) -> App {
    let mut app = App::from_fixture("app");
    assert_eq!(mark.len(), CRASHING_FUNCTION.len());
    let places: Vec<usize> = app
        .dsym
        .windows(CRASHING_FUNCTION.len())
        .enumerate()
        .filter_map(|(at, bytes)| (bytes == CRASHING_FUNCTION.as_bytes()).then_some(at))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        app.dsym[at..at + mark.len()].copy_from_slice(mark.as_bytes());
    }
    app
}

/// Sends, through the door, everything that a tenant may send, and waits until it is stored and told.
async fn use_everything(client: &Client, mark: &str, receiver: &HttpReceiver) {
    // The first request with the key is one that the door has to ask about.
    let path = format!("/v1/search?q={mark}");
    client.wait_for(&path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    for target in [json!({"channel": "kafka"}), json!({"channel": "webhook", "address": receiver.url()})] {
        let mut rule = json!({"name": mark, "condition": "new_group"});
        rule.as_object_mut().expect("an object").extend(target.as_object().expect("an object").clone());
        let (status, answer) = client.post("/v1/alert-rules", rule.to_string().into_bytes()).await;
        assert_eq!(status, 201, "{answer}");
    }
    let app = marked_app(mark);
    let upload = client.upload_symbols(app.dsym.clone()).await;
    assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    let (status, answer) = client.post("/v1/reports", planted_report(&app, 1, mark)).await;
    assert_eq!(status, 202, "{answer}");
    let session = json!({"id": "0198c0de-0000-7000-8000-0000000000aa", "installation": mark, "user": mark,
        "app": app.bundle, "version": "1.0", "started_at": "2026-11-20T07:00:00Z"});
    let (status, answer) = client.post("/v1/sessions", session.to_string().into_bytes()).await;
    assert_eq!(status, 202, "{answer}");
    // Not a report: a dead letter of the tenant.
    let (status, _) = client.post("/v1/reports", format!(r#"{{"report": "{mark}"}}"#).into_bytes()).await;
    assert!(status < 500, "{status}");

    let is_stored = |_, page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
    let reports = client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, is_stored).await;
    let id = reports["items"][0]["id"].as_str().expect("an id");
    let (status, log) = client.get_text(&format!("/v1/reports/{id}")).await;
    assert!(status == 200 && log.contains(mark), "the symbols answer: {log}");
    let groups = client.get("/v1/groups").await.1;
    let group = groups["items"][0]["id"].as_str().expect("a group");
    let comments = format!("/v1/groups/{group}/comments");
    let (status, answer) = client.post(&comments, json!({"text": mark}).to_string().into_bytes()).await;
    assert_eq!(status, 201, "{answer}");
    let told = async {
        while !receiver.received().iter().any(|request| request.body.contains(mark)) {
            tokio::time::sleep(MESSAGE_POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(EVENTUAL_TIMEOUT, told).await.expect("a message with the mark");
}

/// Returns the topics of an installation of which a record has the mark in its key, its headers or its value.
fn find_topics(installation: &Installation, mark: &str) -> Vec<String> {
    let prefix = installation.topic_name("");
    let has_mark = |bytes: &[u8]| bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
    let mut found = Vec::new();
    for topic in installation.topics.list_names().into_iter().filter(|name| name.starts_with(&prefix)) {
        let mut is_marked = false;
        installation.topics.scan_topic(&topic, |record| {
            is_marked |= has_mark(&record.value)
                || record.key.is_some_and(|key| key.contains(mark))
                || record.headers.iter().any(|(name, value)| name.contains(mark) || value.contains(mark));
        });
        if is_marked {
            found.push(topic.trim_start_matches(&prefix).to_owned());
        }
    }
    found
}

/// Returns the services with the mark in their metrics.
async fn find_metrics(installation: &mut Installation, mark: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for service in CELL_SERVICES {
        let page = installation.fetch_metrics(service).await;
        assert!(page.contains("unslide_"), "{page}");
        if page.contains(mark) {
            found.push(service);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_tenant_reaches_another_cell() {
    let receivers = [
        HttpReceiver::start(|_, _| HttpAnswer::Status(204, "")).await,
        HttpReceiver::start(|_, _| HttpAnswer::Status(204, "")).await,
    ];
    let ports = format!("[{}, {}]", receivers[0].port(), receivers[1].port());
    let mut cells = Cells::start(
        2,
        &[
            ("UNSLIDE_LOG__FILTER", "info"),
            ("UNSLIDE_API__LOG_REQUESTS", "true"),
            ("UNSLIDE_API__ALERTS__NETWORKS", "[127.0.0.0/8]"),
            ("UNSLIDE_API__ALERTS__PORTS", &ports),
            ("UNSLIDE_API__PUBLIC_URL", "https://crashes.example.com"),
        ],
    )
    .await;
    for (place, mark) in TENANT_MARKS.into_iter().enumerate() {
        let cell = &mut cells.cells[place];
        cell.make_tenant(mark);
        let key = cell.make_key(mark, SCOPES);
        use_everything(&cells.client(&key), mark, &receivers[place]).await;
    }
    for (own, other) in [(0, 1), (1, 0)] {
        let cell = &mut cells.cells[own];
        let places = find_places(cell, TENANT_MARKS[own]).await;
        for table in ["tenants", "groups", "group_activity", "reports", "sessions"] {
            // Some tables have partitions by day.
            let has_mark = places.iter().any(|place| place.starts_with(table));
            assert!(has_mark, "{table} has the cell's own mark: {places:?}");
        }
        assert!(places.iter().any(|place| place.starts_with('/')), "its objects have it: {places:?}");
        let topics = find_topics(cell, TENANT_MARKS[own]);
        for topic in ["crash.reports", "crash.symbolicated", "crash.sessions", "crash.alerts"] {
            assert!(topics.iter().any(|name| name == topic), "{topic} has the cell's own mark: {topics:?}");
        }
        assert_eq!(
            find_places(cell, TENANT_MARKS[other]).await,
            Vec::<String>::new(),
            "tables, objects and logs"
        );
        assert_eq!(find_topics(cell, TENANT_MARKS[other]), Vec::<String>::new());
        assert_eq!(find_metrics(cell, TENANT_MARKS[other]).await, Vec::<&str>::new());
        let told = receivers[own].received();
        assert!(!told.iter().any(|request| request.body.contains(TENANT_MARKS[other])), "{told:?}");
    }
    cells.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_runs_two_cells_behind_a_door_and_ctrl_c_ends_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut child = binary::build_command(&["dev", "--json", "--cells", "2", "--listen", "127.0.0.1:0"])
        .arg("--data-dir")
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let facts: Value = serde_json::from_str(&line).expect("one line of JSON");
    let cells = facts["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2, "{facts}");
    let url = facts["api_url"].as_str().expect("an address");
    let topics = Topics::connect(facts["kafka_bootstrap"].as_str().expect("an address"));
    let app = App::from_fixture("app");
    for (number, cell) in (1..).zip(cells) {
        let text = |name: &str| cell[name].as_str().unwrap_or_else(|| panic!("no {name} in {cell}"));
        let client = Client::new(url, text("api_key"));
        client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, |status, _| status == 200).await;
        let (status, answer) = client.post("/v1/reports", app.build_report(number).bytes()).await;
        assert_eq!(status, 202, "{answer}");
        let is_stored = |_, page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
        client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, is_stored).await;
        let output = topics.read_all(&format!("{}crash.symbolicated", text("topic_prefix")));
        let tenants: Vec<&str> = output.iter().map(|record| record.header_text("tenant")).collect();
        assert_eq!(tenants, [text("tenant")]);
        let list = binary::build_command(&["tenant", "list", "--config", text("config")]).output();
        let list = list.expect("starts");
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        for other in cells {
            let name = other["tenant"].as_str().expect("a tenant");
            assert_eq!(list.contains(name), name == text("tenant"), "{list}");
        }
    }
    let id = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(id), Signal::SIGINT).expect("sent");
    assert!(tokio::task::block_in_place(|| child.wait()).expect("ends").success());
}
