//! Who may send for whom.

use super::worker_fixture::*;
use crate::admission::sender::{self, Admission};
use crate::source_record::SourceRecord;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use unslide_model::{Clock, Secret, SystemClock, TenantId};
use unslide_proto::headers;
use unslide_proto::report::{RecordRef as ProtoRef, Resymbolicate};
use unslide_signatures::{SignedPurpose, Signer, SigningKey};
use unslide_stream::{GatewayKey, Headers, Record, RecordRef, SignatureSettings, admin};

/// Proves: sender
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_own_topic_names_the_tenant_and_gets_the_answer_on_its_own_topic() {
    let bench = Bench::with(Wishes { tenant_topics: true, ..Wishes::default() }).await;
    admin::create_tenant_topics(&bench.settings, &acme()).await.unwrap();
    let app = App::new();
    bench.publish(&app, 1).await;
    let (input, output) = (bench.names.tenant_input(&acme()), bench.names.tenant_output(&acme()));
    let said = |tenant: &'static str| Headers::new().with(headers::TENANT, tenant);
    bench.input_with(&input, Headers::new(), app.report(1, 2)).await;
    bench.input_with(&input, said("acme"), app.report(2, 2)).await;
    bench.input_with(&input, said("other"), app.report(3, 2)).await;
    bench.input_with(&input, said("No Slug"), app.report(4, 2)).await;
    bench.input(Some("acme"), app.report(5, 2)).await;
    let lane = bench.live();
    let own = bench.wait(&output, 2).await;
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|r| r.headers.get_text(headers::TENANT) == Some("acme") && symbolicated(r) > 0));
    assert_eq!(bench.wait(&bench.names.output, 1).await.len(), 1, "what came on the shared topic");
    let dead = bench.wait(&bench.names.dead_letter, 2).await;
    for letter in &dead {
        assert_eq!(letter.headers.get_text(headers::REASON), Some("tenant_mismatch"));
        assert_eq!(letter.headers.get_text(headers::TENANT), Some("acme"), "as it was decided");
        assert_eq!(letter.headers.get_text(headers::ORIGIN_TOPIC), Some(&*input));
    }
    admin::delete_tenant_topics(&bench.settings, &acme()).await.unwrap();
    bench.end(vec![lane]).await;
}

/// Proves: sender
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_names_two_tenants_is_nobodys_and_ends_in_dead_letter() {
    let bench = Bench::with(Wishes { tenant_topics: true, ..Wishes::default() }).await;
    admin::create_tenant_topics(&bench.settings, &acme()).await.unwrap();
    let app = App::new();
    let input = bench.names.tenant_input(&acme());
    let twice = |first: &'static str, second: &'static str| {
        Headers::new().with(headers::TENANT, first).with(headers::TENANT, second)
    };
    bench.input_with(&bench.names.input, twice("other", "acme"), app.report(1, 2)).await;
    bench.input_with(&bench.names.input, twice("acme", "acme"), app.report(2, 2)).await;
    bench.input_with(&input, twice("acme", "other"), app.report(3, 2)).await;
    bench.input(Some("acme"), app.report(4, 2)).await;
    let lane = bench.live();
    let dead = bench.wait(&bench.names.dead_letter, 3).await;
    assert_eq!(bench.wait(&bench.names.output, 1).await.len(), 1);
    for letter in &dead {
        assert_eq!(letter.headers.get_text(headers::REASON), Some("ambiguous_tenant"));
        // A replay sends what the dead letter says.
        let own = letter.headers.get_text(headers::ORIGIN_TOPIC) == Some(&*input);
        assert_eq!(letter.headers.get_text(headers::TENANT), own.then_some("acme"));
    }
    assert_eq!(bench.read(&bench.names.tenant_output(&acme())).await.len(), 0);
    admin::delete_tenant_topics(&bench.settings, &acme()).await.unwrap();
    bench.end(vec![lane]).await;
}

/// Proves: sender
#[tokio::test(flavor = "multi_thread")]
async fn where_signatures_are_required_nobody_sends_for_another_and_a_replay_is_still_signed() {
    let key = SigningKey::parse(&Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=")).unwrap();
    let edge = GatewayKey {
        name: "edge".into(),
        public_key: key.verifying_key().to_string(),
        tenants: vec!["acme".into()],
    };
    let service = SigningKey::parse(&Secret::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")).unwrap();
    let public_key = service.verifying_key().to_string();
    let api = GatewayKey { name: "api".into(), public_key, tenants: vec!["*".into()] };
    let signatures = SignatureSettings { required: true, keys: vec![edge, api] };
    let bench = Bench::with(Wishes { signatures, ..Wishes::default() }).await;
    let app = App::new();
    let now = SystemClock.now_micros() / 1_000;
    let service = Signer::new("api", service);
    let signed = |tenant: &'static str, value: &[u8], at: i64| {
        Headers::new()
            .with(headers::TENANT, tenant)
            .with(headers::SIGNATURE, key.sign_record(&acme(), at, value))
            .with(headers::SIGNATURE_KEY, "edge")
            .with(headers::SIGNED_AT, at.to_string())
    };
    let input = bench.names.input.clone();
    let report = app.report(1, 2);
    bench.input_with(&input, signed("acme", &report, now), report.clone()).await;
    bench.input_with(&input, signed("other", &report, now), report.clone()).await;
    bench.input_with(&input, signed("acme", &report, now - 3_600_000), report.clone()).await;
    bench.input(Some("acme"), report.clone()).await;
    bench.input_with(&input, signed("acme", b"{", now), "{").await;
    let lane = bench.live();
    assert_eq!(bench.wait(&bench.names.output, 1).await.len(), 1);
    let dead = bench.wait(&bench.names.dead_letter, 4).await;
    let mut reasons: Vec<_> = dead.iter().map(|r| r.headers.get_text(headers::REASON).unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["bad_signature", "no_signature", "stale_signature", "truncated"]);

    // An operator sends dead letters again: their bytes and what was signed, untouched, with the api's own signature.
    for reason in ["stale_signature", "bad_signature"] {
        let letter = dead.iter().find(|r| r.headers.get_text(headers::REASON) == Some(reason)).unwrap();
        let mut replay = Headers::new().with(headers::REPLAY_OF, "x/0/1");
        for name in [headers::TENANT, headers::SIGNATURE, headers::SIGNATURE_KEY, headers::SIGNED_AT] {
            replay.push(name, letter.headers.get(name).unwrap().clone());
        }
        let tenant = TenantId::new(letter.headers.get_text(headers::TENANT).unwrap()).unwrap();
        let now = SystemClock.now_micros() / 1_000;
        let value = letter.value.as_deref().unwrap();
        for (name, text) in service.headers_for(SignedPurpose::Replay, &tenant, now, value) {
            replay.push(name, text);
        }
        bench.input_with(&input, replay, letter.value.clone().unwrap()).await;
    }
    assert_eq!(bench.wait(&bench.names.output, 2).await.len(), 2);
    let dead = bench.wait(&bench.names.dead_letter, 5).await;
    let bad = dead.iter().filter(|r| r.headers.get_text(headers::REASON) == Some("bad_signature")).count();
    assert_eq!(bad, 2, "a replay is no way around the signature");
    bench.end(vec![lane]).await;
}

/// Proves: sender
#[tokio::test(flavor = "multi_thread")]
async fn one_report_of_an_array_is_taken_again_where_the_api_signs_for_it() {
    let parsed = |secret| SigningKey::parse(&Secret::new(secret)).unwrap();
    let edge = parsed("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=");
    let api = parsed("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let known = |name: &str, key: &SigningKey, tenants: &str| GatewayKey {
        name: name.into(),
        public_key: key.verifying_key().to_string(),
        tenants: vec![tenants.into()],
    };
    let keys = vec![known("edge", &edge, "acme"), known("api", &api, "*")];
    let signatures = SignatureSettings { required: true, keys };
    let bench = Bench::with(Wishes { signatures, ..Wishes::default() }).await;
    let app = App::new();
    let now = SystemClock.now_micros() / 1_000;
    let (edge, api) = (Signer::new("edge", edge), Signer::new("api", api));
    let said = |signer: Option<&Signer>, value: &[u8]| {
        let signed = signer.map(|signer| signer.signature_headers(&acme(), now, value)).into_iter().flatten();
        signed.fold(Headers::new().with(headers::TENANT, "acme"), |all, (name, text)| all.with(name, text))
    };
    let input = bench.names.input.clone();
    let array = [b"[1,".as_slice(), &app.report(1, 2), b"]"].concat();
    bench.input_with(&input, said(Some(&edge), &array), array.clone()).await;
    let lane = bench.live();
    assert_eq!(bench.wait(&bench.names.output, 1).await.len(), 1);
    let letter = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    let value = letter.value.clone().unwrap();
    assert_eq!((&value[..], letter.headers.get(headers::SIGNATURE)), (b"1".as_slice(), None));
    // As it is, and as the api replays it: the first has no tenant, the second is looked at once more.
    for signer in [None, Some(&api)] {
        let replay = said(signer, &value).with(headers::REPLAY_OF, "x/0/1");
        bench.input_with(&input, replay, value.clone()).await;
    }
    let dead = bench.wait(&bench.names.dead_letter, 3).await;
    let mut reasons: Vec<_> = dead.iter().map(|r| r.headers.get_text(headers::REASON).unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["no_signature", "not_a_report", "not_a_report"]);
    bench.end(vec![lane]).await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_input_without_its_output_waits_and_holds_up_nobody_else() {
    let bench = Bench::with(Wishes { tenant_topics: true, ..Wishes::default() }).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let (input, output) = (bench.names.tenant_input(&acme()), bench.names.tenant_output(&acme()));
    let client: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &bench.settings.bootstrap).create().unwrap();
    let by_hand = NewTopic::new(&input, 2, TopicReplication::Fixed(1));
    client.create_topics([&by_hand], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    for n in [1, 2] {
        bench.input_with(&input, Headers::new(), app.report(n, 2)).await;
    }
    let lane = bench.live();
    for n in [3, 4] {
        bench.input(Some("acme"), app.report(n, 2)).await;
        let shared = bench.wait(&bench.names.output, n as usize - 2).await;
        assert_eq!(shared.len(), n as usize - 2, "the shared topic goes on");
    }
    assert_eq!(until(&lane, |s| s.records == 2).await.paused, None);
    let said = bench.worker.enricher.outputs.check_outputs().unwrap_err();
    assert!(said.contains("inputs of 1 tenants") && said.contains("unslide tenant topics"), "{said}");
    assert!(!said.contains("acme"), "{said}");
    // What mends it: then everything comes, once.
    admin::create_tenant_topics(&bench.settings, &acme()).await.unwrap();
    assert_eq!(bench.wait(&output, 2).await.len(), 2);
    bench.input_with(&input, Headers::new(), app.report(5, 2)).await;
    let own = bench.wait(&output, 3).await;
    assert!(own.len() == 3 && own.iter().all(|r| symbolicated(r) > 0));
    assert_eq!(bench.worker.enricher.outputs.check_outputs(), Ok(()));
    assert!(bench.read(&bench.names.dead_letter).await.is_empty());
    admin::delete_tenant_topics(&bench.settings, &acme()).await.unwrap();
    bench.end(vec![lane]).await;
}

/// Copies of acme's records wait, and acme's own topics are removed: on the lanes of copies and requests
/// nobody else waits for that.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_tenants_input_goes_to_the_output_of_all_where_its_own_is_gone() {
    let bench = Bench::with(Wishes { tenant_topics: true, ..Wishes::default() }).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let (input, output) = (bench.names.tenant_input(&acme()), bench.names.tenant_output(&acme()));
    let copy = |tenant: &'static str, origin: &str| {
        let headers = Headers::new().with(headers::TENANT, tenant).with(headers::REASON, "fetch_failed");
        let headers = headers.with(headers::ATTEMPT, "1").with(headers::ORIGIN_TOPIC, origin.to_owned());
        headers.with(headers::ORIGIN_PARTITION, "0").with(headers::ORIGIN_OFFSET, "7")
    };
    let tier = bench.names.retry_10s.clone();
    bench.input_with(&tier, copy("acme", &input), app.report(1, 2)).await;
    bench.input_with(&tier, copy("other", &bench.names.input), app.report(2, 2)).await;
    bench.clock.ahead(60);
    let lanes = vec![bench.retry(), bench.again()];
    let shared = bench.wait(&bench.names.output, 2).await;
    let own = shared.iter().find(|r| r.headers.get_text(headers::TENANT) == Some("acme")).unwrap();
    assert!(shared.len() == 2 && symbolicated(own) > 0);
    assert_eq!(own.headers.get_text(headers::ORIGIN_TOPIC), Some(&*input));
    let request = || Resymbolicate {
        revision: 2,
        needs: app.needs(1),
        origin: Some(ProtoRef { topic: input.clone(), partition: 0, offset: 7 }),
        ..Resymbolicate::default()
    };
    bench.ask(own, &app.report(1, 2), request()).await;
    assert_eq!(bench.wait(&bench.names.output, 3).await.len(), 3);

    // With its topics it has its own again, at once.
    admin::create_tenant_topics(&bench.settings, &acme()).await.unwrap();
    bench.input_with(&tier, copy("acme", &input), app.report(3, 2)).await;
    bench.ask(own, &app.report(1, 2), Resymbolicate { revision: 3, ..request() }).await;
    assert_eq!(bench.wait(&output, 2).await.len(), 2);
    assert_eq!(bench.read(&bench.names.output).await.len(), 3);
    assert!(bench.read(&bench.names.dead_letter).await.is_empty());
    admin::delete_tenant_topics(&bench.settings, &acme()).await.unwrap();
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_unknown_once_the_record_was_in_every_tier_and_the_table_was_read_since() {
    let bench = Bench::new().await;
    let now = SystemClock.now_micros() / 1_000;
    let sent = |topic: &str, tries: u32, tenants_read: bool| {
        let headers = Headers::new()
            .with(headers::TENANT, "nobody")
            .with(headers::REASON, "unknown_tenant")
            .with(headers::ATTEMPT, tries.to_string())
            .with(headers::ORIGIN_TIME, now.to_string());
        let at = RecordRef { topic: topic.into(), partition: 0, offset: 0 };
        let record = Record { at, time_millis: Some(now), key: None, value: None, headers };
        let entry = SourceRecord::from_record(&record, &bench.names);
        match sender::admit_record(&bench.worker.senders, &entry, true, tenants_read) {
            Admission::Early { .. } => "early",
            Admission::Refused { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    };
    // Whatever the worker's wall clock says.
    for step in [0, 3_600, -7_200] {
        bench.clock.step(step);
        assert_eq!(sent(&bench.names.input, 3, true), "early", "nobody believes an input record's headers");
        assert_eq!(sent(&bench.names.retry_10s, 1, true), "early");
        assert_eq!(sent(&bench.names.retry_1m, 2, true), "early");
        assert_eq!(sent(&bench.names.retry_10m, 3, false), "early");
        assert_eq!(sent(&bench.names.retry_10m, 3, true), "unknown_tenant");
    }
    bench.end(Vec::new()).await;
}
