//! The part of the api's state that bounds requests.

use super::permits::Permits;
use super::request_limits::RequestLimits;
use prometheus::IntCounterVec;
use std::sync::Arc;
use unslide_model::{Clock, TenantId};
use unslide_runtime::fairness::TokenBuckets;
use unslide_runtime::{CpuPool, TenantDefaults};

/// Limits, permits, rates and threads of one process, which all its requests share.
pub struct Capacity {
    pub limits: RequestLimits,
    /// The permits that requests hold while they run.
    pub permits: Permits,
    /// Threads for parsing and symbolication.
    pub cpu: CpuPool,
    /// Limits of tenants that have no limit of their own.
    pub tenants: TenantDefaults,
    /// Cost units of the reports that each tenant sends.
    pub report_units: Arc<TokenBuckets<TenantId>>,
    /// Cost units of each tenant's symbolications.
    pub symbolication_units: Arc<TokenBuckets<TenantId>>,
    /// Requests that a tenant's own limit refused, by the limit.
    pub refused: IntCounterVec,
    pub clock: Arc<dyn Clock>,
}
