//! What a tenant may use, and how a request over it is answered.
//! Proves: fairness

use crate::world::{World, pad_json, report_json, slow_body};
use flate2::{Compression, write::GzEncoder};
use reqwest::Method;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;
use unslide_model::Scope;
use unslide_store::tenants::QuotaLimits;

const A: &str = "11111111-1111-1111-1111-111111111111";

fn file(bytes: usize, seed: u8) -> Vec<u8> {
    let mut file = b"\xcf\xfa\xed\xfe".to_vec();
    file.resize(bytes, seed);
    file
}

/// A body without an announced length.
fn chunked(bytes: &[u8]) -> reqwest::Body {
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> = bytes.chunks(1_000).map(|c| Ok(c.to_vec())).collect();
    reqwest::Body::wrap_stream(futures::stream::iter(pieces))
}

#[tokio::test]
async fn an_upload_over_the_tenants_limit_is_refused_before_more_is_read() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    world.change_limits("acme", &QuotaLimits { upload_bytes: 5_000, ..QuotaLimits::default() }).await;
    let endless = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some((Ok::<_, std::io::Error>(file(1_000, 1)), ()))
    });
    for body in [file(5_001, 1).into(), chunked(&file(5_001, 2)), reqwest::Body::wrap_stream(endless)] {
        let detail = world.post("/v1/symbols", &key, body).await.expect_problem(413, "too-large");
        assert!(detail.contains("5000"), "{detail}");
    }
    world.post("/v1/symbols", &key, file(5_000, 3)).await.expect_status(202);
    assert_eq!(world.list_objects("acme").await.len(), 1);
    // Another tenant has the service's own.
    let other = world.create_key("umbrella", &[Scope::SymbolsWrite]).await;
    world.post("/v1/symbols", &other, file(5_001, 1)).await.expect_status(202);
    world.stop().await;
}

#[tokio::test]
async fn symbols_over_the_tenants_limit_are_answered_with_what_is_used() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 10_000, ..QuotaLimits::default() }).await;
    world.post("/v1/symbols", &key, file(6_000, 1)).await.expect_status(202);
    // Told at once where the length is announced, and else when the file is there.
    for body in [reqwest::Body::from(file(4_001, 2)), chunked(&file(4_001, 3))] {
        let detail = world.post("/v1/symbols", &key, body).await.expect_problem(507, "symbol-quota");
        for number in ["6000", "10000", "symbol_bytes"] {
            assert!(detail.contains(number), "{detail}");
        }
    }
    assert_eq!(world.list_objects("acme").await.len(), 1, "what was refused is not kept");
    world.post("/v1/symbols", &key, file(4_000, 4)).await.expect_status(202);
    // The same bytes again need no room.
    let again = world.post("/v1/symbols", &key, chunked(&file(4_000, 4))).await.expect_status(202);
    assert_eq!(again["existing"], true);
    let page = world.host.process_metrics().render_page().unwrap();
    assert!(page.contains("unslide_api_refused_total{limit=\"symbol_bytes\"} 2"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn uploads_at_once_do_not_go_over_the_limit_together() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 3_500, ..QuotaLimits::default() }).await;
    let sends = (0..8).map(|n| world.post("/v1/symbols", &key, chunked(&file(1_000, n))));
    let answers = futures::future::join_all(sends).await;
    let taken = answers.iter().filter(|answer| answer.status == 202).count();
    assert_eq!(taken, 3, "{answers:?}");
    assert!(answers.iter().all(|answer| [202, 507].contains(&answer.status.as_u16())));
    assert_eq!(world.number("SELECT sum(size)::bigint FROM uploads WHERE status = 'queued'").await, 3_000);
    assert_eq!(world.list_objects("acme").await.len(), 3);
    world.stop().await;
}

#[tokio::test]
async fn a_service_without_a_word_for_the_tenant_has_its_own_limits() {
    let world = World::configured(|config| {
        config.tenants.symbol_bytes = 2_000;
        config.api.limits.report_bytes = 400;
        config.tenants.units_per_second = 4;
    })
    .await;
    let key = world.create_master_key("acme").await;
    world.post("/v1/symbols", &key, file(2_001, 1)).await.expect_problem(507, "symbol-quota");
    let mut large = report_json(A);
    large["padding"] = Value::String("x".repeat(400));
    let detail = world.post_json("/v1/reports", &key, &large).await.expect_problem(413, "too-large");
    assert!(detail.contains("report_bytes") && detail.contains("400"), "{detail}");
    // A tenant's own limit goes up, but a report not past what the service takes.
    let own = QuotaLimits { symbol_bytes: 9_000, report_bytes: 1 << 30, ..QuotaLimits::default() };
    world.change_limits("acme", &own).await;
    let key = world.create_master_key("acme").await;
    world.post("/v1/symbols", &key, file(2_001, 1)).await.expect_status(202);
    world.post_json("/v1/reports", &key, &large).await.expect_problem(413, "too-large");
    world.stop().await;
}

#[tokio::test]
async fn reports_over_the_rate_wait_and_nobody_else_does() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    // One unit a second, two at once, and a request that finds both may use more: it owes minutes.
    world.change_limits("acme", &QuotaLimits { units_per_second: 1, ..QuotaLimits::default() }).await;
    let batch = |n: usize| {
        let reports: Vec<Value> = (0..n).map(|_| report_json(A)).collect();
        serde_json::to_string(&reports).unwrap()
    };
    world.post("/v1/reports", &key, batch(300)).await.expect_status(202);
    let refused = world.post("/v1/reports", &key, batch(5)).await;
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=310).contains(&seconds), "{seconds}");
    let detail = refused.expect_problem(429, "rate-limited");
    let told = "Rate limit exceeded for tenant acme: units_per_second is 1. Retry after ";
    assert!(detail.starts_with(told), "{detail}");
    // It is refused whole: nothing of it is in the topic.
    assert_eq!(world.read_sent_records(300).await.len(), 300);
    let other = world.create_key("umbrella", &[Scope::ReportsWrite]).await;
    world.post("/v1/reports", &other, batch(100)).await.expect_status(202);
    world.stop().await;
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_many_bytes_is_paid_for_as_what_it_is() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    world.change_limits("acme", &QuotaLimits { units_per_second: 1, ..QuotaLimits::default() }).await;
    let large = pad_json(&report_json(A).to_string(), 10 << 20);
    let mut packing = GzEncoder::new(Vec::new(), Compression::best());
    packing.write_all(&large).unwrap();
    let packed = packing.finish().unwrap();
    assert!(packed.len() < 64 << 10);
    // The bucket is full, so that it goes through, and owes 161 units less the two that were there.
    world.post("/v1/reports", &key, packed.clone()).await.expect_status(202);
    let refused = world.post("/v1/reports", &key, packed).await;
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=161).contains(&seconds), "{seconds}");
    refused.expect_problem(429, "rate-limited");
    // A report that is not packed costs the same.
    let other = world.create_key("umbrella", &[Scope::ReportsWrite]).await;
    world.change_limits("umbrella", &QuotaLimits { units_per_second: 1, ..QuotaLimits::default() }).await;
    world.post("/v1/reports", &other, large).await.expect_status(202);
    world.post("/v1/reports", &other, report_json(A).to_string()).await.expect_problem(429, "rate-limited");
    world.stop().await;
}

/// Such a report refuses its neighbours only if the client wants all or none.
#[tokio::test]
async fn a_report_over_the_tenants_size_is_named() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let small = report_json(A).to_string();
    world
        .change_limits("acme", &QuotaLimits { report_bytes: small.len() as u64, ..QuotaLimits::default() })
        .await;
    world.post("/v1/reports", &key, small.clone()).await.expect_status(202);
    for (body, place) in [
        (format!(" {{\"a\":1,{}", small.get(1..).unwrap()), ""),
        (format!("[{small},{{\"a\":1,{}]", small.get(1..).unwrap()), "report 1"),
        (format!("{small}\n{{\"a\":1,{}\n", small.get(1..).unwrap()), "line 2"),
    ] {
        let request = world.request(Method::POST, "/v1/reports", &key).header("prefer", "handling=strict");
        let detail = world.send(request.body(body.clone())).await.expect_problem(413, "too-large");
        assert!(detail.contains("report_bytes") && detail.contains(place), "{detail}");
        if !place.is_empty() {
            let answer = world.post("/v1/reports", &key, body).await.expect_status(202);
            assert_eq!(
                (&answer["accepted"], &answer["refused"][0]["type"]),
                (&1.into(), &"too_large".into())
            );
        }
        assert!(detail.contains(&small.len().to_string()), "{detail}");
    }
    // The first report, and of each partly accepted request one report and the record of the one that was refused.
    assert_eq!(world.read_sent_records(5).await.len(), 5);
    world.stop().await;
}

/// Where the service itself is short, the client is asked to come again.
#[tokio::test]
async fn a_service_that_is_full_says_when_to_come_again() {
    let world = World::with(|limits| {
        limits.bodies = 1;
        limits.ingest_bytes = 1 << 20;
        limits.ingest_unpacked_bytes = 1 << 20;
    })
    .await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let other = world.create_key("umbrella", &[Scope::ReportsWrite]).await;
    let (sender, body) = slow_body();
    let asking = async {
        sender.unbounded_send(Ok(pad_json(&report_json(A).to_string(), (1 << 20) - 1))).unwrap();
        world.wait_for_metric(r#"unslide_api_body_bytes{kind="reports"}"#, f64::from(1 << 20)).await;
        let answer = world.post("/v1/reports", &other, chunked(&[b' '; 9])).await;
        assert_eq!(answer.headers["retry-after"], "1");
        answer.expect_problem(503, "overloaded");
        sender.unbounded_send(Ok(b" ".to_vec())).unwrap();
        drop(sender);
    };
    let (held, ()) = tokio::join!(world.post("/v1/reports", &key, body), asking);
    held.expect_status(202);
    world.stop().await;
}
