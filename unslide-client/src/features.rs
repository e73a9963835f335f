//! The features of the client: their commands, and what their commands without a server use. Nothing else in this package names one.

use unslide_cli::{DoctorCheck, FeatureCommand, SourceBundler};
use unslide_report::reader::ReportReaders;
use unslide_symbolicate::{Analysis, SymbolizerFeature};

/// The subcommands of features, which read no configuration.
const COMMANDS: &[&[FeatureCommand]] = &[
    // Rules and messages.
    unslide_alerts_commands::ALERT_COMMANDS,
    // Captures of a running service, and files of a device.
    unslide_captures_commands::COMMANDS,
    // Names of an operating system's functions, from the files that a customer has.
    unslide_system_symbols_commands::SYSTEM_SYMBOL_COMMANDS,
    // dSYMs for debuggers.
    unslide_symbol_server_commands::DSYM_COMMANDS,
    // The switch of a tenant.
    unslide_fault_analysis_commands::FAULT_COMMANDS,
    // The stream of live events.
    unslide_export_commands::EVENT_COMMANDS,
    // Files of metric payloads.
    unslide_health_commands::COMMANDS,
    // Keys that apps carry.
    unslide_ingest_commands::PUBLIC_KEY_COMMANDS,
    // The identity provider of a tenant.
    unslide_people_commands::SSO_COMMANDS,
    // Erasures of persons.
    unslide_person_erasure_commands::ERASE_COMMANDS,
    // Tools for assistants, on standard input and output.
    unslide_mcp_commands::MCP_COMMANDS,
    // Whether a tenant keeps source files.
    unslide_source_context_commands::SOURCE_COMMANDS,
];

/// The checks of features in `unslide doctor`.
pub const DOCTOR_CHECKS: &[DoctorCheck] = &[
    // The builds of operating systems that lack names.
    unslide_system_symbols_commands::check_coverage,
];

/// Returns the subcommands of every feature.
pub fn list_commands() -> impl Iterator<Item = &'static FeatureCommand> {
    COMMANDS.iter().copied().flatten()
}

/// Makers of the bundles of `unslide upload --include-sources`.
pub const SOURCE_BUNDLERS: &[SourceBundler] = &[
    // Source files that symbols name.
    unslide_source_context_commands::SOURCE_BUNDLER,
];

/// Additions of features to symbolication, for commands without a server. They are those of the services: a test holds that.
pub const SYMBOLIZERS: &[SymbolizerFeature] = &[
    // Readers of Apple's own report formats.
    unslide_apple_reports_formats::SYMBOLIZER,
    // What was wrong at the instruction of a crash.
    unslide_fault_analysis_analyses::SYMBOLIZER,
];

/// Returns the analyses of all features, for commands that read no configuration: those that are on for a tenant
/// without settings of its own, and all if `with_opt_in` is true.
#[must_use]
pub fn read_analyses(with_opt_in: bool) -> Vec<Analysis> {
    let all = SYMBOLIZERS.iter().flat_map(|feature| feature.analyses).copied();
    all.filter(|analysis| with_opt_in || !analysis.is_opt_in).collect()
}

/// Returns the readers of reports in other formats, for commands that read no configuration.
#[must_use]
pub fn read_report_readers() -> ReportReaders {
    ReportReaders::new(SYMBOLIZERS.iter().flat_map(|feature| feature.readers).copied())
}
