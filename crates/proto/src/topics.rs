//! Names of the topics.

use unslide_model::TenantId;

/// Incoming reports.
pub const INPUT: &str = "crash.reports";
/// Enriched reports.
pub const OUTPUT: &str = "crash.symbolicated";
/// Session events of apps.
pub const SESSIONS: &str = "crash.sessions";
/// Metric payloads of apps.
pub const METRICS: &str = "crash.metrics";
/// Alerts for consumers on Kafka.
pub const ALERTS: &str = "crash.alerts";
/// An event for each stored revision of a report.
pub const STORED: &str = "crash.stored";
/// Records that wait one second for symbols that will arrive soon.
pub const RETRY_1S: &str = "unslide.retry.1s";
/// Records that wait ten seconds for another attempt.
pub const RETRY_10S: &str = "unslide.retry.10s";
/// Records that wait one minute for another attempt.
pub const RETRY_1M: &str = "unslide.retry.1m";
/// Records that wait ten minutes for another attempt.
pub const RETRY_10M: &str = "unslide.retry.10m";
/// Records of tenants that exceed their share.
pub const OVERFLOW: &str = "unslide.overflow";
/// Records that apps sent over the rate of their public key.
pub const INGEST_OVERFLOW: &str = "unslide.ingest-overflow";
/// Requests to symbolicate stored reports again with newer symbols.
pub const RESYMBOLICATE: &str = "unslide.resymbolicate";
/// Records that cannot be processed, unchanged, with the reason.
pub const DEAD_LETTER: &str = "unslide.dead-letter";
/// The results of each transaction.
pub const LEDGER: &str = "unslide.ledger";
/// The state of every debug id (compacted).
pub const SYMBOL_EVENTS: &str = "unslide.symbol-events";
/// The state of every tenant (compacted).
pub const TENANT_CONFIG: &str = "unslide.tenant-config";
/// Symcaches that each partition's records used lately (compacted).
pub const USED_SYMBOLS: &str = "unslide.used-symbols";

/// The topics of one installation. All names have the same prefix, which is empty unless several
/// installations (or tests) share a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicNames {
    /// See [`INPUT`].
    pub input: String,
    /// See [`OUTPUT`].
    pub output: String,
    /// See [`SESSIONS`].
    pub sessions: String,
    /// See [`METRICS`].
    pub metrics: String,
    /// See [`ALERTS`].
    pub alerts: String,
    /// See [`STORED`].
    pub stored: String,
    /// See [`RETRY_1S`].
    pub retry_1s: String,
    /// See [`RETRY_10S`].
    pub retry_10s: String,
    /// See [`RETRY_1M`].
    pub retry_1m: String,
    /// See [`RETRY_10M`].
    pub retry_10m: String,
    /// See [`OVERFLOW`].
    pub overflow: String,
    /// See [`INGEST_OVERFLOW`].
    pub ingest_overflow: String,
    /// See [`RESYMBOLICATE`].
    pub resymbolicate: String,
    /// See [`DEAD_LETTER`].
    pub dead_letter: String,
    /// See [`LEDGER`].
    pub ledger: String,
    /// See [`SYMBOL_EVENTS`].
    pub symbol_events: String,
    /// See [`TENANT_CONFIG`].
    pub tenant_config: String,
    /// See [`USED_SYMBOLS`].
    pub used_symbols: String,
}

impl TopicNames {
    /// Returns the standard names after `prefix` (such as `staging.`; may be empty).
    #[must_use]
    pub fn with_prefix(prefix: &str) -> TopicNames {
        let name = |topic: &str| format!("{prefix}{topic}");
        TopicNames {
            input: name(INPUT),
            output: name(OUTPUT),
            sessions: name(SESSIONS),
            metrics: name(METRICS),
            alerts: name(ALERTS),
            stored: name(STORED),
            retry_1s: name(RETRY_1S),
            retry_10s: name(RETRY_10S),
            retry_1m: name(RETRY_1M),
            retry_10m: name(RETRY_10M),
            overflow: name(OVERFLOW),
            ingest_overflow: name(INGEST_OVERFLOW),
            resymbolicate: name(RESYMBOLICATE),
            dead_letter: name(DEAD_LETTER),
            ledger: name(LEDGER),
            symbol_events: name(SYMBOL_EVENTS),
            tenant_config: name(TENANT_CONFIG),
            used_symbols: name(USED_SYMBOLS),
        }
    }

    /// Returns the name of the tenant's own topic of incoming reports. Only the tenant's producers need permission
    /// to write to it.
    #[must_use]
    pub fn tenant_input(&self, tenant: &TenantId) -> String {
        format!("{}.{tenant}", self.input)
    }

    /// Returns the name of the tenant's own topic of enriched reports.
    #[must_use]
    pub fn tenant_output(&self, tenant: &TenantId) -> String {
        format!("{}.{tenant}", self.output)
    }

    /// Returns the tenant of this input topic, or `None` for any other topic, including the shared one.
    #[must_use]
    pub fn tenant_of_input(&self, topic: &str) -> Option<TenantId> {
        tenant_of(&self.input, topic)
    }

    /// Returns the tenant of this output topic, or `None` for any other topic, including the shared one.
    #[must_use]
    pub fn tenant_of_output(&self, topic: &str) -> Option<TenantId> {
        tenant_of(&self.output, topic)
    }

    /// Returns a POSIX extended regular expression that matches the input topics of all tenants and no other
    /// topic.
    #[must_use]
    pub fn tenant_input_pattern(&self) -> String {
        tenant_pattern(&self.input)
    }

    /// Returns the name that a topic of this installation has in the one with another prefix, or `None` for a topic of another
    /// installation.
    #[must_use]
    pub fn name_with_prefix(&self, topic: &str, prefix: &str) -> Option<String> {
        let own = self.input.strip_suffix(INPUT)?;
        Some(format!("{prefix}{}", topic.strip_prefix(own)?))
    }

    /// Returns every name, in the order of the fields, without the topics of single tenants.
    #[must_use]
    pub fn all(&self) -> [&str; 18] {
        [
            &self.input,
            &self.output,
            &self.sessions,
            &self.metrics,
            &self.alerts,
            &self.stored,
            &self.retry_1s,
            &self.retry_10s,
            &self.retry_1m,
            &self.retry_10m,
            &self.overflow,
            &self.ingest_overflow,
            &self.resymbolicate,
            &self.dead_letter,
            &self.ledger,
            &self.symbol_events,
            &self.tenant_config,
            &self.used_symbols,
        ]
    }
}

impl Default for TopicNames {
    fn default() -> TopicNames {
        TopicNames::with_prefix("")
    }
}

fn tenant_of(shared: &str, topic: &str) -> Option<TenantId> {
    TenantId::new(topic.strip_prefix(shared)?.strip_prefix('.')?).ok()
}

/// Returns a pattern for [`TenantId`] after the shared topic's name. A slug has no dot, so no other topic has a
/// name of this form, not even in an installation with a longer prefix.
fn tenant_pattern(shared: &str) -> String {
    let mut pattern = String::from("^");
    for c in shared.chars() {
        if !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push_str(r"\.[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$");
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_topics_name_the_tenant_and_no_other_topic_does() {
        for prefix in ["", "staging.", "crash.reports.", "a-b_c."] {
            let names = TopicNames::with_prefix(prefix);
            for slug in ["ab", "acme", "10s", "a-1", &"x".repeat(40)] {
                let tenant = TenantId::new(slug).expect("a slug");
                let (input, output) = (names.tenant_input(&tenant), names.tenant_output(&tenant));
                assert_eq!(names.tenant_of_input(&input).as_ref(), Some(&tenant));
                assert_eq!(names.tenant_of_output(&output).as_ref(), Some(&tenant));
                assert_eq!(names.tenant_of_input(&output), None);
                assert_eq!(names.tenant_of_output(&input), None);
                assert!(!names.all().contains(&input.as_str()) && !names.all().contains(&output.as_str()));
                // Kafka takes names of up to 249 characters; a prefix has at most 100.
                assert!(output.len() - prefix.len() <= 149);
            }
            for topic in names.all() {
                assert_eq!((names.tenant_of_input(topic), names.tenant_of_output(topic)), (None, None));
            }
        }
        let names = TopicNames::default();
        let foreign = [
            "crash.reports",
            "crash.reports.",
            "crash.reports.a",
            "crash.reports.-ab",
            "crash.reports.ab-",
            "crash.reports.Acme",
            "crash.reports.a_b",
            "crash.reports.crash.reports",
            "crash.reportsXab",
            "x.crash.reports.ab",
            "crash.reports.ab\n",
        ];
        for topic in foreign.into_iter().chain([format!("crash.reports.{}", "x".repeat(41)).as_str()]) {
            assert_eq!(names.tenant_of_input(topic), None, "{topic}");
        }
    }

    #[test]
    fn a_topic_has_the_same_name_in_an_installation_with_another_prefix() {
        for (own, other) in [("", "east."), ("west.", "east."), ("west.", "")] {
            let (names, others) = (TopicNames::with_prefix(own), TopicNames::with_prefix(other));
            let named = names.all().map(|topic| names.name_with_prefix(topic, other).expect("an own topic"));
            assert_eq!(named.each_ref().map(String::as_str), others.all());
            let tenant = TenantId::new("acme").expect("a slug");
            let input = names.name_with_prefix(&names.tenant_input(&tenant), other);
            assert_eq!(input, Some(others.tenant_input(&tenant)));
        }
        assert_eq!(TopicNames::with_prefix("west.").name_with_prefix("east.crash.reports", ""), None);
    }

    #[test]
    fn a_prefix_is_taken_literally_in_the_pattern() {
        let names = TopicNames::with_prefix("a.b-c_");
        assert_eq!(names.tenant_input_pattern(), r"^a\.b-c_crash\.reports\.[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$");
    }
}
