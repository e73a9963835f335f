//! The operator's rules for receivers, which operations and pages check.

use crate::sending::{Alerts, AllowedReceivers, MailPolicy};
use std::sync::Arc;

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
}

impl ReceiverPolicy {
    /// Reads the rules from the settings. Those that cannot be used were refused with the configuration.
    pub fn new(settings: &Alerts, public_url: &str) -> ReceiverPolicy {
        ReceiverPolicy {
            allowed: settings.parse_receivers().unwrap_or_default(),
            sends_mail: !settings.smtp_url.is_empty(),
            mail: settings.mail_policy(public_url),
        }
    }
}
