//! Sends the alerts of all tenants to their receivers.
//!
//! Every process of the api runs it. The database gives each message to one process at a time. `store`
//! decides which messages are sent. This module has the channels.

mod cards;
mod channels;
mod exchange;
mod kafka;
mod mail;
mod pagers;
pub mod receiver;
mod recipients;
mod settings;
mod text;

pub use channels::check_secret;
pub use kafka::AlertTopic;
pub use pagers::DEDUPLICATION_PREFIX;
pub use recipients::MailPolicy;
pub use settings::Alerts;
pub use unslide_runtime::egress::AllowedReceivers;

use crate::NAME;
use crate::sealing::{ReceiverSealer, SEALING_KEY};
use crate::store::events::EventReason;
use crate::store::messages::{self, AlertExchange, ClaimedAlertMessage, DeliveryFailure, MOST_ATTEMPTS};
use crate::store::rules::AlertChannel;
use crate::store::{self, AlertRuleId, AlertStep, DueAlert, firings, recipients as stored, routing};
use channels::MadeTicket;
use mail::{AlertMail, Mailer};
use prometheus::IntCounterVec;
use receiver::{HttpSender, PostError, ReceiverAnswer};
use recipients::MailAdmission;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use text::message_to_json;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use unslide_api::entropy::{Entropy, write_token};
use unslide_model::{Clock, TenantId, format_causes};
use unslide_report::text::escape_line;
use unslide_store::groups::{GroupActor, GroupUpdate, follow_redirects, update_group};
use unslide_store::queries::groups::find_group;
use unslide_store::{Store, StoreError, TenantTx};

/// The interval between two polls for due work after the database has failed.
const FAILED_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Rules that one look gives for each step.
const DUE_RULES_LIMIT: u16 = 100;
/// Messages that are sent at once, each of another tenant.
const CONCURRENT_SENDS_LIMIT: usize = 32;
/// Timeout of a delivery on any channel. Shorter than the lease of a message.
const LONGEST_DELIVERY: Duration = Duration::from_secs(45);

pub struct AlertSender {
    store: Store,
    http: HttpSender,
    mailer: Option<Mailer>,
    policy: MailPolicy,
    /// Decrypts receivers; None if the operator has set no key.
    sealer: Option<ReceiverSealer>,
    entropy: Entropy,
    topic: AlertTopic,
    /// The URL of the console, for links; empty if it is not known.
    public_url: String,
    outcomes: IntCounterVec,
    clock: Arc<dyn Clock>,
    every: Duration,
}

impl AlertSender {
    /// Creates the sender. Unusable settings were refused with the configuration.
    ///
    /// # Errors
    /// Returns an error if no HTTP client can be created.
    pub fn new(
        store: Store,
        settings: &Alerts,
        topic: AlertTopic,
        public_url: &str,
        outcomes: IntCounterVec,
        clock: Arc<dyn Clock>,
    ) -> Result<AlertSender, reqwest::Error> {
        Ok(AlertSender {
            store,
            http: HttpSender::new(settings.parse_receivers().unwrap_or_default())?,
            mailer: settings.build_mailer().ok().flatten(),
            policy: settings.mail_policy(public_url),
            sealer: ReceiverSealer::from_setting(&settings.sealing_key).ok().flatten(),
            entropy: Entropy::default(),
            topic,
            public_url: public_url.trim_end_matches('/').to_owned(),
            outcomes,
            clock,
            every: Duration::from_millis(settings.every_millis),
        })
    }

    /// Begins to send, until `stop`. Another process sends an interrupted message again, if its outcome was
    /// not recorded.
    pub fn start(self, stop: CancellationToken) -> JoinHandle<()> {
        let sender = Arc::new(self);
        tokio::spawn(async move {
            let mut sends = JoinSet::new();
            let mut tenants = BTreeSet::new();
            while !stop.is_cancelled() {
                let pause = match sender.start_due(&mut sends, &mut tenants).await {
                    Ok(()) => sender.every,
                    Err(error) => {
                        tracing::warn!(error = %error, "alerts could not be looked for");
                        FAILED_POLL_INTERVAL
                    }
                };
                let until = tokio::time::Instant::now() + pause;
                while let Some(ended) = tokio::select! {
                    () = stop.cancelled() => None,
                    () = tokio::time::sleep_until(until) => None,
                    Some(ended) = sends.join_next() => Some(ended),
                } {
                    match ended {
                        Ok(tenant) => drop(tenants.remove(&tenant)),
                        // Which one it was is not known: forget them all, the database keeps them apart.
                        Err(_) => tenants.clear(),
                    }
                }
            }
        })
    }

    async fn start_due(
        self: &Arc<AlertSender>,
        sends: &mut JoinSet<TenantId>,
        tenants: &mut BTreeSet<TenantId>,
    ) -> Result<(), StoreError> {
        if self.mailer.is_some() {
            for (tenant, address) in stored::confirmations_due(&self.store, DUE_RULES_LIMIT).await? {
                if sends.len() < CONCURRENT_SENDS_LIMIT && tenants.insert(tenant.clone()) {
                    sends.spawn(self.clone().ask_next(tenant, address));
                }
            }
        }
        // A failure may have taken as long as a statement may: one of each tenant in a round.
        let mut failed = Vec::new();
        for DueAlert { tenant, rule, step } in store::list_due(&self.store, DUE_RULES_LIMIT).await? {
            if failed.contains(&(tenant.clone(), step)) {
                continue;
            }
            let prepared = match step {
                AlertStep::Evaluate => self.evaluate_rule(&tenant, rule).await,
                AlertStep::Route => self.route_events(&tenant, rule).await,
                AlertStep::Escalate => self.escalate_firing(&tenant, rule).await,
                AlertStep::Collect => self.collect_events(&tenant, rule).await,
                AlertStep::Send => {
                    if sends.len() < CONCURRENT_SENDS_LIMIT && tenants.insert(tenant.clone()) {
                        sends.spawn(self.clone().send_next(tenant, rule));
                    }
                    continue;
                }
            };
            if let Err(error) = prepared {
                tracing::warn!(error = %error, %rule, "an alert's rule could not be evaluated");
                failed.push((tenant, step));
            }
        }
        Ok(())
    }

    async fn evaluate_rule(&self, tenant: &TenantId, rule: AlertRuleId) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(tenant).await?;
        let evaluated = store::evaluate_rule(&mut tx, rule).await;
        if evaluated.is_ok() {
            return tx.commit().await;
        }
        tx.rollback().await?;
        // Else it would be the first one of its tenant in every round.
        let mut tx = self.store.tenant(tenant).await?;
        store::postpone_evaluation(&mut tx, rule).await?;
        tx.commit().await?;
        evaluated.map(drop)
    }

    async fn route_events(&self, tenant: &TenantId, rule: AlertRuleId) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(tenant).await?;
        routing::route_events(&mut tx, rule).await?;
        tx.commit().await
    }

    async fn escalate_firing(&self, tenant: &TenantId, rule: AlertRuleId) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(tenant).await?;
        firings::escalate_due(&mut tx, rule).await?;
        tx.commit().await
    }

    async fn collect_events(&self, tenant: &TenantId, rule: AlertRuleId) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(tenant).await?;
        messages::collect_events(&mut tx, rule).await?;
        tx.commit().await
    }

    /// Sends a rule's next message, and returns its tenant.
    async fn send_next(self: Arc<AlertSender>, tenant: TenantId, rule: AlertRuleId) -> TenantId {
        if let Err(error) = self.send_due_message(&tenant, rule).await {
            tracing::warn!(error = %error, %rule, "an alert could not be claimed or recorded");
        }
        tenant
    }

    async fn send_due_message(&self, tenant: &TenantId, rule: AlertRuleId) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(tenant).await?;
        let Some(mut message) = messages::claim_message(&mut tx, rule).await? else {
            return tx.commit().await;
        };
        let admission = match message.channel {
            AlertChannel::Mail => self.policy.admit_message(&mut tx, &message).await?,
            _ => MailAdmission::Send(Vec::new()),
        };
        tx.commit().await?;
        let mut exchange = AlertExchange::default();
        let opened = self.open_receiver(tenant, &mut message);
        let (outcome, held) = match (opened, admission) {
            (Err(reason), _) => (Err(reason.into()), None),
            (Ok(()), MailAdmission::Send(to)) => {
                let mail = AlertMail { tenant, message: &message, to };
                (limit_delivery(self.deliver_message(&mail, &mut exchange)).await, None)
            }
            (Ok(()), MailAdmission::Held { outcome, reason }) => (Err(reason.into()), Some(outcome)),
        };
        let word = match (&outcome, held) {
            (Ok(_), _) => "delivered",
            (Err(failure), _) if failure.is_final || message.attempt >= MOST_ATTEMPTS => "given_up",
            (Err(_), held) => held.unwrap_or("retried"),
        };
        self.outcomes.with_label_values(&[word]).inc();
        let mut tx = self.store.tenant(tenant).await?;
        messages::finish_attempt(&mut tx, &message, outcome.as_ref().map(drop)).await?;
        if message.named.iter().all(|event| event.reason == EventReason::Test) {
            messages::record_test(&mut tx, &message, &exchange).await?;
        }
        if let Ok(Some(ticket)) = outcome {
            link_ticket(&mut tx, &message.rule_name, ticket).await?;
        }
        tx.commit().await
    }

    /// Decrypts the address and the secret of a message's receiver.
    fn open_receiver(&self, tenant: &TenantId, message: &mut ClaimedAlertMessage) -> Result<(), String> {
        let Some(sealed) = &message.sealed else { return Ok(()) };
        let missing = || format!("the operator of the service has removed {SEALING_KEY}");
        let sealer = self.sealer.as_ref().ok_or_else(missing)?;
        let opened = sealer.open_receiver(tenant, message.channel, sealed);
        (message.address, message.secret) = opened.map_err(|error| format!("receiver: {error}"))?;
        Ok(())
    }

    /// Sends a confirmation mail, and returns its tenant.
    async fn ask_next(self: Arc<AlertSender>, tenant: TenantId, address: String) -> TenantId {
        if let Err(error) = self.ask_recipient(&tenant, &address).await {
            tracing::warn!(error = %error, "a confirmation mail could not be claimed or recorded");
        }
        tenant
    }

    async fn ask_recipient(&self, tenant: &TenantId, address: &str) -> Result<(), StoreError> {
        let (Some(mailer), true) = (&self.mailer, self.policy.can_ask) else { return Ok(()) };
        let (Ok(token), Ok(id)) = (self.entropy.generate_token(), self.entropy.generate_token()) else {
            return Ok(());
        };
        let mut tx = self.store.tenant(tenant).await?;
        let claimed = stored::claim_confirmation(&mut tx, address, &token, self.policy.per_day).await?;
        tx.commit().await?;
        let Some(claimed) = claimed else { return Ok(()) };
        let link = format!("{}/console/mail/{}", self.public_url, write_token(&token));
        let outcome =
            limit_delivery(mailer.send_confirmation(tenant, address, &link, &write_token(&id))).await;
        let mut tx = self.store.tenant(tenant).await?;
        stored::finish_confirmation(&mut tx, address, claimed, outcome.is_ok()).await?;
        tx.commit().await
    }

    /// Delivers a message by its channel, and returns the ticket that its receiver has made. Errors are for the tenant: they
    /// name no internals of the service.
    async fn deliver_message(
        &self,
        mail: &AlertMail<'_>,
        exchange: &mut AlertExchange,
    ) -> Result<Option<MadeTicket>, DeliveryFailure> {
        let AlertMail { tenant, message, .. } = mail;
        match message.channel {
            AlertChannel::Mail => self.send_mail(mail, exchange).await?,
            AlertChannel::Kafka => {
                exchange.note_text(message, &message_to_json(message, &self.public_url).to_string());
                self.topic.publish_message(tenant, message, &self.public_url).await?;
            }
            _ => return self.post_message(message, exchange).await,
        }
        Ok(None)
    }

    async fn send_mail(&self, mail: &AlertMail<'_>, exchange: &mut AlertExchange) -> Result<(), String> {
        let mailer = self.mailer.as_ref().ok_or("this service does not send mail")?;
        let text = mail.write_text(&self.public_url);
        exchange.note_text(mail.message, &text.to_string());
        let sent = mailer.send_message(mail, &text).await;
        if sent.is_err() {
            // The server took none. If nothing is known of it, the mails stay counted.
            let mails = u32::try_from(mail.to.len()).unwrap_or(u32::MAX);
            if let Err(error) = self.return_mails(mail.tenant, mails).await {
                tracing::warn!(error = %error, "mails that were not sent stay counted");
            }
        }
        sent
    }

    async fn return_mails(&self, tenant: &TenantId, mails: u32) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(tenant).await?;
        stored::return_mails(&mut tx, mails).await?;
        tx.commit().await
    }

    async fn post_message(
        &self,
        message: &ClaimedAlertMessage,
        exchange: &mut AlertExchange,
    ) -> Result<Option<MadeTicket>, DeliveryFailure> {
        let now = self.clock.now().unix_timestamp();
        let request = channels::build_request(message, &self.public_url, now)?;
        exchange.note_request(message, &request);
        let answer = self.http.post_request(&request).await.map_err(|error| {
            if let PostError::Unreachable(cause) = &error {
                tracing::warn!(rule = %message.rule, error = format_causes(cause), "a receiver of alerts does not answer");
            }
            error.to_string()
        })?;
        exchange.note_answer(&answer);
        channels::check_answer(message.channel, &answer).inspect_err(|_| {
            let ReceiverAnswer { status, body, .. } = &answer;
            let body = String::from_utf8_lossy(body);
            tracing::info!(rule = %message.rule, status, body = %escape_line(&body), "a receiver refuses an alert");
        })?;
        Ok(channels::find_ticket(message, &answer))
    }
}

/// Links a group to the ticket that the receiver of a rule has made of it, unless it has one.
async fn link_ticket(tx: &mut TenantTx, rule_name: &str, ticket: MadeTicket) -> Result<(), StoreError> {
    let MadeTicket { group, url } = ticket;
    let Some(group) = follow_redirects(tx, &[group]).await?.pop() else { return Ok(()) };
    if find_group(tx, group, None).await?.is_some_and(|group| group.ticket_url.is_none()) {
        let update = GroupUpdate { ticket_url: Some(url), ..GroupUpdate::default() };
        let actor = GroupActor { actor: NAME, name: Some(rule_name) };
        update_group(tx, group, None, actor, &update).await?;
    }
    Ok(())
}

/// Ends a delivery that takes too long: its tenant's next message waits for it.
async fn limit_delivery<T, E: From<String>>(delivery: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let ended = tokio::time::timeout(LONGEST_DELIVERY, delivery).await;
    ended.unwrap_or_else(|_| {
        Err(format!("The receiver did not answer within {} s", LONGEST_DELIVERY.as_secs()).into())
    })
}

#[cfg(test)]
mod tests {
    use super::mail::tests::{send, server};
    use super::*;
    use crate::store::rule_table;
    use prometheus::Opts;
    use serde_json::json;
    use unslide_harness::TestServers;
    use unslide_model::SystemClock;
    use unslide_stream::Producer;

    /// Proves: fairness
    #[tokio::test]
    async fn rules_of_a_tenant_that_cannot_be_evaluated_leave_those_of_others_their_turn() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let servers = TestServers::start("alerts", |_| {}).await;
        let rule = json!({"name": "sessions", "condition": "crash_free", "channel": "kafka", "address": ""});
        // The rules of one tenant alone fill a look.
        for (tenant, rules) in [("acme", DUE_RULES_LIMIT), ("umbrella", 1)] {
            let tenant = TenantId::new(tenant).unwrap();
            servers.make_tenant(&tenant).await;
            let mut tx = servers.store.tenant(&tenant).await.unwrap();
            for _ in 0..rules {
                let new = serde_json::from_value(rule.clone()).unwrap();
                rule_table::create_rule(&mut tx, &new, None).await.unwrap().unwrap();
            }
            tx.commit().await.unwrap();
        }
        let crashing = "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, squares, installations,
                                                  crashed_installations, users, crashed_users)
                        SELECT slug, 'shop', '1.0', (now() AT TIME ZONE 'UTC')::date, 200, 100, 200, '', '', '', ''
                        FROM tenants";
        servers.execute(crashing).await;
        let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
                        BEGIN RAISE EXCEPTION 'slow' USING ERRCODE = 'query_canceled'; END $$;
                    CREATE TRIGGER slow BEFORE INSERT ON alert_events FOR EACH ROW WHEN (NEW.tenant = 'acme')
                    EXECUTE FUNCTION slow()";
        servers.execute(slow).await;
        let producer = Producer::new(&servers.kafka).unwrap();
        let topic = AlertTopic { producer, name: servers.kafka.topic_names().alerts };
        let outcomes = IntCounterVec::new(Opts::new("outcomes", "Outcomes."), &["outcome"]).unwrap();
        let (store, clock) = (servers.store.clone(), Arc::new(SystemClock));
        let sender = AlertSender::new(store, &Alerts::default(), topic, "", outcomes, clock).unwrap();
        let sender = Arc::new(sender);
        for looks in 1..=2 {
            sender.start_due(&mut JoinSet::new(), &mut BTreeSet::new()).await.unwrap();
            let events = "SELECT count(*) FROM alert_events WHERE tenant = 'umbrella'";
            assert_eq!(servers.number(events).await, 1);
            let put_off = "SELECT count(*) FROM alert_rules
                           WHERE tenant = 'acme' AND next_evaluation_at > created_at";
            assert_eq!(servers.number(put_off).await, looks, "one in a look");
        }
        drop(sender);
        servers.stop(false).await;
    }

    /// Its socket stays open, and nothing comes.
    #[tokio::test]
    async fn a_delivery_to_a_server_that_stops_answering_ends() {
        let (asked, is_asked) = tokio::sync::oneshot::channel();
        let mut asked = Some(asked);
        let mailer = server(move |_| {
            if let Some(asked) = asked.take() {
                let _ = asked.send(());
            }
            None
        });
        let mailer = mailer.await;
        let waiting = async {
            is_asked.await.unwrap();
            // From here on only the delivery's own end is waited for.
            tokio::time::pause();
        };
        let (outcome, ()) = tokio::join!(limit_delivery(send(&mailer)), waiting);
        assert_eq!(outcome.unwrap_err(), "The receiver did not answer within 45 s");
    }
}
