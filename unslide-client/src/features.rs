//! The features of the client: their commands, and what commands without a server use. Nothing else in this package names one.

use unslide_cli::{ClientFeature, ClientKeyKind, FeatureCommand};
use unslide_report::reader::ReportReaders;
use unslide_symbolicate::Analysis;

/// Every feature that has commands, or readers and analyses for commands without a server.
pub const FEATURES: &[ClientFeature] = &[
    // Rules and messages.
    unslide_alerts_commands::FEATURE,
    // Readers of Apple's own report formats.
    ClientFeature::with_symbolizer(unslide_apple_reports_formats::SYMBOLIZER),
    // Captures of a running service, and files of a device.
    unslide_captures_commands::FEATURE,
    // Names of an operating system's functions, from the files that a customer has.
    unslide_system_symbols_commands::FEATURE,
    // Buckets and symbol servers that are asked for symbols.
    unslide_symbol_sources_commands::FEATURE,
    // dSYMs for debuggers.
    unslide_symbol_server_commands::FEATURE,
    // What was wrong at the instruction of a crash, and the switch of a tenant.
    unslide_fault_analysis_commands::FEATURE,
    // The stream of live events.
    unslide_export_commands::FEATURE,
    // Files of metric payloads.
    unslide_health_commands::FEATURE,
    // Keys that apps carry.
    unslide_ingest_commands::FEATURE,
    // Crashes over OTLP, and the collector of a tenant.
    unslide_otlp_commands::FEATURE,
    // The identity provider of a tenant.
    unslide_people_commands::FEATURE,
    // Users and groups of the identity provider.
    unslide_scim_commands::FEATURE,
    // Erasures of persons.
    unslide_person_erasure_commands::FEATURE,
    // Parquet files of reports in a bucket.
    unslide_parquet_export_commands::FEATURE,
    // Rules that take personal data out of reports.
    unslide_scrubbing_commands::FEATURE,
    // A cap for the bodies of a group and day.
    unslide_body_cap_commands::FEATURE,
    // Tools for assistants, on standard input and output.
    unslide_mcp_commands::FEATURE,
    // Source files beside symbols.
    unslide_source_context_commands::FEATURE,
    // Keys that apps set.
    unslide_own_keys_commands::FEATURE,
    // Owners of code.
    unslide_owners_commands::FEATURE,
    // Crashes that testers send with TestFlight.
    unslide_testflight_commands::FEATURE,
    // The audit log as it grows.
    unslide_audit_export_commands::FEATURE,
    // Bugs in Slack.
    unslide_chat_commands::FEATURE,
    // Tickets of groups in trackers.
    unslide_tickets_commands::FEATURE,
    // Keys as Sentry's clients expect them.
    unslide_uploaders_commands::FEATURE,
    // Functions that changed between two builds.
    unslide_changes_commands::FEATURE,
    // The gate of phased releases.
    unslide_verdicts_commands::FEATURE,
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
