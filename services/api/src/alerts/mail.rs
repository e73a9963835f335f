//! Mail, by the operator's SMTP server.

use super::text::{headline, plain};
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::time::Duration;
use unslide_model::Secret;
use unslide_store::alerts::messages::ClaimedAlertMessage;

/// Recipients of one rule.
const MOST_RECIPIENTS: usize = 10;
/// How long the server has for each of its answers. Shorter than the lease of a message.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends mail.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

/// Reads recipients, separated by commas.
///
/// # Errors
/// What is wrong with them.
pub fn recipients(address: &Secret) -> Result<Vec<Mailbox>, String> {
    let texts: Vec<&str> = address.reveal().split(',').map(str::trim).collect();
    if texts.len() > MOST_RECIPIENTS {
        return Err(format!("address: at most {MOST_RECIPIENTS} recipients"));
    }
    let read = |text: &&str| text.parse().map_err(|_| format!("address: {text:?} is not a mail address"));
    texts.iter().map(read).collect()
}

impl Mailer {
    /// Makes a mailer from the URL of a server, such as `smtps://user:password@mail.example.com`, and a sender.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn new(url: &Secret, from: &str) -> Result<Mailer, (&'static str, String)> {
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.reveal())
            .map_err(|error| ("smtp_url", error.to_string()))?
            .timeout(Some(TIMEOUT))
            .build();
        let from = from.parse().map_err(|_| ("mail_from", format!("{from:?} is not a mail address")))?;
        Ok(Mailer { transport, from })
    }

    /// Sends a message, whose id stays the same when it is sent again.
    ///
    /// # Errors
    /// What the server said.
    pub async fn send(&self, message: &ClaimedAlertMessage, public_url: &str) -> Result<(), String> {
        let mut mail = Message::builder()
            .from(self.from.clone())
            .subject(format!("[Unslide] {}", headline(message)))
            .message_id(Some(format!("<{}@{}>", message.id, self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN);
        for recipient in recipients(&message.address)? {
            mail = mail.to(recipient);
        }
        let mail = mail.body(plain(message, public_url)).map_err(|error| error.to_string())?;
        self.transport
            .send(mail)
            .await
            .map(drop)
            .map_err(|error| format!("The mail server did not take it: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_mail_addresses_and_few() {
        let read = |text: &str| recipients(&Secret::new(text));
        assert_eq!(read("a@example.com, B <b@example.com>").unwrap().len(), 2);
        for wrong in [
            "",
            "a",
            "a@example.com,",
            "a@example.com\r\nBcc: b@example.com",
            &["a@example.com"; 11].join(","),
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_used_of_a_mail_server_is_named() {
        let wrong =
            |url: &str, from: &str| Mailer::new(&Secret::new(url), from).err().map(|(field, _)| field);
        let _ = rustls::crypto::ring::default_provider().install_default();
        assert_eq!(wrong("smtp://127.0.0.1:25", "unslide@example.com"), None);
        assert_eq!(wrong("http://127.0.0.1", "unslide@example.com"), Some("smtp_url"));
        assert_eq!(wrong("smtp://127.0.0.1", "unslide"), Some("mail_from"));
    }
}
