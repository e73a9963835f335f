//! A key that apps carry is found in no log, trace, metric, record or answer.

use crate::ingest::ingest_api::{A, APP, public_key, send, start};
use reqwest::Method;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;
use unslide_world::report_json;

/// A log in memory.
#[derive(Clone, Default)]
struct MemoryLog(Arc<Mutex<Vec<u8>>>);

impl Write for MemoryLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for MemoryLog {
    type Writer = MemoryLog;

    fn make_writer(&'w self) -> MemoryLog {
        self.clone()
    }
}

#[tokio::test]
async fn a_key_and_an_address_leave_no_trace() {
    let log = MemoryLog::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
    // Only the api and this feature: libraries show the bytes that pass.
    let filter =
        tracing_subscriber::EnvFilter::new("off,unslide_api=trace,unslide_ingest=trace,unslide_store=trace");
    // With one subscriber alone, lines that other tests log first, on threads without any, are logged nowhere.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing::subscriber::set_default(subscriber.with_env_filter(filter).finish());
    let world = start().await;
    let admin = world.create_master_key("acme").await;
    let key = public_key(&world, "acme", &[APP]).await;
    let (text, id) = (key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    let body = report_json(A).to_string();
    let mut answers = vec![
        send(&world, text, body.clone()).await,
        send(&world, text, "{").await,
        send(&world, text, " ").await,
        send(&world, &format!("{text}0"), body.clone()).await,
        world.get(&format!("/i/{text}"), "").await,
        world.post(&format!("/i/{text}/more"), "", body.clone()).await,
        world.post(&format!("/v1/i/{text}"), "", body.clone()).await,
        world.post("/v1/reports", text, body.clone()).await,
        world.get(&format!("/v1/reports?cursor={text}"), &admin).await,
        world.get(&format!("/console/{text}"), "").await,
        world.get("/v1/public-keys", &admin).await,
        world.get("/v1/audit-log", &admin).await,
    ];
    for (name, value) in
        [("referer", format!("https://example.com/i/{text}")), ("accept", "application/json".into())]
    {
        for path in [format!("/i/{text}"), format!("/i/{text}0")] {
            let request = world.request(Method::POST, &path, "").header(name, &value);
            answers.push(world.send(request.body("{")).await);
        }
    }
    for answer in &answers {
        let headers = format!("{:?}", answer.headers);
        assert!(!answer.text.contains(text) && !headers.contains(text), "{headers} {}", answer.text);
    }
    for record in world.read_sent_records(4).await {
        let shown = format!("{:?} {:?}", record.key, record.headers);
        let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
        for secret in [text, "127.0.0.1"] {
            assert!(!shown.contains(secret) && !value.contains(secret), "{shown} {value}");
        }
    }
    assert!(!world.host.process_metrics().render_page().unwrap().contains(text));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("request answered") && log.contains("/i/{key}") && log.contains(id), "{log}");
    assert!(!log.contains(text), "{log}");
    let own: Vec<&str> = log.lines().filter(|line| line.contains("/i/{key}")).collect();
    assert!(own.iter().all(|line| !line.contains("peer.address=\"")), "{own:#?}");
    world.stop().await;
}
