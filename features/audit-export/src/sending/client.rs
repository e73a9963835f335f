//! Sends entries to a receiver by its protocol, through the egress rules, and tells how it went.

use super::delivery::{AuditDeliveryFailure, AuditExchange, SentEntries};
use super::syslog::write_frames;
use super::tls_stream::{StreamFailure, TlsSender};
use super::webhook::{WebhookRequest, build_webhook};
use crate::settings::{AUDIT_EXPORT_SECTION, AuditExportSettings};
use crate::target::ReceiverTarget;
use reqwest::Method;
use std::error::Error;
use std::time::Duration;
use unslide_model::{Secret, TenantId, format_causes};
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_retry_after};

/// The most bytes of an answer that are read.
const ANSWER_BYTES_LIMIT: usize = 16 << 10;
/// Characters of an answer that are shown.
const ANSWER_LENGTH_LIMIT: usize = 200;
/// One text for all causes: it tells a tenant nothing about names in the operator's DNS, nor about open ports.
const UNREACHABLE: &str = "The receiver cannot be reached or does not answer; the operator's log says why";

/// The client for receivers.
pub struct DeliveryClient {
    pub receivers: AllowedReceivers,
    /// None if TLS cannot be set up.
    http: Option<GuardedClient>,
    tls: TlsSender,
    /// The host that messages of syslog name.
    host_name: String,
}

impl DeliveryClient {
    /// Makes the client. Settings that cannot be used were refused with the configuration.
    pub fn new(settings: &AuditExportSettings, public_url: &str) -> DeliveryClient {
        let receivers = settings.parse_receivers().unwrap_or_default();
        let timeout = Duration::from_millis(settings.answer_millis);
        let host_name =
            reqwest::Url::parse(public_url).ok().and_then(|url| url.host_str().map(str::to_owned));
        DeliveryClient {
            http: GuardedClient::new(receivers.clone(), AUDIT_EXPORT_SECTION, timeout).ok(),
            tls: TlsSender { receivers: receivers.clone(), timeout },
            host_name: host_name.unwrap_or_default(),
            receivers,
        }
    }

    /// Sends entries. The receiver has taken all of them if there is no failure.
    pub async fn deliver(&self, target: &ReceiverTarget, sent: &SentEntries<'_>) -> AuditExchange {
        match target {
            ReceiverTarget::Webhook { url, secret } => match build_webhook(sent, secret) {
                Ok(request) => self.post_webhook(url, &target.shown_address(), request).await,
                Err(text) => {
                    let outcome = Err(AuditDeliveryFailure::new(text));
                    AuditExchange { sent: String::new(), status: None, outcome }
                }
            },
            ReceiverTarget::Syslog { host, port, authority } => {
                let frames = write_frames(sent, &self.host_name);
                let written = self.tls.send_bytes(host, *port, authority, frames.as_bytes()).await;
                let outcome = written.map_err(|failure| describe_stream(&failure, sent.tenant));
                AuditExchange { sent: frames, status: None, outcome }
            }
        }
    }

    async fn post_webhook(&self, url: &Secret, shown: &str, request: WebhookRequest) -> AuditExchange {
        let WebhookRequest { headers, body } = request;
        let mut lines = vec![format!("POST {shown}")];
        lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        let sent = format!("{}\n\n{body}", lines.join("\n"));
        let (status, outcome) = match self.post_body(url, headers, body).await {
            Ok((status, outcome)) => (Some(status), outcome),
            Err(failure) => (None, Err(failure)),
        };
        AuditExchange { sent, status, outcome }
    }

    /// Posts a body. Returns the status of the answer, and whether the receiver has taken it.
    async fn post_body(
        &self,
        url: &Secret,
        headers: Vec<(&'static str, String)>,
        body: String,
    ) -> Result<(u16, Result<(), AuditDeliveryFailure>), AuditDeliveryFailure> {
        let client = self.http.as_ref().ok_or_else(|| AuditDeliveryFailure::new("TLS cannot be set up"))?;
        let begun = client.start_request(Method::POST, url);
        let mut request = begun.map_err(|wrong| AuditDeliveryFailure::new(format!("address: {wrong}")))?;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let unreachable = |error: reqwest::Error| {
            let error = &error.without_url() as &dyn Error;
            tracing::warn!(error, "a receiver of an audit log cannot be reached");
            AuditDeliveryFailure::new(UNREACHABLE)
        };
        let mut answer = request.body(body).send().await.map_err(unreachable)?;
        let status = answer.status();
        if status.is_success() {
            return Ok((status.as_u16(), Ok(())));
        }
        let seconds = read_retry_after(answer.headers()).and_then(|seconds| u32::try_from(seconds).ok());
        let pause = seconds.map(|seconds| time::Duration::seconds(seconds.into()));
        let mut text =
            format!("The receiver answered with HTTP {} and did not take the entries", status.as_u16());
        // A tenant does not read what a server in the operator's networks answers.
        if !client.is_in_networks(&answer) {
            let mut read = Vec::new();
            while read.len() < ANSWER_BYTES_LIMIT
                && let Some(chunk) = answer.chunk().await.map_err(unreachable)?
            {
                read.extend_from_slice(&chunk);
            }
            let words: String = String::from_utf8_lossy(&read).chars().take(ANSWER_LENGTH_LIMIT).collect();
            text = format!("{text}: {}", unslide_report::text::escape_line(&words));
        }
        Ok((status.as_u16(), Err(AuditDeliveryFailure { text, pause })))
    }
}

/// Describes the failure of a stream for the tenant. The cause is for the operator's log, and for the tenant if the server is of the internet.
fn describe_stream(failure: &StreamFailure, tenant: &TenantId) -> AuditDeliveryFailure {
    let cause = format_causes(&failure.error);
    tracing::warn!(error = cause, %tenant, "a receiver of an audit log cannot be reached over TLS");
    if failure.is_stranger {
        return AuditDeliveryFailure::new(format!("The connection with the receiver failed: {cause}"));
    }
    AuditDeliveryFailure::new(UNREACHABLE)
}
