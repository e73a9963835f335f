//! A producer that fences off the one before it.

use super::*;
use crate::NotSent;

/// Proves: outages
#[tokio::test]
async fn what_a_fenced_producer_has_in_flight_never_lands_behind_what_its_successor_sends() {
    let settings = installation().await;
    let topic = settings.topic_names().tenant_config;
    let record = |text: &str| [OutRecord::for_topic(topic.as_str(), text.to_owned()).key("acme")];
    let old = FencedProducer::start(&settings, "relay").await.unwrap();
    old.send_all(&record("version 1")).await.unwrap();
    // The broker has it, and it is not committed when the next one takes over.
    old.write_records(&record("version 2")).await.unwrap();
    let new = FencedProducer::start(&settings, "relay").await.unwrap();
    new.send_all(&record("version 3")).await.unwrap();
    assert!(old.commit().await.is_err());
    assert!(matches!(old.send_all(&record("version 2 again")).await, Err(NotSent::Failed(_))));
    new.send_all(&record("version 4")).await.unwrap();
    assert_eq!(read(&settings, &topic, 3).await, ["version 1", "version 3", "version 4"]);
    admin::delete_topics(&settings).await.unwrap();
}

#[tokio::test]
async fn a_fenced_producer_names_the_record_that_is_too_large_and_has_sent_none() {
    let settings = installation().await;
    let topic = settings.topic_names().ledger;
    let record = |value: Vec<u8>| OutRecord::for_topic(topic.as_str(), value);
    let producer = FencedProducer::start(&settings, "relay").await.unwrap();
    // The broker says so, and the client.
    for large in [noise(2 << 20), vec![0; settings.max_output_bytes() + 1]] {
        let records = [record(b"first".to_vec()), record(large), record(b"last".to_vec())];
        match producer.send_all(&records).await {
            Err(NotSent::TooLarge { record: 1, bytes }) => assert!(bytes > 2 << 20),
            other => panic!("{other:?}"),
        }
    }
    let both = [record(b"a".to_vec()), record(b"b".to_vec())];
    if let Err(NotSent::Failed(_)) = producer.send_all(&both).await {
        // The broker may refuse what follows a refused record after its transaction was aborted.
        let successor = FencedProducer::start(&settings, "relay").await.unwrap();
        successor.send_all(&both).await.unwrap();
    }
    assert_eq!(read(&settings, &topic, 2).await, ["a", "b"]);
    admin::delete_topics(&settings).await.unwrap();
}
