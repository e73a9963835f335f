//! `POST /v1/sessions`, and what is counted of sessions.

use crate::world::{World, signing_settings, tenant_id};
use flate2::{Compression, write::GzEncoder};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Write;
use time::format_description::well_known::Rfc3339;
use unslide_health::store::sessions::{self, SessionArrival, SessionEvent};
use unslide_model::Scope;
use unslide_model::ended::EndReason;
use unslide_proto::event::GatewayEvent;
use unslide_proto::headers;
use unslide_signatures::SigningKey;
use unslide_store::{partitions, tenants};
use unslide_stream::{Record, scan};

/// An event of a session.
pub fn event(id: &str, started_at: &str) -> Value {
    json!({"id": id, "installation": format!("of {id}"), "app": "com.example.shop", "version": "1.0",
        "started_at": started_at, "other": {"kept": true}})
}

/// An event of a session that begins now.
pub fn now(world: &World, id: &str) -> Value {
    event(id, &world.host.clock.now().format(&Rfc3339).unwrap())
}

/// Stores events as an indexer does.
pub async fn store(world: &World, of: &str, events: &[Value]) {
    let received_at = world.host.clock.now();
    let read = |event: &Value| SessionEvent::from_json(event.to_string().as_bytes()).unwrap();
    let arrivals: Vec<_> = events
        .iter()
        .map(|event| SessionArrival { event: read(event), received_at, sender_key: None })
        .collect();
    for arrival in &arrivals {
        partitions::ensure_partitions(&world.store, arrival.event.event_day(), arrival.event.event_day())
            .await
            .unwrap();
    }
    let mut tx = world.store.tenant(&tenant_id(of)).await.unwrap();
    let all: Vec<_> = arrivals.iter().collect();
    sessions::store(&mut tx, &all, time::Date::MIN).await.unwrap();
    tx.commit().await.unwrap();
}

pub async fn sent(world: &World, at_least: usize) -> Vec<Record> {
    let (kafka, topic) = (&world.config.kafka, world.config.kafka.topic_names().sessions);
    for _ in 0..3_000 {
        let records = scan::whole_topic(kafka, &topic).await.unwrap();
        if records.len() >= at_least {
            return records;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the topic has fewer than {at_least} records");
}

/// The schema takes what is read, the documentation's example first, and refuses what is refused.
#[test]
fn the_published_schema_says_what_is_read() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/schema/sessions-v1.json")).unwrap();
    let words: Vec<Value> = EndReason::ALL.into_iter().map(|reason| reason.as_str().into()).collect();
    let listed = schema["properties"]["end_reason"]["enum"].as_array().unwrap();
    assert_eq!(listed[..], [words, vec![Value::Null]].concat()[..]);
    let schema = jsonschema::validator_for(&schema).unwrap();
    let example = super::sent_example(include_str!("../../../../docs/sessions.md"), "2026-11-20T08:00:00Z");
    let with = |more: Value| {
        let mut event = example.clone();
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let is_read = |event: &Value| SessionEvent::from_json(event.to_string().as_bytes()).is_ok();
    for good in [
        json!({}),
        json!({"user": "u", "os": "iOS 26", "device": "iPhone16,1", "sampled": 0.25, "foreground": true, "other": [{}]}),
        json!({"duration": null, "ended_at": "2026-11-20T09:00:00Z", "end_reason": null, "termination": {
            "reason": "hang", "rebooted": true, "footprint": 12, "footprint_limit": null, "jetsam": "x"}}),
        json!({"installation": null, "sessions": 1_000, "crashed": 7, "end_reason": null}),
    ] {
        let event = with(good);
        assert!(is_read(&event) && schema.is_valid(&event), "{event}");
    }
    for bad in [
        json!({"id": ""}),
        json!({"app": null}),
        json!({"started_at": 5}),
        json!({"installation": null}),
        json!({"sampled": 0}),
        json!({"duration": -1}),
        json!({"ended_at": "2026-11-20T09:00:00Z"}),
        json!({"end_reason": "bored"}),
        json!({"termination": {"rebooted": "yes"}}),
        json!({"crashed": 1}),
        json!({"sessions": 5}),
        json!({"installation": null, "sessions": 0, "end_reason": null}),
        json!({"installation": null, "sessions": 5}),
    ] {
        let event = with(bad);
        assert!(!is_read(&event) && !schema.is_valid(&event), "{event}");
    }
}

#[tokio::test]
async fn events_reach_the_topic_byte_for_byte_signed_for_their_tenant() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let [a, b] = ["s1", "s2"].map(|id| now(&world, id).to_string());
    let one = json!({"accepted": 1, "too_old": 0, "switched_off": 0, "refused": [], "unread": []});
    assert_eq!(world.post("/v1/sessions", &key, a.clone()).await.expect_status(202), one);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(format!("[{a}, {b}]").as_bytes()).unwrap();
    assert_eq!(
        world.post("/v1/sessions", &key, packed.finish().unwrap()).await.expect_status(202)["accepted"],
        2
    );
    let records = sent(&world, 3).await;
    assert_eq!(records.len(), 3);
    let verifying = SigningKey::parse(&signing_settings().key).unwrap().verifying_key();
    for record in &records {
        let value = std::str::from_utf8(record.value.as_deref().unwrap()).unwrap();
        assert!(value == a || value == b, "{value}");
        assert_eq!(record.headers.get_text(headers::TENANT), Some("acme"));
        let (at, signature) =
            (record.headers.get_number(headers::SIGNED_AT), record.headers.get_text(headers::SIGNATURE));
        assert!(verifying.verify_record(
            &tenant_id("acme"),
            at.unwrap(),
            value.as_bytes(),
            signature.unwrap()
        ));
        let id = if value == a { "s1" } else { "s2" };
        assert_eq!(record.key.as_deref(), Some(format!("acme/{id}").as_bytes()));
    }
    assert_eq!(world.read_metric(r#"unslide_api_records_total{kind="sessions"}"#), 3.0);
    world.stop().await;
}

/// Proves: fairness
#[tokio::test]
async fn what_is_out_of_bounds_is_refused_and_nothing_is_sent() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let good = now(&world, "s1").to_string();
    let post = async |body: String| {
        let request = world.request(Method::POST, "/v1/sessions", &key).header("prefer", "handling=strict");
        world.send(request.body(body)).await
    };
    let detail = post(format!("[{good},{{}}]")).await.expect_problem(400, "invalid-body");
    assert!(detail.starts_with("event 1: missing field"), "{detail}");
    let detail =
        post(event("s1", "2999-01-01T00:00:00Z").to_string()).await.expect_problem(400, "invalid-body");
    assert!(detail.contains("`started_at` lies more than a day ahead"), "{detail}");
    let detail =
        post(format!("[{}]", vec![good.as_str(); 1_001].join(","))).await.expect_problem(413, "too-large");
    assert!(detail.contains("1000 events"), "{detail}");
    post(" ".repeat((1 << 20) + 1)).await.expect_problem(413, "too-large");
    let app = world.key_for("acme", &[Scope::ReportsWrite], Some("com.example.bank")).await;
    world.post("/v1/sessions", &app, good.clone()).await.expect_problem(403, "insufficient-scope");
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    world.post("/v1/sessions", &reader, good.clone()).await.expect_problem(403, "insufficient-scope");
    world.change_limits("acme", &tenants::QuotaLimits { units_per_second: 1, ..Default::default() }).await;
    let limited = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let many = format!("[{}]", vec![good.as_str(); 100].join(","));
    let post = async || world.post("/v1/sessions", &limited, many.clone()).await;
    // The first one may find a full bucket.
    let statuses = [post().await.status, post().await.status];
    assert!(statuses.iter().any(|status| *status == 429), "a hundred events cost a hundred units");
    world.stop().await;
}

#[tokio::test]
async fn one_bad_event_refuses_no_other_and_becomes_a_dead_letter() {
    let world = World::start().await;
    let key = world.key_for("acme", &[Scope::ReportsWrite], Some("com.example.shop")).await;
    let good = now(&world, "s1").to_string();
    let mut other = now(&world, "s2");
    other["app"] = "com.example.bank".into();
    let body = format!("[{good},{{\"id\": }},{other}]");
    let answer = world.post("/v1/sessions", &key, body).await.expect_status(202);
    assert_eq!(answer["accepted"], 1);
    let refused = |index: usize| {
        let refused = &answer["refused"][index];
        (refused["index"].as_u64().unwrap(), refused["type"].as_str().unwrap(), refused["id"].as_str())
    };
    assert_eq!((refused(0), refused(1)), ((1, "bad_session", None), (2, "wrong_app", Some("s2"))));
    let records = sent(&world, 3).await;
    let reasons: Vec<&str> =
        records.iter().filter_map(|record| record.headers.get_text(headers::REFUSED_REASON)).collect();
    assert_eq!((records.len(), reasons.len()), (3, 2));
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn an_apps_health_is_told_for_its_tenant_alone() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let mut crashed = now(&world, "s2");
    (crashed["end_reason"], crashed["version"]) = ("crashed".into(), "1.1".into());
    store(&world, "acme", &[now(&world, "s1"), crashed, now(&world, "s3"), now(&world, "s4")]).await;
    let path = "/v1/apps/com.example.shop/health";
    let health = world.get(path, &acme).await.expect_status(200);
    let period = &health["period"];
    assert_eq!((&period["sessions"], &period["crashed_sessions"]), (&4.into(), &1.into()));
    assert_eq!((&period["crash_free_sessions"], &period["installations"]), (&0.75.into(), &4.into()));
    assert_eq!(
        (&period["out_of_memory_rate"], &period["background_out_of_memory_rate"]),
        (&0.0.into(), &0.0.into())
    );
    assert_eq!((&period["users"], &period["crash_free_users"]), (&0.into(), &Value::Null), "none is named");
    assert_eq!(health["period_before"]["sessions"], 0);
    assert_eq!(health["more_than_noise"]["crash_free_sessions"], false);
    assert_eq!((health["days"].as_array().unwrap().len(), &health["days"][0]["sessions"]), (1, &4.into()));
    let versions: Vec<_> = health["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
    assert_eq!(versions, [&json!("1.0"), &json!("1.1")]);
    let one = world.get(&format!("{path}?version=1.1&days=90"), &acme).await.expect_status(200);
    assert_eq!((&one["period"]["sessions"], &one["period"]["crash_free_sessions"]), (&1.into(), &0.0.into()));
    world.get(path, &umbrella).await.expect_problem(404, "not-found");
    let other = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.bank")).await;
    world.get(path, &other).await.expect_problem(404, "not-found");
    for days in ["0", "91"] {
        world.get(&format!("{path}?days={days}"), &acme).await.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

#[tokio::test]
async fn what_an_app_switches_off_is_said_to_its_sender() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let path = "/v1/apps/com.example.shop/signals";
    let sender = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let usual = world.get(path, &sender).await.expect_status(200);
    assert_eq!((&usual["signals"]["sessions"], &usual["signals"]["hangs"]), (&true.into(), &true.into()));
    let tag = world.get(path, &sender).await.headers["etag"].to_str().unwrap().to_owned();
    let asked = async |tag: &str| {
        let request = world.request(Method::GET, path, &sender).header("if-none-match", tag);
        world.send(request).await.status.as_u16()
    };
    assert_eq!((asked(&tag).await, asked("\"other\"").await), (304, 200));
    let signals = json!({"sessions": false, "captures": false});
    let settings = json!({"app": "com.example.shop", "signals": signals});
    let put = async |settings: &Value| {
        let request = world.request(Method::PUT, "/v1/app-settings", &acme);
        world.send(request.body(settings.to_string())).await
    };
    let set = put(&settings).await.expect_status(200);
    assert_eq!((&set["signals"]["sessions"], &set["signals"]["hangs"]), (&false.into(), &true.into()));
    let kept = put(&json!({"app": "com.example.shop", "source_root": "/ci"})).await.expect_status(200);
    assert_eq!((&kept["source_root"], &kept["signals"]), (&"/ci".into(), &set["signals"]));
    put(&json!({"app": "com.example.shop", "signal": {}})).await.expect_problem(400, "invalid-body");
    let wrong = json!({"app": "com.example.shop", "signals": {"hangs": 10}});
    put(&wrong).await.expect_problem(400, "invalid-body");
    assert_eq!(asked(&tag).await, 200);
    let mut bank = now(&world, "s2");
    bank["app"] = "com.example.bank".into();
    let both = json!([now(&world, "s1"), bank]).to_string();
    let sent = world.post("/v1/sessions", &sender, both).await.expect_status(202);
    assert_eq!(sent, json!({"accepted": 2, "too_old": 0, "switched_off": 1, "refused": [], "unread": []}));
    let capture = world.post("/v1/captures?app=com.example.shop&kind=profile", &sender, "x").await;
    capture.expect_problem(403, "signal-switched-off");
    store(&world, "acme", &[now(&world, "s1")]).await;
    let health = world.get("/v1/apps/com.example.shop/health/versions", &acme).await.expect_status(200);
    let dropped = json!([{"signal": "captures", "dropped": 1}, {"signal": "sessions", "dropped": 1}]);
    assert_eq!((&health["dropped"], &health["versions"]), (&dropped, &json!([])));
    world.get("/v1/apps/com.example.shop/health/versions", &umbrella).await.expect_problem(404, "not-found");
    let other = world.get(path, &umbrella).await.expect_status(200);
    assert_eq!(other["signals"]["sessions"], true);
    let app = world.key_for("acme", &[Scope::ReportsWrite], Some("com.example.bank")).await;
    world.get(path, &app).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

/// The answer counts what the store leaves out, whether the service or the tenant sets the boundary.
#[tokio::test]
async fn an_answer_says_how_many_events_are_too_old_to_be_counted() {
    use unslide_health::store::metrics::{self, MetricArrival};
    use unslide_store::gateway_events::EventOutcome;
    use unslide_store::tenants::QuotaLimits;

    let world = World::start().await;
    let received_at = world.host.clock.now();
    let midday = received_at.replace_time(time::Time::MIDNIGHT);
    let days_ago = |days: i64| (midday - time::Duration::days(days)).format(&Rfc3339).unwrap();
    for (slug, retention_days, most) in [("acme", 0, 30), ("short-lived", 7, 7)] {
        let mut tx = world.store.tenant(&tenant_id(slug)).await.unwrap();
        if retention_days > 0 {
            let limits = QuotaLimits { retention_days, ..QuotaLimits::default() };
            tenants::create_tenant(&mut tx, slug, &limits).await.unwrap().unwrap();
            tx.commit().await.unwrap();
        }
        let key = world.create_key(slug, &[Scope::ReportsWrite]).await;
        let days = [0, most, most + 1, 400];
        let bodies: [(&str, Vec<Value>); 2] = [
            ("/v1/sessions", days.map(|n| event(&format!("s{n}"), &days_ago(n))).into()),
            ("/v1/metrics", days.map(|n| super::metrics::payload(&format!("m{n}"), &days_ago(n))).into()),
        ];
        for (path, events) in &bodies {
            let sent = world.post(path, &key, json!(events).to_string()).await.expect_status(202);
            assert_eq!((&sent["accepted"], &sent["too_old"]), (&4.into(), &2.into()), "{slug} {path}");
            let keep_from = world.config.indexer.first_day(retention_days, received_at);
            for n in [0, most] {
                let day = (received_at - time::Duration::days(n)).date();
                partitions::ensure_partitions(&world.store, day, day).await.unwrap();
            }
            let mut tx = world.store.tenant(&tenant_id(slug)).await.unwrap();
            let bytes = events.iter().map(|event| event.to_string().into_bytes());
            let outcomes = if *path == "/v1/sessions" {
                let arrival = |bytes: Vec<u8>| SessionArrival {
                    sender_key: None,
                    event: SessionEvent::from_json(&bytes).unwrap(),
                    received_at,
                };
                let arrivals: Vec<_> = bytes.map(arrival).collect();
                sessions::store(&mut tx, &arrivals.iter().collect::<Vec<_>>(), keep_from).await.unwrap()
            } else {
                let arrival = |bytes: Vec<u8>| MetricArrival {
                    sender_key: None,
                    event: GatewayEvent::from_json(&bytes).unwrap(),
                    received_at,
                };
                let arrivals: Vec<_> = bytes.map(arrival).collect();
                metrics::store(&mut tx, &arrivals.iter().collect::<Vec<_>>(), keep_from).await.unwrap()
            };
            let expired = outcomes.iter().filter(|outcome| **outcome == EventOutcome::Expired).count();
            assert_eq!((outcomes.len(), expired), (4, 2), "{slug} {path}: {outcomes:?}");
        }
    }
    world.stop().await;
}

/// What an app keeps is only a hint.
#[tokio::test]
async fn events_that_the_broker_has_are_accepted_while_the_settings_of_apps_cannot_be_read() {
    let world = World::with(|limits| limits.request_seconds = 10).await;
    let sender = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let mut locking = world.connect().await;
    for statement in ["BEGIN", "LOCK TABLE app_settings IN ACCESS EXCLUSIVE MODE"] {
        sqlx::query(statement).execute(&mut locking).await.unwrap();
    }
    let sent = world.post("/v1/sessions", &sender, now(&world, "s1").to_string()).await.expect_status(202);
    assert_eq!(sent, json!({"accepted": 1, "too_old": 0, "switched_off": 0, "refused": [], "unread": []}));
    sqlx::query("ROLLBACK").execute(&mut locking).await.unwrap();
    sqlx::Connection::close(locking).await.unwrap();
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_session_is_told_with_its_signals_for_its_tenant_alone() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let mut ended = now(&world, "s1");
    (ended["end_reason"], ended["duration"]) = ("exited".into(), 5.into());
    store(&world, "acme", &[ended]).await;
    let mut payload = crate::signals::metrics::now(&world, "m1");
    payload["session"] = "s1".into();
    crate::signals::metrics::store(&world, "acme", &[payload]).await;
    let sent = "/v1/captures?app=com.example.shop&kind=profile";
    let capture =
        world.post(&format!("{sent}&session_id=s1"), &acme, "main;draw 3\n").await.expect_status(202);
    let capture = format!("captures/{}", capture["id"].as_str().unwrap());
    assert_eq!(world.get(&format!("/v1/{capture}"), &acme).await.expect_status(200)["session_id"], "s1");
    world.post(&format!("{sent}&session_id="), &acme, "x").await.expect_problem(400, "invalid-parameter");
    let path = "/v1/sessions/s1?app=com.example.shop";
    let whole = world.get(path, &acme).await.expect_status(200);
    let kinds: Vec<&Value> = whole["items"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    let of =
        |kind: &str| whole["items"].as_array().unwrap().iter().find(|event| event["kind"] == kind).unwrap();
    assert_eq!((&of("ended")["detail"], &of("capture")["detail"]), (&json!("exited"), &json!("profile")));
    let first = world.get(&format!("{path}&limit=2"), &acme).await.expect_status(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("{path}&limit=2&cursor={cursor}"), &acme).await.expect_status(200);
    assert_eq!(rest["items"], json!([whole["items"][2], whole["items"][3]]));
    let browser = crate::world::Browser::signed_in(&world, &acme).await;
    let page = browser.fetch_page("/console/sessions/s1?app=com.example.shop").await;
    assert!(page.contains("The session ended: exited") && page.contains("Metrics m1"), "{page}");
    assert!(page.contains(&format!("/console/{capture}\">A capture: profile")), "{page}");
    let mut critical = now(&world, "s2");
    critical["termination"] = json!({"memory_pressure": "critical"});
    store(&world, "acme", &[critical]).await;
    let judged = world.get("/v1/sessions/s2?app=com.example.shop", &acme).await.expect_status(200);
    let judgement = json!({"rule": "exclusion", "confidence": "medium",
        "evidence": [{"kind": "memory_pressure", "value": "critical"}]});
    let ended = judged["items"].as_array().unwrap().iter().find(|event| event["kind"] == "ended").unwrap();
    assert_eq!((&ended["detail"], &ended["judgement"]), (&json!("out_of_memory"), &judgement));
    let page = browser.fetch_page("/console/sessions/s2?app=com.example.shop").await;
    assert!(page.contains("Confidence: medium. For it: memory pressure, critical."), "{page}");
    let page = browser.fetch_page(&format!("/console/{capture}")).await;
    assert!(page.contains("/console/sessions/s1?app=com.example.shop\">Its session"), "{page}");
    world.get(path, &umbrella).await.expect_problem(404, "not-found");
    world.get("/v1/sessions/s1?app=com.example.bank", &acme).await.expect_problem(404, "not-found");
    world.get("/v1/sessions/s1", &acme).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}
