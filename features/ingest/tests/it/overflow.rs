//! Reports over a rate, which wait in overflow.

use crate::ingest::ingest_api::{A, APP, B, public_key, report_of, send, start, start_with};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use unslide_proto::{headers, lanes};
use unslide_store::tenants::QuotaLimits;
use unslide_stream::lane::{
    Done, Lane, LaneConfig, Pause, Processor, Refusal, Suspects, Timings, Unobserved,
};
use unslide_stream::scan::whole_topic;
use unslide_stream::{BatchLimits, OutRecord, Record};
use unslide_world::{World, report_json};

async fn limit_rate(world: &World, tenant: &str, units_per_second: u32) {
    world.change_limits(tenant, &QuotaLimits { units_per_second, ..QuotaLimits::default() }).await;
}

/// Takes the records of overflow as a symbolizer does, and does nothing with them.
struct Taker;

impl Processor for Taker {
    fn prepare_batch(
        self: Arc<Self>,
        batch: Vec<Record>,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Done>, Pause>> + Send>> {
        Box::pin(async move { Ok(batch.iter().map(take_record).collect()) })
    }

    fn refuse_record(&self, record: &Record, _: &Refusal) -> Done {
        take_record(record)
    }

    fn account_records(&self, _: &[&Done]) -> Vec<OutRecord> {
        Vec::new()
    }

    fn on_committed(&self, _: &[&Record], _: &[&Done]) {}
}

fn take_record(record: &Record) -> Done {
    Done { source: record.at.clone(), outputs: Vec::new(), outcomes: Vec::new(), history: None }
}

fn start_symbolizer(world: &World) -> Lane {
    let kafka = &world.config.kafka;
    let config = LaneConfig {
        name: lanes::RETRY.to_owned(),
        worker: "w".to_owned(),
        topics: vec![kafka.topic_names().ingest_overflow],
        pattern: None,
        batch: BatchLimits { records: 100, bytes: 1 << 20, wait: Duration::from_millis(5) },
        timings: Timings::default(),
        suspects: Suspects::default(),
    };
    Lane::start(kafka, config, Arc::new(Taker), Arc::new(Unobserved)).unwrap()
}

async fn read_overflow(world: &World) -> Vec<Record> {
    let kafka = &world.config.kafka;
    whole_topic(kafka, &kafka.topic_names().ingest_overflow).await.unwrap()
}

fn id_of(record: &Record) -> String {
    let report: Value = serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
    report["report"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_excess_of_reports_is_accepted_and_none_is_lost() {
    let world = start().await;
    limit_rate(&world, "umbrella", 10).await;
    let key = public_key(&world, "umbrella", &[APP]).await;
    let (text, id) = (key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    let mut sent = BTreeSet::new();
    // More than the burst of the tenant's public keys.
    for n in 0..60 {
        let report = format!("11111111-1111-1111-1111-{n:012}");
        let answer = send(&world, text, report_json(&report).to_string()).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (202, "accepted 1 report"));
        sent.insert(report);
    }
    let (direct, over) = (world.read_sent_records(16).await, read_overflow(&world).await);
    assert_eq!(direct.len() + over.len(), 60);
    let found: BTreeSet<String> = direct.iter().chain(&over).map(id_of).collect();
    assert_eq!(found, sent);
    for record in &over {
        assert_eq!(record.key.as_deref(), Some(format!("umbrella/{id}").as_bytes()));
        assert_eq!(record.headers.get_text(headers::DRAIN_RATE), Some("100"));
        assert_eq!(record.headers.get_text(headers::TENANT), Some("umbrella"));
        assert_eq!(record.headers.get(headers::DRAIN_TOPIC), None);
    }
    world.stop().await;
}

#[tokio::test]
async fn summaries_over_the_rate_wait_with_the_topic_that_they_go_to() {
    let world = start().await;
    limit_rate(&world, "umbrella", 10).await;
    let key = public_key(&world, "umbrella", &[APP]).await;
    let path = format!("/i/{}/runs", key["key"].as_str().unwrap());
    let run = |n: u32| {
        json!({
            "schema_version": 1, "run_id": format!("run-{n}"), "device_id": "d",
            "started_at_ms": 1_795_593_492_100_i64, "ended_at_ms": 1_795_593_600_250_i64,
            "outcome": {"termination_reason": "crash"}, "app": {"bundle_id": APP},
        })
    };
    let body = json!((0..50).map(run).collect::<Vec<_>>()).to_string();
    let sessions = world.config.kafka.topic_names().sessions;
    for _ in 0..2 {
        let request = world.request(Method::POST, &path, "").body(body.clone());
        assert_eq!(world.send(request).await.status, 202);
    }
    let over = read_overflow(&world).await;
    assert!(over.len() >= 50, "{}", over.len());
    for record in &over {
        assert_eq!(record.headers.get_text(headers::DRAIN_TOPIC), Some(sessions.as_str()));
        assert!(record.headers.get_text(headers::DRAIN_KEY).unwrap().starts_with("umbrella/run-"));
    }
    let direct = whole_topic(&world.config.kafka, &sessions).await.unwrap();
    assert_eq!(direct.len() + over.len(), 100);
    world.stop().await;
}

#[tokio::test]
async fn only_a_full_overflow_refuses_and_one_bad_report_waits_with_the_others() {
    let world = start_with(20_000).await;
    limit_rate(&world, "umbrella", 1).await;
    let key = public_key(&world, "umbrella", &[APP]).await;
    let text = key["key"].as_str().unwrap();
    let mut refused = None;
    let mut accepted = 0;
    for _ in 0..500 {
        let body = format!("[{},{{\"crash\": }},{}]", report_json(A), report_of("com.example.other", B));
        let answer = send(&world, text, body).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
        assert!(answer.text.starts_with("accepted 1 of 3 reports; "), "{}", answer.text);
        accepted += 3;
    }
    let refused = refused.unwrap();
    assert_eq!(refused.headers["retry-after"], "300");
    let over = read_overflow(&world).await;
    let bytes: usize = over.iter().map(Record::size).sum();
    assert!(!over.is_empty() && bytes < 20_000 && over.len() <= accepted, "{bytes}");
    assert!(over.iter().any(|record| record.headers.get(headers::REFUSED_REASON).is_some()));
    // A tenant within its rate is not refused.
    let other = public_key(&world, "acme", &[APP]).await;
    assert_eq!(send(&world, other["key"].as_str().unwrap(), report_json(A).to_string()).await.status, 202);
    // Once a symbolizer has taken the records, others have room.
    let _lane = start_symbolizer(&world);
    for _ in 0..3_000 {
        if send(&world, text, report_json(A).to_string()).await.status == 202 {
            return world.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the records were taken, and the overflow stays full");
}

#[tokio::test]
async fn an_address_over_its_rate_sends_with_valid_keys_only() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP]).await;
    let text = key["key"].as_str().unwrap();
    let mut refused = None;
    for n in 0..3_000 {
        if n % 100 == 0 {
            assert_eq!(send(&world, text, report_json(A).to_string()).await.status, 202);
        }
        let answer = send(&world, "usp_x", "{}").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.unwrap();
    assert!(
        refused.headers.contains_key("retry-after")
            && refused.text.starts_with("too many reports, retry after")
    );
    for _ in 0..20 {
        assert_eq!(send(&world, text, report_json(B).to_string()).await.status, 202);
    }
    assert!(!read_overflow(&world).await.is_empty());
    world.stop().await;
}
