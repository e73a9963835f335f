//! Extension of symbolication by features.

use crate::Analysis;
use unslide_report::reader::ReportReader;

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
