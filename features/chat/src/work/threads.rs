//! Brings the thread of a group to the state of the group: the first message, its updates, and replies about regressions.

use super::{SlackWorker, ThreadFailure};
use crate::slack::{
    MARKER_EVENT, REPLY_EVENT, SlackAccount, SlackBody, SlackCall, SlackFailure, build_parent, build_reply,
};
use crate::store::{self, SlackAppRow, SlackThread, ThreadEnd};
use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::TenantTx;
use unslide_store::groups::follow_redirects;
use unslide_store::queries::groups::{ListedGroup, find_group};

/// Pages of a channel in which a message is searched for.
const SEARCH_PAGES_LIMIT: usize = 5;
/// Messages that one page of a search has.
const SEARCH_PAGE_MESSAGES: usize = 200;
/// How far Slack's clock may be behind.
const CLOCK_TOLERANCE: Duration = Duration::minutes(1);

/// The state of a group that its thread has.
fn set_told(thread: &mut SlackThread, group: &ListedGroup) {
    thread.told_status = Some(group.status.as_str().to_owned());
    thread.told_assignee.clone_from(&group.assignee);
}

fn is_told(thread: &SlackThread, group: &ListedGroup) -> bool {
    thread.told_status.as_deref() == Some(group.status.as_str()) && thread.told_assignee == group.assignee
}

/// Has a thread that was given up wait for the next change of its group.
pub async fn give_up(tx: &mut TenantTx, thread: &mut SlackThread) -> unslide_store::Result<()> {
    if let Some(group) = find_group(tx, thread.group, None).await? {
        set_told(thread, &group);
        thread.told_back_at = group.regressed_at;
    }
    Ok(())
}

impl SlackWorker {
    /// Posts what the thread of a group lacks.
    pub(super) async fn update_thread(
        &self,
        tenant: &TenantId,
        row: &SlackAppRow,
        thread: &mut SlackThread,
    ) -> Result<(), ThreadFailure> {
        let Some(group) = self.load_group(tenant, thread).await? else { return Ok(()) };
        let account = self.chat.open_account(tenant, row).map_err(SlackFailure::Account)?;
        if thread.ts.is_some() && !is_told(thread, &group) {
            self.update_parent(tenant, &account, thread, &group).await?;
        }
        if thread.ts.is_none() {
            self.post_parent(tenant, &account, thread, &group).await?;
        }
        if let (Some(back_at), Some(ts)) = (group.regressed_at, thread.ts.clone())
            && thread.told_back_at.is_none_or(|told| told < back_at)
        {
            self.post_reply(tenant, &account, thread, &group, &ts, back_at).await?;
        }
        (thread.attempts, thread.problem) = (0, None);
        let mut tx = self.store.tenant(tenant).await?;
        store::save_thread(&mut tx, thread, ThreadEnd::Done).await?;
        store::hold_app(&mut tx, None, None).await?;
        Ok(tx.commit().await?)
    }

    /// Returns the group of a thread. Returns None if it is gone: then the thread is, or the group that replaced it has it.
    async fn load_group(
        &self,
        tenant: &TenantId,
        thread: &SlackThread,
    ) -> Result<Option<ListedGroup>, ThreadFailure> {
        let mut tx = self.store.tenant(tenant).await?;
        let id = follow_redirects(&mut tx, &[thread.group]).await?.pop().unwrap_or(thread.group);
        let found = find_group(&mut tx, id, None).await?;
        let found = match found {
            Some(group) if group.id == thread.group => Some(group),
            Some(group) => {
                store::move_thread(&mut tx, thread, group.id).await?;
                None
            }
            None => {
                store::drop_thread(&mut tx, thread.group).await?;
                None
            }
        };
        tx.commit().await?;
        Ok(found)
    }

    async fn save_going_on(&self, tenant: &TenantId, thread: &SlackThread) -> Result<(), ThreadFailure> {
        let mut tx = self.store.tenant(tenant).await?;
        let is_ours = store::save_thread(&mut tx, thread, ThreadEnd::GoOn).await?;
        tx.commit().await?;
        if is_ours { Ok(()) } else { Err(ThreadFailure::LeaseOver) }
    }

    /// Changes the first message to the state of the group. One that was deleted is posted again once.
    async fn update_parent(
        &self,
        tenant: &TenantId,
        account: &SlackAccount,
        thread: &mut SlackThread,
        group: &ListedGroup,
    ) -> Result<(), ThreadFailure> {
        let mut body = build_parent(group, &thread.channel, thread.marker, &self.chat.public_url);
        body["ts"] = thread.ts.clone().into();
        match self.send(account, &SlackCall { method: "chat.update", body: SlackBody::Json(body) }).await {
            Ok(_) => {
                set_told(thread, group);
                self.save_going_on(tenant, thread).await
            }
            Err(SlackFailure::MessageGone(_)) if !thread.is_renewed => {
                (thread.ts, thread.sent_at, thread.is_renewed) = (None, None, true);
                self.save_going_on(tenant, thread).await
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Posts the first message, unless a request of before has posted it.
    async fn post_parent(
        &self,
        tenant: &TenantId,
        account: &SlackAccount,
        thread: &mut SlackThread,
        group: &ListedGroup,
    ) -> Result<(), ThreadFailure> {
        let found = match thread.sent_at {
            Some(sent_at) => {
                let arguments = vec![("channel", thread.channel.clone())];
                let marker = thread.marker.to_string();
                let is_ours = |metadata: &Value| {
                    metadata["event_type"] == MARKER_EVENT
                        && metadata["event_payload"]["marker"] == marker.as_str()
                };
                self.search_message(account, "conversations.history", arguments, sent_at, &is_ours).await?
            }
            None => None,
        };
        // What was found may have another state.
        let is_found = found.is_some();
        let ts = match found {
            Some(ts) => ts,
            None => {
                thread.sent_at = Some(self.store.now());
                self.save_going_on(tenant, thread).await?;
                let body = build_parent(group, &thread.channel, thread.marker, &self.chat.public_url);
                let call = SlackCall { method: "chat.postMessage", body: SlackBody::Json(body) };
                let answer = self.send(account, &call).await.inspect_err(|failure| {
                    if failure.is_refusal() {
                        thread.sent_at = None;
                    }
                })?;
                answer["ts"].as_str().ok_or(SlackFailure::Unreadable)?.to_owned()
            }
        };
        thread.ts = Some(ts);
        thread.told_back_at = group.regressed_at;
        if !is_found {
            set_told(thread, group);
        }
        self.save_going_on(tenant, thread).await?;
        if is_found {
            self.update_parent(tenant, account, thread, group).await?;
        }
        Ok(())
    }

    /// Posts the reply about a group that came back, unless a request of before has posted it.
    async fn post_reply(
        &self,
        tenant: &TenantId,
        account: &SlackAccount,
        thread: &mut SlackThread,
        group: &ListedGroup,
        ts: &str,
        back_at: OffsetDateTime,
    ) -> Result<(), ThreadFailure> {
        let mut is_posted = false;
        if let Some(sent_at) = thread.reply_sent_at {
            let arguments = vec![("channel", thread.channel.clone()), ("ts", ts.to_owned())];
            let back = back_at.format(&Rfc3339).unwrap_or_default();
            let is_ours = |metadata: &Value| {
                metadata["event_type"] == REPLY_EVENT && metadata["event_payload"]["back_at"] == back.as_str()
            };
            is_posted = self
                .search_message(account, "conversations.replies", arguments, sent_at, &is_ours)
                .await?
                .is_some();
        }
        if !is_posted {
            thread.reply_sent_at = Some(self.store.now());
            self.save_going_on(tenant, thread).await?;
            let body = build_reply(group, &thread.channel, ts, thread.marker, back_at);
            let call = SlackCall { method: "chat.postMessage", body: SlackBody::Json(body) };
            self.send(account, &call).await.inspect_err(|failure| {
                if failure.is_refusal() {
                    thread.reply_sent_at = None;
                }
            })?;
        }
        (thread.told_back_at, thread.reply_sent_at) = (Some(back_at), None);
        self.save_going_on(tenant, thread).await
    }

    /// Searches for a message by its metadata, among those since a request that may have posted it. Returns its id.
    async fn search_message(
        &self,
        account: &SlackAccount,
        method: &'static str,
        arguments: Vec<(&'static str, String)>,
        sent_at: OffsetDateTime,
        is_ours: &(dyn Fn(&Value) -> bool + Sync),
    ) -> Result<Option<String>, ThreadFailure> {
        let oldest = (sent_at - CLOCK_TOLERANCE).unix_timestamp().to_string();
        let mut cursor = String::new();
        for _ in 0..SEARCH_PAGES_LIMIT {
            let mut form = arguments.clone();
            form.extend([
                ("oldest", oldest.clone()),
                ("include_all_metadata", "true".to_owned()),
                ("limit", SEARCH_PAGE_MESSAGES.to_string()),
            ]);
            if !cursor.is_empty() {
                form.push(("cursor", cursor));
            }
            let answer = self.send(account, &SlackCall { method, body: SlackBody::Form(form) }).await?;
            let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(found) = messages.iter().find(|message| is_ours(&message["metadata"])) {
                return Ok(found["ts"].as_str().map(str::to_owned));
            }
            cursor = answer["response_metadata"]["next_cursor"].as_str().unwrap_or_default().to_owned();
            if cursor.is_empty() {
                return Ok(None);
            }
        }
        // It may still be there: a channel with so many messages within a few minutes is searched again later.
        Err(SlackFailure::Server("too many messages".to_owned()).into())
    }
}
