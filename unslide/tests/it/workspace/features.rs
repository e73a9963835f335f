//! The walls of features: the core does not know them, and the binary names each in one place.

use super::layering::{sources, top};
use std::collections::BTreeSet;
use std::path::Path;

/// Words by which a source would name each feature.
const WORDS: [(&str, &str); 87] = [
    ("alerts", "alert"),
    ("apple-reports", "apple_report"),
    ("apple-reports", "apple-report"),
    ("captures", "capture"),
    ("console", "unslide_console"),
    ("console", "console_session"),
    ("console", "features/console"),
    ("export", "live_event"),
    ("export", "live event"),
    ("export", "liveevent"),
    ("export", "console/export"),
    ("fault-analysis", "fault_analysis"),
    ("fault-analysis", "fault analysis"),
    ("fault-analysis", "faultanalysis"),
    ("export", "export csv"),
    ("export", "text/csv"),
    ("health", "crash_free"),
    ("health", "crash-free"),
    ("health", "session event"),
    ("health", "session_days"),
    ("health", "metric_days"),
    ("health", "session_hour_counts"),
    ("health", "metric_hours"),
    ("health", "metric payload"),
    ("health", "metricpayload"),
    ("costs", "unslide_costs"),
    ("ingest", "unslide_ingest"),
    ("ingest", "ingest_key"),
    ("ingest", "public-key"),
    ("ingest", "usp_"),
    ("otlp", "unslide_otlp"),
    ("otlp", "otlp_outbox"),
    ("otlp", "otlp_settings"),
    ("own-keys", "unslide_own_keys"),
    ("own-keys", "own_keys"),
    ("owners", "unslide_owners"),
    ("owners", "group_owners"),
    ("owners", "codeowners"),
    ("people", "unslide_people"),
    ("people", "sign_in_provider"),
    ("scim", "unslide_scim"),
    ("scim", "scim_"),
    ("person-erasure", "unslide_person_erasure"),
    ("person-erasure", "person_erasure"),
    ("scrubbing", "unslide_scrubbing"),
    ("scrubbing", "scrub_rules"),
    ("scrubbing", "scrub_runs"),
    ("scrubbing", "scrub_salts"),
    ("body-cap", "unslide_body_cap"),
    ("body-cap", "body_cap"),
    ("body-cap", "body-cap"),
    ("parquet-export", "parquet_export"),
    ("parquet-export", "parquet-export"),
    ("source-context", "unslide_source_context"),
    ("source-context", "include_sources"),
    ("stored-events", "unslide_stored_events"),
    ("stored-events", "stored_events"),
    ("symbol-server", "unslide_symbol_server"),
    ("symbol-server", "debuginfod"),
    ("symbol-server", "usn_"),
    ("symbol-server", "names-key"),
    ("symbol-sources", "unslide_symbol_sources"),
    ("symbol-sources", "symbol_source"),
    ("symbol-sources", "symbol-source"),
    ("system-symbols", "unslide_system_symbols"),
    ("testflight", "unslide_testflight"),
    ("testflight", "testflight_"),
    ("audit-export", "unslide_audit_export"),
    ("audit-export", "audit_receivers"),
    ("changes", "unslide_changes"),
    ("changes", "build_commit"),
    ("chat", "unslide_chat"),
    ("chat", "slack_threads"),
    ("tickets", "unslide_tickets"),
    ("tickets", "ticket_requests"),
    ("verdicts", "held_regressions"),
    ("verdicts", "regression_rules"),
    ("uploaders", "unslide_uploaders"),
    ("uploaders", "uploader_"),
    ("uploaders", "sntrys"),
    ("uploaders", "sentry_token"),
    ("uploaders", "sentry-token"),
    ("uploaders", "bugsnag"),
    ("uploaders", "posthog"),
    ("mcp", "unslide_mcp"),
    ("mcp", "mcp_grants"),
    ("verdicts", "unslide_verdicts"),
];
/// The lists of features: of the services, and of the client.
const LISTS: [&str; 2] = ["unslide/src/features.rs", "unslide-client/src/features.rs"];
/// Sources of the core with a feature's word, with the reason.
const ACCEPTED: [(&str, &str); 16] = [
    ("crates/proto/src/topics.rs", "topics are made and checked as one list, before any feature starts"),
    ("crates/stream/src/topics/admin.rs", "as the names of topics"),
    ("crates/stream/src/access/mod.rs", "as the names of topics"),
    ("crates/stream/src/settings.rs", "as the names of topics"),
    ("crates/stream/src/client.rs", "a level of librdkafka's log"),
    ("tools/dev/src/demo", "a client: it sends requests to a running service"),
    ("unslide/src/servers/backfill.rs", "the help of a command for operators"),
    ("unslide/src/configuration/reference.rs", "the sections of the settings are one list, in its order"),
    ("crates/model/src/signal.rs", "the signals that an app keeps are one list"),
    (
        "crates/store/src/tenants/app_signals.rs",
        "an SDK reads how much an app keeps of all signals as one value",
    ),
    ("services/api/src/openapi/self_contained.rs", "schemas of formats are served as one list"),
    ("services/api/src/operations/sessions/get.rs", "the timeline names the events of every feature"),
    ("services/site/src", "the table and the cookie of sessions have the console's name"),
    ("crates/symbolicate/src/rules.rs", "a backtrace that a process captured of itself"),
    ("crates/report/src/foreign.rs", "a member of Apple's files"),
    ("crates/report/src/exception_names.rs", "an exception's name of Mach"),
];

/// Sources of features with another feature's word, or folders of them, with the reason.
const ALLOWED_PAIRS: [(&str, &str, &str); 18] = [
    ("features/symbol-sources", "symbol-server", "a layout of servers that tenants name"),
    ("commands/src/symbol_sources.rs", "symbol-server", "the same layout"),
    ("features/scrubbing/rules/src/pattern.rs", "captures", "groups of a regular expression"),
    ("features/person-erasure/src", "captures", "the words for what was erased"),
    ("features/person-erasure/src", "health", "the words for what was erased"),
    ("features/console/src/pages/tenant_pages/settings.rs", "captures", "the form of what an app keeps"),
    (
        "features/alerts/src/store/evaluate.rs",
        "health",
        "one statement leaves out the days that its own events have",
    ),
    (
        "features/alerts/src/store/widespread.rs",
        "health",
        "one statement compares reports and sessions of a version",
    ),
    ("features/alerts/src/store/releases.rs", "health", "one statement lists the apps in use"),
    ("features/alerts/src/store/summary.rs", "health", "the figure that a summary begins with"),
    ("features/alerts/src/store/rules.rs", "health", "a condition of rules, which clients send"),
    ("features/alerts/src/pages/alerts.rs", "health", "the words for that condition"),
    ("features/captures/src/operations/send.rs", "health", "the documentation of a field"),
    ("features/apple-reports/formats/src/ips", "captures", "a member of Apple's crash logs"),
    ("features/apple-reports/formats/src/crash_text", "captures", "the same member"),
    ("features/scrubbing/rules/src/scrub_place.rs", "captures", "the same member"),
    (
        "features/ingest/src/receive/run_summary.rs",
        "health",
        "a run becomes a record of the topic of sessions",
    ),
    ("features/ingest/src/receive/runs.rs", "health", "the same record"),
];

/// Returns the feature that a source belongs to, by its folder in `features/` or by its module of the commands.
pub fn find_owner(shown: &str) -> Option<String> {
    if let Some(module) = shown.strip_prefix("commands/src/") {
        let module = module.split('/').next().unwrap_or(module).trim_end_matches(".rs");
        return (module != "lib").then(|| module.replace('_', "-"));
    }
    let (folder, _) = shown.strip_prefix("features/")?.split_once("/src/")?;
    Some(folder.split('/').next().unwrap_or(folder).to_owned())
}

/// The production code of a source.
pub fn production(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

#[test]
fn no_core_source_names_a_feature() {
    let folders: BTreeSet<String> = std::fs::read_dir(top().join("features"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(folders.iter().all(|folder| WORDS.iter().any(|(feature, _)| feature == folder)), "{folders:?}");
    let mut wrong = Vec::new();
    for path in sources() {
        let shown = path.strip_prefix(top()).unwrap().display().to_string();
        let is_core = ["crates/", "services/", "tools/", "unslide/", "unslide-client/"]
            .iter()
            .any(|folder| shown.starts_with(folder));
        let is_test = shown.split('/').any(|part| part == "tests" || part == "testkit");
        if !is_core
            || is_test
            || LISTS.contains(&shown.as_str())
            || ACCEPTED.iter().any(|(known, _)| shown.starts_with(known))
        {
            continue;
        }
        let text = production(&path).to_lowercase();
        for (feature, word) in WORDS {
            for (number, _) in text.lines().enumerate().filter(|(_, line)| line.contains(word)) {
                wrong.push(format!("{shown}:{} names the feature {feature}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_feature_names_another_one_only_as_listed() {
    let mut wrong = Vec::new();
    for path in sources() {
        let shown = path.strip_prefix(top()).unwrap().display().to_string();
        let Some(owner) = find_owner(&shown) else { continue };
        let text = production(&path).to_lowercase();
        for (feature, word) in WORDS.iter().filter(|(feature, _)| **feature != *owner) {
            let is_allowed =
                ALLOWED_PAIRS.iter().any(|(known, other, _)| shown.starts_with(known) && other == feature);
            if text.contains(word) && !is_allowed {
                wrong.push(format!("{shown} names the feature {feature} by {word:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_allowed_pair_is_needed() {
    for (known, other, why) in ALLOWED_PAIRS {
        let named = sources().into_iter().filter(|path| path.starts_with(top().join(known)));
        let texts: Vec<_> = named.map(|path| production(&path).to_lowercase()).collect();
        let is_needed = WORDS
            .iter()
            .any(|(feature, word)| *feature == other && texts.iter().any(|text| text.contains(word)));
        assert!(is_needed, "{known} ({why}) names no {other}");
    }
}

#[test]
fn every_exception_is_needed() {
    for (known, why) in ACCEPTED {
        let is_needed = sources().iter().any(|path| {
            let shown = path.strip_prefix(top()).unwrap().display().to_string();
            let text = std::fs::read_to_string(path).unwrap().to_lowercase();
            shown.starts_with(known) && WORDS.iter().any(|(_, word)| text.contains(word))
        });
        assert!(is_needed, "{known} ({why}) needs no exception");
    }
}
