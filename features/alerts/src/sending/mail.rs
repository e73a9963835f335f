//! Mail, by the operator's SMTP server.

use super::text::{format_headline, format_plain, mute_link};
use crate::store::messages::ClaimedAlertMessage;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::error::Error;
use std::fmt::{Display, Formatter};
use std::time::Duration;
use unslide_model::{Secret, TenantId};
use unslide_report::text::escape_line;

pub const MAX_RECIPIENTS: u32 = 10;
/// How long it may take to reach the server. Its answers have no time of their own.
const SMTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

/// A message of a tenant and whom it goes to.
pub struct AlertMail<'m> {
    /// The tenant that the message is about.
    pub tenant: &'m TenantId,
    /// The message, as the sender claimed it.
    pub message: &'m ClaimedAlertMessage,
    /// The recipients that take alerts.
    pub to: Vec<Mailbox>,
}

/// Reads recipients, separated by commas.
///
/// # Errors
/// Returns a text that says what is wrong with them.
pub fn parse_recipients(address: &Secret) -> Result<Vec<Mailbox>, String> {
    let texts: Vec<&str> = address.reveal().split(',').map(str::trim).collect();
    if texts.len() > MAX_RECIPIENTS as usize {
        return Err(format!("address: at most {MAX_RECIPIENTS} recipients"));
    }
    let read = |text: &&str| text.parse().map_err(|_| format!("address: {text:?} is not a mail address"));
    texts.iter().map(read).collect()
}

/// Returns the address of a recipient alone, in lower case: by it recipients are known.
pub fn address_of(recipient: &Mailbox) -> String {
    recipient.email.to_string().to_lowercase()
}

/// The header by which mail programs show a button that stops mails (RFC 2369): it opens the page of the link.
#[derive(Clone)]
struct ListUnsubscribe(String);

impl Header for ListUnsubscribe {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("List-Unsubscribe")
    }

    fn parse(text: &str) -> Result<ListUnsubscribe, Box<dyn Error + Send + Sync>> {
        Ok(ListUnsubscribe(text.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(ListUnsubscribe::name(), self.0.clone())
    }
}

/// The subject and the text of a mail about a message.
pub struct MailText {
    /// The page that mutes the rule and stops the mails of a recipient, if the console's address is known.
    pub stop_link: Option<String>,
    pub to: String,
    pub subject: String,
    pub text: String,
}

impl Display for MailText {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "To: {}\nSubject: {}\n\n{}", self.to, self.subject, self.text)
    }
}

impl AlertMail<'_> {
    /// Writes the mail. The same message always has the same one.
    pub fn write_text(&self, public_url: &str) -> MailText {
        let AlertMail { tenant, message, to } = self;
        let stop_link = mute_link(message, public_url);
        let way = match stop_link {
            Some(_) => "open the link that mutes the rule",
            None => "write to the sender",
        };
        let footer = format!("Sent for the tenant {tenant} of Unslide. To stop these mails, {way}.");
        MailText {
            stop_link,
            to: to.iter().map(address_of).collect::<Vec<_>>().join(", "),
            subject: format!("[Unslide] {}", format_headline(message)),
            text: format!("{}\n\n{footer}\n", format_plain(message, public_url)),
        }
    }
}

impl Mailer {
    /// Makes a mailer from the URL of a server, such as `smtps://user:password@mail.example.com`, and a sender.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn new(url: &Secret, from: &str) -> Result<Mailer, (&'static str, String)> {
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.reveal())
            .map_err(|error| ("smtp_url", error.to_string()))?
            .timeout(Some(SMTP_CONNECT_TIMEOUT))
            .build();
        let from = from.parse().map_err(|_| ("mail_from", format!("{from:?} is not a mail address")))?;
        Ok(Mailer { transport, from })
    }

    /// Sends a message of a tenant. Its id stays the same when it is sent again.
    ///
    /// # Errors
    /// Returns the reason for the tenant. The server is the operator's, so its details are not included.
    pub async fn send_message(&self, mail: &AlertMail<'_>, text: &MailText) -> Result<(), String> {
        let id = mail.message.id.to_string();
        self.deliver_mail(&id, text, &mail.to).await
    }

    /// Asks a recipient to confirm that it wants alerts of a tenant. Of the tenant, the text has only its
    /// slug, which consists of `a` to `z`, digits and hyphens.
    ///
    /// # Errors
    /// As for [`Mailer::send_message`].
    pub async fn send_confirmation(
        &self,
        tenant: &TenantId,
        to: &str,
        link: &str,
        id: &str,
    ) -> Result<(), String> {
        let recipient: Mailbox = to.parse().map_err(|_| format!("{to:?} is not a mail address"))?;
        let text = format!(
            "The tenant {tenant} of Unslide, a service for crash reports, wants to send alerts about its apps to this address.\n\n\
             To get them, open this page within 7 days and confirm:\n{link}\n\n\
             Otherwise ignore this mail: no alerts are sent to you. The same page stops them later.\n"
        );
        let subject = format!("[Unslide] Confirm alerts of {tenant}");
        let text = MailText { stop_link: None, to: to.to_owned(), subject, text };
        self.deliver_mail(id, &text, &[recipient]).await
    }

    async fn deliver_mail(&self, id: &str, text: &MailText, to: &[Mailbox]) -> Result<(), String> {
        let mut mail = Message::builder()
            .from(self.from.clone())
            .subject(text.subject.clone())
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN);
        for recipient in to {
            mail = mail.to(recipient.clone());
        }
        if let Some(link) = &text.stop_link {
            mail = mail.header(ListUnsubscribe(format!("<{link}>")));
        }
        let mail = mail.body(text.text.clone()).map_err(|error| error.to_string())?;
        self.transport.send(mail).await.map(drop).map_err(|error| {
            // No log names the receivers of tenants.
            let unnamed = |text: String, to: &Mailbox| text.replace(&to.email.to_string(), "…");
            let cause = to.iter().fold(error.to_string(), unnamed);
            tracing::warn!(error = cause, mail = id, "a mail could not be sent");
            explain_error(&error)
        })
    }
}

/// Returns the text for the tenant. It has the server's words only if they are about a recipient.
fn explain_error(error: &lettre::transport::smtp::Error) -> String {
    let reply = error.source().filter(|_| error.status().is_some()).map(ToString::to_string);
    match reply.filter(|reply| is_about_recipient(reply)) {
        Some(reply) => format!("The mail server refused a recipient: {}", escape_line(&reply)),
        None => "The mail server did not take it; the operator's log says why".to_owned(),
    }
}

/// Returns true for a reply with a status about the address or the mailbox of a recipient (RFC 3463 §3.2 and
/// §3.3). 7 and 8 are about the sender's.
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
    use crate::sending::text::tests::message;
    use crate::store::rules::AlertChannel;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

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

    /// Sends a message to a@example.com.
    pub async fn send(mailer: &Mailer) -> Result<(), String> {
        let message = message(AlertChannel::Mail, &["New: boom"], 1);
        let (tenant, to) = (TenantId::new("acme").unwrap(), vec!["a@example.com".parse().unwrap()]);
        let mail = AlertMail { tenant: &tenant, message: &message, to };
        mailer.send_message(&mail, &mail.write_text("")).await
    }

    #[tokio::test]
    async fn a_tenant_reads_what_is_said_of_a_recipient_and_nothing_else_of_the_operators_server() {
        let refused = async |command: &'static str, reply: &'static str| {
            let answer = move |line: &str| Some(if line.starts_with(command) { reply } else { "250 fine" });
            send(&server(answer).await).await.unwrap_err()
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
        let read = |text: &str| parse_recipients(&Secret::new(text));
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
