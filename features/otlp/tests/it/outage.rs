//! Kafka cannot be reached: senders are told to send again, and nothing is lost or counted twice.

use crate::otlp::otlp_api::{APP, PROTOBUF, apple_text, post, public_key, request, start_with};
use prost::Message;
use unslide_model::Scope;
use unslide_world::{start_gate, wait_until};

const A: &str = "55555555-5555-4555-8555-555555555555";

#[tokio::test]
async fn an_outage_of_kafka_is_answered_with_503_until_it_is_over() {
    let (port, kafka) = start_gate().await;
    let closed = format!("127.0.0.1:{port}");
    let world = start_with(&[443], |config| config.kafka.bootstrap = closed).await;
    let (public, key) =
        (public_key(&world, APP).await, world.create_key("acme", &[Scope::ReportsWrite]).await);
    let body = request(vec![apple_text(A)]).encode_to_vec();
    let senders = [(format!("/i/{public}/v1/logs"), ""), ("/otlp/v1/logs".to_owned(), key.as_str())];
    for (path, key) in &senders {
        let answer = post(&world, path, key, PROTOBUF, body.clone()).await;
        assert_eq!(answer.status, 503, "{path}: {}", answer.text);
        let seconds = answer.headers["retry-after"].to_str().unwrap();
        assert!(seconds.parse::<u32>().unwrap() > 0, "{seconds}");
    }
    kafka.send_replace(Some(world.config.kafka.bootstrap.clone()));
    for (path, key) in &senders {
        let is_taken = async || post(&world, path, key, PROTOBUF, body.clone()).await.status == 200;
        assert!(wait_until(is_taken).await, "{path}");
    }
    // What was sent twice has one id and one key, which make it one report.
    let sent = world.read_sent_records(2).await;
    for record in &sent {
        let report: serde_json::Value = serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
        assert_eq!(report["report"]["id"], A);
        assert_eq!(record.key, sent[0].key);
    }
    world.stop().await;
}
