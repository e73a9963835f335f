//! How to reach the database.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgSslMode;
use unslide_model::{Secret, is_local};

/// A builder keeps one connection for listening and one for the relay's lock, and works on the rest.
const LEAST_CONNECTIONS: u32 = 3;

/// Address of PostgreSQL, and the connections of one process.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// The connection's URL with its password: `postgres://user:password@host:5432/database`.
    #[schemars(with = "String")]
    pub url: Secret,
    /// The most connections that this process opens, at least 3.
    pub max_connections: u32,
    /// How long a caller waits for a connection, in seconds.
    #[serde(skip)]
    pub acquire_timeout_seconds: u64,
    /// How long one statement may run, in seconds.
    #[serde(skip)]
    pub statement_timeout_seconds: u64,
    /// The role that every connection acts as, which the migrations create. The login must be a member of it.
    #[serde(skip)]
    pub role: String,
    /// Takes a login too that could leave that role: a superuser, or the owner of the tables. For a
    /// dedicated server, such as `unslide dev`'s.
    pub any_login: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            url: Secret::default(),
            max_connections: 4,
            acquire_timeout_seconds: 10,
            statement_timeout_seconds: 60,
            role: "unslide_service".into(),
            any_login: false,
        }
    }
}

impl Settings {
    /// Settings for a dedicated server, with any login.
    #[must_use]
    pub fn with_url(url: impl Into<String>) -> Settings {
        Settings { url: Secret::new(url), any_login: true, ..Settings::default() }
    }

    /// Returns the field that is unsafe outside of a private network, and the reason.
    #[must_use]
    pub fn insecure(&self) -> Option<(&'static str, String)> {
        let options: sqlx::postgres::PgConnectOptions = self.url.reveal().parse().ok()?;
        let socket = options.get_socket().is_some() || options.get_host().starts_with('/');
        let encrypted = matches!(
            options.get_ssl_mode(),
            PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
        );
        let reason = "may send reports and the password unencrypted to another host: add sslmode=verify-full";
        (!socket && !encrypted && !is_local(options.get_host())).then(|| ("url", reason.to_owned()))
    }

    /// Returns everything that is wrong with these settings: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let url = self.url.reveal();
        if url.is_empty() {
            problems.push(("url", "is not set".into()));
        } else if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            problems.push(("url", "must begin with postgres://".into()));
        }
        if !(LEAST_CONNECTIONS..=10_000).contains(&self.max_connections) {
            let reason = format!("must be between {LEAST_CONNECTIONS} and 10000");
            problems.push(("max_connections", reason));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once_and_the_password_is_not_shown() {
        let bad = Settings {
            url: Secret::new("mysql://root:hush@db"),
            max_connections: LEAST_CONNECTIONS - 1,
            ..Settings::default()
        };
        let fields: Vec<_> = bad.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["url", "max_connections"]);
        assert!(!format!("{bad:?}").contains("hush"));
        assert!(Settings::with_url("postgres://u@h/d").problems().is_empty());
    }
}
