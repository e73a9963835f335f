//! Extension of symbolication by features.

use unslide_report::reader::{ReportReader, ReportReaders};
use unslide_symbolicate::Analysis;

/// Everything that one feature adds to symbolication: to the lanes of the symbolizer, to the operations of the api and
/// to the commands without a server.
#[derive(Clone, Copy, Debug)]
pub struct SymbolizerFeature {
    /// The feature's name, for the log.
    pub name: &'static str,
    /// Readers of other formats than KSCrash's JSON. Every service that reads reports uses them.
    pub readers: &'static [ReportReader],
    /// Functions of a symbolicated report that add members to our key.
    pub analyses: &'static [Analysis],
}

impl SymbolizerFeature {
    /// Makes a feature that adds nothing.
    #[must_use]
    pub const fn new(name: &'static str) -> SymbolizerFeature {
        SymbolizerFeature { name, readers: &[], analyses: &[] }
    }
}

/// Everything that features add to a symbolizer.
#[derive(Clone, Debug, Default)]
pub struct SymbolizerFeatures {
    /// Their readers, in the order in which they are tried.
    pub readers: ReportReaders,
    /// Their analyses, in the order in which they run.
    pub analyses: Vec<Analysis>,
}
