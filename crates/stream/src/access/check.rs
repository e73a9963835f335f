//! Finds out which rights the login of this process has. It asks Kafka, and changes nothing.

use crate::access::described::{Authorized, described_groups, described_topics};
use crate::access::{AccessOperation, AccessResource, AccessRule, KafkaLogin, NamePattern, access_rules};
use crate::client::{BROKER_REQUEST_TIMEOUT, Logging, list_topics};
use crate::error::StreamError;
use crate::settings::Settings;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};
use std::collections::BTreeSet;

/// Longer than any broker allows: it checks the right first, then refuses the time-out, and so touches no producer that
/// runs under the transactional id.
const REFUSED_TIMEOUT_MILLIS: &str = "2147483647";

/// One right on one resource, and whether the login has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFinding {
    /// The rule for this one name. With [`AccessOutcome::Missing`] its operations are those that are missing.
    pub rule: AccessRule,
    /// Whether the login may do it.
    pub outcome: AccessOutcome,
}

/// Whether a login has a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessOutcome {
    /// It has.
    Granted,
    /// It lacks the rule's operations.
    Missing,
    /// The topic does not exist.
    NoTopic,
    /// It could not be found out, with the reason.
    Untried(String),
}

/// Checks that the login of these settings has the rights that `login` needs. Returns a finding for each
/// resource of the list.
///
/// # Errors
/// [`StreamError::Refused`] for a login that Kafka refuses; another error if Kafka does not answer.
pub async fn check_access(settings: &Settings, login: KafkaLogin) -> Result<Vec<AccessFinding>, StreamError> {
    let settings = settings.clone();
    settings.require_valid()?;
    let checked = tokio::task::spawn_blocking(move || {
        let made = settings.base_config().create_with_context(Logging);
        let client: AdminClient<Logging> =
            made.map_err(|e| StreamError::from_kafka("making the admin client", e))?;
        let listed = list_topics(client.inner())?;
        let seen = listed.topics().iter().filter(|topic| topic.error().is_none());
        let seen = seen.map(|topic| topic.name().to_owned()).collect();
        let check = AccessCheck { settings: &settings, client, seen };
        let rules = access_rules(&settings).into_iter().filter(|rule| rule.login == login);
        Ok(rules.flat_map(|rule| check.check_rule(&rule)).collect())
    });
    checked.await.map_err(|_| StreamError::Ended("the check of rights".to_owned()))?
}

struct AccessCheck<'s> {
    settings: &'s Settings,
    client: AdminClient<Logging>,
    /// The topics that the login sees.
    seen: BTreeSet<String>,
}

impl AccessCheck<'_> {
    fn check_rule(&self, rule: &AccessRule) -> Vec<AccessFinding> {
        match (rule.resource, rule.pattern) {
            (AccessResource::Topic, NamePattern::Literal) => {
                let described = described_topics(self.client.inner(), &rule.names);
                self.build_findings(rule, described)
            }
            (AccessResource::Topic, NamePattern::Prefixed) => {
                rule.names.iter().flat_map(|beginning| self.topics_that_begin(rule, beginning)).collect()
            }
            (AccessResource::Group, _) => {
                let described = described_groups(self.client.inner(), &rule.names);
                self.build_findings(rule, described)
            }
            (AccessResource::TransactionalId, _) => {
                let tried = rule.names.iter().map(|name| self.check_transaction(rule, name));
                tried.collect()
            }
        }
    }

    fn build_findings(&self, rule: &AccessRule, described: Vec<Authorized>) -> Vec<AccessFinding> {
        let names = rule.names.iter().zip(described);
        names.map(|(name, authorized)| self.build_finding(rule, name, authorized)).collect()
    }

    fn build_finding(&self, rule: &AccessRule, name: &str, authorized: Authorized) -> AccessFinding {
        use RDKafkaErrorCode::{
            GroupAuthorizationFailed, TopicAuthorizationFailed, UnknownTopic, UnknownTopicOrPartition,
        };
        let missing = match authorized {
            Ok(granted) => {
                let lacks = |operation: &&AccessOperation| !granted.contains(operation);
                rule.operations.iter().filter(lacks).copied().collect()
            }
            // Every other right on it would bring this one along.
            Err(TopicAuthorizationFailed | GroupAuthorizationFailed) => rule.operations.clone(),
            Err(UnknownTopic | UnknownTopicOrPartition) => {
                if rule.operations.contains(&AccessOperation::Create) {
                    return self.check_creation(rule, name, name);
                }
                return new_finding(rule, name, &rule.operations, AccessOutcome::NoTopic);
            }
            Err(code) => {
                let untried = AccessOutcome::Untried(KafkaError::AdminOp(code).to_string());
                return new_finding(rule, name, &rule.operations, untried);
            }
        };
        if missing.is_empty() {
            new_finding(rule, name, &rule.operations, AccessOutcome::Granted)
        } else {
            new_finding(rule, name, &missing, AccessOutcome::Missing)
        }
    }

    /// Rights on topics of tenants are seen on one of them, and the right to create at any name.
    fn topics_that_begin(&self, rule: &AccessRule, beginning: &str) -> Vec<AccessFinding> {
        if let Some(one) = self.seen.iter().find(|topic| topic.starts_with(beginning)) {
            let authorized = described_topics(self.client.inner(), std::slice::from_ref(one)).pop();
            return vec![self.build_finding(
                rule,
                beginning,
                authorized.unwrap_or(Err(RDKafkaErrorCode::Fail)),
            )];
        }
        let is_creation = |operation: &AccessOperation| *operation == AccessOperation::Create;
        let (creation, other): (Vec<_>, Vec<_>) = rule.operations.iter().copied().partition(is_creation);
        let mut findings = Vec::new();
        if !creation.is_empty() {
            let rule = AccessRule { operations: creation, ..rule.clone() };
            findings.push(self.check_creation(&rule, beginning, &format!("{beginning}unslide-check")));
        }
        if !other.is_empty() {
            let untried = "no topic of a tenant is seen: there is none yet, or the login may not describe it";
            findings.push(new_finding(rule, beginning, &other, AccessOutcome::Untried(untried.to_owned())));
        }
        findings
    }

    /// Asks for a topic that is not made.
    fn check_creation(&self, rule: &AccessRule, name: &str, topic: &str) -> AccessFinding {
        let new = NewTopic::new(topic, 1, TopicReplication::Fixed(self.settings.replication_factor));
        let options = AdminOptions::new().request_timeout(Some(BROKER_REQUEST_TIMEOUT)).validate_only(true);
        let asked = futures::executor::block_on(self.client.create_topics([&new], &options));
        let answer = asked.map(|mut answers| answers.pop());
        let untried = |error: &dyn std::fmt::Display| AccessOutcome::Untried(error.to_string());
        let (operations, outcome) = match answer {
            Ok(Some(Err((_, RDKafkaErrorCode::TopicAuthorizationFailed)))) => {
                (&[AccessOperation::Create][..], AccessOutcome::Missing)
            }
            Ok(Some(Err((_, code)))) => (&rule.operations[..], untried(&KafkaError::AdminOp(code))),
            Ok(_) => (&rule.operations[..], AccessOutcome::Granted),
            Err(error) => (&rule.operations[..], untried(&error)),
        };
        new_finding(rule, name, operations, outcome)
    }

    fn check_transaction(&self, rule: &AccessRule, name: &str) -> AccessFinding {
        let id = match rule.pattern {
            NamePattern::Literal => name.to_owned(),
            NamePattern::Prefixed => format!("{name}unslide-check"),
        };
        let mut config = self.settings.base_config();
        config.set("transactional.id", id).set("transaction.timeout.ms", REFUSED_TIMEOUT_MILLIS);
        let made = config.create_with_context::<_, BaseProducer>(DefaultProducerContext);
        let error = match made.and_then(|producer| producer.init_transactions(BROKER_REQUEST_TIMEOUT)) {
            Ok(()) => return new_finding(rule, name, &rule.operations, AccessOutcome::Granted),
            Err(error) => error,
        };
        let outcome = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::InvalidTransactionTimeout) => AccessOutcome::Granted,
            Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) => AccessOutcome::Missing,
            _ => AccessOutcome::Untried(error.to_string()),
        };
        new_finding(rule, name, &rule.operations, outcome)
    }
}

fn new_finding(
    rule: &AccessRule,
    name: &str,
    operations: &[AccessOperation],
    outcome: AccessOutcome,
) -> AccessFinding {
    let rule = AccessRule { names: vec![name.to_owned()], operations: operations.to_vec(), ..rule.clone() };
    AccessFinding { rule, outcome }
}
