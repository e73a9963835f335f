//! Which recipients alerts by mail go to: those in domains that the operator allows, and those that have confirmed.

use super::mail::{address_of, parse_recipients};
use crate::store::messages::ClaimedAlertMessage;
use crate::store::recipients as stored;
use crate::store::rules::{AlertChannel, AlertReceiver, AlertRecipient, AlertRule, RecipientStatus};
use lettre::message::Mailbox;
use std::collections::BTreeMap;
use unslide_model::Secret;
use unslide_store::{StoreError, TenantTx};

/// The operator's rules for mail.
#[derive(Clone, Debug, Default)]
pub struct MailPolicy {
    /// Domains with recipients that need not confirm, in lower case.
    pub domains: Vec<String>,
    /// Mails that a tenant may have sent on one day.
    pub per_day: u32,
    /// True if recipients can be asked to confirm: a link needs the console's address.
    pub can_ask: bool,
}

/// Whether a message is sent by mail now.
pub enum MailAdmission {
    /// It is sent to these.
    Send(Vec<Mailbox>),
    /// It is not sent now.
    Held {
        /// The value of the label `outcome` of the metric of alerts.
        outcome: &'static str,
        /// The reason, for the tenant.
        reason: String,
    },
}

impl MailPolicy {
    /// Returns true if the operator allows the domain of an address.
    pub fn is_allowed_domain(&self, address: &str) -> bool {
        address
            .rsplit_once('@')
            .is_some_and(|(_, domain)| self.domains.iter().any(|allowed| allowed == domain))
    }

    /// Checks that each recipient can get alerts.
    ///
    /// # Errors
    /// Returns the problem of one of them.
    pub fn check_recipients(&self, address: &Secret) -> Result<(), String> {
        let read = parse_recipients(address)?;
        let outside = read.iter().map(address_of).find(|one| !self.can_ask && !self.is_allowed_domain(one));
        let Some(outside) = outside else { return Ok(()) };
        Err(format!(
            "address: {outside} has to confirm and this service cannot ask; its operator sets api.public_url, or the domain in api.alerts.mail_domains"
        ))
    }

    /// Asks each recipient of a receiver that needs to confirm. Returns false if too many have not confirmed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn ask_receiver(
        &self,
        tx: &mut TenantTx,
        receiver: &AlertReceiver,
    ) -> Result<bool, StoreError> {
        if receiver.channel != AlertChannel::Mail {
            return Ok(true);
        }
        self.ask_all(tx, &receiver.address).await
    }

    /// Asks each of these recipients that needs to confirm. Returns false if too many have not confirmed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn ask_all(&self, tx: &mut TenantTx, address: &Secret) -> Result<bool, StoreError> {
        let read = parse_recipients(address).unwrap_or_default();
        let outside: Vec<String> =
            read.iter().map(address_of).filter(|one| !self.is_allowed_domain(one)).collect();
        stored::request_confirmations(tx, &outside).await
    }

    /// Fills in the recipients of rules that send mail.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn fill_recipients(
        &self,
        tx: &mut TenantTx,
        rules: &mut [AlertRule],
    ) -> Result<(), StoreError> {
        let read = |rule: &AlertRule| match rule.channel {
            AlertChannel::Mail => parse_recipients(&Secret::new(rule.address.as_str())).unwrap_or_default(),
            _ => Vec::new(),
        };
        let named: Vec<Vec<Mailbox>> = rules.iter().map(read).collect();
        let addresses: Vec<String> = named.iter().flatten().map(address_of).collect();
        if addresses.is_empty() {
            return Ok(());
        }
        let known = stored::read_statuses(tx, &addresses).await?;
        for (rule, named) in rules.iter_mut().zip(named) {
            rule.recipients = named.iter().map(|one| self.describe_recipient(&known, one)).collect();
        }
        Ok(())
    }

    fn describe_recipient(
        &self,
        known: &BTreeMap<String, RecipientStatus>,
        mailbox: &Mailbox,
    ) -> AlertRecipient {
        let address = address_of(mailbox);
        let status = match known.get(&address).copied().unwrap_or(RecipientStatus::Waiting) {
            RecipientStatus::Waiting if self.is_allowed_domain(&address) => RecipientStatus::Allowed,
            status => status,
        };
        AlertRecipient { address, status }
    }

    /// Decides whether a message is sent, and counts its mails.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn admit_message(
        &self,
        tx: &mut TenantTx,
        message: &ClaimedAlertMessage,
    ) -> Result<MailAdmission, StoreError> {
        let named = match parse_recipients(&message.address) {
            Ok(named) => named,
            Err(reason) => return Ok(MailAdmission::Held { outcome: "retried", reason }),
        };
        let addresses: Vec<String> = named.iter().map(address_of).collect();
        let known = stored::read_statuses(tx, &addresses).await?;
        // Their links have ended.
        let unknown: Vec<String> = addresses
            .into_iter()
            .filter(|one| !known.contains_key(one) && !self.is_allowed_domain(one))
            .collect();
        if self.can_ask {
            stored::request_confirmations(tx, &unknown).await?;
        }
        let described: Vec<AlertRecipient> =
            named.iter().map(|one| self.describe_recipient(&known, one)).collect();
        let takes = |one: &AlertRecipient| {
            matches!(one.status, RecipientStatus::Allowed | RecipientStatus::Confirmed)
        };
        let to: Vec<Mailbox> =
            named.into_iter().zip(&described).filter(|(_, one)| takes(one)).map(|(to, _)| to).collect();
        if to.is_empty() {
            return Ok(MailAdmission::Held {
                outcome: "unconfirmed",
                reason: describe_unconfirmed(&described),
            });
        }
        let mails = u32::try_from(to.len()).unwrap_or(u32::MAX);
        if stored::take_mails(tx, mails, self.per_day).await? {
            return Ok(MailAdmission::Send(to));
        }
        let reason = format!("The tenant's {} mails of this day are used up", self.per_day);
        Ok(MailAdmission::Held { outcome: "over_limit", reason })
    }
}

fn describe_unconfirmed(recipients: &[AlertRecipient]) -> String {
    let of = |status: RecipientStatus| {
        let found = recipients.iter().filter(|one| one.status == status);
        found.map(|one| one.address.as_str()).collect::<Vec<_>>().join(", ")
    };
    let waiting = of(RecipientStatus::Waiting);
    if waiting.is_empty() {
        format!("Refused by the recipient: {}", of(RecipientStatus::Refused))
    } else {
        format!("Waiting for confirmation: {waiting}")
    }
}
