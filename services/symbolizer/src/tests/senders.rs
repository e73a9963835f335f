//! Who may send for whom.

use super::world::*;
use crate::signatures::{Key, Settings};
use unslide_model::{Clock, Secret, SystemClock};
use unslide_proto::headers;
use unslide_proto::signed::SigningKey;
use unslide_stream::{Headers, admin};

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
    assert!(own.iter().all(|r| r.headers.text(headers::TENANT) == Some("acme") && symbolicated(r) > 0));
    assert_eq!(bench.wait(&bench.names.output, 1).await.len(), 1, "what came on the shared topic");
    let dead = bench.wait(&bench.names.dead_letter, 2).await;
    for letter in &dead {
        assert_eq!(letter.headers.text(headers::REASON), Some("tenant_mismatch"));
        assert_eq!(letter.headers.text(headers::TENANT), Some("acme"), "as it was decided");
        assert_eq!(letter.headers.text(headers::ORIGIN_TOPIC), Some(&*input));
    }
    admin::delete_tenant_topics(&bench.settings, &acme()).await.unwrap();
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_signatures_are_required_nobody_sends_for_another_and_a_replay_is_still_signed() {
    let key = SigningKey::parse(&Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=")).unwrap();
    let edge =
        Key { name: "edge".into(), public_key: key.verifying().to_string(), tenants: vec!["acme".into()] };
    let signatures = Settings { required: true, keys: vec![edge], ..Settings::default() };
    let bench = Bench::with(Wishes { signatures, ..Wishes::default() }).await;
    let app = App::new();
    let now = SystemClock.now_micros() / 1_000;
    let signed = |tenant: &'static str, value: &[u8], at: i64| {
        Headers::new()
            .with(headers::TENANT, tenant)
            .with(headers::SIGNATURE, key.sign(&acme(), at, value))
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
    let mut reasons: Vec<_> = dead.iter().map(|r| r.headers.text(headers::REASON).unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["bad_signature", "no_signature", "stale_signature", "truncated"]);

    // An operator sends dead letters again: their bytes and what was signed, untouched.
    for reason in ["stale_signature", "bad_signature"] {
        let letter = dead.iter().find(|r| r.headers.text(headers::REASON) == Some(reason)).unwrap();
        let mut replay = Headers::new().with(headers::REPLAY_OF, "x/0/1");
        for name in [headers::TENANT, headers::SIGNATURE, headers::SIGNATURE_KEY, headers::SIGNED_AT] {
            replay.push(name, letter.headers.get(name).unwrap().clone());
        }
        bench.input_with(&input, replay, letter.value.clone().unwrap()).await;
    }
    assert_eq!(bench.wait(&bench.names.output, 2).await.len(), 2);
    let dead = bench.wait(&bench.names.dead_letter, 5).await;
    let bad = dead.iter().filter(|r| r.headers.text(headers::REASON) == Some("bad_signature")).count();
    assert_eq!(bad, 2, "a replay is no way around the signature");
    bench.end(vec![lane]).await;
}
