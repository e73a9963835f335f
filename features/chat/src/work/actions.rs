//! Acts on pressed buttons, as the account of the person who pressed them.

use super::SlackWorker;
use crate::pages::link_path;
use crate::slack::{SlackBody, SlackCall, escape_slack};
use crate::store::{self, SlackActionRow, SlackAppRow, SlackPerson};
use serde_json::json;
use unslide_api::entropy::write_token;
use unslide_api::feature::site::group_link;
use unslide_model::TenantId;
use unslide_store::group_tickets::{TicketAnswer, TicketRequest};
use unslide_store::groups::{GroupActor, GroupStatus, GroupUpdate, UpdateOutcome, update_group};
use unslide_store::{Result, TenantTx, request_ticket};

impl SlackWorker {
    /// Acts on the button that has waited longest. Returns false if none waits. The act and its end are one transaction, so it is done
    /// once; the answer that only the person sees may be lost.
    pub(super) async fn take_action(&self, tenant: &TenantId, row: &SlackAppRow) -> Result<bool> {
        let mut tx = self.store.tenant(tenant).await?;
        let Some(pressed) = store::claim_action(&mut tx).await? else {
            tx.commit().await?;
            return Ok(false);
        };
        let answer = match store::find_person(&mut tx, &row.team, &pressed.slack_user).await? {
            Some(person) if person.can_change && pressed.action == "make_ticket" => {
                Some(self.ask_for_ticket(&mut tx, &person, &pressed).await?)
            }
            Some(person) if person.can_change => act_as(&mut tx, &person, &pressed).await?,
            Some(person) => Some(format!(
                "The account of {} may not change bugs: its key lacks the scope groups:write.",
                escape_slack(&person.name)
            )),
            None => self.offer_link(&mut tx, tenant, row, &pressed).await?,
        };
        tx.commit().await?;
        if let Some(text) = answer {
            self.answer_person(tenant, row, &pressed, &text).await;
        }
        Ok(true)
    }

    /// Has the ticket of a group made as an account, in the transaction of the button. Returns the text for the person.
    async fn ask_for_ticket(
        &self,
        tx: &mut TenantTx,
        person: &SlackPerson,
        pressed: &SlackActionRow,
    ) -> Result<String> {
        let key = person.key_id.to_string();
        let actor = GroupActor { actor: &key, name: Some(&person.name) };
        let request = TicketRequest { group: pressed.group, app: person.app.as_deref(), actor };
        let text = match request_ticket(tx, request).await? {
            Some(TicketAnswer::Requested(tracker)) => {
                format!("The ticket is being made in {tracker}; its address will be on the page of the bug.")
            }
            Some(TicketAnswer::Exists(url)) => format!("The bug has a ticket: {url}"),
            Some(TicketAnswer::Refused(reason)) => format!("No ticket is made: {reason}."),
            None => return Ok("This service makes no tickets.".to_owned()),
        };
        let page = group_link(&self.chat.public_url, pressed.group);
        let page = page.map(|page| format!(" (<{page}|open the bug>)")).unwrap_or_default();
        Ok(format!("{}{page}", escape_slack(&text)))
    }

    /// Makes a link to the console for a person without an account. Returns the text with it.
    async fn offer_link(
        &self,
        tx: &mut TenantTx,
        tenant: &TenantId,
        row: &SlackAppRow,
        pressed: &SlackActionRow,
    ) -> Result<Option<String>> {
        let Ok(token) = self.chat.entropy.generate_token() else {
            tracing::warn!(%tenant, "the operating system has no random bytes for a link");
            return Ok(None);
        };
        if self.chat.public_url.is_empty() {
            return Ok(Some(
                "Buttons need an account, and the operator has not set api.public_url.".to_owned(),
            ));
        }
        store::add_link(
            tx,
            &store::hash_link_token(&token),
            &row.team,
            &pressed.slack_user,
            &pressed.user_name,
        )
        .await?;
        let link = format!("{}{}", self.chat.public_url, link_path(&write_token(&token)));
        Ok(Some(format!(
            "Nothing was changed: this button acts as your account. <{link}|Connect your account> within 15 minutes, and press it again."
        )))
    }

    /// Shows a text to the person who pressed a button, and to no one else.
    async fn answer_person(
        &self,
        tenant: &TenantId,
        row: &SlackAppRow,
        pressed: &SlackActionRow,
        text: &str,
    ) {
        let body = json!({"channel": pressed.channel, "user": pressed.slack_user, "text": text});
        let call = SlackCall { method: "chat.postEphemeral", body: SlackBody::Json(body) };
        let sent = match self.chat.open_account(tenant, row) {
            Ok(account) => self.send(&account, &call).await.map(drop).map_err(|failure| failure.to_string()),
            Err(wrong) => Err(wrong),
        };
        if let Err(error) = sent {
            tracing::info!(%tenant, error, "the answer to a button of Slack was not shown");
        }
    }
}

/// Changes a group as an account. Returns a text for the person if nothing was changed.
async fn act_as(tx: &mut TenantTx, person: &SlackPerson, pressed: &SlackActionRow) -> Result<Option<String>> {
    let plain = |status| GroupUpdate { status: Some(status), ..GroupUpdate::default() };
    let update = match pressed.action.as_str() {
        "resolve_next" => GroupUpdate { resolved_in_next: true, ..plain(GroupStatus::Resolved) },
        "ignore" => plain(GroupStatus::Ignored),
        "assign_me" => GroupUpdate { assignee: Some(person.name.clone()), ..GroupUpdate::default() },
        _ => return Ok(Some("This button is not known any more.".to_owned())),
    };
    let key = person.key_id.to_string();
    let actor = GroupActor { actor: &key, name: Some(&person.name) };
    let mut outcome = update_group(tx, pressed.group, person.app.as_deref(), actor, &update).await?;
    if outcome == UpdateOutcome::NoVersion {
        let resolved = plain(GroupStatus::Resolved);
        outcome = update_group(tx, pressed.group, person.app.as_deref(), actor, &resolved).await?;
    }
    match outcome {
        UpdateOutcome::Done(group) => {
            store::request_update(tx, group).await?;
            Ok(None)
        }
        UpdateOutcome::Merged(_) => {
            Ok(Some("Nothing was changed: the bug is merged into another one.".to_owned()))
        }
        UpdateOutcome::NotFound | UpdateOutcome::NoVersion => {
            Ok(Some("Nothing was changed: the bug is gone, or your account may not see it.".to_owned()))
        }
    }
}
