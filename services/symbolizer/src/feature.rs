//! Extension of symbolication by features.

use unslide_report::reader::ReportReaders;
use unslide_symbolicate::Analysis;

/// Everything that features add to a symbolizer.
#[derive(Clone, Debug, Default)]
pub struct SymbolizerFeatures {
    /// Their readers, in the order in which they are tried.
    pub readers: ReportReaders,
    /// Their analyses, in the order in which they run.
    pub analyses: Vec<Analysis>,
}
