//! The rights that each login needs on Kafka: the one list that ACLs, the documentation's table and the check
//! of a login are made from.

mod check;
mod described;

use crate::read::{POSITIONED_GROUP, SCAN_GROUP, TAIL_GROUP};
use crate::settings::Settings;
pub use check::{AccessFinding, AccessOutcome, check_access};
use serde::Serialize;
use unslide_proto::topics::{
    ALERTS, DEAD_LETTER, INGEST_OVERFLOW, INPUT, LEDGER, METRICS, OUTPUT, OVERFLOW,
    RESYMBOLICATE as REQUESTS, RETRY_1M, RETRY_1S, RETRY_10M, RETRY_10S, SESSIONS, STORED, SYMBOL_EVENTS,
    TENANT_CONFIG, USED_SYMBOLS,
};

/// The transactional id of the builders' relay, after the prefix.
pub const RELAY_TRANSACTION: &str = "unslide.relay";

/// A program that connects to Kafka, which should have a login of its own. The last two are not programs of Unslide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KafkaLogin {
    /// `unslide api`.
    Api,
    /// `unslide builder`.
    Builder,
    /// `unslide symbolizer`.
    Symbolizer,
    /// `unslide indexer`.
    Indexer,
    /// `unslide migrate --topics`, `unslide tenant create` and `unslide tenant topics`.
    Migrate,
    /// `unslide audit`.
    Audit,
    /// Gateways and services that send events themselves, beside the API.
    Gateway,
    /// KEDA, which scales symbolizers by the lag of their group.
    Keda,
}

impl KafkaLogin {
    /// Every login.
    pub const ALL: [KafkaLogin; 8] = [
        KafkaLogin::Api,
        KafkaLogin::Builder,
        KafkaLogin::Symbolizer,
        KafkaLogin::Indexer,
        KafkaLogin::Migrate,
        KafkaLogin::Audit,
        KafkaLogin::Gateway,
        KafkaLogin::Keda,
    ];

    /// Returns the name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KafkaLogin::Api => "api",
            KafkaLogin::Builder => "builder",
            KafkaLogin::Symbolizer => "symbolizer",
            KafkaLogin::Indexer => "indexer",
            KafkaLogin::Migrate => "migrate",
            KafkaLogin::Audit => "audit",
            KafkaLogin::Gateway => "gateway",
            KafkaLogin::Keda => "keda",
        }
    }
}

/// A kind of resource that Kafka grants rights on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessResource {
    /// A topic.
    Topic,
    /// A consumer group.
    Group,
    /// The id of a producer of transactions.
    TransactionalId,
}

impl AccessResource {
    /// Returns the name for people.
    #[must_use]
    pub fn display_name(self) -> &'static str {
        match self {
            AccessResource::Topic => "topic",
            AccessResource::Group => "group",
            AccessResource::TransactionalId => "transactional id",
        }
    }

    /// Returns the option of `kafka-acls.sh`.
    fn acl_option(self) -> &'static str {
        match self {
            AccessResource::Topic => "--topic",
            AccessResource::Group => "--group",
            AccessResource::TransactionalId => "--transactional-id",
        }
    }
}

/// How a rule's names are compared with those of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NamePattern {
    /// Whole names.
    Literal,
    /// Beginnings of names.
    Prefixed,
}

/// An operation, by Kafka's name. `Describe` comes with `Read`, `Write`, `Delete` and `Alter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum AccessOperation {
    /// To fetch records, or to be a member of a group.
    Read,
    /// To produce.
    Write,
    /// To create topics.
    Create,
    /// To delete topics.
    Delete,
    /// To add partitions to a topic.
    Alter,
    /// To see that it exists, and its offsets.
    Describe,
    /// To read a topic's settings.
    DescribeConfigs,
}

impl AccessOperation {
    /// Returns Kafka's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AccessOperation::Read => "Read",
            AccessOperation::Write => "Write",
            AccessOperation::Create => "Create",
            AccessOperation::Delete => "Delete",
            AccessOperation::Alter => "Alter",
            AccessOperation::Describe => "Describe",
            AccessOperation::DescribeConfigs => "DescribeConfigs",
        }
    }
}

/// A rule that allows one login operations on some resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessRule {
    /// Who needs it.
    pub login: KafkaLogin,
    /// The kind of the resources.
    pub resource: AccessResource,
    /// Whether the names are whole.
    pub pattern: NamePattern,
    /// The resources' names, or the beginnings of their names, with the installation's prefix.
    pub names: Vec<String>,
    /// The operations that the login needs on each of them.
    pub operations: Vec<AccessOperation>,
}

impl AccessRule {
    /// Returns the arguments of `kafka-acls.sh` that give a principal these rights.
    #[must_use]
    pub fn tool_arguments(&self, principal: &str) -> Vec<String> {
        let mut arguments = vec!["--add".to_owned(), "--allow-principal".to_owned(), principal.to_owned()];
        for operation in &self.operations {
            arguments.extend(["--operation".to_owned(), operation.name().to_owned()]);
        }
        if self.pattern == NamePattern::Prefixed {
            arguments.extend(["--resource-pattern-type".to_owned(), "prefixed".to_owned()]);
        }
        for name in &self.names {
            arguments.extend([self.resource.acl_option().to_owned(), name.clone()]);
        }
        arguments
    }
}

/// A rule of the list, without the installation's prefix.
struct Listed {
    login: KafkaLogin,
    resource: AccessResource,
    pattern: NamePattern,
    names: &'static [&'static str],
    operations: &'static [AccessOperation],
    /// True for the topics of single tenants, which have a dot and the tenant behind the name.
    is_of_tenants: bool,
}

const fn for_topics(
    login: KafkaLogin,
    names: &'static [&'static str],
    operations: &'static [AccessOperation],
) -> Listed {
    let (resource, pattern) = (AccessResource::Topic, NamePattern::Literal);
    Listed { login, resource, pattern, names, operations, is_of_tenants: false }
}

const fn tenant_topics(
    login: KafkaLogin,
    names: &'static [&'static str],
    operations: &'static [AccessOperation],
) -> Listed {
    let listed = for_topics(login, names, operations);
    Listed { pattern: NamePattern::Prefixed, is_of_tenants: true, ..listed }
}

/// Lists groups: those of lanes without the prefix `unslide.`.
const fn for_groups(
    login: KafkaLogin,
    names: &'static [&'static str],
    operations: &'static [AccessOperation],
) -> Listed {
    Listed { resource: AccessResource::Group, ..for_topics(login, names, operations) }
}

/// Symbolizers have a transactional id for each lane and worker: `unslide.<lane>.<worker>`.
const LANE_TRANSACTIONS: &[&str] = &["unslide.live.", "unslide.retry.", "unslide.resymbolicate."];
const LIVE_GROUP: &str = "unslide.live";
const RETRY_GROUP: &str = "unslide.retry";
const LANE_GROUPS: &[&str] = &[LIVE_GROUP, RETRY_GROUP, "unslide.resymbolicate"];

/// The list. A service reads the settings of every topic before it starts, also of those that it does not
/// read.
const LIST: &[Listed] = {
    use AccessOperation::{Alter, Create, Delete, Describe, DescribeConfigs, Read, Write};
    use KafkaLogin::{Api, Audit, Builder, Gateway, Indexer, Keda, Migrate, Symbolizer};
    &[
        for_topics(Api, &[DEAD_LETTER, SYMBOL_EVENTS, TENANT_CONFIG], &[Read, DescribeConfigs]),
        for_topics(
            Api,
            &[INPUT, SESSIONS, METRICS, ALERTS, STORED, INGEST_OVERFLOW, REQUESTS],
            &[Write, DescribeConfigs],
        ),
        for_topics(
            Api,
            &[OUTPUT, RETRY_1S, RETRY_10S, RETRY_1M, RETRY_10M, OVERFLOW, LEDGER, USED_SYMBOLS],
            &[Describe, DescribeConfigs],
        ),
        tenant_topics(Api, &[INPUT], &[Write, Create]),
        tenant_topics(Api, &[OUTPUT], &[Create, Describe]),
        for_groups(Api, &[SCAN_GROUP, TAIL_GROUP, RETRY_GROUP], &[Describe]),
        for_topics(Builder, &[REQUESTS, SYMBOL_EVENTS, TENANT_CONFIG], &[Write]),
        tenant_topics(Builder, &[INPUT, OUTPUT], &[Delete]),
        Listed {
            resource: AccessResource::TransactionalId,
            ..for_topics(Builder, &[RELAY_TRANSACTION], &[Write])
        },
        for_topics(
            Symbolizer,
            &[INPUT, INGEST_OVERFLOW, REQUESTS, SYMBOL_EVENTS, TENANT_CONFIG],
            &[Read, DescribeConfigs],
        ),
        for_topics(
            Symbolizer,
            &[RETRY_1S, RETRY_10S, RETRY_1M, RETRY_10M, OVERFLOW, USED_SYMBOLS],
            &[Read, Write, DescribeConfigs],
        ),
        for_topics(Symbolizer, &[OUTPUT, SESSIONS, DEAD_LETTER, LEDGER], &[Write, DescribeConfigs]),
        for_topics(Symbolizer, &[METRICS, ALERTS, STORED], &[Describe, DescribeConfigs]),
        tenant_topics(Symbolizer, &[INPUT], &[Read, DescribeConfigs]),
        tenant_topics(Symbolizer, &[OUTPUT], &[Write, DescribeConfigs]),
        for_groups(Symbolizer, LANE_GROUPS, &[Read]),
        for_groups(Symbolizer, &[TAIL_GROUP], &[Describe]),
        Listed {
            resource: AccessResource::TransactionalId,
            pattern: NamePattern::Prefixed,
            ..for_topics(Symbolizer, LANE_TRANSACTIONS, &[Write])
        },
        for_topics(Indexer, &[OUTPUT, SESSIONS, METRICS, DEAD_LETTER, LEDGER], &[Read, DescribeConfigs]),
        for_topics(
            Indexer,
            &[
                INPUT,
                ALERTS,
                STORED,
                RETRY_1S,
                RETRY_10S,
                RETRY_1M,
                RETRY_10M,
                OVERFLOW,
                INGEST_OVERFLOW,
                REQUESTS,
                SYMBOL_EVENTS,
                TENANT_CONFIG,
                USED_SYMBOLS,
            ],
            &[Describe, DescribeConfigs],
        ),
        tenant_topics(Indexer, &[OUTPUT], &[Read, DescribeConfigs]),
        tenant_topics(Indexer, &[INPUT], &[Describe, DescribeConfigs]),
        for_groups(Indexer, &[POSITIONED_GROUP, SCAN_GROUP, LIVE_GROUP], &[Describe]),
        for_topics(Migrate, GROWING_TOPICS, &[Create, Alter]),
        for_topics(Migrate, OTHER_TOPICS, &[Create, Describe]),
        tenant_topics(Migrate, &[INPUT, OUTPUT], &[Create, Describe]),
        for_topics(
            Audit,
            &[INPUT, RETRY_1S, RETRY_10S, RETRY_1M, RETRY_10M, OVERFLOW, INGEST_OVERFLOW, REQUESTS],
            &[Read],
        ),
        for_topics(Audit, &[OUTPUT, DEAD_LETTER, LEDGER], &[Read, DescribeConfigs]),
        tenant_topics(Audit, &[INPUT], &[Read]),
        tenant_topics(Audit, &[OUTPUT], &[Read, DescribeConfigs]),
        for_groups(Audit, LANE_GROUPS, &[Describe]),
        for_groups(Audit, &[SCAN_GROUP], &[Describe]),
        for_topics(Gateway, &[INPUT, SESSIONS, METRICS, ALERTS], &[Write]),
        tenant_topics(Gateway, &[INPUT], &[Write]),
        for_topics(Keda, &[INPUT], &[Describe]),
        for_groups(Keda, &[LIVE_GROUP], &[Describe]),
    ]
};

/// The topics that a migration makes, and gives more partitions on demand: that of reports first.
pub(crate) const GROWING_TOPICS: &[&str] = &[INPUT, OUTPUT, SESSIONS, METRICS];
/// The other topics that a migration makes.
const OTHER_TOPICS: &[&str] = &[
    ALERTS,
    STORED,
    RETRY_1S,
    RETRY_10S,
    RETRY_1M,
    RETRY_10M,
    OVERFLOW,
    INGEST_OVERFLOW,
    REQUESTS,
    DEAD_LETTER,
    LEDGER,
    SYMBOL_EVENTS,
    TENANT_CONFIG,
    USED_SYMBOLS,
];

/// The list of what the services of a cell need at the topics of another one, to which they pass the records of tenants that have moved
/// there: each to the topic of the same name, and what waited in a lane also to the input or its copy.
const PASSING_LIST: &[Listed] = {
    use AccessOperation::Write;
    use KafkaLogin::{Indexer, Symbolizer};
    &[
        for_topics(
            Symbolizer,
            &[INPUT, RETRY_1S, RETRY_10S, RETRY_1M, RETRY_10M, OVERFLOW, INGEST_OVERFLOW, REQUESTS],
            &[Write],
        ),
        tenant_topics(Symbolizer, &[INPUT], &[Write]),
        for_topics(Indexer, &[OUTPUT, SESSIONS, METRICS, DEAD_LETTER], &[Write]),
        tenant_topics(Indexer, &[OUTPUT], &[Write]),
    ]
};

/// Returns every right that the logins of an installation need, and no more. Topics of single tenants are
/// among them if the settings allow such topics.
#[must_use]
pub fn access_rules(settings: &Settings) -> Vec<AccessRule> {
    build_rules(LIST, settings, &settings.topic_prefix)
}

/// Returns every further right that the logins of a cell need at the topics with this prefix, which are those of another cell: tenants
/// can move there.
#[must_use]
pub fn passing_rules(settings: &Settings, cell_prefix: &str) -> Vec<AccessRule> {
    build_rules(PASSING_LIST, settings, cell_prefix)
}

fn build_rules(list: &[Listed], settings: &Settings, prefix: &str) -> Vec<AccessRule> {
    let listed = list.iter().filter(|listed| settings.tenant_topics || !listed.is_of_tenants);
    let rule = |listed: &Listed| {
        let end = if listed.is_of_tenants { "." } else { "" };
        let name = |name: &&str| format!("{prefix}{name}{end}");
        AccessRule {
            login: listed.login,
            resource: listed.resource,
            pattern: listed.pattern,
            names: listed.names.iter().map(name).collect(),
            operations: listed.operations.to_vec(),
        }
    };
    listed.map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use unslide_proto::lanes::{self, LIVE, RESYMBOLICATE, RETRY};

    fn settings(prefix: &str) -> Settings {
        Settings { topic_prefix: prefix.to_owned(), tenant_topics: true, ..Settings::default() }
    }

    #[test]
    fn the_names_of_the_list_are_those_that_the_code_uses() {
        let topics = settings("p.").topic_names();
        let all: BTreeSet<&str> = topics.all().into_iter().collect();
        for rule in access_rules(&settings("p.")) {
            match (rule.resource, rule.pattern) {
                (AccessResource::Topic, NamePattern::Literal) => {
                    assert!(rule.names.iter().all(|name| all.contains(name.as_str())), "{rule:?}");
                }
                (AccessResource::Topic, NamePattern::Prefixed) => {
                    let of_tenants = [format!("{}.", topics.input), format!("{}.", topics.output)];
                    assert!(rule.names.iter().all(|name| of_tenants.contains(name)), "{rule:?}");
                }
                _ => assert!(rule.names.iter().all(|name| name.starts_with("p.unslide.")), "{rule:?}"),
            }
        }
        let lanes = [LIVE, RETRY, RESYMBOLICATE];
        assert_eq!(LANE_GROUPS, lanes.map(|lane| lanes::consumer_group("", lane)));
        assert_eq!(LANE_TRANSACTIONS, lanes.map(|lane| format!("unslide.{lane}.")));
        let made = [GROWING_TOPICS, OTHER_TOPICS].concat();
        assert_eq!(made, unslide_proto::topics::TopicNames::default().all());
    }

    #[test]
    fn no_right_is_listed_twice_and_none_that_comes_with_another() {
        use AccessOperation::{Alter, Delete, Describe, Read, Write};
        let mut seen = BTreeSet::new();
        for rule in access_rules(&settings("")) {
            for name in &rule.names {
                let whole = format!("{:?} {:?} {:?} {name}", rule.login, rule.resource, rule.pattern);
                assert!(seen.insert(whole.clone()), "{whole}");
            }
            let implies = |operation: &AccessOperation| matches!(operation, Read | Write | Delete | Alter);
            let implied = rule.operations.iter().any(implies);
            assert!(!(implied && rule.operations.contains(&Describe)), "{rule:?}");
        }
    }

    /// Symbolizers pass on what their lanes read, and indexers what they store.
    #[test]
    fn what_a_cell_reads_it_may_write_to_the_same_topics_of_another() {
        use AccessOperation::{Read, Write};
        use unslide_proto::topics::{LEDGER, SYMBOL_EVENTS, TENANT_CONFIG, USED_SYMBOLS};
        let unpassed = [SYMBOL_EVENTS, TENANT_CONFIG, USED_SYMBOLS, LEDGER];
        let topics = |rules: &[AccessRule], operation: AccessOperation| -> BTreeSet<(KafkaLogin, String)> {
            let on_topics = rules.iter().filter(|rule| rule.resource == AccessResource::Topic);
            let chosen = on_topics.filter(|rule| rule.operations.contains(&operation));
            let names = chosen.flat_map(|rule| rule.names.iter().map(|name| (rule.login, name.clone())));
            names.collect()
        };
        let rules = passing_rules(&settings("west."), "east.");
        assert!(rules.iter().all(|rule| rule.operations == [Write]), "{rules:?}");
        let services = [KafkaLogin::Symbolizer, KafkaLogin::Indexer];
        let mut reads = topics(&access_rules(&settings("east.")), Read);
        reads.retain(|(login, name)| {
            services.contains(login) && !unpassed.iter().any(|topic| *name == format!("east.{topic}"))
        });
        assert_eq!(topics(&rules, Write), reads);
        let without = Settings { tenant_topics: false, ..settings("west.") };
        assert!(passing_rules(&without, "east.").iter().all(|rule| rule.pattern == NamePattern::Literal));
    }

    #[test]
    fn topics_of_tenants_need_no_rights_if_there_are_none() {
        let with = access_rules(&settings(""));
        let without = access_rules(&Settings { tenant_topics: false, ..settings("") });
        let left: Vec<&AccessRule> = with.iter().filter(|rule| !without.contains(rule)).collect();
        assert!(!left.is_empty());
        assert!(left.iter().all(|rule| rule.names.iter().all(|name| name.ends_with('.'))), "{left:?}");
    }
}
