//! Extension of the symbolizer by features.

use unslide_report::reader::{ReportReader, ReportReaders};

/// Everything that one feature adds to the symbolizer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SymbolizerFeature {
    /// Readers of other formats than KSCrash's JSON. Every service that reads reports uses them.
    pub readers: &'static [ReportReader],
}

/// Everything that features add to a symbolizer.
#[derive(Clone, Debug, Default)]
pub struct SymbolizerFeatures {
    /// Their readers, in the order in which they are tried.
    pub readers: ReportReaders,
}
