//! Which tenants' own topics can be answered. An input without its output holds up its own records
//! only: they stay where they are until somebody makes the output.

use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use unslide_model::TenantId;
use unslide_proto::topics::TopicNames;
use unslide_stream::{Settings, StreamError, admin};

/// How long a record waits before it is asked for again.
const AGAIN: Duration = Duration::from_millis(500);
/// The least time between two looks.
const BREATH: Duration = Duration::from_millis(200);

/// What the last look saw.
#[derive(Default)]
struct Seen {
    /// Tenants that have an output.
    outputs: BTreeSet<TenantId>,
    /// Tenants that have an input and no output.
    lacking: BTreeSet<TenantId>,
}

/// The topics of tenants, as they are now.
pub struct Outputs {
    settings: Settings,
    names: TopicNames,
    seen: RwLock<Seen>,
    wanted: Notify,
}

impl Outputs {
    /// Nothing is known before [`Outputs::watch`] runs.
    pub fn new(settings: &Settings) -> Outputs {
        let names = settings.topics();
        Outputs { settings: settings.clone(), names, seen: RwLock::default(), wanted: Notify::new() }
    }

    /// When a record of this input may be asked for again; `None` where it may be answered now.
    pub fn not_before(&self, input: &str) -> Option<Instant> {
        let tenant = self.names.tenant_of_input(input)?;
        if self.seen.read().outputs.contains(&tenant) {
            return None;
        }
        // The input may be new, and its output with it.
        self.wanted.notify_one();
        Some(Instant::now() + AGAIN)
    }

    /// True where the tenant had an output at the last look.
    pub fn has(&self, tenant: &TenantId) -> bool {
        self.seen.read().outputs.contains(tenant)
    }

    /// Looks, where one of these inputs had no output at the last look.
    ///
    /// # Errors
    /// Where Kafka does not tell.
    pub async fn seek(&self, inputs: impl Iterator<Item = String>) -> Result<(), StreamError> {
        let unseen = inputs.filter_map(|input| self.names.tenant_of_input(&input)).any(|t| !self.has(&t));
        if unseen { self.look().await } else { Ok(()) }
    }

    /// How many inputs have no output.
    pub fn lacking(&self) -> usize {
        self.seen.read().lacking.len()
    }

    /// True where every input has its output.
    ///
    /// # Errors
    /// How many are lacking, and what mends it. The log says which.
    pub fn check(&self) -> Result<(), String> {
        match self.lacking() {
            0 => Ok(()),
            lacking => Err(format!(
                "inputs of {lacking} tenants are not read because their outputs don't exist; the log names \
                 them, and `unslide tenant topics` makes them"
            )),
        }
    }

    fn story(&self, tenant: &TenantId) -> String {
        let (input, output) = (self.names.tenant_input(tenant), self.names.tenant_output(tenant));
        format!("{input} is not read: {output} does not exist; `unslide tenant topics {tenant}` makes it")
    }

    /// Looks from time to time, and when a record waits for it; does not end.
    pub async fn watch(&self) {
        if !self.settings.tenant_topics {
            return std::future::pending().await;
        }
        let refresh = Duration::from_millis(self.settings.topic_refresh_milliseconds);
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the topics of tenants can't be listed and are asked for again"
                );
            }
            tokio::time::sleep(BREATH).await;
            tokio::select! {
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(refresh) => {}
            }
        }
    }

    async fn look(&self) -> Result<(), StreamError> {
        let names = &self.names;
        let owner = |topic: &str| names.tenant_of_input(topic).or_else(|| names.tenant_of_output(topic));
        let topics = admin::topics_matching(&self.settings, |topic| owner(topic).is_some()).await?;
        let outputs: BTreeSet<TenantId> = topics.iter().filter_map(|t| names.tenant_of_output(t)).collect();
        let inputs = topics.iter().filter_map(|topic| names.tenant_of_input(topic));
        let lacking: BTreeSet<TenantId> = inputs.filter(|tenant| !outputs.contains(tenant)).collect();
        let before = std::mem::replace(&mut *self.seen.write(), Seen { outputs, lacking: lacking.clone() });
        for tenant in lacking.difference(&before.lacking) {
            tracing::error!(kafka.topic = names.tenant_input(tenant), "{}", self.story(tenant));
        }
        for tenant in before.lacking.difference(&lacking) {
            tracing::info!(kafka.topic = names.tenant_input(tenant), "the topic does not wait any more");
        }
        Ok(())
    }
}
