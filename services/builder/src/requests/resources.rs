//! Resources of jobs that request reports.

use super::pace::RequestPace;
use crate::storage::JobStorage;
use unslide_report::reader::ReportReaders;
use unslide_runtime::Shutdown;

/// Storage and request rates, which all such jobs share.
pub(crate) struct RequestResources {
    pub(crate) storage: JobStorage,
    /// Rate at which reports with late symbols are requested.
    pub(crate) waking: RequestPace,
    /// Rate at which reports are requested that a user wants symbolicated again.
    pub(crate) reprocessing: RequestPace,
    /// Readers of reports in other formats.
    pub(crate) readers: ReportReaders,
    pub(crate) shutdown: Shutdown,
}
