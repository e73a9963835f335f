//! `/console/mute/{token}`: the link of a message mutes its rule, or stops the mails of one recipient. Opening the page changes
//! nothing: mail servers open the links of mails.

use super::acknowledge::LINK_ACTOR;
use crate::message_link::{LinkPurpose, MessageLink};
use crate::receiver_policy::{PolicyExtension, ReceiverPolicy};
use crate::store::receivers::find_mute_key;
use crate::store::rules::{AlertRecipient, AlertRule, AlertRuleChange, RecipientStatus};
use crate::store::{recipients, rule_table};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::Extensions;
use serde_json::json;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_api::feature::site::Tx;
use unslide_model::TenantId;
use unslide_site::{Caller, SentForm, Shell, Template, assign_caller, escaping, filters, render_html};
use unslide_store::{TenantTx, audit};

/// How long the button of the page mutes a rule.
const MUTE_DURATION: Duration = Duration::hours(24);

#[derive(Template)]
#[template(path = "alerts/mute.html", askama = escaping)]
struct MutePage {
    shell: Shell,
    tenant: TenantId,
    rule: AlertRule,
    recipients: Vec<MuteRecipient>,
    /// Until when the rule is muted.
    muted_until: Option<OffsetDateTime>,
    now: OffsetDateTime,
    token: String,
}

/// A recipient of mail with the button that it has on the page.
struct MuteRecipient {
    address: String,
    is_stopped: bool,
    /// True if the page sends the mails again. A recipient outside the operator's domains does that by its own link alone.
    can_start: bool,
}

impl MuteRecipient {
    fn describe_recipient(policy: &ReceiverPolicy, one: &AlertRecipient) -> Option<MuteRecipient> {
        let is_stopped = one.status == RecipientStatus::Refused;
        let can_start = is_stopped && policy.mail.is_allowed_domain(&one.address);
        // One that was asked gets nothing before it confirms.
        let is_asked = one.status == RecipientStatus::Waiting;
        (!is_asked).then(|| MuteRecipient { address: one.address.clone(), is_stopped, can_start })
    }
}

/// Finds the rule of a link in a transaction of its tenant.
async fn find_linked(
    storage: &Storage,
    policy: &ReceiverPolicy,
    token: &str,
    extensions: &Extensions,
) -> Result<(Tx<TenantTx>, TenantId, AlertRule), Problem> {
    let gone =
        || Problem::new(Kind::NotFound, "the link is unknown or too old; a newer message has another one");
    let link = MessageLink::parse_token(LinkPurpose::Mute, token).ok_or_else(gone)?;
    let mut tx = storage.tenant(&link.tenant).await?;
    let key = find_mute_key(&mut tx, link.rule_id()).await?.ok_or_else(gone)?;
    if !link.is_valid(&key, storage.clock.now()) {
        return Err(gone());
    }
    assign_caller(extensions, &storage.capacity, Caller::Public(link.tenant.clone()))?;
    let rule = rule_table::get(&mut tx, link.rule_id(), None).await?.ok_or_else(gone)?;
    let mut rules = [rule];
    policy.mail.fill_recipients(&mut tx, &mut rules).await?;
    let [rule] = rules;
    Ok((tx, link.tenant, rule))
}

/// `GET /console/mute/{token}`: shows the rule and its buttons.
pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    Path(token): Path<String>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let (_, tenant, rule) = find_linked(&storage, &policy, &token, &extensions).await?;
    let now = storage.clock.now();
    let muted_until = rule.muted_until.filter(|until| *until > now);
    let recipients =
        rule.recipients.iter().filter_map(|one| MuteRecipient::describe_recipient(&policy, one)).collect();
    let shell = Shell { title: "Mute an alert rule".to_owned(), ..Shell::signed_out() };
    render_html(&MutePage { shell, tenant, rule, recipients, muted_until, now, token })
}

/// `POST /console/mute/{token}`: `mute` or `unmute` for the rule, `stop` or `start` for the recipient that the form names.
pub async fn act_on_link(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    Path(token): Path<String>,
    extensions: Extensions,
    form: SentForm,
) -> Result<Response, Problem> {
    let (mut tx, _, rule) = find_linked(&storage, &policy, &token, &extensions).await?;
    let (action, now) = (form.field_text("action"), storage.clock.now());
    let mut detail = json!({});
    match action.as_str() {
        "mute" | "unmute" => {
            let muted_until = Some(if action == "mute" { now + MUTE_DURATION } else { now });
            let change = AlertRuleChange { muted_until, ..AlertRuleChange::default() };
            rule_table::change_rule(&mut tx, rule.id, None, &change, None).await?;
        }
        "stop" | "start" => {
            let named = form.field_text("address");
            let missing = || Problem::new(Kind::InvalidBody, "address: a recipient of the rule");
            let mut shown =
                rule.recipients.iter().filter_map(|one| MuteRecipient::describe_recipient(&policy, one));
            let one = shown.find(|one| one.address == named).ok_or_else(missing)?;
            if action == "start" && !one.can_start {
                let detail = "address: a recipient who stopped its mails begins them again by the link of the mail that asked it";
                return Err(Problem::new(Kind::InvalidBody, detail));
            }
            recipients::set_accepted(&mut tx, &one.address, action == "start").await?;
            detail = json!({"address": one.address});
        }
        _ => return Err(Problem::new(Kind::NotFound, "a link of a message has no such action")),
    }
    audit::append_entry(&mut tx, LINK_ACTOR, &format!("alert_rule.{action}"), &rule.id.to_string(), &detail)
        .await?;
    tx.commit().await?;
    Ok(Redirect::to(&format!("{}{token}", LinkPurpose::Mute.page_path())).into_response())
}
