//! What docs/output.md tells consumers of the output to do, done: each of its snippets reads what was
//! committed and nothing of a transaction that was aborted.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use unslide_testkit::servers;

const CALL: Duration = Duration::from_secs(60);
const KEY: &str = "acme/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

/// The snippet of a language, for this test's broker, group and topic.
fn snippet(language: &str, topic: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let begin = format!("```{language}\n");
    let text = page.split_once(&begin).expect("the snippet").1.split_once("```").expect("its end").0;
    assert!(text.contains("read_committed"), "{text}");
    let text = text.replace("kafka:9092", &servers::kafka());
    text.replace("crash-dashboard", &format!("{topic}-{language}")).replace("crash.symbolicated", topic)
}

/// A topic with a record of an aborted transaction before the one that was committed.
async fn written() -> String {
    let topic = servers::unique("consumers");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers::kafka());
    let admin: AdminClient<DefaultClientContext> = config.create().expect("an admin client");
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
    admin.create_topics([&new], &AdminOptions::new()).await.expect("an answer")[0].as_ref().expect("a topic");
    let producer: BaseProducer = config.set("transactional.id", &topic).create().expect("a producer");
    producer.init_transactions(CALL).expect("a transaction's producer");
    for revision in ["aborted", "committed"] {
        producer.begin_transaction().expect("begun");
        let headers = OwnedHeaders::new().insert(Header { key: "revision", value: Some(revision) });
        let record = BaseRecord::to(&topic).key(KEY).payload("{}").headers(headers);
        producer.send(record).map_err(|(error, _)| error).expect("sent");
        producer.flush(CALL).expect("written");
        match revision {
            "aborted" => producer.abort_transaction(CALL).expect("aborted"),
            _ => producer.commit_transaction(CALL).expect("committed"),
        }
    }
    topic
}

/// Where `scripts/setup test` installs what tests use.
fn tools() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let folder = set("UNSLIDE_CACHE").or_else(|| cache().map(|cache| cache.join("unslide")));
    folder.expect("a cache folder").join("tools")
}

/// The first line that a consumer prints; it is ended then.
fn first_line(command: &mut Command) -> String {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a consumer");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    child.kill().expect("ended");
    child.wait().expect("its end");
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_consumers_see_committed_records_only() {
    let topic = written().await;

    let mut config = ClientConfig::new();
    for line in snippet("ini", &topic).lines() {
        let (key, value) = line.split_once('=').expect("a setting");
        config.set(key, value);
    }
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[&topic]).expect("subscribed");
    let record = loop {
        if let Some(record) = consumer.poll(CALL) {
            break record.expect("a record").detach();
        }
    };
    assert_eq!(record.offset(), 2, "the first record was aborted, and its marker is the second");

    let folder = tempfile::tempdir().expect("a folder");
    let properties = folder.path().join("consumer.properties");
    std::fs::write(&properties, snippet("properties", &topic)).expect("written");
    let jars = unslide_embedded::fetch(&|_| {}).expect("Kafka").kafka;
    let line = first_line(
        Command::new("java")
            .args(["-Xmx128m", "-cp", &format!("{}/kafka/*:{}/*", tools().display(), jars.display())])
            .args(["org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", &topic])
            .args(["--bootstrap-server", &servers::kafka()])
            .arg("--command-config")
            .arg(&properties)
            .args([
                "--formatter-property",
                "print.headers=true",
                "--formatter-property",
                "print.offset=true",
            ]),
    );
    assert!(line.contains("Offset:2") && line.contains("revision:committed"), "{line}");

    let script = folder.path().join("consumer.py");
    std::fs::write(&script, snippet("python", &topic)).expect("written");
    let line = first_line(Command::new(tools().join("python/bin/python")).arg(&script));
    assert_eq!(line, format!("{KEY} revision committed 2 bytes\n"));
}
