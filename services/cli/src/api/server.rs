//! Which API a command talks to, and with which key.

use super::ClientError;
use super::profile::{ApiProfile, ApiProfileError, DEFAULT_PROFILE, ProfileFile, check_name};
use crate::quantity;
use clap::Args;
use reqwest::Url;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::Secret;

/// The address at which `unslide dev` and `docker compose` serve the API.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// The variable of the environment with the address.
pub const URL_VARIABLE: &str = "UNSLIDE_URL";
/// The variable of the environment with the key.
pub const KEY_VARIABLE: &str = "UNSLIDE_API_KEY";
/// The variable of the environment with the name of the profile.
pub const PROFILE_VARIABLE: &str = "UNSLIDE_PROFILE";

/// How long an API that does not answer is tried again, unless the command line says otherwise.
const RETRY_DEFAULT: Duration = Duration::from_secs(60);

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
#[derive(Args, Clone, Default)]
pub struct ApiServer {
    /// The API's address [default: that of the profile, or else http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", env = URL_VARIABLE)]
    pub url: Option<String>,
    /// The API key [default: that of the profile]
    #[arg(long, value_name = "KEY", env = KEY_VARIABLE, hide_env_values = true)]
    pub api_key: Option<String>,
    /// The profile of `unslide login` that has the address and the key [default: default]
    #[arg(long, value_name = "NAME", env = PROFILE_VARIABLE)]
    pub profile: Option<String>,
    /// How long an API that does not answer is tried again, such as 90s or 5min; 0: not at all [default: 60s; a command that
    /// only reads ends at once if no server listens]
    #[arg(long, value_name = "DURATION", value_parser = quantity::seconds)]
    pub retry_for: Option<u32>,
}

/// How long requests are sent again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub retry_for: Duration,
    /// True if a request that only reads is sent again although no server listened at the address so far.
    pub tries_dead_address: bool,
}

/// The source of an address or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginSource {
    /// An option of the command.
    Option(&'static str),
    /// A variable of the environment.
    Variable(&'static str),
    /// The profile with this name.
    Profile(String),
    /// The address that a local installation has.
    Default,
}

impl fmt::Display for LoginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginSource::Option(name) | LoginSource::Variable(name) => f.write_str(name),
            LoginSource::Profile(name) => write!(f, "the profile {name}"),
            LoginSource::Default => f.write_str("the default"),
        }
    }
}

/// The address and the key of a command, each with its source.
#[derive(Clone, Debug)]
pub struct ApiLogin {
    /// Without a slash at its end.
    pub url: String,
    pub url_source: LoginSource,
    pub key: Secret,
    pub key_source: LoginSource,
}

impl ApiServer {
    /// Finds the address and the key. Options win over the profile that `--profile` names, that over the variables of the
    /// environment, and these over the profile that UNSLIDE_PROFILE names or the default one. A key of a profile is sent to
    /// the address of that profile alone.
    ///
    /// # Errors
    /// Returns an error if there is no key, if the address is no URL, or if the profile cannot be read.
    pub fn find_login(&self) -> Result<ApiLogin, ClientError> {
        let profile = self.find_profile()?;
        let named = rank_value(&self.profile, PROFILE_VARIABLE, "--profile", false);
        let wins = matches!(named, Some((_, LoginSource::Option(_))));
        let url = rank_value(&self.url, URL_VARIABLE, "--url", wins);
        let (url, url_source) = match (url, &profile) {
            (Some((url, source)), _) => (url, source),
            (None, Some((name, profile))) => (profile.url.as_str(), LoginSource::Profile(name.clone())),
            (None, None) => (DEFAULT_URL, LoginSource::Default),
        };
        let url = check_address(url)?;
        let key = rank_value(&self.api_key, KEY_VARIABLE, "--api-key", wins);
        let (key, key_source) = match (key, profile) {
            (Some((key, source)), _) => (Secret::new(key), source),
            (None, Some((name, profile))) => {
                let known = check_address(&profile.url)?;
                if known != url {
                    return Err(ClientError::OtherProfile { name, known, url });
                }
                (profile.api_key, LoginSource::Profile(name))
            }
            (None, None) => return Err(ClientError::NoKey),
        };
        if !key.reveal().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Key { origin: key_source });
        }
        Ok(ApiLogin { url, url_source, key, key_source })
    }

    /// Returns the profile of this command with its name. Returns None if none is named and there is no default one.
    fn find_profile(&self) -> Result<Option<(String, ApiProfile)>, ClientError> {
        let named = trim_given(&self.profile);
        if named.is_none() && trim_given(&self.url).is_some() && trim_given(&self.api_key).is_some() {
            return Ok(None);
        }
        let name = named.unwrap_or(DEFAULT_PROFILE);
        check_name(name)?;
        let file = match (ProfileFile::read(), named) {
            // A container without a home needs no profile.
            (Err(ApiProfileError::NoFolder), None) => return Ok(None),
            (file, _) => file?,
        };
        match file.find_profile(name)? {
            Some(profile) => Ok(Some((name.to_owned(), profile))),
            None if named.is_some() => Err(file.unknown_profile(name).into()),
            None => Ok(None),
        }
    }

    pub(super) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            retry_for: self.retry_for.map_or(RETRY_DEFAULT, |seconds| Duration::from_secs(seconds.into())),
            tries_dead_address: self.retry_for.is_some(),
        }
    }
}

/// Returns a value without the white space and the quotes that a file or a shell leaves at its ends, or None if it is empty.
fn trim_given(value: &Option<String>) -> Option<&str> {
    value.as_deref().map(trim_quotes).filter(|value| !value.is_empty())
}

fn trim_quotes(text: &str) -> &str {
    let text = text.trim();
    let within = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(text).trim()
}

/// Returns a value with its source, unless it is of the environment and a profile wins over that.
fn rank_value<'v>(
    value: &'v Option<String>,
    variable: &'static str,
    option: &'static str,
    profile_wins: bool,
) -> Option<(&'v str, LoginSource)> {
    let value = trim_given(value)?;
    match std::env::var(variable).is_ok_and(|set| trim_quotes(&set) == value) {
        true if profile_wins => None,
        true => Some((value, LoginSource::Variable(variable))),
        false => Some((value, LoginSource::Option(option))),
    }
}

/// Returns an address without a slash at its end.
///
/// # Errors
/// [`ClientError::Address`].
pub fn check_address(text: &str) -> Result<String, ClientError> {
    let text = text.trim();
    let wrong = |why: String| ClientError::Address { url: text.to_owned(), why };
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return Err(wrong("it has to begin with http:// or https://".to_owned()));
    }
    Url::parse(text).map_err(|error| wrong(error.to_string()))?;
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: Option<&str>, key: Option<&str>) -> ApiServer {
        ApiServer { url: url.map(str::to_owned), api_key: key.map(str::to_owned), ..ApiServer::default() }
    }

    #[test]
    fn an_address_is_a_url_or_called_what_it_is() {
        assert_eq!(check_address("https://a.b/x/ \n").unwrap(), "https://a.b/x");
        for wrong in ["localhost:8080", "127.0.0.1:8080", "a b", "ftp://a", "http://", "/v1"] {
            let error = check_address(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
            assert!(
                wrong == "http://" || error.ends_with("it has to begin with http:// or https://"),
                "{error}"
            );
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
    fn a_key_loses_its_line_end_and_its_quotes_and_nothing_else() {
        let key = |text| {
            let login = server(Some("http://127.0.0.1:9"), Some(text)).find_login();
            login.map(|login| login.key.reveal().to_owned())
        };
        for text in ["unslide_a_b\r\n", "\"unslide_a_b\"", " 'unslide_a_b' "] {
            assert_eq!(key(text).unwrap(), "unslide_a_b");
        }
        let Err(ClientError::Key { origin }) = key("a\nb") else { panic!("a key with a line break") };
        assert_eq!(origin.to_string(), "--api-key");
    }
}
