//! How to reach ClickHouse.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use unslide_model::{Secret, is_sent_unencrypted};

const DAY_SECONDS: u32 = 86_400;

/// Address of the ClickHouse that has old rows of reports. Without a URL all rows stay in PostgreSQL.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct HistorySettings {
    /// The URL of its HTTP interface, such as `https://clickhouse:8443`. None: all rows stay in PostgreSQL.
    pub url: Option<String>,
    /// The user that the services log in as. Only this user may read the rows.
    pub user: String,
    /// The user's password.
    #[schemars(with = "String")]
    pub password: Secret,
    /// The database. It is created if there is none.
    pub database: String,
    /// The cluster that the tables are created on, replicated and in shards. None: one server.
    pub cluster: Option<String>,
    /// How long after its last change a row moves to ClickHouse.
    #[serde(rename = "after", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub after_seconds: u32,
    /// A PEM file with the authorities of the server's certificate, beside those that the system knows.
    pub ca_file: Option<PathBuf>,
}

impl Default for HistorySettings {
    fn default() -> HistorySettings {
        HistorySettings {
            url: None,
            user: "unslide".into(),
            password: Secret::default(),
            database: "unslide".into(),
            cluster: None,
            after_seconds: 7 * DAY_SECONDS,
            ca_file: None,
        }
    }
}

impl HistorySettings {
    /// Returns true if rows move to ClickHouse.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.url.is_some()
    }

    /// Returns the setting that is unsafe outside of a private network: field and reason.
    #[must_use]
    pub fn find_insecure(&self) -> Option<(&'static str, String)> {
        let reason = "sends reports and the password unencrypted to another host: use https";
        is_sent_unencrypted(self.url.as_deref()?).then(|| ("url", reason.to_owned()))
    }

    /// Returns all problems of these settings: field and reason. Without a URL there are none.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let Some(url) = &self.url else { return problems };
        let address = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        match address.map(|address| address.split('/').next().unwrap_or_default()) {
            None => problems.push(("url", "must begin with http:// or https://".into())),
            Some("") => problems.push(("url", "has no host".into())),
            Some(host) if host.contains('@') => {
                problems.push(("url", "has a user in it: use user and password".into()));
            }
            Some(_) if url.contains(['?', '#']) => {
                problems.push((
                    "url",
                    "has more than an address and a path: name the database in database".into(),
                ));
            }
            Some(_) => {}
        }
        if self.user.is_empty() {
            problems.push(("user", "is not set".into()));
        }
        for (field, name) in [("database", Some(&self.database)), ("cluster", self.cluster.as_ref())] {
            if name.is_some_and(|name| !is_name(name)) {
                problems.push((field, "has 1 to 64 characters of a-z, A-Z, 0-9 and '_'".into()));
            }
        }
        if !(1..=3_650 * DAY_SECONDS).contains(&self.after_seconds) {
            problems.push(("after", "must be between 1s and 3650d".into()));
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
        problems
    }
}

/// Returns true for a name that may be part of a statement.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_url(url: &str) -> HistorySettings {
        HistorySettings { url: Some(url.to_owned()), ..HistorySettings::default() }
    }

    #[test]
    fn every_problem_is_named_at_once_and_the_password_is_not_shown() {
        let bad = HistorySettings {
            user: String::new(),
            password: Secret::new("hush"),
            database: "a`b".into(),
            cluster: Some(String::new()),
            after_seconds: 0,
            ca_file: Some("/nonexistent/ca.pem".into()),
            ..with_url("clickhouse:8123")
        };
        let fields: Vec<_> = bad.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["url", "user", "database", "cluster", "after", "ca_file"]);
        assert!(!format!("{bad:?}").contains("hush"));
        assert!(HistorySettings { url: None, ..bad }.problems().is_empty());
    }

    #[test]
    fn only_an_address_is_a_url() {
        for url in ["https://", "https://u:p@h", "https://h/?database=x", "h", "https://h#x"] {
            assert_eq!(with_url(url).problems().len(), 1, "{url}");
        }
        for url in ["http://127.0.0.1:8123", "https://h:8443", "https://h/clickhouse"] {
            assert_eq!(with_url(url).problems(), [], "{url}");
        }
    }

    #[test]
    fn plain_http_to_another_host_is_insecure() {
        for (url, is_insecure) in [
            ("http://ch:8123", true),
            ("https://ch", false),
            ("http://[::1]:8123", false),
            ("http://localhost", false),
        ] {
            assert_eq!(with_url(url).find_insecure().is_some(), is_insecure, "{url}");
        }
    }
}
