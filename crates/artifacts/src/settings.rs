//! How to reach object storage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use unslide_model::{Secret, is_sent_unencrypted};

/// Address of object storage, and its credentials. The defaults name AWS itself and leave the credentials to
/// the environment: variables, profile, web identity, container or instance role.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// The service's URL, such as `http://127.0.0.1:9000`; none for AWS.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The bucket that holds everything. It must exist.
    pub bucket: String,
    /// The access key's id; none takes both keys from the environment.
    pub access_key: Option<String>,
    /// The secret that belongs to `access_key`.
    #[schemars(with = "String")]
    pub secret_key: Secret,
    /// True puts the bucket's name into the path instead of the host's name, as most stores that
    /// are not AWS want it.
    pub path_style: bool,
    /// A PEM file with the authorities of the service's certificate, beside those that the system knows.
    pub ca_file: Option<PathBuf>,
    /// Requests at the same time, and so connections; more wait for their turn. A download counts
    /// until its last byte.
    #[serde(skip)]
    pub requests: usize,
    /// Seconds without an answer after which one try of a request has failed; a request with a body has more
    /// (see [`Settings::try_timeout`]).
    #[serde(skip)]
    pub try_seconds: u64,
    /// Seconds of all tries of a request beyond the time limit of one.
    #[serde(skip)]
    pub retry_seconds: u64,
    /// How often a request that failed for now is sent altogether before the caller learns of it.
    #[serde(skip)]
    pub attempts: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            endpoint: None,
            region: "us-east-1".into(),
            bucket: String::new(),
            access_key: None,
            secret_key: Secret::default(),
            path_style: false,
            ca_file: None,
            requests: 128,
            try_seconds: 8,
            retry_seconds: 6,
            attempts: 3,
        }
    }
}

/// The slowest network, in bytes per second, on which a body is still sent within its time limit.
const SLOWEST_BODY_BYTES_PER_SECOND: u64 = 2 << 20;

impl Settings {
    /// Returns the time limit of one try of a request with a body of this size.
    pub(crate) fn try_timeout(&self, body_bytes: u64) -> Duration {
        Duration::from_secs(self.try_seconds + body_bytes / SLOWEST_BODY_BYTES_PER_SECOND)
    }

    /// Returns the time limit of a request with all of its tries. A server that says nothing gets one try and a
    /// part of another; one that fails at once gets all.
    pub(crate) fn request_timeout(&self, body_bytes: u64) -> Duration {
        self.try_timeout(body_bytes) + Duration::from_secs(self.retry_seconds)
    }

    /// Returns the setting that is unsafe outside a private network: field and reason.
    #[must_use]
    pub fn find_insecure(&self) -> Option<(&'static str, String)> {
        let reason = "sends symbols and reports unencrypted to another host: use https";
        is_sent_unencrypted(self.endpoint.as_deref()?).then(|| ("endpoint", reason.to_owned()))
    }

    /// Returns all problems of these settings: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let bucket_fits = (3..=63).contains(&self.bucket.len())
            && self
                .bucket
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
        if self.bucket.is_empty() {
            problems.push(("bucket", "is not set".into()));
        } else if !bucket_fits {
            let reason = "a bucket's name has 3 to 63 characters of a-z, 0-9, '-' and '.'";
            problems.push(("bucket", reason.into()));
        }
        if self.region.is_empty() {
            problems.push(("region", "must not be empty".into()));
        }
        if let Some(url) = &self.endpoint
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            problems.push(("endpoint", "must begin with http:// or https://".into()));
        }
        if let Some(path) = &self.ca_file {
            match std::fs::read_to_string(path) {
                Ok(pem) if pem.contains("-----BEGIN CERTIFICATE-----") => {}
                Ok(_) => problems.push(("ca_file", format!("{} has no certificate in PEM", path.display()))),
                Err(error) => {
                    problems.push(("ca_file", format!("{} cannot be read: {error}", path.display())));
                }
            }
        }
        if self.access_key.is_some() == self.secret_key.is_empty() {
            let reason = "access_key and secret_key must be set together, or neither";
            problems.push(("secret_key", reason.into()));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once_and_no_secret_is_shown() {
        let bad = Settings {
            endpoint: Some("localhost".into()),
            region: String::new(),
            bucket: "X".into(),
            secret_key: Secret::new("hush"),
            ca_file: Some("/nowhere/ca.pem".into()),
            ..Settings::default()
        };
        let fields: Vec<_> = bad.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["bucket", "region", "endpoint", "ca_file", "secret_key"]);
        assert!(!format!("{bad:?}").contains("hush"));
        let good = Settings { bucket: "unslide".into(), ..Settings::default() };
        assert!(good.problems().is_empty());
    }

    #[test]
    fn only_another_host_without_encryption_is_insecure() {
        let insecure = |endpoint: &str| {
            Settings { endpoint: Some(endpoint.to_owned()), ..Settings::default() }.find_insecure().is_some()
        };
        for endpoint in [
            "http://localhost",
            "http://127.0.0.1:9000/",
            "http://[::1]",
            "http://[::1]/",
            "http://[::1]:9000",
            "https://s3.example.com",
        ] {
            assert!(!insecure(endpoint), "{endpoint}");
        }
        for endpoint in [
            "http://s3.example.com",
            "http://minio:9000",
            "http://[2001:db8::1]",
            "http://[2001:db8::1]:9000",
        ] {
            assert!(insecure(endpoint), "{endpoint}");
        }
        assert!(Settings::default().find_insecure().is_none());
    }
}
