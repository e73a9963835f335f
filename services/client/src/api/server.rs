//! Which API a command talks to, and with which key.

use super::ClientError;
use crate::quantity;
use clap::Args;
use reqwest::Url;
use std::net::IpAddr;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::Secret;

/// The address at which `unslide dev` and `docker compose` serve the API.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The server that answers at an address.
pub struct AnsweringServer {
    /// The version of the service.
    pub version: String,
    /// Its clock, to the second, if it tells.
    pub date: Option<OffsetDateTime>,
}

/// Returns true if requests to the address go over the network as plain text.
pub(super) fn is_insecure(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    url.scheme() == "http" && !is_local
}

/// Which API to talk to, and with which key.
#[derive(Args, Clone)]
pub struct ApiServer {
    /// The API's address [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", env = "UNSLIDE_URL")]
    pub url: Option<String>,
    /// The API key
    #[arg(long, value_name = "KEY", env = "UNSLIDE_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// How long an API that does not answer is tried again, such as 90s or 5min; 0: not at all
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = quantity::seconds)]
    pub retry_for: u32,
}

impl ApiServer {
    /// Returns the address without a slash at its end, checked.
    ///
    /// # Errors
    /// [`ClientError::Address`].
    pub(super) fn parse_address(&self) -> Result<String, ClientError> {
        let text = self.url.as_deref().map(str::trim).filter(|url| !url.is_empty()).unwrap_or(DEFAULT_URL);
        let wrong = |why: String| ClientError::Address { url: text.to_owned(), why };
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(wrong("it has to begin with http:// or https://".to_owned()));
        }
        Ok(text.trim_end_matches('/').to_owned())
    }

    /// Returns the key, without the white space that a file or a shell leaves at its ends.
    ///
    /// # Errors
    /// [`ClientError::NoKey`] and [`ClientError::Key`].
    pub(super) fn parse_key(&self) -> Result<Secret, ClientError> {
        let key = self.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let key = key.ok_or(ClientError::NoKey)?;
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Key);
        }
        Ok(Secret::new(key))
    }

    pub(super) fn retry_for(&self) -> Duration {
        Duration::from_secs(self.retry_for.into())
    }

    /// Returns a remark for an address that does not answer: it may be the default.
    pub(super) fn describe_origin(&self) -> &'static str {
        match self.url.as_deref().map(str::trim) {
            None | Some("") => " (the default: UNSLIDE_URL or --url sets another)",
            Some(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: Option<&str>, key: Option<&str>) -> ApiServer {
        ApiServer { url: url.map(str::to_owned), api_key: key.map(str::to_owned), retry_for: 0 }
    }

    #[test]
    fn an_address_is_a_url_or_called_what_it_is() {
        assert_eq!(server(None, None).parse_address().unwrap(), DEFAULT_URL);
        assert_eq!(server(Some("https://a.b/x/ \n"), None).parse_address().unwrap(), "https://a.b/x");
        for wrong in ["localhost:8080", "a b", "ftp://a", "http://", "/v1"] {
            let error = server(Some(wrong), None).parse_address().unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn an_address_in_plain_text_is_insecure_unless_it_is_this_machines() {
        for (url, insecure) in [
            ("http://crashes.example.com", true),
            ("http://10.0.0.1:8080", true),
            ("https://crashes.example.com", false),
            ("http://localhost:8080", false),
            ("http://127.0.0.1:8080", false),
            ("http://[::1]:8080", false),
        ] {
            assert_eq!(is_insecure(url), insecure, "{url}");
        }
    }

    #[test]
    fn a_key_loses_its_line_end_and_nothing_else() {
        let key = |text| server(None, Some(text)).parse_key().map(|key| key.reveal().to_owned());
        assert_eq!(key("unslide_a_b\r\n").unwrap(), "unslide_a_b");
        assert!(matches!(key(" \n"), Err(ClientError::NoKey)));
        assert!(matches!(key("a\nb"), Err(ClientError::Key)));
    }
}
