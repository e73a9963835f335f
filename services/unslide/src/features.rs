//! The features of the product. Nothing else in this program names one.

use unslide_builder::ChildTask;
use unslide_client::{DoctorCheck, FeatureCommand, SourceBundler};
use unslide_feature::SymbolizerFeature;
#[cfg(feature = "server")]
use unslide_feature::{Feature, KeyMaker, MakeKey, TokenWriter};
use unslide_report::reader::ReportReaders;
#[cfg(feature = "server")]
use unslide_runtime::config::ConfigReader;
use unslide_symbolicate::Analysis;

/// Reads the settings of a feature and makes it.
#[cfg(feature = "server")]
type ReadFeature = fn(&mut ConfigReader) -> Feature;

/// Every feature, in the order in which their hooks run in a transaction: the order in which they lock rows.
#[cfg(feature = "server")]
const FEATURES: &[ReadFeature] = &[
    // Rules of tenants, and messages about events that fulfil them.
    unslide_alerts::read,
    // Readers of Apple's own report formats. They have no hooks, so any place in the list would do.
    unslide_apple_reports::read,
    // Profiles, logs of allocations and graphs of memory. They lock rows of their own only, in transactions in which alerts
    // lock none, so any place in the list would do.
    unslide_captures::read,
    // Sessions, metrics and how versions do. It locks rows of its own only, after the positions of its topics and in
    // transactions without reports, so any place in the list would do.
    unslide_health::read,
    // What was wrong at the instruction of a crash. It locks no rows.
    unslide_fault_analysis::read,
    // Pages for people, with those of the other features. It has no hook.
    unslide_console::read,
    // Reports straight from apps. It has no hook.
    unslide_ingest::read,
    // Sign-in of people at the identity provider of their tenant. It has no hook.
    unslide_people::read,
    // Erasure of what a tenant has of one person. It has no hook: it asks the others to delete their rows.
    unslide_person_erasure::read,
    // Source files beside symbols. It locks rows of its own only: a bundle's after the symbols that it is deleted with.
    unslide_source_context::read,
    // dSYMs and names for debuggers and profilers. It has no hook.
    unslide_symbol_server::read,
    // Names of an operating system's functions, and which are missing. It has no hook.
    unslide_system_symbols::read,
    // Routes of other products' upload clients. They lock rows of their own only, and the tenant's symbols as every upload.
    unslide_uploaders::read,
    // Tools for assistants. It has no hook.
    unslide_mcp::read,
    // Lists as files, and a stream of live events: its hook locks the tenant's counter of events, so it is the last.
    unslide_export::read,
];

/// The work of features in child processes of the builder, which read no configuration.
pub const CHILD_TASKS: &[ChildTask] = &[
    // The reading of a capture's files.
    unslide_captures::ANALYSIS_TASK,
];

/// The subcommands of features, which read no configuration.
const COMMANDS: &[&[FeatureCommand]] = &[
    // Rules and messages.
    unslide_alerts::ALERT_COMMANDS,
    // Captures of a running service, and files of a device.
    unslide_captures::COMMANDS,
    // Names of an operating system's functions, from the files that a customer has.
    unslide_system_symbols::SYSTEM_SYMBOL_COMMANDS,
    // dSYMs for debuggers.
    unslide_symbol_server::DSYM_COMMANDS,
    // The switch of a tenant.
    unslide_fault_analysis::FAULT_COMMANDS,
    // The stream of live events.
    unslide_export::EVENT_COMMANDS,
    // Files of metric payloads.
    unslide_health::COMMANDS,
    // The identity provider of a tenant.
    unslide_people::SSO_COMMANDS,
    // Erasures of persons.
    unslide_person_erasure::ERASE_COMMANDS,
    // Tools for assistants, on standard input and output.
    unslide_mcp::MCP_COMMANDS,
    // Whether a tenant keeps source files.
    unslide_source_context::SOURCE_COMMANDS,
];

/// The checks of features in `unslide doctor`.
pub const DOCTOR_CHECKS: &[DoctorCheck] = &[
    // The builds of operating systems that lack names.
    unslide_system_symbols::check_coverage,
];

/// Returns the subcommands of every feature.
pub fn list_commands() -> impl Iterator<Item = &'static FeatureCommand> {
    COMMANDS.iter().copied().flatten()
}

/// The data of features in `unslide demo --traffic`.
#[cfg(feature = "dev")]
pub const DEMO_DATA: &[unslide_client::SendDemoData] = &[
    // A profile, a log of allocations and two graphs of memory.
    unslide_captures::send_demo_data,
];

/// Makers of the bundles of `unslide upload --include-sources`.
pub const SOURCE_BUNDLERS: &[SourceBundler] = &[
    // Source files that symbols name.
    unslide_source_context::SOURCE_BUNDLER,
];

/// Makers of the keys of `unslide key create --public`.
#[cfg(feature = "server")]
pub const KEY_MAKERS: &[KeyMaker] = &[
    // Keys in the URLs of apps.
    unslide_ingest::KEY_MAKER,
];

/// Makers of the keys of `unslide key create --names`.
#[cfg(feature = "server")]
pub const NAMES_KEY_MAKERS: &[MakeKey] = &[
    // Keys in the URLs of profilers.
    unslide_symbol_server::NAMES_KEY_MAKER,
];

/// Writers of the tokens of `unslide key create --sentry-token`.
#[cfg(feature = "server")]
pub const TOKEN_WRITERS: &[TokenWriter] = &[
    // Keys as other products' upload clients expect them.
    unslide_uploaders::SENTRY_TOKEN,
];

/// Makes every feature with its settings.
#[cfg(feature = "server")]
pub fn read_features(reader: &mut ConfigReader) -> Vec<Feature> {
    FEATURES.iter().map(|read| read(reader)).collect()
}

/// Additions of features to symbolication, for commands without a server. They are listed apart from [`FEATURES`] because the
/// client-only program links none of the services.
const SYMBOLIZERS: &[SymbolizerFeature] = &[
    // Readers of Apple's own report formats.
    unslide_apple_reports::SYMBOLIZER,
    // What was wrong at the instruction of a crash.
    unslide_fault_analysis::SYMBOLIZER,
];

/// Returns the analyses of all features, for commands that read no configuration: those that are on for a tenant
/// without settings of its own, and all if `with_opt_in` is true.
pub fn read_analyses(with_opt_in: bool) -> Vec<Analysis> {
    let all = SYMBOLIZERS.iter().flat_map(|feature| feature.analyses).copied();
    all.filter(|analysis| with_opt_in || !analysis.is_opt_in).collect()
}

/// Returns the readers of reports in other formats, for commands that read no configuration.
pub fn read_report_readers() -> ReportReaders {
    ReportReaders::new(SYMBOLIZERS.iter().flat_map(|feature| feature.readers).copied())
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use unslide_runtime::config::Sources;

    #[test]
    fn commands_without_a_server_use_the_readers_and_analyses_of_the_services() {
        let features = read_features(&mut Sources::new(None, []).read());
        let added = |symbolizer: &SymbolizerFeature| {
            !symbolizer.readers.is_empty() || !symbolizer.analyses.is_empty()
        };
        let list_names = |symbolizer: &SymbolizerFeature| -> Vec<&str> {
            let readers = symbolizer.readers.iter().map(|reader| reader.name);
            readers.chain(symbolizer.analyses.iter().map(|analysis| analysis.name)).collect()
        };
        let services = features.iter().map(|feature| &feature.symbolizer).filter(|feature| added(feature));
        let services: Vec<Vec<&str>> = services.map(list_names).collect();
        let commands: Vec<Vec<&str>> = SYMBOLIZERS.iter().map(list_names).collect();
        assert_eq!(commands, services);
    }

    #[test]
    fn hooks_run_in_the_order_of_the_list_in_every_service() {
        let features = read_features(&mut Sources::new(None, []).read());
        let order: Vec<&str> = features.iter().map(|feature| feature.api.name).collect();
        let of_hooks = |hooks: Vec<unslide_store::StoreHook>| -> Vec<&str> {
            hooks.into_iter().map(|hook| hook.feature).collect()
        };
        assert_eq!(of_hooks(unslide_feature::collect_hooks(&features)), order);
        assert_eq!(of_hooks(unslide_feature::for_api(&features).hooks), order);
        assert_eq!(of_hooks(unslide_feature::for_builder(&features).hooks), order);
        assert_eq!(of_hooks(unslide_feature::for_indexer(&features).hooks), order);
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), order.len(), "each is named once");
    }
}
