//! Upload, report, enriched report, query: the main job through every service.

use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, FUNCTIONS, list_functions};
use unslide_tests::installation::{Installation, TENANT};

#[tokio::test(flavor = "multi_thread")]
async fn an_uploaded_dsym_answers_reports_on_kafka_and_over_http() {
    let app = App::from_fixture("app");
    let installation = Installation::start().await;
    let client = installation.client();

    let upload = client.upload_symbols(app.dsym.clone()).await;
    let object = &upload["objects"][0];
    assert_eq!(object["status"], "ready", "{upload}");
    assert_eq!(object["debug_id"], app.debug_id.to_string());
    assert_eq!(object["arch"], "arm64");

    // One report over the wire as a gateway sends it, one over HTTP as an SDK sends it, one broken.
    let input = installation.topic_name("crash.reports");
    let first = app.build_report(1).bytes();
    installation.topics.produce_record(&input, None, &[("tenant", TENANT)], &first).await;
    installation.topics.produce_record(&input, None, &[("tenant", TENANT)], b"{\"report\":").await;
    let second = app.build_report(2).bytes();
    let (status, accepted) = client.post("/v1/reports", second.clone()).await;
    assert_eq!(status, 202, "{accepted}");

    let output = installation.topic_name("crash.symbolicated");
    let enriched =
        installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= 2).await;
    assert_eq!(enriched.len(), 2);
    for record in &enriched {
        let report = record.parse_json();
        assert_eq!(list_functions(&report), FUNCTIONS.map(<[_]>::to_vec), "{report}");
        assert_eq!(report["symbolication"]["status"], "complete");
        assert_eq!(report["symbolication"]["tenant"], TENANT);
        assert_eq!(report["symbolication"]["revision"], 1);
        assert_eq!(record.header_text("tenant"), TENANT);
        assert_eq!(record.header_text("origin-topic"), input);
        assert!(!record.header_text("traceparent").is_empty());
        let limits = unslide_report::ReadLimits::default();
        let original =
            unslide_report::splice::strip_additions(&record.value, &limits).expect("ours can be taken out");
        assert!([&first, &second].contains(&&original.into_owned()), "every other byte is as it was");
    }

    let dead = installation.topic_name("unslide.dead-letter");
    let dead = installation.topics.wait_for(&dead, EVENTUAL_TIMEOUT, |records| !records.is_empty()).await;
    assert_eq!((dead.len(), dead[0].value.as_slice()), (1, b"{\"report\":".as_slice()));
    assert_eq!(dead[0].header_text("reason"), "truncated");

    let found = client
        .wait_for("/v1/reports?app=com.example.shop&version=1.2.3", EVENTUAL_TIMEOUT, |status, page| {
            status == 200 && page["items"].as_array().is_some_and(|reports| reports.len() == 2)
        })
        .await;
    let id = found["items"][0]["id"].as_str().expect("an id").to_owned();
    let (status, stored) = client.get(&format!("/v1/reports/{id}")).await;
    assert_eq!(status, 200);
    assert_eq!(list_functions(&stored), FUNCTIONS.map(<[_]>::to_vec));
    let (status, log) = client.get_text(&format!("/v1/reports/{id}")).await;
    assert_eq!(status, 200);
    assert!(log.contains("Thread 0 Crashed") && log.contains("leaf_crash"), "{log}");
    let (status, explained) = client.get(&format!("/v1/reports/{id}/explain")).await;
    assert_eq!(status, 200, "{explained}");
    let (_, versions) = client.get("/v1/apps/com.example.shop/versions").await;
    assert_eq!(versions["items"][0]["reports"], 2, "{versions}");
    let (_, missing) = client.get("/v1/missing-symbols").await;
    assert!(!missing.to_string().contains(&app.debug_id.to_string()), "{missing}");

    // Both are of one bug, which the commands find.
    let groups = installation.command_succeeds(&["groups", "--app", "com.example.shop", "--json"]);
    let groups: serde_json::Value = serde_json::from_str(&groups).expect("JSON");
    assert_eq!((groups.as_array().map(Vec::len), &groups[0]["reports"]), (Some(1), &2.into()), "{groups}");
    assert!(groups[0]["culprit"].as_str().expect("a culprit").starts_with("leaf_crash"), "{groups}");
    let group = groups[0]["id"].as_str().expect("an id").to_owned();
    assert!(installation.command_succeeds(&["reports", "--group", &group]).contains(&id));

    let explained = installation.command_succeeds(&["explain", &id]);
    assert!(explained.contains("symbolicated") && explained.contains("leaf_crash"), "{explained}");

    // Of a build without an uploaded dSYM: the frames say which, and how to upload it.
    let unknown = App::from_fixture("app-next");
    let (status, accepted) = client.post("/v1/reports", unknown.build_report(3).bytes()).await;
    assert_eq!(status, 202, "{accepted}");
    let id = accepted["reports"][0]["id"].as_str().expect("an id").to_owned();
    client.wait_for(&format!("/v1/reports/{id}"), EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    let explained = installation.command_succeeds(&["explain", &id]);
    assert!(explained.contains(&unknown.debug_id.to_string()), "{explained}");
    assert!(explained.contains("unslide upload"), "{explained}");

    installation.stop().await;
}
