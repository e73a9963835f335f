//! The features of the product. Nothing else in this program names one.

use unslide_feature::{ConfiguredFeature, Feature};
use unslide_runtime::config::ConfigReader;

/// Every feature, in the order in which their hooks run in a transaction: the order in which they lock rows.
pub const FEATURES: &[Feature] = &[
    // Rules of tenants, and messages about events that fulfil them.
    unslide_alerts::FEATURE,
    // Readers of Apple's own report formats. They have no hooks, so any place in the list would do.
    unslide_apple_reports::FEATURE,
    // Profiles, logs of allocations and graphs of memory. They lock rows of their own only, in transactions in which alerts
    // lock none, so any place in the list would do.
    unslide_captures::FEATURE,
    // Sessions, metrics and how versions do. It locks rows of its own only, after the positions of its topics and in
    // transactions without reports, so any place in the list would do.
    unslide_health::FEATURE,
    // What was wrong at the instruction of a crash. It locks no rows.
    unslide_fault_analysis::FEATURE,
    // What tenants cost. It has no hook: the core stores what services use.
    unslide_costs::FEATURE,
    // Pages for people, with those of the other features. It has no hook.
    unslide_console::FEATURE,
    // Reports straight from apps. It has no hook.
    unslide_ingest::FEATURE,
    // Records of OpenTelemetry, and crashes for a tenant's collector. It locks rows of its own only: those of its outbox after the
    // reports that they are about.
    unslide_otlp::FEATURE,
    // Users and groups that identity providers send. It locks rows of its own only: before the keys of the people whom they are.
    unslide_scim::FEATURE,
    // Sign-in of people at the identity provider of their tenant. Its hook locks keys of people: after the directory that changed
    // them.
    unslide_people::FEATURE,
    // Erasure of what a tenant has of one person. It has no hook: the rows of the others are found by their
    // declarations.
    unslide_person_erasure::FEATURE,
    // Rules that take personal data out of reports. Its hook has no function: it declares its tables.
    unslide_scrubbing::FEATURE,
    // A cap for the bodies of a group and day. Its hook has no function: it declares its tables.
    unslide_body_cap::FEATURE,
    // Source files beside symbols. It locks rows of its own only: a bundle's after the symbols that it is deleted with.
    unslide_source_context::FEATURE,
    // dSYMs and names for debuggers and profilers. It has no hook.
    unslide_symbol_server::FEATURE,
    // Buckets and symbol servers of tenants. Its hook only reads: it adds look-ups to images that are shown.
    unslide_symbol_sources::FEATURE,
    // Names of an operating system's functions, and which are missing. It has no hook.
    unslide_system_symbols::FEATURE,
    // Crashes that testers send with TestFlight. It locks rows of its own only: words of testers after the report that they go with.
    unslide_testflight::FEATURE,
    // The audit log, sent to servers of a tenant as it grows. It has no part in the transactions of others.
    unslide_audit_export::FEATURE,
    // Bugs in Slack. It locks rows of its own only: accounts of people after the sessions that they end with.
    unslide_chat::FEATURE,
    // Tickets of groups in trackers. Its hook locks rows of its own only: those of tickets after their groups.
    unslide_tickets::FEATURE,
    // Keys that apps set, counted in the rows of reports. It has no hook.
    unslide_own_keys::FEATURE,
    // Owners of code. It locks rows of its own only, after those of groups: its row of a group after the group.
    unslide_owners::FEATURE,
    // Routes of other products' upload clients. They lock rows of their own only, and the tenant's symbols as every upload.
    unslide_uploaders::FEATURE,
    // Whether bugs are fixed and releases are good. It locks rows of its own only, of groups that are locked before.
    unslide_verdicts::FEATURE,
    // Functions that changed between two builds. It locks rows of its own only: the commit of a build after the symbols that it goes
    // with.
    unslide_changes::FEATURE,
    // Tools for assistants. It locks rows of its own only: the access of assistants after the sessions that it ends with.
    unslide_mcp::FEATURE,
    // Files of stored reports by day and app in buckets of tenants. Its hook adds rows of its own only, about reports that are locked
    // before.
    unslide_parquet_export::FEATURE,
    // Events about stored reports. Its hook writes rows of its own only, about reports that are locked before.
    unslide_stored_events::FEATURE,
    // Lists as files, and a stream of live events: its hook locks the tenant's counter of events, so it is the last.
    unslide_export::FEATURE,
];

/// Reads the settings of every feature.
pub fn read_features(reader: &mut ConfigReader) -> Vec<ConfiguredFeature> {
    FEATURES.iter().map(|feature| (feature.read)(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use unslide_client::features::FEATURES as CLIENT_FEATURES;
    use unslide_runtime::config::Sources;
    use unslide_store::keys::KeyPlace;
    use unslide_symbolicate::SymbolizerFeature;

    #[test]
    fn commands_without_a_server_use_the_readers_and_analyses_of_the_services() {
        let added = |symbolizer: &SymbolizerFeature| {
            !symbolizer.readers.is_empty() || !symbolizer.analyses.is_empty()
        };
        let list_names = |symbolizer: &SymbolizerFeature| -> Vec<&str> {
            let readers = symbolizer.readers.iter().map(|reader| reader.name);
            readers.chain(symbolizer.analyses.iter().map(|analysis| analysis.name)).collect()
        };
        let services = FEATURES.iter().map(|feature| &feature.symbolizer).filter(|feature| added(feature));
        let services: Vec<Vec<&str>> = services.map(list_names).collect();
        let commands = CLIENT_FEATURES.iter().map(|feature| &feature.symbolizer);
        let commands: Vec<Vec<&str>> = commands.filter(|feature| added(feature)).map(list_names).collect();
        assert_eq!(commands, services);
    }

    #[test]
    fn a_feature_of_the_client_has_the_name_of_one_of_this_program() {
        let names: BTreeSet<&str> = FEATURES.iter().map(|feature| feature.name).collect();
        let of_client = CLIENT_FEATURES.iter().map(|feature| feature.name);
        let of_client: BTreeSet<&str> = of_client.collect();
        assert_eq!(of_client.len(), CLIENT_FEATURES.len(), "each is named once");
        assert!(of_client.is_subset(&names), "{of_client:?} {names:?}");
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

    #[test]
    fn no_two_kinds_of_keys_can_be_taken_for_each_other() {
        let kinds = unslide_feature::collect_key_kinds(FEATURES);
        assert!(kinds.len() > 2, "{kinds:?}");
        for (at, kind) in kinds.iter().enumerate() {
            assert!(kind.prefix.ends_with('_') && kind.name.bytes().all(|byte| byte.is_ascii_lowercase()));
            for other in &kinds[..at] {
                assert!(kind.name != other.name && kind.action != other.action, "{kind:?} {other:?}");
                assert!(!kind.prefix.starts_with(other.prefix) && !other.prefix.starts_with(kind.prefix));
                assert!(kind.place != other.place, "{kind:?} {other:?}");
            }
            // Only a key in a header grants operations of the API.
            assert_eq!(kind.place == KeyPlace::Header, !kind.scopes.is_empty(), "{kind:?}");
        }
    }
}
