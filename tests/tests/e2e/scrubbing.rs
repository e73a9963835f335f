//! What rules of scrubbing name is in no table, object, log, message or answer, before and after a late dSYM.
//! Proves: scrubbed-texts

use crate::erasures::find_places;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row};
use std::collections::BTreeSet;
use std::time::Duration;
use time::format_description::well_known::Rfc3339;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver};
use unslide_model::{Clock, SystemClock};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, IN_BUNDLE};
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

const SCOPES: &str = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin";
/// Every line of the service's own, those for developers too.
const LOG_FILTER: &str = "info,unslide=trace,unslide_alerts=trace,unslide_api=trace,unslide_builder=trace,\
    unslide_indexer=trace,unslide_scrubbing=trace,unslide_store=trace,unslide_stream=trace,unslide_symbolicate=trace,\
    unslide_symbolizer=trace";
/// A text with something for each rule.
const PLANTED: &str = "cart of planted.4711@example.com at +49 170 47114712, card 4111 1111 1111 1111, DE89370400440532013000, from \
    203.0.113.47, Bearer plantedtoken4711abc, /Users/planted4711/Documents/a.txt, 52.520471, 13.404711, M-47114711";
/// A part of the text in titles, which have no digits.
const TITLE_PART: &str = "cart of planted";
/// The value of a key that is dropped.
const DROPPED: &str = "planted-key-4711";
/// Parts of what is taken, none of which is part of a mark.
const TAKEN: [&str; 11] = [
    "planted.4711",
    "47114712",
    "4111 1111",
    "4111111111111111",
    "0532013000",
    "203.0.113.47",
    "plantedtoken4711",
    "planted4711",
    "52.520471",
    "M-47114711",
    DROPPED,
];
/// The reports of [`send_reports`].
const REPORTS: usize = 6;

fn rules() -> Value {
    let ready =
        ["email", "user_path", "coordinates", "iban", "card", "ip", "phone", "token"].map(|pattern| {
            let action = if pattern == "email" { "hash" } else { "mask" };
            json!({"pattern": pattern, "action": action})
        });
    json!({
        "ready": ready,
        "own": [{"name": "member_number", "pattern": "M-[0-9]{8}", "action": "drop"}],
        "keys": [{"key": "secret", "action": "drop"}],
    })
}

/// A report of KSCrash with the text wherever an app or a device may have put it.
fn planted_report(app: &App) -> Value {
    let mut report: Value = serde_json::from_slice(&app.build_report(1).bytes()).expect("JSON");
    report["crash"]["error"] = json!({"type": "nsexception", "reason": PLANTED,
        "nsexception": {"name": "NSInvalidArgumentException", "userInfo": PLANTED}});
    report["crash"]["diagnosis"] = PLANTED.into();
    report["binary_images"][0]["crash_info_message"] = PLANTED.into();
    let thread = &mut report["crash"]["threads"][0];
    thread["name"] = PLANTED.into();
    thread["dispatch_queue"] = PLANTED.into();
    thread["notable_addresses"] = json!({"x0": {"address": 4096, "type": "string", "value": PLANTED}});
    report["debug"] = json!({"console_log": [PLANTED, "a line"]});
    report["process"] = json!({"last_dealloced_nsexception": {"address": 1, "name": "N", "reason": PLANTED}});
    report["user"] = json!({"plan": "pro", "note": PLANTED, "secret": DROPPED, "card": 4_111_111_111_111_111_u64,
        "nested": {"secret": {"a": DROPPED}, "lines": [PLANTED]}, "planted.4711@example.com": true});
    report
}

fn javascript_report() -> Value {
    let frame = json!({"methodName": "a", "file": "app:///main.jsbundle", "lineNumber": 1, "column": 14});
    let user =
        json!({"name": "TypeError", "language": "react-native", "backtrace": [frame], "message": PLANTED});
    json!({"report": {"id": "5f9e6c1c-6e24-4c36-8f0e-9a3e3c0d6e10", "version": "3.3.0", "type": "standard",
            "timestamp": "2026-11-20T08:00:00Z"},
        "system": {"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2", "system_name": "iOS"},
        "crash": {"error": {"type": "user", "reason": PLANTED, "user_reported": user}}})
}

/// A log as the system writes it, with the text beside the stack.
fn crash_text(app: &App, id: &str, process: u32) -> String {
    let (load, [offset, _]) = (app.load_address(), app.stack());
    let compact = app.debug_id.to_compact();
    format!(
        "Incident Identifier: {id}\nHardware Model:      iPhone14,2\nProcess:         Shop [{process}]\n\
         Path:            {IN_BUNDLE}\nIdentifier:      {}\nVersion:         2.4.1 (241)\nCode Type:       ARM-64\n\
         Report Version:  104\n\nException Type:  EXC_BAD_ACCESS (SIGSEGV)\nCrashed Thread:  0\n\n\
         Application Specific Information:\n{PLANTED}\n\nThread 0 Crashed:\n0   Shop    0x{:x} 0x{load:x} + {offset}\n\n\
         Binary Images:\n0x{load:x} - 0x{:x} Shop arm64 <{compact}> {IN_BUNDLE}\n",
        app.bundle,
        load + offset,
        load + 0xf_ffff,
    )
}

/// A log of two JSON texts.
fn ips(app: &App) -> String {
    let (load, [offset, _]) = (app.load_address(), app.stack());
    let header = json!({"bug_type": "309", "app_name": "Shop", "app_version": "4.2.0", "bundleID": app.bundle,
        "os_version": "iPhone OS 18.3.1 (22D72)", "incident_id": "11111111-2222-3333-4444-555555555555", "timestamp":
        "2026-03-02 10:11:11.00 +0000"});
    let body = json!({"procName": "Shop", "procPath": "/Users/planted4711/Shop.app/Shop", "pid": 4243,
        "incident": "11111111-2222-3333-4444-555555555555", "captureTime": "2026-03-02 10:11:11.9012 +0000",
        "cpuType": "ARM-64", "modelCode": "iPhone16,1", "bundleInfo": {"CFBundleIdentifier": app.bundle},
        "exception": {"type": "EXC_CRASH", "signal": "SIGABRT"}, "faultingThread": 0, "asi": {"libsystem_c.dylib": [PLANTED]},
        "usedImages": [{"source": "P", "arch": "arm64", "base": load, "size": 0x10_0000, "uuid": app.debug_id.to_string(),
            "path": "/Users/planted4711/Shop.app/Shop", "name": "Shop"}],
        "threads": [{"triggered": true, "name": PLANTED, "frames": [{"imageOffset": offset, "imageIndex": 0}]}]});
    format!("{header}\n{body}")
}

fn metric_kit(app: &App) -> Value {
    let (load, [offset, _]) = (app.load_address(), app.stack());
    let frame = json!({"binaryUUID": app.debug_id.to_string(), "binaryName": "Shop", "address": load + offset,
        "offsetIntoBinaryTextSegment": offset, "sampleCount": 1});
    json!({"timeStampBegin": "2026-03-01 15:00:00", "timeStampEnd": "2026-03-02 15:00:00", "crashDiagnostics": [{
        "version": "1.0.0",
        "callStackTree": {"callStackPerThread": true, "callStacks": [{"threadAttributed": true, "callStackRootFrames": [frame]}]},
        "diagnosticMetaData": {"appBuildVersion": "4201", "appVersion": "4.2.0", "osVersion": "iPhone OS 18.3.1 (22D72)",
            "deviceType": "iPhone16,1", "platformArchitecture": "arm64", "bundleIdentifier": app.bundle, "pid": 4244,
            "exceptionType": 1, "exceptionCode": 1, "signal": 11, "terminationReason": PLANTED,
            "exceptionReason": {"composedMessage": PLANTED, "formatString": PLANTED, "arguments": [PLANTED],
                "exceptionType": "NSException", "exceptionName": "N", "className": "NSException"},
            "virtualMemoryRegionInfo": PLANTED}}]})
}

/// Sends reports in every format.
async fn send_reports(client: &Client, app: &App) {
    let documents = [
        planted_report(app).to_string(),
        javascript_report().to_string(),
        crash_text(app, "22222222-2222-3333-4444-555555555555", 4242),
        ips(app),
        metric_kit(app).to_string(),
    ];
    for document in documents {
        let (status, answer) = client.post("/v1/reports", document.clone().into_bytes()).await;
        assert_eq!(status, 202, "{answer}: {document}");
    }
    let stack = crash_text(app, "33333333-2222-3333-4444-555555555555", 4245);
    let attributes = [("exception.stacktrace", stack.as_str()), ("exception.message", PLANTED)];
    let attributes = attributes.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}));
    let record = json!({"eventName": "app.crash", "severityNumber": 21, "attributes": attributes, "body": {"stringValue": PLANTED}});
    let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).to_string();
    let (status, answer) = client.attempt_json("/otlp/v1/logs", &logs).await.expect("an answer");
    assert_eq!(status, 200, "{answer}");
    assert!(answer["partialSuccess"]["rejectedLogRecords"].is_null(), "{answer}");
}

/// Sends a session with flags that rules take, and returns what is stored of them.
async fn send_flags(installation: &Installation) -> Value {
    let now = SystemClock.now().replace_nanosecond(0).expect("a time").format(&Rfc3339).expect("a text");
    let flags = json!({"mail": "planted.4711@example.com", "secret": DROPPED, "plan": "pro"});
    let session = json!({"id": "s1", "installation": "i1", "app": "com.example.shop", "version": "3.1",
        "started_at": now, "flags": flags});
    let (status, answer) = installation.client().post("/v1/sessions", session.to_string().into_bytes()).await;
    assert_eq!(status, 202, "{answer}");
    let mut connection = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let stored = async {
        loop {
            let found =
                sqlx::query_scalar("SELECT flags FROM sessions").fetch_optional(&mut connection).await;
            if let Some(flags) = found.expect("sessions") {
                return flags;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let flags = tokio::time::timeout(EVENTUAL_TIMEOUT, stored).await.expect("a session");
    connection.close().await.expect("closed");
    flags
}

fn assert_is_scrubbed(place: &str, text: &str) {
    for taken in TAKEN {
        assert!(!text.contains(taken), "{taken} is in {place}: {text}");
    }
}

/// Searches every table, also what is packed in it, and every file of the installation: objects and logs.
async fn search_everything(installation: &Installation) {
    for taken in TAKEN.into_iter().chain([TITLE_PART]) {
        assert_eq!(find_places(installation, taken).await, Vec::<String>::new(), "{taken}");
    }
    let mut connection = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let rows =
        sqlx::query("SELECT body FROM report_bodies").fetch_all(&mut connection).await.expect("bodies");
    connection.close().await.expect("closed");
    for row in rows {
        let body =
            unslide_proto::body::decompress_report(&row.get::<Vec<u8>, _>(0), 16 << 20).expect("a body");
        assert_is_scrubbed("a body", &String::from_utf8_lossy(&body));
    }
}

/// Searches what the API answers about each report and each group, and returns the ids of the reports.
async fn search_answers(client: &Client) -> BTreeSet<String> {
    let ids = async |path: &str| {
        let (_, page) = client.get(path).await;
        let items = page["items"].as_array().expect("a list").iter();
        items.map(|item| item["id"].as_str().expect("an id").to_owned()).collect::<BTreeSet<String>>()
    };
    let (reports, groups) = (ids("/v1/reports").await, ids("/v1/groups").await);
    let mut paths: Vec<String> = [
        "/v1/reports",
        "/v1/reports?format=csv",
        "/v1/reports?format=ndjson",
        "/v1/groups",
        "/v1/groups?format=csv",
        "/v1/alert-messages",
        "/v1/dead-letters",
        "/v1/apps/com.example.shop/keys",
        "/v1/audit-log",
    ]
    .map(str::to_owned)
    .into();
    for id in &reports {
        paths.extend(
            ["", "?format=markdown&evidence=true", "/explain"].map(|end| format!("/v1/reports/{id}{end}")),
        );
    }
    for id in &groups {
        paths.extend(
            ["", "?format=markdown&evidence=true", "/context", "/activity"]
                .map(|end| format!("/v1/groups/{id}{end}")),
        );
    }
    for path in paths {
        let (status, text) = client.get_text(&path).await;
        assert_eq!(status, 200, "{path}: {text}");
        assert_is_scrubbed(&path, &text);
    }
    for id in &reports {
        let call = json!({"id": id});
        let (status, answer) = client.attempt_tool("read_report", &call).await.expect("an answer");
        assert_eq!(status, 200, "{answer}");
        assert_is_scrubbed("the tool", &answer.to_string());
    }
    reports
}

async fn wait_for_messages(receiver: &HttpReceiver) -> Vec<String> {
    let received = async {
        while receiver.received().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(EVENTUAL_TIMEOUT, received).await.expect("a message");
    receiver.received().into_iter().map(|request| request.body).collect()
}

/// Starts the service, which tells a receiver of new groups.
async fn start_installation(receiver: &HttpReceiver) -> Installation {
    let ports = format!("[{}]", receiver.port());
    let mut installation = Installation::start_with(&[
        ("UNSLIDE_LOG__FILTER", LOG_FILTER),
        ("UNSLIDE_INDEXER__SEGMENT_AFTER", "1s"),
        ("UNSLIDE_API__ALERTS__NETWORKS", "[127.0.0.0/8]"),
        ("UNSLIDE_API__ALERTS__PORTS", ports.as_str()),
        ("UNSLIDE_API__PUBLIC_URL", "https://crashes.example.com"),
    ])
    .await;
    installation.key = installation.make_key(TENANT, SCOPES);
    let client = installation.client();
    let rule = json!({"name": "new bugs", "condition": "new_group", "channel": "webhook", "address": receiver.url()});
    let (status, answer) = client.post("/v1/alert-rules", rule.to_string().into_bytes()).await;
    assert_eq!(status, 201, "{answer}");
    installation
}

fn write_rules() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), rules().to_string()).expect("written");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_are_applied_take_texts_out_of_stored_reports() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(204, "")).await;
    let installation = start_installation(&receiver).await;
    let client = installation.client();
    let app = App::from_fixture("app");
    client.upload_symbols(app.dsym.clone()).await;
    send_reports(&client, &app).await;
    let all_there = |_: u16, page: &Value| page["items"].as_array().is_some_and(|all| all.len() == REPORTS);
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, all_there).await;
    let told = wait_for_messages(&receiver).await;
    assert!(told.iter().any(|message| message.contains(TITLE_PART)), "{told:?}");
    let stored = find_places(&installation, TITLE_PART).await;
    for table in ["reports", "groups", "group_terms", "alert_events", "live_events"] {
        assert!(stored.iter().any(|place| place.contains(table)), "{table}: {stored:?}");
    }
    let before = list_identities(&client).await;

    let file = write_rules();
    installation.command_succeeds(&["scrubbing", "set", file.path().to_str().expect("UTF-8")]);
    let applied = installation.command_succeeds(&["scrubbing", "apply", "--wait", "--yes"]);
    // A record of OpenTelemetry leaves only its stack, in which nothing is planted.
    let all = format!("{REPORTS} looked at, {} changed", REPORTS - 1);
    assert!(applied.contains("done") && applied.contains(&all), "{applied}");
    search_everything(&installation).await;
    let reports = search_answers(&client).await;
    assert_eq!(reports.len(), REPORTS);
    assert_eq!(list_identities(&client).await, before, "a report keeps its revision and its symbols");
    count_changes(&installation).await;
    let again = installation.command_succeeds(&["scrubbing", "apply", "--wait", "--yes"]);
    assert!(again.contains(&format!("{REPORTS} looked at, 0 changed")), "{again}");
    installation.stop().await;
}

/// Returns the ids of the reports with their revisions and numbers of frames.
async fn list_identities(client: &Client) -> BTreeSet<String> {
    let (_, page) = client.get("/v1/reports").await;
    let items = page["items"].as_array().expect("a list").iter();
    items.map(|report| format!("{} {} {}", report["id"], report["revision"], report["frames"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rules_name_is_nowhere_before_and_after_a_late_dsym() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(204, "")).await;
    let installation = start_installation(&receiver).await;
    let client = installation.client();
    let file = write_rules();
    let path = file.path().to_str().expect("UTF-8");
    let tried = installation.command_succeeds(&["scrubbing", "test", PLANTED, "--rules", path]);
    assert_is_scrubbed("the trial", &tried);
    let set = installation.command_succeeds(&["scrubbing", "set", path]);
    assert!(set.contains("drop  member_number: M-[0-9]{8}"), "{set}");
    // An indexer that is up holds to the rules of before for so long.
    tokio::time::sleep(Duration::from_secs(6)).await;

    let app = App::from_fixture("app");
    send_reports(&client, &app).await;
    let all_there = |_: u16, page: &Value| page["items"].as_array().is_some_and(|all| all.len() == REPORTS);
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, all_there).await;
    let flags = send_flags(&installation).await;
    assert!(flags["mail"].as_str().is_some_and(|mail| mail.starts_with("[scrubbed:email:")), "{flags}");
    assert_eq!((&flags["plan"], &flags["secret"]), (&json!("pro"), &Value::Null), "{flags}");
    search_everything(&installation).await;
    let reports = search_answers(&client).await;
    let input = installation.topics.read_all(&installation.topic_name("crash.reports"));
    let sent = planted_report(&app).to_string();
    assert!(input.iter().any(|record| *record.value == *sent.as_bytes()), "the input stays as it was");

    let own = &planted_report(&app)["report"]["id"];
    let own = own.as_str().expect("an id").to_lowercase();
    let (_, stored) = client.get(&format!("/v1/reports/{own}")).await;
    let marked = "cart of [scrubbed:email:";
    assert!(
        stored["crash"]["error"]["reason"].as_str().is_some_and(|reason| reason.starts_with(marked)),
        "{stored}"
    );
    assert_eq!((&stored["user"]["plan"], &stored["user"]["secret"]), (&json!("pro"), &Value::Null));
    let browser = unslide_tests::browser::Browser::sign_in(&installation.url, &installation.key).await;
    let page = browser.page_with(&format!("/console/reports/{own}"), &["Scrubbed", "member_number"]).await;
    assert_is_scrubbed("the page", &page);
    let counted = count_changes(&installation).await;

    client.upload_symbols(app.dsym.clone()).await;
    // The error of JavaScript does not wait for it.
    let revised = |page: &Value| {
        let items = page["items"].as_array().expect("a list").iter();
        items.filter(|report| report["revision"] == 2).count()
    };
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, |_, page| revised(page) == REPORTS - 1).await;
    // A group that may move with late symbols is told of after they came.
    for message in wait_for_messages(&receiver).await {
        assert_is_scrubbed("a message", &message);
    }
    search_everything(&installation).await;
    assert_eq!(search_answers(&client).await, reports, "a later revision is the same report");
    assert_eq!(count_changes(&installation).await, counted, "what was taken is counted once");
    let output = installation.topics.read_all(&installation.topic_name("crash.symbolicated"));
    let later = output.iter().filter(|record| record.header_text("revision") == "2");
    for record in later {
        assert_is_scrubbed("a later revision", &String::from_utf8_lossy(&record.value));
    }
    installation.stop().await;
}

/// Returns the counts of what was taken, by report.
async fn count_changes(installation: &Installation) -> Vec<String> {
    let mut connection = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let counts = "SELECT coalesce((context -> 'changes')::text, '') FROM reports ORDER BY report_id";
    let counts: Vec<String> = sqlx::query_scalar(counts).fetch_all(&mut connection).await.expect("counts");
    connection.close().await.expect("closed");
    // A record of OpenTelemetry leaves only its stack, in which nothing is planted.
    let counted = counts.iter().filter(|counts| counts.contains("\"email\"")).count();
    assert_eq!(counted, REPORTS - 1, "{counts:?}");
    counts
}
