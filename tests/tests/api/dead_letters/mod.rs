//! Dead letters: seen by whom they concern, their bytes untouched, and replayed once unless asked twice.

pub mod skipped;

use crate::world::{World, signing_settings, tenant_id};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use unslide_model::Scope;
use unslide_proto::headers;
use unslide_signatures::{SignedPurpose, SigningKey};
use unslide_store::audit;
use unslide_store::dead_letters::{
    self, DeadLetter, DeadLetterId, DeadLetterStage, DeadLetterStatus, TopicOffset,
};
use unslide_stream::{Headers, OutRecord, Producer, topic_facts};

/// Neither text nor JSON.
const BYTES: &[u8] = b"\x00\xff<script>\r\n\x80";

/// Writes a dead letter to the topic and notes it, as symbolizer and indexer do. Its id.
pub async fn letter(
    world: &World,
    of: Option<&'static str>,
    reason: &'static str,
    key: Option<&'static [u8]>,
    value: Option<&'static [u8]>,
) -> String {
    let mut record =
        OutRecord { key: key.map(Into::into), value: value.map(Into::into), ..OutRecord::default() };
    record.headers = Headers::new()
        .with(headers::TENANT, of.unwrap_or("claimed"))
        .with(headers::REASON, reason)
        .with(headers::SIGNATURE, "c2lnbmVk")
        .with(headers::ORIGIN_OFFSET, "7");
    letter_of(world, of, reason, record, |_| {}).await
}

/// The same of any record, with what the index says of it changed.
async fn letter_of(
    world: &World,
    of: Option<&str>,
    reason: &str,
    mut record: OutRecord,
    change: impl FnOnce(&mut DeadLetter),
) -> String {
    let kafka = &world.config.kafka;
    let topics = kafka.topic_names();
    record.topic = topics.dead_letter.as_str().into();
    let place = Producer::new(kafka).unwrap().send_record(&record).await.unwrap();
    let topic_id = topic_facts(kafka, &topics.dead_letter).await.unwrap().id.to_string();
    let id = DeadLetterId { topic_id, partition: place.partition, offset: place.offset };
    let mut noted = noted(world, id, of, reason);
    noted.value_bytes = record.value.map(|value| value.len() as u64);
    change(&mut noted);
    note(world, noted).await
}

pub fn noted(world: &World, id: DeadLetterId, of: Option<&str>, reason: &str) -> DeadLetter {
    DeadLetter {
        id,
        stage: DeadLetterStage::Symbolize,
        topic: world.config.kafka.topic_names().dead_letter,
        tenant: of.map(tenant_id),
        arrived_at: world.host.clock.now(),
        reason: reason.to_owned(),
        detail: "a detail".to_owned(),
        attempt: Some(3),
        origin: Some(TopicOffset { topic: world.config.kafka.topic_names().input, partition: 1, offset: 7 }),
        source: None,
        source_index: None,
        source_count: None,
        value_bytes: None,
        status: DeadLetterStatus::Waiting,
        replays: 0,
        replayed_at: None,
        replayed_by: None,
        replayed_as: None,
        replay_detail: None,
    }
}

pub async fn note(world: &World, noted: DeadLetter) -> String {
    let mut tx = world.store.batch().await.unwrap();
    assert_eq!(dead_letters::note(&mut tx, std::slice::from_ref(&noted)).await.unwrap().new, 1);
    tx.commit().await.unwrap();
    noted.id.to_string()
}

/// Returns the number of clients of Kafka that this process has: each has one thread with this name.
fn count_kafka_clients() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("rdk:main")).count()
}

#[tokio::test]
async fn a_request_reads_a_letter_with_the_connections_of_the_one_before() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let first = letter(&world, Some("acme"), "not_json", None, Some(b"one")).await;
    let second = letter(&world, Some("acme"), "not_json", None, Some(b"two")).await;
    let before = count_kafka_clients();
    let mut clients = Vec::new();
    for (id, value) in [(&first, "one"), (&second, "two"), (&first, "one")] {
        let body = world.request(Method::GET, &format!("/v1/dead-letters/{id}/body"), &admin);
        assert_eq!(body.send().await.unwrap().text().await.unwrap(), value);
        clients.push(count_kafka_clients());
    }
    assert!(clients[0] > before, "the first request keeps its clients: {before} {clients:?}");
    assert_eq!(clients, [clients[0]; 3], "and no other one opens any");
    world.stop().await;
}

/// Proves: unchanged-bytes
#[tokio::test]
async fn a_letter_is_shown_and_replayed_with_its_bytes_untouched() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let odd = letter(&world, Some("acme"), "not_json", Some(b"\xfe\x00k"), Some(BYTES)).await;
    let empty = letter(&world, Some("acme"), "not_json", None, None).await;

    let page = world
        .get("/v1/dead-letters?limit=1&reason=not_json&status=waiting&stage=symbolize", &admin)
        .await
        .expect_status(200);
    assert_eq!(page["items"][0]["id"], *empty);
    let next = page["next_cursor"].as_str().unwrap();
    let address =
        format!("/v1/dead-letters?limit=1&reason=not_json&status=waiting&stage=symbolize&cursor={next}");
    let page = world.get(&address, &admin).await.expect_status(200);
    let listed = &page["items"][0];
    assert_eq!(
        (&listed["id"], &listed["tenant"], &listed["attempt"]),
        (&json!(odd), &json!("acme"), &json!(3))
    );
    assert_eq!((&listed["value_bytes"], &listed["replays"]), (&json!(BYTES.len()), &json!(0)));
    assert_eq!((&listed["origin"]["offset"], &page["next_cursor"]), (&json!(7), &json!(null)));

    let shown = world.get(&format!("/v1/dead-letters/{odd}"), &admin).await.expect_status(200);
    assert_eq!((&shown["held"], &shown["key"]), (&json!(true), &json!({"base64": "/gBr"})));
    assert_eq!(shown["headers"][1], json!({"name": "reason", "value": {"text": "not_json"}}));
    let body =
        world.request(Method::GET, &format!("/v1/dead-letters/{odd}/body"), &admin).send().await.unwrap();
    assert_eq!(body.headers()["content-type"], "application/octet-stream");
    assert_eq!(body.headers()["x-content-type-options"], "nosniff");
    assert_eq!(body.bytes().await.unwrap(), BYTES);
    assert_eq!(world.get(&format!("/v1/dead-letters/{empty}/body"), &admin).await.status, 204);

    for id in [&odd, &empty] {
        let address = format!("/v1/dead-letters/{id}/replay");
        let done = world.post_json(&address, &admin, &json!({})).await.expect_status(200);
        assert!(
            done["replayed_as"].as_str().unwrap().starts_with(&world.config.kafka.topic_names().input),
            "{done}"
        );
        assert_eq!((&done["status"], done.get("warning")), (&json!("replayed"), None));
        let again = world.post_json(&address, &admin, &json!({})).await;
        assert!(again.expect_problem(409, "already-replayed").contains("again"));
        world.post_json(&address, &admin, &json!({"again": true})).await.expect_status(200);
        let shown = world.get(&format!("/v1/dead-letters/{id}"), &admin).await.expect_status(200);
        assert_eq!(shown["replays"], 2);
    }
    let sent = world.read_sent_records(4).await;
    assert_eq!(sent.len(), 4);
    for record in &sent {
        let (id, key, value) = match record.value {
            Some(_) => (&odd, Some(&b"\xfe\x00k"[..]), Some(BYTES)),
            None => (&empty, None, None),
        };
        assert_eq!((record.key.as_deref(), record.value.as_deref()), (key, value));
        let (_, place) = id.split_once('-').unwrap();
        let of = format!("{}/{}", world.config.kafka.topic_names().dead_letter, place.replace('-', "/"));
        assert_eq!(record.headers.get_text(headers::REPLAY_OF), Some(of.as_str()));
        assert_eq!(record.headers.get_text(headers::TENANT), Some("acme"));
        assert_eq!(record.headers.get_text(headers::SIGNATURE), Some("c2lnbmVk"));
        assert_eq!(
            (record.headers.get(headers::REASON), record.headers.get(headers::ORIGIN_OFFSET)),
            (None, None)
        );
    }
    assert_eq!(sent.iter().filter(|r| r.value.is_none()).count(), 2);
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let log = audit::list_entries(&mut tx, None, 10).await.unwrap();
    assert_eq!(log.iter().filter(|entry| entry.action == "dead_letter.replay").count(), 4);
    tx.rollback().await.unwrap();
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn what_is_nobodys_is_the_operators_alone() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let nobodys = letter(&world, None, "unknown_tenant", None, Some(BYTES)).await;
    let acmes = letter(&world, Some("acme"), "not_json", None, Some(BYTES)).await;
    let stranger = letter(&world, Some("stranger"), "not_json", None, Some(BYTES)).await;

    let own = world.get("/v1/dead-letters", &admin).await.expect_status(200);
    assert_eq!((own["items"].as_array().unwrap().len(), &own["items"][0]["id"]), (1, &json!(acmes)));
    for id in [&nobodys, &stranger] {
        for rest in ["", "/body"] {
            let answer = world.get(&format!("/v1/dead-letters/{id}{rest}"), &admin).await;
            answer.expect_problem(404, "not-found");
        }
        let answer = world.post_json(&format!("/v1/dead-letters/{id}/replay"), &admin, &json!({})).await;
        answer.expect_problem(404, "not-found");
    }
    let all = |query: &'static str| {
        let (world, operator) = (&world, &operator);
        async move {
            let page =
                world.get(&format!("/v1/operator/dead-letters{query}"), operator).await.expect_status(200);
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|l| l["id"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(all("").await, [stranger.clone(), acmes.clone(), nobodys.clone()]);
    assert_eq!(all("?tenant=").await, [stranger.clone(), nobodys.clone()]);
    assert_eq!(all("?tenant=acme").await, [acmes]);
    let body = world.request(Method::GET, &format!("/v1/operator/dead-letters/{nobodys}/body"), &operator);
    assert_eq!(body.send().await.unwrap().bytes().await.unwrap(), BYTES);
    let address = format!("/v1/operator/dead-letters/{nobodys}/replay");
    let done = world.post_json(&address, &operator, &json!({})).await.expect_status(200);
    assert!(done["warning"].as_str().unwrap().contains("tenant is known"));
    // It claims what it claimed before.
    assert_eq!(world.read_sent_records(1).await[0].headers.get_text(headers::TENANT), Some("claimed"));
    // A key of one app sees none: what app a dead letter is of is not known.
    let of_app = world.key_for("acme", &[Scope::TenantAdmin], Some("com.example.shop")).await;
    world.get("/v1/dead-letters", &of_app).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

/// Proves: unchanged-bytes
#[tokio::test]
async fn letters_are_replayed_by_filter_and_dangerous_ones_only_by_name() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    for _ in 0..3 {
        letter(&world, Some("acme"), "not_json", None, Some(BYTES)).await;
    }
    let deadly = letter(&world, Some("acme"), "kills_worker", None, Some(BYTES)).await;
    letter(&world, Some("umbrella"), "not_json", None, Some(BYTES)).await;
    // One that the topic does not hold, and one of a topic that was deleted.
    let here: DeadLetterId = deadly.parse().unwrap();
    for gone in
        [DeadLetterId { offset: 9_000, ..here.clone() }, DeadLetterId { topic_id: "0".repeat(32), ..here }]
    {
        note(&world, noted(&world, gone, Some("acme"), "not_json")).await;
    }

    let replay = async |body: serde_json::Value| {
        world.post_json("/v1/dead-letters/replay", &admin, &body).await.expect_status(200)
    };
    let counted = replay(json!({"dry_run": true})).await;
    assert_eq!((&counted["matched"], &counted["replayed"]), (&json!(6), &json!(0)));
    // Nothing is replayed because a request forgot to say which, or said it in a list.
    for wrong in [
        json!({}),
        json!({"limit": 2}),
        json!([]),
        json!([null]),
        json!(["not_json"]),
        json!({"all": true, "reason": "x"}),
    ] {
        world.post_json("/v1/dead-letters/replay", &admin, &wrong).await.expect_problem(400, "invalid-body");
    }
    let first = replay(json!({"limit": 2, "all": true})).await;
    assert_eq!((&first["replayed"], &first["more"]), (&json!(2), &json!(true)), "{first}");
    let rest = replay(json!({"from": "2026-01-01T00:00:00Z"})).await;
    let expected = json!({"matched": 4, "replayed": 1, "gone": 2, "dangerous": 1, "more": false});
    assert_eq!(rest, expected);
    let named = replay(json!({"reason": "kills_worker"})).await;
    assert_eq!((&named["replayed"], &named["gone"]), (&json!(1), &json!(0)));
    assert_eq!(world.read_sent_records(4).await.len(), 4);
    let wrong = world.post_json("/v1/dead-letters/replay", &admin, &json!({"tenant": "umbrella"})).await;
    wrong.expect_problem(400, "invalid-parameter");
    let wrong = world.post_json("/v1/dead-letters/replay", &admin, &json!({"limit": 101})).await;
    wrong.expect_problem(400, "invalid-body");
    world.stop().await;
}

#[tokio::test]
async fn so_many_read_dead_letters_at_once_and_the_others_wait() {
    let world = World::with(|limits| (limits.letters, limits.tenant_share) = (2, 100)).await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let id = letter(&world, Some("acme"), "not_json", None, Some(BYTES)).await;
    let address = format!("/v1/dead-letters/{id}/body");
    let reading = || world.read_gauge("unslide_api_in_flight", "dead_letters");
    let readers = futures::future::join_all((0..12).map(|_| {
        let request = world.request(Method::GET, &address, &admin);
        async { request.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap() }
    }));
    tokio::pin!(readers);
    let mut most = 0;
    let bodies = loop {
        most = most.max(reading());
        tokio::select! {
            bodies = &mut readers => break bodies,
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => {}
        }
    };
    assert_eq!(most, 2);
    assert!(bodies.len() == 12 && bodies.iter().all(|body| body == BYTES));
    assert_eq!(reading(), 0);
    world.stop().await;
}

/// Proves: sender
#[tokio::test]
async fn a_replay_is_signed_by_the_api_and_speaks_for_no_tenant_that_is_only_claimed() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let said = |of: &'static str| OutRecord {
        value: Some(BYTES.into()),
        headers: Headers::new().with(headers::TENANT, of),
        ..OutRecord::default()
    };
    let of_an_array = |noted: &mut DeadLetter| {
        (noted.source_index, noted.source_count) = (Some(1), Some(3));
    };
    let element = letter_of(&world, Some("acme"), "not_a_report", said("acme"), of_an_array).await;
    // What was not taken for anybody's, or may not have been looked at, stays without a signature.
    let claimed = letter_of(&world, None, "no_signature", said("acme"), of_an_array).await;
    let whole = letter_of(&world, Some("acme"), "kills_worker", said("acme"), |_| {}).await;
    let replay = |id: &String| format!("/v1/dead-letters/{id}/replay");
    world.post_json(&replay(&element), &admin, &json!({})).await.expect_status(200);
    world.post_json(&replay(&whole), &admin, &json!({})).await.expect_status(200);
    let mut old = said("acme");
    for (name, value) in SignedPurpose::Record.header_names().into_iter().zip(["of-the-gateway", "edge", "5"])
    {
        old.headers.push(name, value);
    }
    let stale = letter_of(&world, None, "stale_signature", old, |_| {}).await;
    for id in [&claimed, &stale] {
        let address = replay(id).replace("/v1/", "/v1/operator/");
        world.post_json(&address, &operator, &json!({})).await.expect_status(200);
    }
    let sent = world.read_sent_records(4).await;
    let key = SigningKey::parse(&signing_settings().key).unwrap().verifying_key();
    let mut signed = 0;
    for record in &sent {
        let text = |name| record.headers.get_text(name);
        assert_eq!(record.value.as_deref(), Some(BYTES));
        if text(headers::REPLAY_OF).unwrap().replace('/', "-").ends_with(element.split_once('-').unwrap().1) {
            let at = record.headers.get_number(headers::SIGNED_AT).unwrap();
            assert!(key.verify_record(&tenant_id("acme"), at, BYTES, text(headers::SIGNATURE).unwrap()));
            assert_eq!(text(headers::SIGNATURE_KEY), Some("api"));
            signed += 1;
        } else if text(headers::SIGNATURE).is_some() {
            assert_eq!(
                SignedPurpose::Record.header_names().map(text),
                [Some("of-the-gateway"), Some("edge"), Some("5")]
            );
            let at = record.headers.get_number(headers::REPLAY_SIGNED_AT).unwrap();
            let signature = text(headers::REPLAY_SIGNATURE).unwrap();
            assert!(key.verify_for(SignedPurpose::Replay, &tenant_id("acme"), at, BYTES, signature));
            signed += 1;
        } else {
            assert_eq!((text(headers::SIGNATURE_KEY), text(headers::REPLAY_SIGNATURE)), (None, None));
        }
    }
    assert_eq!(signed, 2);
    world.stop().await;
}

#[tokio::test]
async fn answers_that_nobody_takes_are_bounded() {
    const LARGE: &[u8] = &[b'x'; 16 << 20];
    let world = World::with(|limits| {
        (limits.answer_bytes, limits.answer_stall_seconds) = (24 << 20, 600);
        limits.tenant_share = 100;
    })
    .await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let id = letter(&world, Some("acme"), "not_json", None, Some(LARGE)).await;
    let address = format!("/v1/dead-letters/{id}/body");
    let held = || world.read_gauge("unslide_api_body_bytes", "answers");
    // One who looks at the beginning of the answer and takes no more.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let host = world.url.strip_prefix("http://").unwrap();
    let mut lazy = socket.connect(host.parse().unwrap()).await.unwrap();
    let request = format!("GET {address} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {admin}\r\n\r\n");
    lazy.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    lazy.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    assert_eq!(held(), LARGE.len());
    let theirs = address.replace("/v1/", "/v1/operator/");
    world.get(&theirs, &operator).await.expect_problem(503, "overloaded");
    // Once it is gone there is room for others.
    drop(lazy);
    while held() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let answer = world.request(Method::GET, &address, &admin).send().await.unwrap();
    assert!(answer.error_for_status().unwrap().bytes().await.unwrap() == LARGE);
    world.stop().await;
}

#[tokio::test]
async fn a_letter_without_its_value_says_that_the_value_was_not_kept() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let headers = Headers::new().with(headers::TENANT, "acme").with(headers::VALUE_BYTES, "12582912");
    let record = OutRecord { headers, ..OutRecord::default() };
    let id = letter_of(&world, Some("acme"), "too_large", record, |_| {}).await;
    let why = "the value of 12582912 bytes was too large for a dead letter and was not kept";
    let shown = world.get(&format!("/v1/dead-letters/{id}"), &admin).await.expect_status(200);
    assert_eq!((&shown["held"], &shown["lost"]), (&json!(false), &json!(why)));
    let answer = world.get(&format!("/v1/dead-letters/{id}/body"), &admin).await;
    assert!(answer.expect_problem(404, "not-found").contains(why));
    let answer = world.post_json(&format!("/v1/dead-letters/{id}/replay"), &admin, &json!({})).await;
    assert!(answer.expect_problem(404, "not-found").contains(why));
    let counted =
        world.post_json("/v1/dead-letters/replay", &admin, &json!({"all": true})).await.expect_status(200);
    assert_eq!((&counted["replayed"], &counted["gone"]), (&json!(0), &json!(1)));
    world.stop().await;
}
