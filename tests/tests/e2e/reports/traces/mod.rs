//! Spans of reports, from header to header, as a collector gets them.

mod collector;

use collector::{Collector, Received};
use std::time::Duration;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, FUNCTIONS};
use unslide_tests::installation::{Installation, TENANT};
use unslide_tests::topics::Record;

const SERVICES: [&str; 4] = ["api", "builder", "indexer", "symbolizer"];
/// The span of whoever produced the reports.
const PARENT: &str = "00f067aa0ba902b7";
const SECRET: &str = "secret-of-the-collector";

fn trace(number: u32) -> String {
    format!("4bf92f3577b34da6a3ce929d0000{number:04x}")
}

fn traceparent(number: u32, flags: &str) -> String {
    format!("00-{}-{PARENT}-{flags}", trace(number))
}

async fn start(collector: &Collector) -> Installation {
    let headers = format!("authorization=Bearer%20{SECRET}");
    Installation::start_with(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ])
    .await
}

/// Produces a report with a trace, and waits for its answer.
async fn answered(installation: &Installation, value: &[u8], trace: u32, flags: &str) -> Record {
    let (input, output) =
        (installation.topic_name("crash.reports"), installation.topic_name("crash.symbolicated"));
    let traceparent = traceparent(trace, flags);
    installation
        .topics
        .produce_record(&input, None, &[("tenant", TENANT), ("traceparent", traceparent.as_str())], value)
        .await;
    with_trace(installation, &output, &self::trace(trace)).await
}

async fn with_trace(installation: &Installation, topic: &str, trace: &str) -> Record {
    let of_trace = |record: &&Record| record.header_text("traceparent").contains(trace);
    let records = installation
        .topics
        .wait_for(topic, EVENTUAL_TIMEOUT, |records| records.iter().any(|r| of_trace(&r)))
        .await;
    records.iter().find(of_trace).expect("it was waited for").clone()
}

/// Waits until as many reports can be queried.
async fn stored(installation: &Installation, reports: usize) {
    let has = |status: u16, page: &serde_json::Value| {
        status == 200 && page["items"].as_array().is_some_and(|items| items.len() == reports)
    };
    installation.client().wait_for("/v1/reports?app=com.example.shop", EVENTUAL_TIMEOUT, has).await;
}

/// Ends the services, which send their last spans.
fn end(installation: &mut Installation) {
    for service in SERVICES {
        let status = tokio::task::block_in_place(|| installation.take_process(service).terminate());
        assert!(status.success(), "{service}: {status}\n{}", installation.read_log(service));
    }
}

/// The spans from the one that wrote a record up to the first of the services.
fn way(spans: &[Received], record: &Record) -> Vec<Received> {
    let mut next = record.header_text("traceparent").split('-').nth(2).expect("a span").to_owned();
    let mut way = Vec::new();
    while let Some(span) = spans.iter().find(|span| span.id == next) {
        next.clone_from(&span.parent);
        way.push(span.clone());
    }
    way
}

fn assert_lies_in(span: &Received, record: &Record, topic: &str) {
    assert_eq!(span.attribute("messaging.system"), "kafka");
    assert_eq!(span.attribute("messaging.destination.name"), topic);
    assert_eq!(span.attribute("messaging.destination.partition.id"), record.partition.to_string());
    assert_eq!(span.attribute("messaging.kafka.offset"), record.offset.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_one_trace_from_header_to_header_and_to_the_store() {
    let (app, collector) = (App::from_fixture("app"), Collector::start(true).await);
    let mut installation = start(&collector).await;
    let client = installation.client();
    client.upload_symbols(app.dsym.clone()).await;

    let first = answered(&installation, &app.build_report(1).bytes(), 1, "01").await;
    let unsampled = answered(&installation, &app.build_report(2).bytes(), 2, "00").await;
    let (status, accepted) = client.post("/v1/reports", app.build_report(3).bytes()).await;
    assert_eq!(status, 202, "{accepted}");
    let headers = traceparent(4, "01");
    let (input, dead) =
        (installation.topic_name("crash.reports"), installation.topic_name("unslide.dead-letter"));
    installation
        .topics
        .produce_record(
            &input,
            None,
            &[("tenant", TENANT), ("traceparent", headers.as_str())],
            b"{\"report\":",
        )
        .await;
    let letter = with_trace(&installation, &dead, &trace(4)).await;
    stored(&installation, 3).await;
    let (output, id) = (installation.topic_name("crash.symbolicated"), accepted["reports"][0]["id"].clone());
    let by_http = |record: &&Record| record.header_text("report-id") == id;
    let records =
        installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |all| all.iter().any(|r| by_http(&r))).await;
    let by_http = records.iter().find(by_http).expect("it was waited for").clone();
    collector.wait_for(&trace(4), |span| span.name.starts_with("store ")).await;
    end(&mut installation);

    // From the producer's header by the symbolizer to the header of the output.
    let spans = collector.spans(&trace(1));
    let symbolizer = way(&spans, &first);
    assert!(!symbolizer.is_empty(), "{spans:#?}");
    for span in &symbolizer {
        assert_eq!((span.service.as_str(), span.attribute("unslide.tenant")), ("unslide-symbolizer", TENANT));
        assert!(span.name.starts_with("process ") && span.began <= span.ended, "{span:?}");
    }
    let (last, begin) = (&symbolizer[0], &symbolizer[symbolizer.len() - 1]);
    assert_eq!((begin.parent.as_str(), begin.name.as_str()), (PARENT, format!("process {input}").as_str()));
    assert_eq!(last.attribute("unslide.outcome"), "symbolicated");
    assert_eq!(last.attribute("unslide.app"), "com.example.shop");
    let children = |parent: &Received| -> Vec<&str> {
        spans.iter().filter(|span| span.parent == parent.id).map(|span| span.name.as_str()).collect()
    };
    assert!(children(begin).contains(&"fetch symbols"), "{spans:#?}");
    assert!(children(last).contains(&"symbolicate") && children(last).contains(&"commit"), "{spans:#?}");

    // And from there to the store.
    let stores: Vec<&Received> = spans.iter().filter(|span| span.service == "unslide-indexer").collect();
    let [store] = stores.as_slice() else { panic!("one span stores it: {stores:#?}") };
    assert_eq!((&store.parent, &store.name), (&last.id, &format!("store {output}")));
    assert_lies_in(store, &first, &output);
    let told = ["unslide.tenant", "unslide.app", "unslide.outcome"].map(|name| store.attribute(name));
    assert_eq!(told, [TENANT, "com.example.shop", "new"]);

    // Over HTTP the api begins the trace.
    let trace_by_http = by_http.header_text("traceparent").split('-').nth(1).expect("a trace");
    let way_by_http = way(&collector.spans(trace_by_http), &by_http);
    let root = way_by_http.last().expect("a root");
    assert_eq!((root.service.as_str(), root.name.as_str()), ("unslide-api", "POST /v1/reports"));
    assert_eq!((root.parent.as_str(), root.attribute("http.response.status_code")), ("", "202"));

    // What is no report fails, and its letter is noted.
    let spans = collector.spans(&trace(4));
    let refused = way(&spans, &letter);
    assert_eq!((refused[0].parent.as_str(), refused[0].attribute("error.type")), (PARENT, "truncated"));
    let noted =
        spans.iter().find(|span| span.parent == refused[0].id && span.name == format!("store {dead}"));
    assert_lies_in(noted.expect("a span"), &letter, &dead);

    // The header decides, and whoever reads the output sees that.
    assert!(
        unsampled.header_text("traceparent").ends_with("-00"),
        "{}",
        unsampled.header_text("traceparent")
    );
    assert!(collector.spans(&trace(2)).is_empty(), "{:#?}", collector.spans(&trace(2)));

    for (headers, body) in collector.requests() {
        assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
        let body = String::from_utf8_lossy(&body);
        let secrets = [SECRET, installation.key.as_str()].into_iter().chain(FUNCTIONS.concat());
        secrets.for_each(|secret| assert!(!body.contains(secret), "{secret} is in {body}"));
    }
    for service in SERVICES {
        assert!(!installation.read_log(service).contains(SECRET), "{service}");
    }
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_no_report_and_is_named_once() {
    let (app, collector) = (App::from_fixture("app"), Collector::start(false).await);
    let mut installation = start(&collector).await;
    installation.client().upload_symbols(app.dsym.clone()).await;

    // Nothing was answered when the report is stored.
    answered(&installation, &app.build_report(1).bytes(), 1, "01").await;
    stored(&installation, 1).await;
    assert!(collector.requests().is_empty());

    let lost = "unslide_trace_spans_total{outcome=\"failed\"";
    while installation.fetch_metric("symbolizer", lost).await.unwrap_or_default() == 0.0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    collector.set_open(true);
    answered(&installation, &app.build_report(2).bytes(), 2, "01").await;
    collector.wait_for(&trace(2), |span| span.service == "unslide-symbolizer").await;
    collector.wait_for(&trace(2), |span| span.service == "unslide-indexer").await;
    stored(&installation, 2).await;
    let log = installation.read_log("symbolizer");
    for line in ["the collector accepts no spans", "the collector accepts spans again"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }

    // A stop waits for it no longer than a few seconds.
    collector.set_open(false);
    answered(&installation, &app.build_report(3).bytes(), 3, "01").await;
    stored(&installation, 3).await;
    end(&mut installation);
    assert!(collector.spans(&trace(3)).is_empty());
    installation.stop().await;
}
