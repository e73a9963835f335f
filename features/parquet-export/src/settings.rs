//! The settings of the feature. The builder writes files, and the api keeps and tests destinations: both read the same section.

use crate::target::{ExportSealer, SEALING_KEY};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::Duration;
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;
use unslide_store::retention::RetentionSettings;

/// The section of the settings with the operator's networks.
pub const PARQUET_EXPORT_SECTION: &str = "builder.parquet_export";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `builder`, as far as the feature needs it.
    pub builder: ParquetExportBuilderSettings,
    /// The section `indexer`, as far as it says how long reports are kept.
    pub indexer: RetentionSettings,
}

/// The part of the section `builder` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ParquetExportBuilderSettings {
    /// Settings of the export of Parquet files into tenants' own buckets.
    pub parquet_export: ParquetExportSettings,
}

/// The section `builder.parquet_export` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ParquetExportSettings {
    /// The key that encrypts the addresses and credentials of tenants' buckets in the database: 32 bytes in base64, as
    /// `openssl rand -base64 32` prints. Every process of the builder and of the api needs the same. Without it no tenant can have
    /// Parquet files. With another one, tenants set their buckets again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// Networks of the operator's own in which such buckets may be, such as `10.1.0.0/16`, also without TLS. Other addresses that are
    /// not of the internet are refused. The api needs the same.
    pub networks: Vec<String>,
    /// Ports of such buckets, beside 443. The api needs the same.
    pub ports: Vec<u16>,
    /// Milliseconds until a job looks again for days that are to be written.
    #[serde(skip)]
    pub look_millis: u64,
    /// Milliseconds that a bucket has for one request.
    #[serde(skip)]
    pub answer_millis: u64,
    /// The times at which days are written.
    #[serde(skip)]
    pub times: ExportTimes,
    /// The sizes of what is in memory at once.
    #[serde(skip)]
    pub sizes: ExportSizes,
}

/// The sizes of what is in memory at once.
#[derive(Clone, Copy, Debug)]
pub struct ExportSizes {
    /// Rows that one statement reads.
    pub page_rows: u32,
    /// Rows of a row group. One that ends with a page may have some more.
    pub group_rows: usize,
    /// Bytes from which a file takes no further row group.
    pub file_bytes: usize,
}

impl Default for ExportSizes {
    fn default() -> ExportSizes {
        ExportSizes { page_rows: 2_000, group_rows: 20_000, file_bytes: 32 << 20 }
    }
}

/// The times at which days are written, and files deleted.
#[derive(Clone, Copy, Debug)]
pub struct ExportTimes {
    /// How long after its end a day is written.
    pub after_day: Duration,
    /// A changed day is written again if it has not changed for this long, or has waited for the other time.
    pub quiet: Duration,
    pub change_wait_max: Duration,
    /// How long after its first deletion a day with a deleted report is written again.
    pub after_deletion: Duration,
    /// How long replaced files stay.
    pub grace: Duration,
}

impl Default for ExportTimes {
    fn default() -> ExportTimes {
        ExportTimes {
            after_day: Duration::hours(3),
            quiet: Duration::minutes(30),
            change_wait_max: Duration::hours(6),
            after_deletion: Duration::minutes(5),
            grace: Duration::hours(1),
        }
    }
}

impl Default for ParquetExportSettings {
    fn default() -> ParquetExportSettings {
        ParquetExportSettings {
            sealing_key: Secret::default(),
            networks: Vec::new(),
            ports: Vec::new(),
            look_millis: 60_000,
            answer_millis: 120_000,
            times: ExportTimes::default(),
            sizes: ExportSizes::default(),
        }
    }
}

impl ParquetExportSettings {
    /// Returns the servers that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks(PARQUET_EXPORT_SECTION, &self.networks, &self.ports)
    }

    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(message) = ExportSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        problems.extend(self.parse_receivers().err());
        problems
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network(PARQUET_EXPORT_SECTION, &self.networks).into_iter().collect()
    }
}
