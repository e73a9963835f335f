//! The addresses of an installation, and the page that has them.

use super::PUBLIC_APPS;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use unslide_model::shell_word;

/// The addresses of everything, and the logins to use.
#[derive(Clone, Debug, Serialize)]
pub struct Installation {
    pub api_url: String,
    /// The URL to which apps send reports, if the product has such URLs. It has a public key in it.
    pub app_url: Option<String>,
    pub kafka_bootstrap: String,
    pub s3_endpoint: String,
    pub s3_bucket: String,
    pub s3_access_key: String,
    pub s3_secret_key: String,
    pub tenant: String,
    pub api_key: String,
    pub admin_url: String,
    /// The configuration with which commands of operators reach the servers.
    pub config: String,
}

impl Installation {
    /// Returns all addresses and keys for people, ready to be copied.
    pub(super) fn page(&self, took: Duration, data: &Path) -> String {
        format!(
            "\
Unslide is ready ({:.1} s). State is kept in {}; Ctrl-C stops everything.

  console          {}/console   (sign in with the key below)
  api              {}   (docs: {}/docs)
  health, metrics  {}/readyz  {}/metrics
  Kafka            {}   (reports to crash.reports with header tenant={}, answers on crash.symbolicated)
  S3               {}   (bucket {}, key {}, secret {})
{}
With this line every command reaches this installation, as tenant {} and as its operator:",
            took.as_secs_f64(),
            data.display(),
            self.api_url,
            self.api_url,
            self.api_url,
            self.admin_url,
            self.admin_url,
            self.kafka_bootstrap,
            self.tenant,
            self.s3_endpoint,
            self.s3_bucket,
            self.s3_access_key,
            self.s3_secret_key,
            self.describe_app_url().map(|line| format!("  {line}\n")).unwrap_or_default(),
            self.tenant,
        )
    }

    /// Returns a line about the URL for apps.
    pub fn describe_app_url(&self) -> Option<String> {
        let url = self.app_url.as_ref()?;
        Some(format!(
            "URL for apps     {url}   (of {PUBLIC_APPS}; a key for yours: `unslide key create --kind public --app …`)"
        ))
    }

    /// Returns a line for a shell.
    pub(super) fn export(&self) -> String {
        self.export_through(&self.api_url)
    }

    /// Returns a line for a shell, with another address of the api.
    pub(super) fn export_through(&self, url: &str) -> String {
        format!(
            "export UNSLIDE_CONFIG={} UNSLIDE_URL={url} UNSLIDE_API_KEY={} KAFKA={}",
            shell_word(&self.config),
            self.api_key,
            self.kafka_bootstrap
        )
    }
}
