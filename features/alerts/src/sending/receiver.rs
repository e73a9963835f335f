//! The HTTP client for receivers, which are strangers: it reaches allowed addresses only, and reads little of an answer.

use crate::store::rules::TemplateType;
use reqwest::Method;
use time::Duration;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_retry_after};

/// The section of the settings with the operator's networks.
pub const SECTION: &str = "api.alerts";

/// How long a receiver has, from the name's look-up to the answer's end. Shorter than the lease of a message.
const RECEIVER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// The most bytes of an answer that are read.
const LONGEST_ANSWER: usize = 16 << 10;

pub struct HttpSender {
    client: GuardedClient,
}

/// A POST that is to be sent.
pub struct AlertRequest {
    /// The URL to post to, a secret.
    pub url: Secret,
    /// Headers other than the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The content type of the body.
    pub content_type: TemplateType,
    pub body: String,
}

/// The answer of a receiver.
pub struct ReceiverAnswer {
    pub status: u16,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// True if the receiver is in one of the operator's networks. A tenant does not read its answer.
    pub is_in_networks: bool,
    /// The pause that the receiver asks for, in whole seconds.
    pub retry_after: Option<Duration>,
}

/// The reason for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The URL may not be posted to. The text is for the tenant.
    #[error("{0}")]
    Address(String),
    /// The receiver was not reached or did not answer. One text for all causes: it tells a tenant nothing
    /// about names in the operator's DNS, nor about open ports. The cause is for the operator's log; it names
    /// no path.
    #[error("The receiver cannot be reached or does not answer; the operator's log says why")]
    Unreachable(#[source] reqwest::Error),
}

impl HttpSender {
    /// Makes the client.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(receivers: AllowedReceivers) -> Result<HttpSender, reqwest::Error> {
        Ok(HttpSender { client: GuardedClient::new(receivers, SECTION, RECEIVER_TIMEOUT)? })
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    /// Returns the reason for which there is no answer, without the URL, which is a secret.
    pub async fn post_request(&self, request: &AlertRequest) -> Result<ReceiverAnswer, PostError> {
        let begun = self
            .client
            .start_request(Method::POST, &request.url)
            .map_err(|wrong| PostError::Address(format!("address: {wrong}")))?;
        let mut sent = begun.header("content-type", request.content_type.as_str());
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        let unreachable = |error: reqwest::Error| PostError::Unreachable(error.without_url());
        let mut answer = sent.body(request.body.clone()).send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while body.len() < LONGEST_ANSWER
            && let Some(chunk) = answer.chunk().await.map_err(unreachable)?
        {
            let left = LONGEST_ANSWER - body.len();
            body.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
        }
        let is_in_networks = self.client.is_in_networks(&answer);
        let seconds = read_retry_after(answer.headers()).and_then(|seconds| u32::try_from(seconds).ok());
        let retry_after = seconds.map(|seconds| Duration::seconds(seconds.into()));
        Ok(ReceiverAnswer { status: answer.status().as_u16(), body, is_in_networks, retry_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rules::TemplateType;
    use unslide_model::Secret;

    fn request(url: &str) -> AlertRequest {
        let (url, body) = (Secret::new(url), String::new());
        AlertRequest { url, headers: Vec::new(), content_type: TemplateType::Json, body }
    }

    /// A port on which nothing listens, and one whose server is no HTTP server.
    #[tokio::test]
    async fn a_tenant_cannot_tell_why_a_receiver_is_not_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = |listener: &tokio::net::TcpListener| listener.local_addr().unwrap().port();
        let (odd, closed) = (port(&listener), port(&closed));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.try_write(b"SSH-2.0-odd\r\n");
            }
        });
        let receivers = AllowedReceivers::from_networks(&["127.0.0.0/8".to_owned()], &[odd, closed]).unwrap();
        let (own, none) =
            (HttpSender::new(receivers).unwrap(), HttpSender::new(AllowedReceivers::default()).unwrap());
        let mut texts = Vec::new();
        for (sender, url) in [
            (&own, format!("http://127.0.0.1:{closed}/secret-path")),
            (&own, format!("http://127.0.0.1:{odd}/secret-path")),
            (&own, format!("https://127.0.0.1:{odd}/secret-path")),
            (&none, "https://localhost/secret-path".to_owned()),
            (&none, "https://unknown.invalid/secret-path".to_owned()),
        ] {
            let error = sender.post_request(&request(&url)).await.err().unwrap();
            assert!(!format!("{error:?}").contains("secret-path"), "{error:?}");
            texts.push(error.to_string());
        }
        assert!(texts.iter().all(|text| *text == texts[0] && !text.contains("localhost")), "{texts:?}");
    }
}
