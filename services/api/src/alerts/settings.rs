//! The settings of alerts.

use super::mail::Mailer;
use super::networks::AllowedNetworks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;

/// The section `api.alerts`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Alerts {
    /// Milliseconds between two looks at what is due.
    #[serde(skip)]
    pub every_millis: u64,
    /// Networks of the operator's own that tenants may have alerts sent to, such as `10.1.0.0/16`; addresses that
    /// are not of the internet are refused otherwise.
    pub networks: Vec<String>,
    /// The SMTP server, such as `smtps://user:password@mail.example.com` or
    /// `smtp://mail.example.com:587?tls=required`. Without it there are no alerts by mail.
    #[schemars(with = "String")]
    pub smtp_url: Secret,
    /// The sender of mails, such as `Unslide <unslide@example.com>`.
    pub mail_from: String,
}

impl Default for Alerts {
    fn default() -> Alerts {
        Alerts {
            every_millis: 1_000,
            networks: Vec::new(),
            smtp_url: Secret::default(),
            mail_from: String::new(),
        }
    }
}

impl Alerts {
    /// What sends mail, where there is a server for it.
    ///
    /// # Errors
    /// Which setting cannot be used, and why.
    pub fn mailer(&self) -> Result<Option<Mailer>, (&'static str, String)> {
        if self.smtp_url.is_empty() {
            Ok(None)
        } else {
            Mailer::new(&self.smtp_url, &self.mail_from).map(Some)
        }
    }

    /// What is wrong with them.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(network) = AllowedNetworks::read(&self.networks) {
            let message = format!("{network} is not a network such as 10.0.0.0/8");
            problems.push(ConfigProblem::new("api.alerts.networks", message));
        }
        if let Err((field, message)) = self.mailer() {
            problems.push(ConfigProblem::new(format!("api.alerts.{field}"), message));
        }
        problems
    }
}
