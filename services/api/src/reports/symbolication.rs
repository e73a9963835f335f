//! The part of the api's state for operations that read or symbolicate reports.

use super::rules_cache::RulesCache;
use super::sources::SourceFeature;
use crate::limits::capacity::Capacity;
use crate::storage::Storage;
use std::sync::Arc;
use unslide_artifacts::SymcacheCache;
use unslide_report::reader::ReportReaders;
use unslide_stream::TailReader;
use unslide_symbolicate::Analysis;

/// Symbols, readers and analyses of reports, with the storage that the reports come from.
pub struct Symbolication {
    pub storage: Arc<Storage>,
    pub capacity: Arc<Capacity>,
    /// Symcaches on this machine's disk.
    pub symcaches: SymcacheCache,
    pub rules_cache: RulesCache,
    /// Readers of reports in other formats.
    pub readers: ReportReaders,
    pub analyses: Vec<Analysis>,
    /// The address of the console, without a slash at its end; empty if it is not known.
    pub public_url: String,
    /// The feature that keeps source files, if there is one.
    pub sources: Option<SourceFeature>,
    /// The readers that keep `symcaches` up to date: of changed symcaches, and of deleted tenants.
    pub cache_updates: [TailReader; 2],
}
