//! Creates the topics and checks that they are as delivery needs them.

use crate::client::{BROKER_REQUEST_TIMEOUT, Logging, list_topics};
use crate::error::StreamError;
use crate::settings::{COPY_ROOM, Settings};
use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::{Metadata, MetadataTopic};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::TenantId;

const DAY_MILLIS: u64 = 86_400_000;
/// Copies that wait are nowhere else any more, so their topics have to keep them over an outage.
const LEAST_COPY_DAYS: u64 = 1;

/// One topic as it has to be.
#[derive(Clone, Debug)]
struct Spec {
    name: String,
    partitions: i32,
    max_bytes: usize,
    compacted: bool,
    retention_days: u64,
    /// Records wait here that were taken from another topic.
    copies: bool,
}

fn log_spec(name: String, partitions: i32, max_bytes: usize, retention_days: u64) -> Spec {
    Spec { name, partitions, max_bytes, compacted: false, retention_days, copies: false }
}

fn copies_spec(name: String, partitions: i32, max_bytes: usize) -> Spec {
    Spec { copies: true, ..log_spec(name, partitions, max_bytes, 7) }
}

/// Returns the topics of a tenant. The output comes first: nothing can be read from an input without its
/// output.
fn tenant_specs(settings: &Settings, tenant: &TenantId) -> Vec<Spec> {
    let names = settings.topic_names();
    let partitions = settings.partitions.tenant;
    vec![
        log_spec(names.tenant_output(tenant), partitions, settings.max_output_bytes(), 7),
        log_spec(names.tenant_input(tenant), partitions, settings.max_record_bytes, 7),
    ]
}

fn list_specs(settings: &Settings) -> Vec<Spec> {
    let names = settings.topic_names();
    let p = settings.partitions;
    let table = |name: String| Spec {
        name,
        partitions: 1,
        max_bytes: 1 << 20,
        compacted: true,
        retention_days: 0,
        copies: false,
    };
    let (input, copy, output) =
        (settings.max_record_bytes, settings.max_copy_bytes(), settings.max_output_bytes());
    vec![
        log_spec(names.input, p.input, input, 7),
        log_spec(names.output, p.output, output, 7),
        log_spec(names.sessions, p.input, 1 << 20, 7),
        log_spec(names.metrics, p.input, 1 << 20, 7),
        log_spec(names.alerts, p.internal, 1 << 20, 7),
        log_spec(names.stored, p.internal, 1 << 20, 7),
        copies_spec(names.retry_1s, p.internal, copy),
        copies_spec(names.retry_10s, p.internal, copy),
        copies_spec(names.retry_1m, p.internal, copy),
        copies_spec(names.retry_10m, p.internal, copy),
        copies_spec(names.overflow, p.overflow, copy),
        copies_spec(names.ingest_overflow, p.overflow, copy),
        // A request may carry the whole stored report.
        log_spec(names.resymbolicate, p.internal, output, 7),
        log_spec(names.dead_letter, p.internal, copy, 30),
        log_spec(names.ledger, p.internal, 1 << 20, 30),
        table(names.symbol_events),
        table(names.tenant_config),
        table(names.used_symbols),
    ]
}

/// The action of [`create_topics`] on a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was not there.
    New,
    /// It was there and stays unchanged.
    Existing,
}

impl Created {
    /// Returns a word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Created::New => "created",
            Created::Existing => "there already",
        }
    }
}

pub(super) fn create_client(settings: &Settings) -> Result<Arc<AdminClient<Logging>>, StreamError> {
    let config = settings.require_valid()?.base_config();
    let made = config.create_with_context(Logging);
    Ok(Arc::new(made.map_err(|e| StreamError::from_kafka("making the admin client", e))?))
}

pub(super) fn admin_options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(BROKER_REQUEST_TIMEOUT))
        .operation_timeout(Some(BROKER_REQUEST_TIMEOUT))
}

/// Creates every missing topic and waits until each partition has a leader. An existing topic is not changed;
/// [`verify_topics`] says whether it will do.
///
/// # Errors
/// [`StreamError`] if Kafka refuses or does not answer.
pub async fn create_topics(settings: &Settings) -> Result<Vec<(String, Created)>, StreamError> {
    create_all(settings, &list_specs(settings)).await
}

/// Creates a tenant's own topics, as [`create_topics`] does.
///
/// # Errors
/// As [`create_topics`].
pub async fn create_tenant_topics(
    settings: &Settings,
    tenant: &TenantId,
) -> Result<Vec<(String, Created)>, StreamError> {
    let mut made = Vec::new();
    // One after the other: once the input is there, it is read.
    for spec in tenant_specs(settings, tenant) {
        made.extend(create_all(settings, &[spec]).await?);
    }
    Ok(made)
}

async fn create_all(settings: &Settings, specs: &[Spec]) -> Result<Vec<(String, Created)>, StreamError> {
    let client = create_client(settings)?;
    let insync = settings.min_insync_replicas.to_string();
    let texts: Vec<(String, String)> = specs
        .iter()
        .map(|s| (s.max_bytes.to_string(), (s.retention_days * DAY_MILLIS).to_string()))
        .collect();
    let topics: Vec<NewTopic<'_>> = specs
        .iter()
        .zip(&texts)
        .map(|(spec, (max_bytes, retention))| {
            let replication = TopicReplication::Fixed(settings.replication_factor);
            let topic = NewTopic::new(&spec.name, spec.partitions, replication)
                .set("min.insync.replicas", &insync)
                .set("unclean.leader.election.enable", "false")
                .set("max.message.bytes", max_bytes)
                // Waiting, ages and days are counted from the arrival at the broker.
                .set("message.timestamp.type", "LogAppendTime");
            if spec.compacted {
                // Rolled and cleaned often: workers read these from the start before they are ready.
                topic
                    .set("cleanup.policy", "compact")
                    .set("min.cleanable.dirty.ratio", "0.2")
                    .set("segment.ms", "3600000")
            } else {
                let topic = topic.set("cleanup.policy", "delete").set("retention.ms", retention);
                // Overrides the cluster's default.
                if spec.copies { topic.set("retention.bytes", "-1") } else { topic }
            }
        })
        .collect();
    let made = client
        .create_topics(&topics, &admin_options())
        .await
        .map_err(|e| StreamError::from_kafka("creating topics", e))?;
    let mut results = Vec::with_capacity(specs.len());
    for result in made {
        match result {
            Ok(name) => results.push((name, Created::New)),
            Err((name, RDKafkaErrorCode::TopicAlreadyExists)) => results.push((name, Created::Existing)),
            Err((name, RDKafkaErrorCode::TopicAuthorizationFailed)) => {
                return Err(StreamError::Topics(vec![format!(
                    "{name}: it does not exist, and {} may not create it: grant the rights of this release \
                     (`unslide migrate --acls` prints the commands)",
                    settings.describe_login(),
                )]));
            }
            Err((name, code)) => {
                let source = rdkafka::error::KafkaError::AdminOp(code);
                return Err(StreamError::from_kafka(format!("creating the topic {name}"), source));
            }
        }
    }
    for _ in 0..100 {
        if list_missing(&client, specs).await?.is_empty() {
            return Ok(results);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(StreamError::Topics(list_missing(&client, specs).await?))
}

/// Deletes a tenant's own topics with everything in them; a missing topic is no error. Services that read
/// them stop without a restart.
///
/// # Errors
/// The error that Kafka returned.
pub async fn delete_tenant_topics(settings: &Settings, tenant: &TenantId) -> Result<(), StreamError> {
    let names = settings.topic_names();
    let (input, output) = (names.tenant_input(tenant), names.tenant_output(tenant));
    // The input first: no lane may read it without an output to write to.
    delete_all(settings, &[&input]).await?;
    delete_all(settings, &[&output]).await
}

/// Returns the names of all topics that `wanted` returns true for, in order; such as those of which
/// [`TopicNames::tenant_of_input`] knows the tenant.
///
/// [`TopicNames::tenant_of_input`]: unslide_proto::topics::TopicNames::tenant_of_input
///
/// # Errors
/// Errors of Kafka.
pub async fn topics_matching(
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<String>, StreamError> {
    list_matching(&create_client(settings)?, wanted).await
}

/// Returns those of these topics that do not exist. A topic that has no leader for now exists.
///
/// # Errors
/// [`StreamError`] if Kafka does not answer.
pub async fn find_missing_topics(
    settings: &Settings,
    names: BTreeSet<String>,
) -> Result<BTreeSet<String>, StreamError> {
    let metadata = fetch_metadata(&create_client(settings)?).await?;
    let is_there = |topic: &MetadataTopic| {
        let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
        topic.error().is_none_or(|error| RDKafkaErrorCode::from(error) != unknown)
    };
    let found: BTreeSet<&str> =
        metadata.topics().iter().filter(|topic| is_there(topic)).map(MetadataTopic::name).collect();
    Ok(names.into_iter().filter(|name| !found.contains(name.as_str())).collect())
}

async fn list_matching(
    client: &Arc<AdminClient<Logging>>,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<String>, StreamError> {
    let metadata = fetch_metadata(client).await?;
    let names = metadata.topics().iter().filter(|t| t.error().is_none()).map(MetadataTopic::name);
    let mut names: Vec<String> = names.filter(|name| wanted(name)).map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

pub(super) async fn fetch_metadata(client: &Arc<AdminClient<Logging>>) -> Result<Metadata, StreamError> {
    let asker = Arc::clone(client);
    let listed = tokio::task::spawn_blocking(move || list_topics(asker.inner())).await;
    listed.map_err(|_| StreamError::Ended("metadata".to_owned()))?
}

/// Deletes every topic of this installation: what a test leaves behind otherwise.
///
/// # Errors
/// [`StreamError::Settings`] for an installation without a prefix, so that it cannot happen to a
/// real one by accident; else what Kafka said.
pub async fn delete_topics(settings: &Settings) -> Result<(), StreamError> {
    if settings.topic_prefix.is_empty() {
        return Err(StreamError::Settings("topics without a prefix are not deleted".to_owned()));
    }
    let names = settings.topic_names();
    let of_tenants =
        |topic: &str| names.tenant_of_input(topic).is_some() || names.tenant_of_output(topic).is_some();
    let of_tenants = topics_matching(settings, of_tenants).await?;
    let topics: Vec<&str> = of_tenants.iter().map(String::as_str).chain(names.all()).collect();
    delete_all(settings, &topics).await
}

pub(crate) async fn delete_all(settings: &Settings, topics: &[&str]) -> Result<(), StreamError> {
    let client = create_client(settings)?;
    let deleted = client.delete_topics(topics, &admin_options()).await;
    for result in deleted.map_err(|e| StreamError::from_kafka("deleting topics", e))? {
        if let Err((name, code)) = result
            && code != RDKafkaErrorCode::UnknownTopicOrPartition
        {
            let source = rdkafka::error::KafkaError::AdminOp(code);
            return Err(StreamError::from_kafka(format!("deleting the topic {name}"), source));
        }
    }
    Ok(())
}

/// Checks every topic; with [`Settings::tenant_topics`] also all existing topics of tenants: a topic that a
/// tenant lacks affects this tenant alone. All problems are reported at once.
///
/// Relaxed settings leave out checks that a single broker cannot pass: replicas and in-sync replicas.
///
/// # Errors
/// [`StreamError::Topics`] with each problem; [`StreamError::Kafka`] if Kafka does not answer.
pub async fn verify_topics(settings: &Settings) -> Result<(), StreamError> {
    verify_topics_where(settings, |_| true).await
}

/// Does the same as [`verify_topics`] for the topics that `is_checked` returns true for.
///
/// # Errors
/// Those of [`verify_topics`].
pub async fn verify_topics_where(
    settings: &Settings,
    is_checked: impl Fn(&str) -> bool,
) -> Result<(), StreamError> {
    let client = create_client(settings)?;
    let mut specs = list_specs(settings);
    if settings.tenant_topics {
        let names = settings.topic_names();
        let tenant_of = |topic: &str| names.tenant_of_input(topic).or_else(|| names.tenant_of_output(topic));
        let topics = list_matching(&client, |topic| tenant_of(topic).is_some()).await?;
        let tenants: BTreeSet<TenantId> = topics.iter().filter_map(|topic| tenant_of(topic)).collect();
        let of_tenants = tenants.iter().flat_map(|tenant| tenant_specs(settings, tenant));
        specs.extend(of_tenants.filter(|spec| topics.contains(&spec.name)));
    }
    specs.retain(|spec| is_checked(&spec.name));
    let problems = list_missing(&client, &specs).await?;
    if !problems.is_empty() {
        return Err(StreamError::Topics(problems));
    }
    let asked: Vec<ResourceSpecifier<'_>> = specs.iter().map(|s| ResourceSpecifier::Topic(&s.name)).collect();
    let answers = client
        .describe_configs(&asked, &admin_options())
        .await
        .map_err(|e| StreamError::from_kafka("reading the topics' configuration", e))?;
    let (mut problems, mut hidden) = (Vec::new(), Vec::new());
    for (spec, answer) in specs.iter().zip(answers) {
        match answer {
            Ok(config) if config.entries.is_empty() => hidden.push(spec.name.as_str()),
            Ok(config) => check_topic(settings, spec, &config, &mut problems),
            Err(RDKafkaErrorCode::TopicAuthorizationFailed) => hidden.push(&spec.name),
            Err(code) => problems.push(format!("{}: its configuration cannot be read: {code}", spec.name)),
        }
    }
    if !hidden.is_empty() {
        problems.push(may_not_describe_configs(settings, &hidden));
    }
    if problems.is_empty() { Ok(()) } else { Err(StreamError::Topics(problems)) }
}

/// Describes the problem of topics without visible settings. Kafka answers with an empty list if the login
/// may not read them.
fn may_not_describe_configs(settings: &Settings, topics: &[&str]) -> String {
    format!(
        "the settings of {} may not be read: grant the operation DescribeConfigs on {} to {} (`unslide migrate --acls` \
         prints the commands)",
        topics.join(", "),
        if topics.len() == 1 { "this topic" } else { "these topics" },
        settings.describe_login(),
    )
}

/// Retention of a topic. `None`: nothing is deleted for that reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Segments with a youngest record that is older, in milliseconds.
    pub millis: Option<i64>,
    /// The oldest segments of a partition that has more bytes.
    pub bytes: Option<i64>,
}

/// Reads the retention of topics.
///
/// # Errors
/// The error that Kafka returned.
pub async fn read_retention(
    settings: &Settings,
    topics: &[String],
) -> Result<HashMap<String, Retention>, StreamError> {
    if topics.is_empty() {
        return Ok(HashMap::new());
    }
    let asked: Vec<ResourceSpecifier<'_>> = topics.iter().map(|t| ResourceSpecifier::Topic(t)).collect();
    let answers = create_client(settings)?
        .describe_configs(&asked, &admin_options())
        .await
        .map_err(|e| StreamError::from_kafka("reading the topics' configuration", e))?;
    let mut rules = HashMap::with_capacity(topics.len());
    for (topic, answer) in topics.iter().zip(answers) {
        let config = answer.map_err(|code| {
            let source = rdkafka::error::KafkaError::AdminOp(code);
            StreamError::from_kafka(format!("reading the configuration of {topic}"), source)
        })?;
        // Without settings it would seem that records are never deleted.
        if config.entries.is_empty() {
            return Err(StreamError::Topics(vec![may_not_describe_configs(settings, &[topic])]));
        }
        let number = |key: &str| {
            let entry = config.entries.iter().find(|entry| entry.name == key)?;
            entry.value.as_deref()?.parse::<i64>().ok().filter(|n| *n >= 0)
        };
        rules.insert(
            topic.clone(),
            Retention { millis: number("retention.ms"), bytes: number("retention.bytes") },
        );
    }
    Ok(rules)
}

fn check_topic(settings: &Settings, spec: &Spec, config: &ConfigResource, problems: &mut Vec<String>) {
    let values: HashMap<&str, &str> =
        config.entries.iter().filter_map(|e| Some((e.name.as_str(), e.value.as_deref()?))).collect();
    let number = |key: &str| values.get(key).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
    let mut problem = |text: String| problems.push(format!("{}: {text}", spec.name));
    // Brokers add the overhead of a batch to what a client counts.
    if number("max.message.bytes") < spec.max_bytes as u64 {
        problem(format!(
            "max.message.bytes is {}, at least {} is needed ({} bytes of input, copies need {COPY_ROOM} more, \
             outputs four times as much)",
            number("max.message.bytes"),
            spec.max_bytes,
            settings.max_record_bytes,
        ));
    }
    let policy = values.get("cleanup.policy").copied().unwrap_or_default();
    if spec.compacted && policy != "compact" {
        problem(format!("cleanup.policy is {policy}, it must be compact"));
    }
    if !spec.compacted && policy.contains("compact") {
        problem(format!("cleanup.policy is {policy}, records would replace one another"));
    }
    if spec.copies {
        check_retention(&values, &mut problem);
    }
    if values.get("unclean.leader.election.enable") == Some(&"true") {
        problem("unclean.leader.election.enable is true, acknowledged records could be lost".to_owned());
    }
    let stamped = values.get("message.timestamp.type").copied().unwrap_or_default();
    if stamped != "LogAppendTime" {
        problem(format!(
            "message.timestamp.type is {stamped}, it must be LogAppendTime: a device's clock says nothing of arrival"
        ));
    }
    if settings.min_insync_replicas > 1 && number("min.insync.replicas") < 2 {
        problem(format!("min.insync.replicas is {}, at least 2 is needed", number("min.insync.replicas")));
    }
}

/// Checks the retention of a topic of copies: a copy that Kafka deletes before it is due is lost, since no
/// other topic holds the record any more.
fn check_retention(values: &HashMap<&str, &str>, problem: &mut impl FnMut(String)) {
    let limit = |key: &str| values.get(key).and_then(|v| v.parse::<i64>().ok()).filter(|n| *n >= 0);
    let least = LEAST_COPY_DAYS * DAY_MILLIS;
    if let Some(millis) = limit("retention.ms").filter(|millis| millis.unsigned_abs() < least) {
        problem(format!(
            "retention.ms is {millis}, at least {least} is needed: records wait there for their turn"
        ));
    }
    if let Some(bytes) = limit("retention.bytes") {
        problem(format!(
            "retention.bytes is {bytes}, it must be -1: records that wait there would be deleted"
        ));
    }
}

/// Returns one sentence for each topic that does not exist, or has partitions without a leader.
async fn list_missing(
    client: &Arc<AdminClient<Logging>>,
    specs: &[Spec],
) -> Result<Vec<String>, StreamError> {
    let metadata = fetch_metadata(client).await?;
    let known: HashMap<&str, _> = metadata.topics().iter().map(|t| (t.name(), t)).collect();
    let mut problems = Vec::new();
    for spec in specs {
        match known.get(spec.name.as_str()) {
            None => problems.push(format!("{}: does not exist", spec.name)),
            Some(topic) if topic.partitions().is_empty() => {
                problems.push(format!("{}: has no partitions", spec.name));
            }
            Some(topic) => {
                let leaderless = topic.partitions().iter().filter(|p| p.leader() < 0).count();
                if leaderless > 0 {
                    problems.push(format!("{}: {leaderless} partitions have no leader", spec.name));
                }
            }
        }
    }
    Ok(problems)
}
