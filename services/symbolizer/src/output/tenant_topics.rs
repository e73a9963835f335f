//! Finds the tenants that have an output topic of their own. An input without its output blocks only its own
//! records: they stay in the input until an operator creates the output.

use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use unslide_model::TenantId;
use unslide_proto::topics::TopicNames;
use unslide_stream::{Settings, StreamError, admin};

/// Interval at which a record of an input without output is polled again.
const UNREAD_INPUT_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum interval between two look-ups of the topics.
const LOOK_UP_INTERVAL_MIN: Duration = Duration::from_millis(200);

/// Result of the last look-up of the topics.
#[derive(Default)]
struct Seen {
    /// Tenants that have an output.
    outputs: BTreeSet<TenantId>,
    /// Tenants that have an input and no output.
    lacking: BTreeSet<TenantId>,
}

/// The tenants' own topics, as far as they exist now.
pub struct Outputs {
    settings: Settings,
    names: TopicNames,
    seen: RwLock<Seen>,
    wanted: Notify,
}

impl Outputs {
    /// Creates an empty table; [`Outputs::watch_topics`] fills it.
    pub fn new(settings: &Settings) -> Outputs {
        let names = settings.topic_names();
        Outputs { settings: settings.clone(), names, seen: RwLock::default(), wanted: Notify::new() }
    }

    /// Returns when a record of this input may be polled again, or `None` if it may be answered now.
    pub fn not_before(&self, input: &str) -> Option<Instant> {
        let tenant = self.names.tenant_of_input(input)?;
        if self.seen.read().outputs.contains(&tenant) {
            return None;
        }
        // The input may be new, and so may its output.
        self.wanted.notify_one();
        Some(Instant::now() + UNREAD_INPUT_POLL_INTERVAL)
    }

    /// Returns true if the tenant had an output at the last look-up.
    pub fn has_output(&self, tenant: &TenantId) -> bool {
        self.seen.read().outputs.contains(tenant)
    }

    /// Looks up the topics again if one of these inputs had no output at the last look-up.
    ///
    /// # Errors
    /// Returns an error if Kafka cannot list the topics.
    pub async fn look_up_unseen(&self, inputs: impl Iterator<Item = String>) -> Result<(), StreamError> {
        let unseen =
            inputs.filter_map(|input| self.names.tenant_of_input(&input)).any(|t| !self.has_output(&t));
        if unseen { self.look_up_topics().await } else { Ok(()) }
    }

    /// Returns how many inputs have no output.
    pub fn count_lacking(&self) -> usize {
        self.seen.read().lacking.len()
    }

    /// Checks that every input has its output.
    ///
    /// # Errors
    /// Returns how many outputs are missing and the command that creates them. The log names them.
    pub fn check_outputs(&self) -> Result<(), String> {
        match self.count_lacking() {
            0 => Ok(()),
            lacking => Err(format!(
                "inputs of {lacking} tenants are not read because their outputs don't exist; the log names \
                 them, and `unslide tenant topics` makes them"
            )),
        }
    }

    fn describe_lacking(&self, tenant: &TenantId) -> String {
        let (input, output) = (self.names.tenant_input(tenant), self.names.tenant_output(tenant));
        format!("{input} is not read: {output} does not exist; `unslide tenant topics {tenant}` makes it")
    }

    /// Looks up the topics at an interval, and as soon as a record waits for an output. Never returns.
    pub async fn watch_topics(&self) {
        if !self.settings.tenant_topics {
            return std::future::pending().await;
        }
        let refresh = Duration::from_millis(self.settings.topic_refresh_milliseconds);
        loop {
            if let Err(error) = self.look_up_topics().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the topics of tenants cannot be listed; the request is repeated"
                );
            }
            tokio::time::sleep(LOOK_UP_INTERVAL_MIN).await;
            tokio::select! {
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(refresh) => {}
            }
        }
    }

    async fn look_up_topics(&self) -> Result<(), StreamError> {
        let names = &self.names;
        let owner = |topic: &str| names.tenant_of_input(topic).or_else(|| names.tenant_of_output(topic));
        let topics = admin::topics_matching(&self.settings, |topic| owner(topic).is_some()).await?;
        let outputs: BTreeSet<TenantId> = topics.iter().filter_map(|t| names.tenant_of_output(t)).collect();
        let inputs = topics.iter().filter_map(|topic| names.tenant_of_input(topic));
        let lacking: BTreeSet<TenantId> = inputs.filter(|tenant| !outputs.contains(tenant)).collect();
        let before = std::mem::replace(&mut *self.seen.write(), Seen { outputs, lacking: lacking.clone() });
        for tenant in lacking.difference(&before.lacking) {
            tracing::error!(kafka.topic = names.tenant_input(tenant), "{}", self.describe_lacking(tenant));
        }
        for tenant in before.lacking.difference(&lacking) {
            tracing::info!(kafka.topic = names.tenant_input(tenant), "the topic does not wait any more");
        }
        Ok(())
    }
}
