//! The work for Slack, beside the requests of the api: pressed buttons, and threads of groups.
//!
//! Every process of the api runs it. The database gives each button and each thread to one process at a time.

mod actions;
mod threads;

use crate::Chat;
use crate::slack::{SlackAccount, SlackCall, SlackClient, SlackFailure};
use crate::store::{self, SlackAppRow, SlackThread, ThreadEnd};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::{TenantWork, retry_pause};
use unslide_model::TenantId;
use unslide_store::{Result, Store, StoreError};

/// Pressed buttons of a tenant's turn.
const TURN_ACTIONS_LIMIT: usize = 20;
/// Threads of a tenant's turn.
const TURN_THREADS_LIMIT: usize = 10;
/// Timeout of the work on a thread. Shorter than its lease.
const THREAD_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a thread is tried: for about two days.
const ATTEMPTS_LIMIT: i32 = 14;
/// The pause after a failure that a person has to mend. Setting the Slack app again ends it.
const PERSON_NEEDED_INTERVAL: time::Duration = time::Duration::hours(1);
/// The pause after a limit that names none.
const UNNAMED_LIMIT_INTERVAL: time::Duration = time::Duration::minutes(1);

/// Posts the groups of all tenants to Slack, and acts on buttons.
pub struct SlackWorker {
    chat: Arc<Chat>,
    store: Store,
}

/// The failure of the work on a thread.
#[derive(Debug, thiserror::Error)]
enum ThreadFailure {
    #[error("{0}")]
    Slack(#[from] SlackFailure),
    #[error("the database fails")]
    Store(#[from] StoreError),
    #[error("Slack's answers took too long")]
    TooLong,
    /// Another process works on the thread.
    #[error("the lease is over")]
    LeaseOver,
}

impl TenantWork for SlackWorker {
    const CONCURRENT_TENANTS_LIMIT: usize = 16;
    const LOOK_FAILURE: &'static str = "due work for Slack could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> Result<Vec<TenantId>> {
        store::list_due(&self.store, last, limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.work_for(tenant).await {
            tracing::warn!(error = %error, %tenant, "work for Slack could not be claimed or recorded");
        }
    }
}

impl SlackWorker {
    pub fn new(chat: Arc<Chat>, store: Store) -> SlackWorker {
        SlackWorker { chat, store }
    }

    async fn work_for(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store.tenant(tenant).await?;
        let Some(row) = store::get_app(&mut tx).await? else { return tx.commit().await };
        let look_interval = self.chat.settings.group_look_millis.try_into().unwrap_or(i64::MAX);
        store::add_threads(&mut tx, time::Duration::milliseconds(look_interval)).await?;
        tx.commit().await?;
        for _ in 0..TURN_ACTIONS_LIMIT {
            if !self.take_action(tenant, &row).await? {
                break;
            }
        }
        for _ in 0..TURN_THREADS_LIMIT {
            let mut tx = self.store.tenant(tenant).await?;
            let claimed = store::claim_thread(&mut tx).await?;
            tx.commit().await?;
            let Some(mut thread) = claimed else { break };
            let work =
                tokio::time::timeout(THREAD_TIMEOUT, self.update_thread(tenant, &row, &mut thread)).await;
            let failed = match work {
                Ok(Ok(())) => None,
                Ok(Err(failure)) => Some(failure),
                Err(_) => Some(ThreadFailure::TooLong),
            };
            if let Some(failure) = failed {
                let is_held = self.record_failure(tenant, &row, thread, failure).await?;
                if is_held {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Records the failure of the work on a thread. Returns true if Slack gets no request for a while.
    async fn record_failure(
        &self,
        tenant: &TenantId,
        row: &SlackAppRow,
        mut thread: SlackThread,
        failure: ThreadFailure,
    ) -> Result<bool> {
        let text = failure.to_string();
        if let ThreadFailure::Store(error) = &failure {
            tracing::warn!(error = %error, %tenant, "work on a thread of Slack failed");
        }
        let is_old_channel = thread.channel != row.channel;
        let (held, end) = match failure {
            ThreadFailure::LeaseOver => return Ok(false),
            ThreadFailure::Slack(SlackFailure::Limited(pause)) => {
                (Some(pause.unwrap_or(UNNAMED_LIMIT_INTERVAL)), ThreadEnd::Again(time::Duration::ZERO))
            }
            // The channel of before may be gone: the others go on.
            ThreadFailure::Slack(SlackFailure::Broken(_)) if is_old_channel => (None, ThreadEnd::Done),
            ThreadFailure::Slack(SlackFailure::Broken(_) | SlackFailure::Account(_)) => {
                (Some(PERSON_NEEDED_INTERVAL), ThreadEnd::Again(time::Duration::ZERO))
            }
            ThreadFailure::Slack(SlackFailure::MessageGone(_) | SlackFailure::Refused(_)) => {
                (None, ThreadEnd::Done)
            }
            _ if thread.attempts >= ATTEMPTS_LIMIT => (None, ThreadEnd::Done),
            _ => (None, ThreadEnd::Again(retry_pause(thread.attempts))),
        };
        let mut tx = self.store.tenant(tenant).await?;
        match end {
            // It was no attempt of this thread.
            ThreadEnd::Again(_) if held.is_some() => thread.attempts -= 1,
            // The next change of the group is tried again.
            ThreadEnd::Done => thread.attempts = 0,
            _ => {}
        }
        if end == ThreadEnd::Done {
            threads::give_up(&mut tx, &mut thread).await?;
        }
        thread.problem = Some(text.clone());
        store::save_thread(&mut tx, &thread, end).await?;
        if held.is_some() {
            store::hold_app(&mut tx, Some(&text), held).await?;
        }
        tx.commit().await?;
        Ok(held.is_some())
    }

    /// Sends a request, and waits for as long as Slack wants between two messages of a channel.
    async fn send(
        &self,
        account: &SlackAccount,
        call: &SlackCall,
    ) -> std::result::Result<Value, SlackFailure> {
        let answer = self.client()?.send(account, call).await;
        tokio::time::sleep(Duration::from_millis(self.chat.settings.pace_millis)).await;
        answer
    }

    fn client(&self) -> std::result::Result<&SlackClient, SlackFailure> {
        let failed = || SlackFailure::Account("TLS cannot be set up".to_owned());
        self.chat.client.as_ref().ok_or_else(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let pauses = [0, 1, 3, ATTEMPTS_LIMIT].map(retry_pause);
        assert_eq!(pauses, [10, 10, 90, 21_600].map(time::Duration::seconds));
    }
}
