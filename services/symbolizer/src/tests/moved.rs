//! Records of a tenant that another cell serves: two installations on one Kafka.

use super::worker_fixture::*;
use crate::admission::tenants::TenantStatus;
use std::time::Duration;
use unslide_audit::{Summary, Window, run_audit};
use unslide_model::{Clock, Secret, SystemClock, TenantId};
use unslide_proto::Message;
use unslide_proto::headers;
use unslide_proto::report::{RecordRef as ProtoRef, Resymbolicate};
use unslide_proto::symbol::{TenantConfig, TenantLimits, TenantState};
use unslide_signatures::SigningKey;
use unslide_stream::{GatewayKey, Headers, OutRecord, Record, SignatureSettings, admin};

/// Records that come in after the tenant has moved.
const INPUTS: u32 = 150;

/// Says that a tenant has moved, and returns once the worker knows.
async fn move_tenant(bench: &Bench, tenant: &str, state: TenantState, prefix: &str) {
    let config = TenantConfig {
        tenant: tenant.into(),
        version: 2,
        state: state as i32,
        moved_to: Some(prefix.to_owned()),
        ..TenantConfig::default()
    };
    let record = OutRecord::for_topic(bench.names.tenant_config.as_str(), config.encode_to_vec())
        .key(tenant.to_owned());
    bench.producer.send_record(&record).await.unwrap();
    bench.tenants_read().await;
    assert!(bench.worker.senders.tenants.moved_to(&TenantId::new(tenant).unwrap()).is_some());
}

async fn audit(bench: &Bench) -> Summary {
    let now = SystemClock.now_micros() / 1_000;
    let audited = run_audit(&bench.settings, Window::default(), now, Duration::from_secs(30), |_| {});
    let summary = audited.await.unwrap().summary;
    assert!(summary.is_clean(), "{:?} {:?}", summary.contradictions, summary.findings);
    summary
}

/// Key, headers and value of each record, in an order of their own.
fn contents(records: &[Record]) -> Vec<String> {
    let text = |record: &Record| format!("{:?} {:?} {:?}", record.key, record.headers, record.value);
    let mut contents: Vec<String> = records.iter().map(text).collect();
    contents.sort();
    contents
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn every_lane_passes_records_of_a_moved_tenant_on_once_although_it_is_killed() {
    let limits = TenantLimits { units_per_second: 1, ..TenantLimits::default() };
    let (here, there) = (Bench::with(Wishes { limits, ..Wishes::default() }).await, Bench::new().await);
    let app = App::new();
    here.publish(&app, 1).await;
    there.publish(&app, 2).await;
    // While the tenant is here: some records wait in overflow, and one in a retry tier.
    here.clock.stand();
    for n in 0..8 {
        here.input(Some("acme"), app.report(n, 2)).await;
    }
    here.input(Some("late"), app.report(8, 2)).await;
    let lane = here.live();
    here.wait(&here.names.retry_10s, 1).await;
    let waiting = loop {
        let (answered, waiting) =
            (here.read(&here.names.output).await, here.read(&here.names.overflow).await);
        if answered.len() + waiting.len() == 8 {
            assert!(!answered.is_empty() && !waiting.is_empty());
            break waiting;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let stored = here.read(&here.names.output).await.remove(0);
    drop(lane);
    // It moves, and is deleted here at the end.
    let prefix = &there.settings.topic_prefix;
    move_tenant(&here, "acme", TenantState::Deleted, prefix).await;
    move_tenant(&here, "late", TenantState::Active, prefix).await;
    for n in 0..INPUTS {
        here.input(Some("acme"), app.report(100 + n, 2)).await;
    }
    here.input(Some("other"), app.report(9, 2)).await;
    let drained = OutRecord::for_topic(here.names.ingest_overflow.as_str(), app.report(10, 2))
        .key("acme/1")
        .header(headers::TENANT, "acme")
        .header(headers::DRAIN_RATE, "10");
    here.producer.send_record(&drained).await.unwrap();
    let origin = Some(ProtoRef { topic: here.names.input.clone(), partition: 0, offset: 0 });
    let wishes = || Resymbolicate {
        revision: 2,
        needs: app.needs(2),
        origin: origin.clone(),
        ..Resymbolicate::default()
    };
    here.ask(&stored, &app.report(0, 2), wishes()).await;
    for due in [1, 40, 90] {
        // A lane that is dropped ends in the middle of its transaction, and the next one fences it off.
        let lane = here.live();
        there.wait(&there.names.input, due).await;
        drop(lane);
    }
    let lanes = vec![here.live(), here.retry(), here.again()];
    let passed = there.wait(&there.names.input, INPUTS as usize).await;
    let is_acmes = |record: &Record| record.headers.get_text(headers::TENANT) == Some("acme");
    let mut sent: Vec<Record> = here.read(&here.names.input).await.into_iter().filter(is_acmes).collect();
    sent.retain(|record| passed.iter().any(|passed| passed.value == record.value));
    assert_eq!(contents(&passed), contents(&sent), "unchanged, and once");
    for (from, to, count) in [
        (&here.names.overflow, &there.names.overflow, waiting.len()),
        (&here.names.retry_10s, &there.names.retry_10s, 1),
        (&here.names.ingest_overflow, &there.names.ingest_overflow, 1),
        (&here.names.resymbolicate, &there.names.resymbolicate, 1),
    ] {
        let passed = there.wait(to, count).await;
        assert_eq!(contents(&passed), contents(&here.read(from).await), "unchanged, and once");
    }
    here.wait(&here.names.output, 8 - waiting.len() + 1).await;
    let summary = audit(&here).await;
    let total = summary.total();
    let passed_on = u64::from(INPUTS) + waiting.len() as u64 + 3;
    assert_eq!((total.passed_on, total.dropped, total.dead_letter), (passed_on, 0, 0));
    assert_eq!((total.waiting, total.unread), (0, 0));
    let note = format!("{INPUTS} records were passed on to {} of another cell", there.names.input);
    assert!(summary.notes.contains(&note), "{:?}", summary.notes);
    // The other cell answers all of them.
    there.tell("late", TenantState::Active).await;
    there.tenants_read().await;
    assert_eq!(there.worker.senders.tenants.status(&TenantId::new("late").unwrap()), TenantStatus::Active);
    let lanes_there = vec![there.live(), there.retry(), there.again()];
    there.wait_while_time_passes(&there.names.output, passed_on as usize).await;
    let total = audit(&there).await.total();
    assert_eq!((total.input, total.out, total.dead_letter), (passed_on, passed_on, 0));
    here.end(lanes).await;
    there.end(lanes_there).await;
}

/// Proves: sender
#[tokio::test(flavor = "multi_thread")]
async fn a_signed_record_is_checked_before_it_is_passed_on_and_accepted_there_however_long_it_waited() {
    let key = SigningKey::parse(&Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=")).unwrap();
    let signatures = || {
        let public_key = key.verifying_key().to_string();
        let edge = GatewayKey { name: "edge".into(), public_key, tenants: vec!["acme".into()] };
        SignatureSettings { required: true, keys: vec![edge] }
    };
    let here = Bench::with(Wishes { signatures: signatures(), ..Wishes::default() }).await;
    let there = Bench::with(Wishes { signatures: signatures(), ..Wishes::default() }).await;
    let app = App::new();
    there.publish(&app, 1).await;
    let signed = |value: &[u8]| {
        let at = SystemClock.now_micros() / 1_000;
        Headers::new()
            .with(headers::TENANT, "acme")
            .with(headers::SIGNATURE, key.sign_record(&acme(), at, value))
            .with(headers::SIGNATURE_KEY, "edge")
            .with(headers::SIGNED_AT, at.to_string())
    };
    move_tenant(&here, "acme", TenantState::Active, &there.settings.topic_prefix).await;
    let (first, second) = (app.report(1, 2), app.report(2, 2));
    here.input_with(&here.names.input, signed(&first), first.clone()).await;
    here.input(Some("acme"), app.report(3, 2)).await;
    let lane = here.live();
    there.wait(&there.names.input, 1).await;
    let dead = here.wait(&here.names.dead_letter, 1).await;
    assert_eq!(dead[0].headers.get_text(headers::REASON), Some("no_signature"));
    // As if the worker had been behind for ten minutes.
    here.clock.ahead(600);
    here.input_with(&here.names.input, signed(&second), second.clone()).await;
    let checked = there.wait(&there.names.retry_1s, 1).await.remove(0);
    let arrived = here.read(&here.names.input).await;
    let arrived = arrived.iter().find(|record| record.value.as_deref() == Some(&second[..])).unwrap();
    assert_eq!(checked.headers.get_number(headers::ORIGIN_TIME), arrived.time_millis);
    let lanes = vec![there.live(), there.retry()];
    there.wait(&there.names.output, 2).await;
    assert!(there.read(&there.names.dead_letter).await.is_empty());
    assert_eq!(audit(&here).await.total().passed_on, 2);
    assert_eq!(audit(&there).await.total().out, 2);
    here.end(vec![lane]).await;
    there.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_the_other_cell_lacks_keeps_no_other_tenants_records_waiting() {
    let here = Bench::with(Wishes { tenant_topics: true, ..Wishes::default() }).await;
    let there = Bench::new().await;
    admin::create_tenant_topics(&here.settings, &acme()).await.unwrap();
    let app = App::new();
    move_tenant(&here, "gone", TenantState::Active, "nowhere.").await;
    move_tenant(&here, "acme", TenantState::Active, &there.settings.topic_prefix).await;
    here.input(Some("gone"), app.report(1, 2)).await;
    // The other cell has no topic of this tenant.
    here.input_with(&here.names.tenant_input(&acme()), Headers::new(), app.report(2, 2)).await;
    here.input(Some("other"), app.report(3, 2)).await;
    let lane = here.live();
    here.wait(&here.names.output, 1).await;
    let dead = here.wait(&here.names.dead_letter, 1).await;
    assert_eq!(dead[0].headers.get_text(headers::REASON), Some("no_cell_topic"));
    assert_eq!(dead[0].headers.get_text(headers::TENANT), Some("gone"));
    let passed = there.wait(&there.names.input, 1).await;
    assert_eq!(passed[0].headers.get_text(headers::TENANT), Some("acme"));
    let total = audit(&here).await.total();
    assert_eq!((total.out, total.dead_letter, total.passed_on), (1, 1, 1));
    admin::delete_tenant_topics(&here.settings, &acme()).await.unwrap();
    here.end(vec![lane]).await;
    there.end(Vec::new()).await;
}
