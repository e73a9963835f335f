//! How to reach object storage.

use serde::Deserialize;
use unslide_model::Secret;

/// Where object storage is and how to sign in. The defaults name AWS itself and leave the
/// credentials to the environment: variables, profile, web identity, container or instance role.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The service's URL, such as `http://127.0.0.1:9000`; none for AWS.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The bucket that holds everything. It must exist.
    pub bucket: String,
    /// The access key's id; none takes both keys from the environment.
    pub access_key: Option<String>,
    /// The access key's secret.
    pub secret_key: Secret,
    /// True puts the bucket's name into the path instead of the host's name, as most stores that
    /// are not AWS want it.
    pub path_style: bool,
    /// Requests at the same time, and so connections; more wait for their turn. A download counts
    /// until its last byte.
    pub requests: usize,
    /// Seconds that a connection may take to come about.
    pub connect_seconds: u64,
    /// Seconds without an answer, or without a byte of one that has begun, after which a request has
    /// failed.
    pub read_seconds: u64,
    /// How often a request that failed for now is sent altogether before the caller learns of it.
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
            requests: 128,
            connect_seconds: 3,
            read_seconds: 30,
            attempts: 3,
        }
    }
}

impl Settings {
    /// Everything that is wrong with these settings: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let bucket_fits = (3..=63).contains(&self.bucket.len())
            && self
                .bucket
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
        if !bucket_fits {
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
        if self.access_key.is_some() == self.secret_key.is_empty() {
            let reason = "access_key and secret_key must be set together, or neither";
            problems.push(("secret_key", reason.into()));
        }
        let numbers = [
            ("requests", self.requests as u64, 1..=10_000),
            ("connect_seconds", self.connect_seconds, 1..=60),
            ("read_seconds", self.read_seconds, 1..=600),
            ("attempts", u64::from(self.attempts), 1..=10),
        ];
        for (field, value, range) in numbers {
            if !range.contains(&value) {
                problems.push((field, format!("must be between {} and {}", range.start(), range.end())));
            }
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
            requests: 0,
            connect_seconds: 0,
            read_seconds: 0,
            attempts: 0,
            ..Settings::default()
        };
        let fields: Vec<_> = bad.problems().into_iter().map(|(field, _)| field).collect();
        let numbers = ["requests", "connect_seconds", "read_seconds", "attempts"];
        assert_eq!(fields, [&["bucket", "region", "endpoint", "secret_key"][..], &numbers].concat());
        assert!(!format!("{bad:?}").contains("hush"));
        let good = Settings { bucket: "unslide".into(), ..Settings::default() };
        assert!(good.problems().is_empty());
    }
}
