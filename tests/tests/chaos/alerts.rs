//! Alerts under faults: each message reaches its receiver at least once, under an id that stays the same, and each new
//! group has one alert.

use crate::load::{SUSPENDED, TENANTS};
use crate::world::World;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver, MailAnswer, MailReceiver, ReceivedRequest};
use unslide_tests::client::Client;
use unslide_tests::dice::Dice;

const TOPIC: &str = "crash.alerts";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "idempotency-key";
/// Longer than the service waits for a receiver's answer.
const TOO_LATE: Duration = Duration::from_secs(11);
/// How often in a hundred times a receiver fails at the first and at the second attempt of a message.
const FAILS: [u64; 2] = [50, 25];

/// Where alerts go beside the topic.
pub struct Receivers {
    webhook: HttpReceiver,
    mail: MailReceiver,
    /// They fail no more: pauses between attempts get long, and the run waits for each message.
    healed: Arc<AtomicBool>,
}

impl Receivers {
    /// Starts receivers that fail at times, as the dice say.
    pub async fn start(dice: &mut Dice) -> Receivers {
        let (mut webhook, mut mail) = (dice.fork_stream(), dice.fork_stream());
        let healed = Arc::new(AtomicBool::new(false));
        let (of_webhook, of_mail) = (Arc::clone(&healed), Arc::clone(&healed));
        let webhook = HttpReceiver::start(move |request, before| {
            let id = request.headers.get(ID);
            let attempt = before.iter().filter(|other| other.headers.get(ID) == id).count();
            let failures = [HttpAnswer::Status(500, "broken"), HttpAnswer::Cut, HttpAnswer::Late(TOO_LATE)];
            let fails = FAILS.get(attempt).is_some_and(|chance| webhook.has_chance(*chance));
            if fails && !of_webhook.load(Ordering::Relaxed) {
                *webhook.pick_one(&failures)
            } else {
                HttpAnswer::Status(204, "")
            }
        });
        let mut failed = false;
        let mail = MailReceiver::start(move || {
            // Not twice in a row: the third attempt is late enough.
            failed = !failed && mail.has_chance(FAILS[0]) && !of_mail.load(Ordering::Relaxed);
            let failures = [MailAnswer::Refused, MailAnswer::Cut, MailAnswer::TakenAndCut];
            if failed { *mail.pick_one(&failures) } else { MailAnswer::Taken }
        });
        Receivers { webhook: webhook.await, mail: mail.await, healed }
    }

    /// From now on they take everything.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// The settings of a service that reaches them.
    pub fn settings(&self) -> [(&'static str, String); 7] {
        [
            ("UNSLIDE_API__ALERTS__NETWORKS", "[127.0.0.0/8]".to_owned()),
            ("UNSLIDE_API__ALERTS__PORTS", format!("[{}]", self.webhook.port())),
            ("UNSLIDE_API__ALERTS__SMTP_URL", self.mail.url()),
            ("UNSLIDE_API__ALERTS__MAIL_FROM", "unslide@example.com".to_owned()),
            ("UNSLIDE_API__ALERTS__MAIL_DOMAINS", "[example.com]".to_owned()),
            ("UNSLIDE_API__ALERTS__MAILS_PER_DAY", "1000000".to_owned()),
            ("UNSLIDE_API__PUBLIC_URL", "https://crashes.example.com".to_owned()),
        ]
    }
}

/// Takes one receiver away in the middle of the run, and then the other.
pub async fn take_away(world: &Arc<World>, length: Duration) {
    let (webhook, mail) = (&world.receivers.webhook, &world.receivers.mail);
    tokio::time::sleep(length / 3).await;
    world.note("the receiver of webhooks is away");
    webhook.set_away(true);
    tokio::time::sleep(length / 4).await;
    webhook.set_away(false);
    world.note("the mail server is away");
    mail.set_away(true);
    tokio::time::sleep(length / 4).await;
    mail.set_away(false);
}

/// Makes each tenant that stays active a rule for each kind of receiver.
pub async fn make_rules(world: &Arc<World>) -> Result<(), String> {
    let url = world.receivers.webhook.url();
    for (tenant, _) in TENANTS.into_iter().filter(|(tenant, _)| *tenant != SUSPENDED) {
        let client = {
            let installation = world.installation.lock().await;
            let made = ["key", "create", "--tenant", tenant, "--scope", "tenant:admin"];
            let output = tokio::task::block_in_place(|| installation.command_succeeds(&made));
            let key = output.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key");
            Client::new(&installation.url, key)
        };
        for receiver in [
            json!({"channel": "kafka"}),
            json!({"channel": "webhook", "address": format!("{url}/{tenant}"), "secret": SECRET}),
            json!({"channel": "mail", "address": format!("{tenant}@example.com")}),
        ] {
            let mut rule = json!({"name": "new bugs", "condition": "new_group"});
            rule.as_object_mut().expect("an object").extend(receiver.as_object().expect("an object").clone());
            let (status, answer) = client.post("/v1/alert-rules", rule.to_string().into_bytes()).await;
            if status != 201 {
                return Err(format!("the rule of {tenant} was answered with {status}: {answer}"));
            }
        }
    }
    Ok(())
}

/// A message at its receiver: channel, tenant, id.
type Sent = (&'static str, String, String);

/// What receivers were sent.
#[derive(Default)]
struct Deliveries {
    /// The texts of each message that a receiver took: one, however often it was sent.
    taken: BTreeMap<Sent, BTreeSet<String>>,
    /// The messages that were tried.
    tried: BTreeSet<Sent>,
    count: usize,
    problems: Vec<String>,
}

impl Deliveries {
    fn add(&mut self, sent: Sent, text: String, taken: bool) {
        self.tried.insert(sent.clone());
        if taken {
            self.count += 1;
            self.taken.entry(sent).or_default().insert(text);
        }
    }

    fn add_request(&mut self, request: ReceivedRequest) {
        if !request.is_signed_with(SECRET) {
            self.problems.push(format!("a webhook has a wrong signature: {request:?}"));
        }
        let id = request.headers.get(ID).cloned().unwrap_or_default();
        let tenant = request.path.trim_start_matches('/').to_owned();
        let taken = request.status.is_some_and(|status| status < 300);
        self.add(("webhook", tenant, id), request.body, taken);
    }
}

/// What is wrong with the alerts once everything has come to rest.
pub async fn problems(world: &Arc<World>) -> Result<Vec<String>, String> {
    let url = world.installation.lock().await.database_url();
    let mut database = PgConnection::connect(&url).await.map_err(error)?;
    let mut deliveries = deliveries(world).await;
    let mut problems = std::mem::take(&mut deliveries.problems);
    problems.extend(undelivered(&mut database, &mut deliveries).await?);
    problems
        .extend(deliveries.tried.iter().map(|sent| format!("{sent:?} was sent and is not in the database")));
    problems.extend(new_groups(world, &mut database).await?);
    if deliveries.count == 0 {
        problems.push("no alert was delivered".to_owned());
    }
    world.note(&format!("alerts: {} messages in {} deliveries", deliveries.taken.len(), deliveries.count));
    Ok(problems)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn error(error: sqlx::Error) -> String {
    error.to_string()
}

/// What all receivers were sent.
async fn deliveries(world: &Arc<World>) -> Deliveries {
    let mut deliveries = Deliveries::default();
    let records = {
        let installation = world.installation.lock().await;
        let topic = installation.topic_name(TOPIC);
        tokio::task::block_in_place(|| installation.topics.read_all(&topic))
    };
    for record in records {
        let header = |name: &str| record.headers.get(name).cloned().unwrap_or_default();
        let text = String::from_utf8_lossy(&record.value).into_owned();
        deliveries.add(("kafka", header("tenant"), header(ID)), text, true);
    }
    for request in world.receivers.webhook.received() {
        deliveries.add_request(request);
    }
    for mail in world.receivers.mail.received() {
        let id = mail.header("Message-ID").unwrap_or_default().trim_start_matches('<');
        let id = id.split('@').next().unwrap_or_default().to_owned();
        let tenant = mail.recipients.join(",").replace("@example.com", "");
        // The date is that of the attempt.
        let body = mail.text.split_once("\n\n").map_or("", |(_, body)| body).to_owned();
        deliveries.add(("mail", tenant, id), body, true);
    }
    deliveries
}

/// What is wrong with the messages that were made. Takes them out of those that were tried.
async fn undelivered(
    database: &mut PgConnection,
    deliveries: &mut Deliveries,
) -> Result<Vec<String>, String> {
    let messages = "SELECT m.tenant, m.id::text, m.status, m.events, r.channel,
                           ARRAY (SELECT e.headline FROM alert_events e WHERE e.message = m.id
                                  ORDER BY e.occurred_at, e.headline, e.path, e.cause LIMIT 20)
                    FROM alert_messages m JOIN alert_rules r ON r.id = m.rule";
    let mut problems = Vec::new();
    for row in sqlx::query(messages).fetch_all(database).await.map_err(error)? {
        let (tenant, id, status, events): (String, String, String, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let channel = ["kafka", "webhook", "mail"].into_iter().find(|name| *name == row.get::<&str, _>(4));
        let sent = (channel.expect("a channel with a rule"), tenant, id);
        deliveries.tried.remove(&sent);
        let texts: Vec<String> = deliveries.taken.get(&sent).into_iter().flatten().cloned().collect();
        let [text] = texts.as_slice() else {
            problems.push(format!("the message {sent:?} is {status} and was taken as {texts:?}"));
            continue;
        };
        if status != "delivered" || sent.0 != "mail" && !says(text, events, &row.get::<Vec<String>, _>(5)) {
            problems.push(format!("the message {sent:?} is {status}, with {events} events; taken: {text}"));
        }
    }
    Ok(problems)
}

/// Whether a document has `events` events, and these headlines first.
fn says(document: &str, events: i64, headlines: &[String]) -> bool {
    let document: Value = serde_json::from_str(document).unwrap_or_default();
    let named = document["events"].as_array().into_iter().flatten();
    let named: Vec<&str> = named.filter_map(|event| event["headline"].as_str()).collect();
    document["count"] == events && named == headlines
}

/// Groups without an alert of their own, or of the group that they continue.
/// More alerts than groups are right: a group with an alert may lose its reports to a known one. The key of the table
/// keeps a rule from two alerts for one group.
async fn new_groups(world: &Arc<World>, database: &mut PgConnection) -> Result<Vec<String>, String> {
    let counts = "WITH known AS (
            SELECT tenant, 'new:' || id AS cause FROM groups
            WHERE NOT provisional AND merged_into IS NULL AND reports > 0)
        SELECT r.tenant, r.channel,
               (SELECT count(*) FROM alert_events e WHERE e.rule = r.id),
               (SELECT count(*) FROM known k WHERE k.tenant = r.tenant),
               (SELECT count(*) FROM known k WHERE k.tenant = r.tenant AND NOT EXISTS
                (SELECT FROM alert_events e WHERE e.rule = r.id AND k.cause IN (e.cause, e.continued_by)))
        FROM alert_rules r ORDER BY r.tenant, r.channel";
    let mut problems = Vec::new();
    for row in sqlx::query(counts).fetch_all(database).await.map_err(error)? {
        let (tenant, channel): (String, String) = (row.get(0), row.get(1));
        let [events, known, without] = [2, 3, 4].map(|column| row.get::<i64, _>(column));
        let text =
            format!("{tenant} by {channel}: {events} alerts for {known} groups, {without} without one");
        if without > 0 {
            problems.push(text);
        } else {
            world.note(&text);
        }
    }
    Ok(problems)
}
