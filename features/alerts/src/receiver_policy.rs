//! The operator's rules for receivers, which operations and pages check.

use crate::sealing::ReceiverSealer;
use crate::sending::{Alerts, AllowedReceivers, MailPolicy};
use crate::store::receivers::SealedReceiver;
use crate::store::rules::{AlertReceiver, AlertRule};
use std::sync::Arc;
use unslide_api::feature::operation::Problem;
use unslide_model::TenantId;

/// The operator's rules for receivers, as the router hands them to operations and pages.
pub type PolicyExtension = axum::Extension<Arc<ReceiverPolicy>>;

/// The operator's rules for receivers.
pub struct ReceiverPolicy {
    /// The addresses outside of the internet that messages may be posted to.
    pub allowed: AllowedReceivers,
    /// True if messages can be mails.
    pub sends_mail: bool,
    /// Decides which recipients get mail.
    pub mail: MailPolicy,
    /// Encrypts the secrets of receivers; None if the operator has set no key.
    pub sealer: Option<ReceiverSealer>,
    /// The address of the console, without a slash at its end; empty if it is not known.
    pub public_url: String,
}

impl ReceiverPolicy {
    /// Reads the rules from the settings. Those that cannot be used were refused with the configuration.
    pub fn new(settings: &Alerts, public_url: &str) -> ReceiverPolicy {
        ReceiverPolicy {
            allowed: settings.parse_receivers().unwrap_or_default(),
            sends_mail: !settings.smtp_url.is_empty(),
            mail: settings.mail_policy(public_url),
            sealer: ReceiverSealer::from_setting(&settings.sealing_key).ok().flatten(),
            public_url: public_url.trim_end_matches('/').to_owned(),
        }
    }

    /// Encrypts a receiver, if the operator has set a key.
    ///
    /// # Errors
    /// Returns an error if the operating system gives no random bytes.
    pub fn seal_receiver(
        &self,
        tenant: &TenantId,
        receiver: &AlertReceiver,
    ) -> Result<Option<SealedReceiver>, Problem> {
        let Some(sealer) = &self.sealer else { return Ok(None) };
        sealer.seal_receiver(tenant, receiver).map_err(Problem::internal)
    }

    /// Completes the addresses of the hooks of rules.
    pub fn fill_hook_urls(&self, rules: &mut [AlertRule]) {
        for path in rules.iter_mut().filter_map(|rule| rule.hook_url.as_mut()) {
            path.insert_str(0, &self.public_url);
        }
    }
}
