//! Extension of the indexer by features.

use unslide_report::reader::ReportReaders;
use unslide_store::StoreHook;

/// Everything that features add to an indexer.
#[derive(Clone, Debug, Default)]
pub struct IndexerFeatures {
    /// Their hooks, which run in the transaction of each stored batch, in this order.
    pub hooks: Vec<StoreHook>,
    /// Their readers of reports in other formats, in the order in which they are tried.
    pub readers: ReportReaders,
}
