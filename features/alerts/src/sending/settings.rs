//! The settings of alerts.

use super::mail::{MAX_RECIPIENTS, Mailer};
use super::recipients::MailPolicy;
use crate::sealing::{ReceiverSealer, SEALING_KEY};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

/// The section `api.alerts` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Alerts {
    /// Milliseconds between two looks at what is due.
    #[serde(skip)]
    pub every_millis: u64,
    /// Networks of the operator's own that tenants may have alerts sent to, such as `10.1.0.0/16`, also without TLS.
    /// Other addresses that are not of the internet are refused.
    pub networks: Vec<String>,
    /// Ports of receivers, beside 443.
    pub ports: Vec<u16>,
    /// The SMTP server, such as `smtps://user:password@mail.example.com` or
    /// `smtp://mail.example.com:587?tls=required`. Without it there are no alerts by mail.
    #[schemars(with = "String")]
    pub smtp_url: Secret,
    /// The sender of mails, such as `Unslide <unslide@example.com>`.
    pub mail_from: String,
    /// Domains with recipients that get alerts by mail at once, such as `example.com`. Others confirm first, by a link
    /// for which `api.public_url` is needed.
    pub mail_domains: Vec<String>,
    /// Mails that each tenant may have sent on one day (UTC): one for each recipient of a message.
    pub mails_per_day: u32,
    /// The key that encrypts the addresses and secrets of receivers in the database: 32 bytes in base64, as `openssl rand -base64 32`
    /// prints. Every process of the api needs the same. Without it they are stored as they are, and pagers cannot acknowledge. With
    /// another one, tenants set their receivers again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
}

impl Default for Alerts {
    fn default() -> Alerts {
        Alerts {
            every_millis: 1_000,
            networks: Vec::new(),
            ports: Vec::new(),
            smtp_url: Secret::default(),
            mail_from: String::new(),
            mail_domains: Vec::new(),
            mails_per_day: 200,
            sealing_key: Secret::default(),
        }
    }
}

impl Alerts {
    /// Returns the client that sends mail, if a mail server is set.
    ///
    /// # Errors
    /// Returns the setting that cannot be used, and why.
    pub fn build_mailer(&self) -> Result<Option<Mailer>, (&'static str, String)> {
        if self.smtp_url.is_empty() {
            Ok(None)
        } else {
            Mailer::new(&self.smtp_url, &self.mail_from).map(Some)
        }
    }

    /// Returns the rules for mail of a service with this address of its console.
    pub fn mail_policy(&self, public_url: &str) -> MailPolicy {
        let domains = self.mail_domains.iter().map(|domain| domain.to_lowercase()).collect();
        MailPolicy { domains, per_day: self.mails_per_day, can_ask: !public_url.is_empty() }
    }

    /// Returns the receivers that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks("api.alerts", &self.networks, &self.ports)
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        let mut problems: Vec<_> = warn_of_every_network("api.alerts", &self.networks).into_iter().collect();
        if sends_password_in_clear(&self.smtp_url) {
            let message = "the password may be sent without TLS; use smtps:// or ?tls=required";
            problems.push(ConfigProblem::new("api.alerts.smtp_url", message));
        }
        problems
    }

    /// Returns the problems of the settings, for a service with this address of its console.
    pub fn problems(&self, public_url: &str) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        problems.extend(self.parse_receivers().err());
        if let Err(message) = ReceiverSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        if let Err((field, message)) = self.build_mailer() {
            problems.push(ConfigProblem::new(format!("api.alerts.{field}"), message));
        }
        if !self.smtp_url.is_empty() && public_url.is_empty() && self.mail_domains.is_empty() {
            let message =
                "no mail can be sent: set api.public_url, for links to confirm, or api.alerts.mail_domains";
            problems.push(ConfigProblem::new("api.alerts.smtp_url", message));
        }
        if let Some(domain) = self.mail_domains.iter().find(|domain| !is_domain(domain)) {
            let message = format!("{domain} is not a domain such as example.com");
            problems.push(ConfigProblem::new("api.alerts.mail_domains", message));
        }
        if self.mails_per_day < MAX_RECIPIENTS {
            let message = format!("must be at least {MAX_RECIPIENTS}, the recipients of one message");
            problems.push(ConfigProblem::new("api.alerts.mails_per_day", message));
        }
        problems
    }
}

/// Returns true for a text that can follow the @ of an address.
fn is_domain(text: &str) -> bool {
    format!("a@{text}").parse::<lettre::Address>().is_ok()
}

/// Returns true for the URL of an SMTP server with a password that does not require TLS. `tls=opportunistic`
/// does not require it: an attacker between the two can remove the offer of TLS.
fn sends_password_in_clear(url: &Secret) -> bool {
    let Ok(url) = reqwest::Url::parse(url.reveal()) else { return false };
    let requires_tls = url.query_pairs().any(|(name, value)| name == "tls" && value == "required");
    url.scheme() == "smtp" && url.password().is_some() && !requires_tls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_without_a_way_to_ask_its_recipients_is_refused() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let keys = |public_url: &str, domains: &[&str], mails_per_day| {
            let mail_domains = domains.iter().map(|text| (*text).to_owned()).collect();
            let (smtp_url, mail_from) = (Secret::new("smtp://127.0.0.1"), "unslide@example.com".to_owned());
            let settings = Alerts { smtp_url, mail_from, mail_domains, mails_per_day, ..Alerts::default() };
            settings.problems(public_url).into_iter().map(|problem| problem.key).collect::<Vec<_>>()
        };
        assert!(keys("https://crashes.example.com", &[], 200).is_empty());
        assert!(keys("", &["example.com", "EXAMPLE.org"], 10).is_empty());
        assert_eq!(keys("", &[], 200), ["api.alerts.smtp_url"]);
        assert_eq!(keys("", &["a@example.com"], 200), ["api.alerts.mail_domains"]);
        assert_eq!(keys("", &["example.com"], 9), ["api.alerts.mails_per_day"]);
    }

    #[test]
    fn unsafe_settings_are_named() {
        let named = |networks: &[&str], smtp_url: &str| {
            let networks = networks.iter().map(|text| (*text).to_owned()).collect();
            let settings = Alerts { networks, smtp_url: Secret::new(smtp_url), ..Alerts::default() };
            settings.find_insecure().into_iter().map(|problem| problem.key).collect::<Vec<_>>()
        };
        assert!(named(&["10.0.0.0/8"], "smtps://u:p@mail.example.com").is_empty());
        assert!(named(&[], "smtp://u:p@mail.example.com?tls=required").is_empty());
        assert!(named(&[], "smtp://mail.example.com").is_empty());
        for everything in [["10.0.0.0/8", "0.0.0.0/0"], ["::/0", "10.0.0.0/8"], ["0.0.0.0/1", "128.0.0.0/1"]]
        {
            assert_eq!(named(&everything, ""), ["api.alerts.networks"], "{everything:?}");
        }
        for clear in ["smtp://u:p@mail.example.com", "smtp://u:p@mail.example.com?tls=opportunistic"] {
            assert_eq!(named(&[], clear), ["api.alerts.smtp_url"], "{clear}");
        }
    }
}
