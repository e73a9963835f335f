//! The export of a tenant, for the tenant's administrators.

pub mod get;
pub mod remove;
pub mod set;
pub mod test;

use crate::store::ExportRow;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a Parquet export is for all apps of a tenant";

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_parquet_export, set::set_parquet_export, remove::remove_parquet_export))
        .routes(routes!(test::test_parquet_export))
}

/// A Parquet export, without its credentials.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ParquetExport)]
pub struct ShownExport {
    /// The address of the bucket with the prefix.
    #[schema(example = "https://s3.eu-central-1.amazonaws.com/lake/crashes")]
    pub address: String,
    /// The first day that is exported (UTC).
    #[schema(format = Date, example = "2026-11-20")]
    pub first_day: String,
    /// The next day that is written for the first time (UTC). All days before it are in the bucket.
    #[schema(format = Date, example = "2026-11-30")]
    pub next_day: String,
    /// Days that have changed and wait to be written again.
    #[schema(minimum = 0)]
    pub changed_days: i64,
    /// When a day was written last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub written_at: Option<OffsetDateTime>,
    /// Turns in a row that failed.
    #[schema(minimum = 0)]
    pub failures: i32,
    /// Why the last one failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When it is tried again, after a failure (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<OffsetDateTime>,
    /// When its settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl ShownExport {
    fn from_row(row: ExportRow, changed_days: i64) -> ShownExport {
        ShownExport {
            address: row.shown_address,
            first_day: row.first_day.to_string(),
            next_day: row.next_day.to_string(),
            changed_days,
            written_at: row.written_at,
            failures: row.failures,
            waits_until: (row.failures > 0).then_some(row.next_write_at),
            problem: row.problem,
            changed_at: row.changed_at,
        }
    }
}

/// The setting for Parquet files.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ParquetExportSetting {
    /// The export; absent if none is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<ShownExport>,
}
