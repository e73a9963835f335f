//! Reports in Apple's own formats: readers that translate them into reports in KSCrash's form.
//!
//! Each module reads one format. The feature `apple-reports` adds the readers to the services. They are a package of their
//! own, so that the fuzzer needs no client of Kafka, PostgreSQL or object storage.

#![warn(missing_docs)]

mod call_tree;
mod crash_text;
mod diagnostic_report;
mod encoded_text;
mod identity;
mod ips;
mod jetsam_text;
mod json;
mod metric_kit;
mod monitor_kind;
mod other_formats;
mod pasted;

use unslide_report::reader::ReportReader;
use unslide_symbolicate::SymbolizerFeature;

/// The name of the feature.
pub const NAME: &str = "apple-reports";

/// The readers, in the order in which they are tried.
pub const READERS: &[ReportReader] = &[
    pasted::PASTED_READER,
    jetsam_text::JETSAM_TEXT_READER,
    call_tree::CALL_TREE_READER,
    crash_text::CRASH_TEXT_READER,
    diagnostic_report::DIAGNOSTIC_REPORT_READER,
    metric_kit::METRIC_KIT_READER,
    ips::IPS_READER,
    encoded_text::ENCODED_TEXT_READER,
    other_formats::OTHER_FORMATS_READER,
];

/// The additions of the feature to symbolication, also for commands without a server.
pub const SYMBOLIZER: SymbolizerFeature =
    SymbolizerFeature { readers: READERS, ..SymbolizerFeature::new(NAME) };
