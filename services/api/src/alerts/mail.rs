//! Mail, by the operator's SMTP server.

use super::text::{headline, plain};
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::error::Error;
use std::time::Duration;
use unslide_model::Secret;
use unslide_report::text::escaped;
use unslide_store::alerts::messages::ClaimedAlertMessage;

/// Recipients of one rule.
const MOST_RECIPIENTS: usize = 10;
/// How long it may take to reach the server. Its answers have no time of their own.
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

    /// Sends a message. Its id stays the same when it is sent again.
    ///
    /// # Errors
    /// Why not, for the tenant: the server is the operator's, and so is what goes wrong with it.
    pub async fn send(&self, message: &ClaimedAlertMessage, public_url: &str) -> Result<(), String> {
        let mut mail = Message::builder()
            .from(self.from.clone())
            .subject(format!("[Unslide] {}", headline(message)))
            .message_id(Some(format!("<{}@{}>", message.id, self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN);
        let recipients = recipients(&message.address)?;
        for recipient in &recipients {
            mail = mail.to(recipient.clone());
        }
        let mail = mail.body(plain(message, public_url)).map_err(|error| error.to_string())?;
        self.transport.send(mail).await.map(drop).map_err(|error| {
            // No log names the receivers of tenants.
            let unnamed = |text: String, to: &Mailbox| text.replace(&to.email.to_string(), "…");
            let cause = recipients.iter().fold(error.to_string(), unnamed);
            tracing::warn!(error = cause, rule = %message.rule, "a mail could not be sent");
            explained(&error)
        })
    }
}

/// The text for the tenant, which has the server's words only where they are about a recipient.
fn explained(error: &lettre::transport::smtp::Error) -> String {
    let reply = error.source().filter(|_| error.status().is_some()).map(ToString::to_string);
    match reply.filter(|reply| is_about_recipient(reply)) {
        Some(reply) => format!("The mail server refused a recipient: {}", escaped(&reply)),
        None => "The mail server did not take it; the operator's log says why".to_owned(),
    }
}

/// True for a reply with a status about the address or the mailbox of a recipient (RFC 3463 §3.2 and §3.3): 7 and 8
/// are about the sender's.
fn is_about_recipient(reply: &str) -> bool {
    let mut status = reply.split_whitespace().next().unwrap_or_default().split('.');
    let (_class, subject, detail) = (status.next(), status.next(), status.next());
    match subject {
        Some("1") => !matches!(detail, None | Some("7" | "8")),
        Some("2") => detail.is_some(),
        _ => false,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::alerts::text::tests::message;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;
    use unslide_store::alerts::rules::AlertChannel;

    /// A sender, and a server that answers each line with these replies, or not at all for `None`.
    pub async fn server(mut answer: impl FnMut(&str) -> Option<&'static str> + Send + 'static) -> Mailer {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            let (read, mut write) = stream.split();
            let mut lines = BufReader::new(read).lines();
            write.write_all(b"220 test ESMTP\r\n").await.unwrap();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(reply) = answer(&line) {
                    write.write_all(format!("{reply}\r\n").as_bytes()).await.unwrap();
                }
            }
        });
        Mailer::new(&Secret::new(url), "unslide@example.com").unwrap()
    }

    /// A message that goes by mail.
    pub fn mail() -> ClaimedAlertMessage {
        ClaimedAlertMessage {
            address: Secret::new("a@example.com"),
            ..message(AlertChannel::Mail, &["New: boom"], 1)
        }
    }

    #[tokio::test]
    async fn a_tenant_reads_what_is_said_of_a_recipient_and_nothing_else_of_the_operators_server() {
        let refused = async |command: &'static str, reply: &'static str| {
            let answer = move |line: &str| Some(if line.starts_with(command) { reply } else { "250 fine" });
            server(answer).await.send(&mail(), "").await.unwrap_err()
        };
        for (reply, told) in [
            ("550 5.1.1 <a@example.com>: unknown", "5.1.1 <a@example.com>: unknown"),
            ("452 4.2.2 the mailbox is \u{7}full", "4.2.2 the mailbox is \\u{7}full"),
        ] {
            let expected = format!("The mail server refused a recipient: {told}");
            assert_eq!(refused("RCPT", reply).await, expected);
        }
        for (command, reply) in [
            ("EHLO", "421 4.3.2 relay7.internal shuts down"),
            ("MAIL", "550 5.1.8 <unslide@example.com>: unknown at relay7.internal"),
            ("RCPT", "554 5.7.1 Client host [10.0.0.7] rejected"),
            ("DATA", "relay7.internal"),
        ] {
            let told = refused(command, reply).await;
            assert_eq!(told, "The mail server did not take it; the operator's log says why");
        }
    }

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
