//! Tenant settings on the configuration topic.

use crate::column::{json_column, words};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

words! {
    /// Whether a tenant is served.
    pub enum TenantStanding {
        /// Served.
        Active = "active",
        /// Nothing is taken from it for now.
        Suspended = "suspended",
        /// Deleted permanently. The row stays, so that late records of it are known as such.
        Deleted = "deleted",
    }
}

/// Limits of a tenant; 0 means the service's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TenantLimits)]
#[serde(default)]
pub struct QuotaLimits {
    /// Cost units a second: a report costs one, and one more for each 64 KiB of its unpacked bytes.
    pub units_per_second: u32,
    /// Largest size of one report, in bytes.
    pub report_bytes: u64,
    /// Largest size of one symbol upload, in bytes.
    pub upload_bytes: u64,
    /// Largest size of all stored symbols together, in bytes.
    pub symbol_bytes: u64,
    /// Days that reports are kept.
    pub retention_days: u32,
    /// Days that the bodies of reports are kept, if fewer. Lists and counts keep the reports. 0: as long as reports.
    pub body_days: u32,
}

json_column!(QuotaLimits);
