//! The demo's Kafka clients, which work like any gateway and any consumer.

use crate::dev::Installation;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ConfigSource, ResourceSpecifier};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use unslide_cli::{BoxError, say};
use unslide_model::{ReportId, TenantId};
use unslide_proto::{headers, keys, topics};

/// Returns the key of a report's record, as the API makes it.
fn build_key(tenant: &str, app: &str, id: &str) -> String {
    match (TenantId::new(tenant), id.parse::<ReportId>()) {
        (Ok(tenant), Ok(id)) => keys::for_input(&tenant.scope(id), Some(app), 1),
        _ => format!("{tenant}/{id}"),
    }
}

/// Sends reports of an app and waits until the broker has them.
///
/// # Errors
/// Returns an error if the broker does not accept them.
pub async fn produce(facts: &Installation, app: &str, reports: &[(&str, Vec<u8>)]) -> Result<(), BoxError> {
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", &facts.kafka_bootstrap).set("acks", "all").create()?;
    for (id, report) in reports {
        let header = Header { key: headers::TENANT, value: Some(facts.tenant.as_str()) };
        let key = build_key(&facts.tenant, app, id);
        let record = FutureRecord::to(topics::INPUT)
            .key(&key)
            .payload(report)
            .headers(OwnedHeaders::new().insert(header));
        let sent = producer.send(record, Duration::from_secs(10)).await.map_err(|(error, _)| error)?;
        say!("      partition {}, offset {}", sent.partition, sent.offset);
    }
    Ok(())
}

/// A report that is sent as if it had been earlier.
pub struct TimedReport<'r> {
    pub tenant: &'r str,
    pub app: &'r str,
    pub id: &'r str,
    pub at_millis: i64,
    pub body: &'r [u8],
}

/// Sends many reports at once and waits until the broker has them. During this time, the topic has the
/// timestamps of its producers.
///
/// # Errors
/// Returns an error if the broker does not accept them.
pub async fn produce_all<'r>(
    facts: &Installation,
    records: impl Iterator<Item = TimedReport<'r>>,
) -> Result<(), BoxError> {
    stamp(facts, "CreateTime").await?;
    let sent = send_all(facts, records).await;
    stamp(facts, "LogAppendTime").await?;
    sent
}

/// Sets the timestamp type of the topic of reports. Kafka takes all settings of a topic at once, or forgets the
/// others.
async fn stamp(facts: &Installation, whose: &str) -> Result<(), BoxError> {
    let admin: AdminClient<_> =
        ClientConfig::new().set("bootstrap.servers", &facts.kafka_bootstrap).create()?;
    let (topic, options) = (ResourceSpecifier::Topic(topics::INPUT), AdminOptions::new());
    let described = admin.describe_configs(&[topic], &options).await?;
    let described = described.into_iter().next().ok_or("Kafka describes no topic")??;
    let own = described.entries.iter().filter(|entry| entry.source == ConfigSource::DynamicTopic);
    let mut change = AlterConfig::new(topic);
    for (name, value) in own.filter_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?))) {
        change = change.set(name, if name == "message.timestamp.type" { whose } else { value });
    }
    let changed = admin.alter_configs(&[change], &options).await?.into_iter().next();
    changed.ok_or("Kafka changes no topic")?.map_err(|(_, code)| code)?;
    Ok(())
}

async fn send_all<'r>(
    facts: &Installation,
    records: impl Iterator<Item = TimedReport<'r>>,
) -> Result<(), BoxError> {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &facts.kafka_bootstrap)
        .set("acks", "all")
        .set("linger.ms", "50")
        .create()?;
    let sends = records.map(|record| {
        let producer = producer.clone();
        async move {
            let header = Header { key: headers::TENANT, value: Some(record.tenant) };
            let key = build_key(record.tenant, record.app, record.id);
            let sent = FutureRecord::to(topics::INPUT)
                .key(&key)
                .payload(record.body)
                .timestamp(record.at_millis)
                .headers(OwnedHeaders::new().insert(header));
            producer.send(sent, Duration::from_secs(30)).await.map_err(|(error, _)| error)
        }
    });
    futures::future::try_join_all(sends).await?;
    Ok(())
}

/// Reads enriched reports from the start until those of all ids are there.
///
/// # Errors
/// Returns an error if they do not arrive in time.
pub async fn consume(
    facts: &Installation,
    ids: &[String],
    longest: Duration,
) -> Result<BTreeMap<String, Value>, BoxError> {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &facts.kafka_bootstrap)
        .set("group.id", format!("unslide-demo-{}", std::process::id()))
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[topics::OUTPUT])?;
    let mut found = BTreeMap::new();
    let read = async {
        while found.len() < ids.len() {
            let record = consumer.recv().await?;
            let report: Value = serde_json::from_slice(record.payload().unwrap_or_default())?;
            let id = report["report"]["id"].as_str().unwrap_or_default().to_lowercase();
            if ids.contains(&id) {
                say!("      {id}: {}", report["symbolication"]["status"].as_str().unwrap_or("?"));
                found.insert(id, report);
            }
        }
        Ok::<(), BoxError>(())
    };
    tokio::time::timeout(longest, read).await.map_err(|_| "the enriched reports did not come in time")??;
    Ok(found)
}
