//! Reports of many tenants, good and bad, at an even pace.

pub mod uploads;

use crate::installation_under_test::{LARGEST, World};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use unslide_testkit::reports::{Report, random, record};
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::deadly;
use unslide_tests::dice::Dice;

/// The tenants, with their shares of the load in a hundred.
pub const TENANTS: [(&str, u64); 5] =
    [("acme", 40), ("globex", 20), ("hooli", 20), (LIMITED, 10), (SUSPENDED, 10)];
/// The one that is suspended in the middle.
pub const SUSPENDED: &str = "initech";
/// The one with a limit, which its share of the load exceeds by a little.
pub const LIMITED: &str = "umbrella";
/// A tenant that there never is.
pub const STRANGER: &str = "nobody";
/// One record that kills its workers for so much time.
const DEADLY: Duration = Duration::from_secs(100);
/// Records that may be on their way to Kafka at once.
const IN_FLIGHT: usize = 1_000;
/// The name of a report with an answer that fits into no record.
pub const MANY_FRAMES: &str = "of many frames";
/// Frames of a report with an answer that fits into no record: some 180 KB become more than 2 MB.
const FRAMES: usize = 60_000;
/// What such a record is called.
const DEADLY_KIND: &str = "deadly";
/// Bytes of records that the producer holds at once, while Kafka is away.
const HELD_KILOBYTES: &str = "262144";

/// A report, by its tenant and its id.
pub type Name = (String, String);

/// What was sent, and so what has to come out.
#[derive(Default)]
pub struct Truth {
    /// Records that Kafka has taken.
    pub records: usize,
    /// Records by what they are.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Sound reports of active tenants, which Kafka has.
    pub expected: BTreeSet<Name>,
    /// Records of [`STRANGER`].
    pub strangers: usize,
    /// Values of records that kill their workers.
    pub deadly: Vec<Vec<u8>>,
    /// Reports that may come out or not: of the suspended tenant, of shapes that a reader may
    /// refuse, or sent over HTTP without an answer.
    pub possible: BTreeSet<Name>,
}

/// One record to send.
#[derive(Clone)]
struct Message {
    kind: &'static str,
    tenant: Option<String>,
    value: Vec<u8>,
    expected: Vec<Name>,
    possible: Vec<Name>,
    http: bool,
}

/// The apps with reports that are sent.
pub struct Apps {
    pub first: App,
    pub next: App,
}

struct Generator<'a> {
    dice: Dice,
    apps: &'a Apps,
    numbers: BTreeMap<&'static str, u32>,
    /// Records that are sent again, sometimes.
    earlier: Vec<Message>,
}

impl Generator<'_> {
    fn tenant(&mut self) -> &'static str {
        let mut left = self.dice.number_below(100);
        for (tenant, share) in TENANTS {
            if left < share {
                return tenant;
            }
            left -= share;
        }
        TENANTS[0].0
    }

    /// A sound report of a tenant with a new id.
    fn report(&mut self, tenant: &'static str) -> (Report, Name) {
        let number = self.numbers.entry(tenant).or_default();
        *number += 1;
        // The same ids in every tenant: they must not meet.
        let report = match self.dice.number_below(100) {
            0..8 => self.apps.first.system_report(*number),
            8..75 => self.apps.first.build_report(*number),
            _ => self.apps.next.build_report(*number),
        };
        let device = format!("{:040x}", self.dice.number_below(50));
        let report = report.set("system.device_app_hash", device);
        (report, (tenant.to_owned(), format!("00000000-0000-4000-8000-0000{number:08x}")))
    }

    fn sound(kind: &'static str, tenant: &str, value: Vec<u8>, names: Vec<Name>) -> Message {
        let (expected, possible) =
            if tenant == SUSPENDED { (Vec::new(), names) } else { (names, Vec::new()) };
        Message { kind, tenant: Some(tenant.to_owned()), value, expected, possible, http: false }
    }

    fn bad(kind: &'static str, tenant: Option<&str>, value: Vec<u8>) -> Message {
        let tenant = tenant.map(str::to_owned);
        Message { kind, tenant, value, expected: Vec::new(), possible: Vec::new(), http: false }
    }

    fn message(&mut self) -> Message {
        let tenant = self.tenant();
        let message = match self.dice.number_below(100) {
            0 => {
                // The statuses of that number of frames fit into no record, however short they are.
                let number = self.numbers.entry(tenant).or_default();
                *number += 1;
                let report = self.apps.first.report_of_frames(*number, FRAMES);
                Self::bad(MANY_FRAMES, Some(tenant), report.bytes())
            }
            1..66 => {
                let (report, name) = self.report(tenant);
                let mut message = Self::sound("single", tenant, report.bytes(), vec![name]);
                message.http = self.dice.has_chance(4);
                message
            }
            66..72 => {
                let count = 2 + self.dice.number_below(3);
                let (reports, names): (Vec<_>, Vec<_>) = (0..count).map(|_| self.report(tenant)).unzip();
                Self::sound("array", tenant, record(&reports), names)
            }
            72..74 => {
                let (report, name) = self.report(tenant);
                let mut value = b"[17, \"a rendered log\", ".to_vec();
                value.extend(report.bytes());
                value.extend(b", {\"no\": \"report\", ");
                Self::sound(
                    "array with other things",
                    tenant,
                    [value, b"\"x\": 1}]".to_vec()].concat(),
                    vec![name],
                )
            }
            74..78 => self.again(tenant),
            78..80 => {
                // Another report under the id of an earlier one.
                let number = self.numbers.get(tenant).copied().unwrap_or(1);
                let number = 1 + u32::try_from(self.dice.number_below(u64::from(number.max(1)))).unwrap_or(0);
                let report = self
                    .apps
                    .first
                    .build_report(number)
                    .set("user.note", self.dice.roll().to_string().as_str());
                let name = (tenant.to_owned(), format!("00000000-0000-4000-8000-0000{number:08x}"));
                Self::sound("same id, other bytes", tenant, report.bytes(), vec![name])
            }
            80..84 => {
                let (_, name) = self.report(tenant);
                let report = random(self.dice.roll()).id(&name.1);
                let mut message = Self::bad("random shape", Some(tenant), report.bytes());
                message.possible.push(name);
                message
            }
            84..87 => {
                let (report, _) = self.report(tenant);
                let mut value = report.bytes();
                value.truncate(value.len() / 2);
                Self::bad("truncated", Some(tenant), value)
            }
            87..89 => Self::bad("garbage", Some(tenant), self.dice.roll().to_le_bytes().repeat(40)),
            89 => Self::bad("empty", Some(tenant), Vec::new()),
            90 => Self::bad("empty array", Some(tenant), b"[]".to_vec()),
            91..93 => Self::bad("no tenant", None, self.report(tenant).0.bytes()),
            93 => Self::bad("malformed tenant", Some("No Tenant!"), self.report(tenant).0.bytes()),
            94 => Self::bad("unknown tenant", Some(STRANGER), self.report(tenant).0.bytes()),
            95..97 => {
                let (report, name) = self.report(tenant);
                let padding = "a long log line "
                    .repeat(8_000 + usize::try_from(self.dice.number_below(8_000)).unwrap_or(0));
                let report = report.set("user.log", padding.as_str());
                Self::sound("large", tenant, report.bytes(), vec![name])
            }
            97 => {
                let (report, _) = self.report(tenant);
                let report = report.set("user.log", "x".repeat(LARGEST + 10_000).as_str());
                Self::bad("too large", Some(tenant), report.bytes())
            }
            98 => Self::bad("far too large", Some(tenant), vec![b' '; 8 * LARGEST]),
            _ => Self::bad("deep", Some(tenant), b"[".repeat(3_000)),
        };
        if self.earlier.len() < 200 || self.dice.has_chance(10) {
            if self.earlier.len() >= 200 {
                let place = usize::try_from(self.dice.number_below(200)).unwrap_or(0);
                self.earlier.swap_remove(place);
            }
            self.earlier.push(message.clone());
        }
        message
    }

    fn deadly(&mut self) -> Message {
        let tenant = TENANTS[0].0;
        let number = self.numbers.entry(tenant).or_default();
        *number += 1;
        Self::bad(DEADLY_KIND, Some(tenant), deadly::deadly_report(&self.apps.first, *number).bytes())
    }

    fn again(&mut self, tenant: &'static str) -> Message {
        if self.earlier.is_empty() {
            return Self::bad("empty", Some(tenant), Vec::new());
        }
        let mut message = self.dice.pick_one(&self.earlier).clone();
        message.kind = "again";
        message
    }
}

/// Returns the units a second of [`LIMITED`]: five for each seven records that it is sent.
pub fn find_limit(records: usize, length: Duration) -> usize {
    let seconds = usize::try_from(length.as_secs()).unwrap_or(usize::MAX).max(1);
    (records / seconds / 14).max(1)
}

/// Sends a number of records within a time, and returns what they were once Kafka has all of them.
pub async fn run(
    world: &Arc<World>,
    dice: Dice,
    apps: &Apps,
    clients: &BTreeMap<String, Client>,
    (records, length): (usize, Duration),
) -> Truth {
    let topic = world.installation.lock().await.topic_name("crash.reports");
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", world.kafka_proxy.address().to_string())
        .set("enable.idempotence", "true")
        .set("compression.type", "lz4")
        .set("message.timeout.ms", "0")
        .set("message.max.bytes", "30000000")
        .set("queue.buffering.max.kbytes", HELD_KILOBYTES)
        .set("linger.ms", "5")
        // It writes soon to partitions that are added.
        .set("topic.metadata.refresh.interval.ms", "1000")
        .create()
        .expect("a producer");
    let mut generator = Generator { dice, apps, numbers: BTreeMap::new(), earlier: Vec::new() };
    let mut truth = Truth::default();
    let room = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut sends = JoinSet::new();
    let begin = Instant::now();
    // Early enough that the last is over when the faults are.
    let many = 1 + usize::try_from(length.as_secs() / DEADLY.as_secs()).unwrap_or(0);
    let deadly: Vec<usize> = (0..many).map(|n| records * (4 * n + 1) / (4 * many)).collect();
    for number in 0..records {
        sleep_until(begin + length.mul_f64(number as f64 / records as f64)).await;
        let message = if deadly.contains(&number) { generator.deadly() } else { generator.message() };
        let key = generator.dice.number_below(1 << 32).to_string();
        let permit = Arc::clone(&room).acquire_owned().await.expect("open");
        let (producer, topic) = (producer.clone(), topic.clone());
        let client = message.tenant.as_ref().and_then(|tenant| clients.get(tenant)).cloned();
        sends.spawn(async move {
            let message = match client.filter(|_| message.http) {
                Some(client) => over_http(client, message).await,
                None => over_kafka(&producer, &topic, &key, message).await,
            };
            drop(permit);
            message
        });
        while let Some(sent) = sends.try_join_next() {
            truth.note(sent.expect("a record is sent"));
        }
    }
    while let Some(sent) = sends.join_next().await {
        truth.note(sent.expect("a record is sent"));
    }
    truth
}

impl Truth {
    fn note(&mut self, message: Message) {
        self.records += 1;
        *self.kinds.entry(message.kind).or_default() += 1;
        self.strangers += usize::from(message.tenant.as_deref() == Some(STRANGER));
        if message.kind == DEADLY_KIND {
            self.deadly.push(message.value);
        }
        self.expected.extend(message.expected);
        self.possible.extend(message.possible);
    }
}

async fn over_kafka(producer: &FutureProducer, topic: &str, key: &str, message: Message) -> Message {
    let mut headers = OwnedHeaders::new();
    if let Some(tenant) = &message.tenant {
        headers = headers.insert(Header { key: "tenant", value: Some(tenant) });
    }
    let record = FutureRecord::<str, [u8]>::to(topic).key(key).headers(headers);
    let sent = producer.send(record.payload(&message.value), Duration::from_secs(600)).await;
    sent.unwrap_or_else(|(error, _)| panic!("{}: Kafka does not take it: {error}", message.kind));
    message
}

/// One try: where it fails nobody knows whether the broker has the report.
async fn over_http(client: Client, mut message: Message) -> Message {
    let answer = client.try_request("/v1/reports", Some(message.value.clone())).await;
    message.kind = "over http";
    if !matches!(answer, Some((202, _))) {
        message.kind = "over http, no answer";
        message.possible.append(&mut message.expected);
    }
    message
}
