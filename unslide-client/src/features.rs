//! The features of the client: their commands, and what commands without a server use. Nothing else in this package names one.

use unslide_cli::{ClientFeature, ClientKeyKind, FeatureCommand};
use unslide_report::reader::ReportReaders;
use unslide_symbolicate::Analysis;

/// Every feature that has commands, or readers and analyses for commands without a server.
pub const FEATURES: &[ClientFeature] = &[
    // Rules and messages.
    unslide_commands::alerts::FEATURE,
    // Readers of Apple's own report formats.
    ClientFeature::with_symbolizer(unslide_apple_reports_formats::SYMBOLIZER),
    // Captures of a running service, and files of a device.
    unslide_commands::captures::FEATURE,
    // Names of an operating system's functions, from the files that a customer has.
    unslide_commands::system_symbols::FEATURE,
    // Buckets and symbol servers that are asked for symbols.
    unslide_commands::symbol_sources::FEATURE,
    // dSYMs for debuggers.
    unslide_commands::symbol_server::FEATURE,
    // What was wrong at the instruction of a crash, and the switch of a tenant.
    unslide_commands::fault_analysis::FEATURE,
    // The stream of live events.
    unslide_commands::export::FEATURE,
    // Files of metric payloads.
    unslide_commands::health::FEATURE,
    // Keys that apps carry.
    unslide_commands::ingest::FEATURE,
    // Crashes over OTLP, and the collector of a tenant.
    unslide_commands::otlp::FEATURE,
    // The identity provider of a tenant.
    unslide_commands::people::FEATURE,
    // Users and groups of the identity provider.
    unslide_commands::scim::FEATURE,
    // Erasures of persons.
    unslide_commands::person_erasure::FEATURE,
    // Parquet files of reports in a bucket.
    unslide_commands::parquet_export::FEATURE,
    // Rules that take personal data out of reports.
    unslide_commands::scrubbing::FEATURE,
    // A cap for the bodies of a group and day.
    unslide_commands::body_cap::FEATURE,
    // Tools for assistants, on standard input and output.
    unslide_commands::mcp::FEATURE,
    // Source files beside symbols.
    unslide_commands::source_context::FEATURE,
    // Keys that apps set.
    unslide_commands::own_keys::FEATURE,
    // Owners of code.
    unslide_commands::owners::FEATURE,
    // Crashes that testers send with TestFlight.
    unslide_commands::testflight::FEATURE,
    // The audit log as it grows.
    unslide_commands::audit_export::FEATURE,
    // Bugs in Slack.
    unslide_commands::chat::FEATURE,
    // Tickets of groups in trackers.
    unslide_commands::tickets::FEATURE,
    // Keys as Sentry's clients expect them.
    unslide_commands::uploaders::FEATURE,
    // Functions that changed between two builds.
    unslide_commands::changes::FEATURE,
    // The gate of phased releases.
    unslide_commands::verdicts::FEATURE,
];

/// Returns the subcommands of every feature.
pub fn list_commands() -> impl Iterator<Item = &'static FeatureCommand> {
    FEATURES.iter().flat_map(|feature| feature.commands)
}

/// Returns the kinds of keys that features add to API keys.
pub fn list_key_kinds() -> impl Iterator<Item = &'static ClientKeyKind> {
    FEATURES.iter().flat_map(|feature| feature.commands).filter_map(|command| command.key_kind.as_ref())
}

/// Returns the analyses of all features, for commands that read no configuration: those that are on for a tenant
/// without settings of its own, and all if `with_opt_in` is true.
#[must_use]
pub fn read_analyses(with_opt_in: bool) -> Vec<Analysis> {
    let all = FEATURES.iter().flat_map(|feature| feature.symbolizer.analyses).copied();
    all.filter(|analysis| with_opt_in || !analysis.is_opt_in).collect()
}

/// Returns the readers of reports in other formats, for commands that read no configuration.
#[must_use]
pub fn read_report_readers() -> ReportReaders {
    ReportReaders::new(FEATURES.iter().flat_map(|feature| feature.symbolizer.readers).copied())
}
