//! Tries all operations of a service with its servers, for `unslide config check --connect`. It changes
//! nothing but an object of its own.

use crate::boot;
use crate::configuration::Configuration;
use crate::configuration::section::Section;
use crate::servers::logins;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::timeout;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::{ObjectStore, Put, StorageError};
use unslide_cli::{Exit, Outcome, block_on, say};
use unslide_history::{History, HistoryCheck, HistoryPolicies, HistorySettings};
use unslide_model::{Clock, SystemClock, format_causes};
use unslide_store::cells::{Cell, list_cells};
use unslide_store::partitions::{LockCapacity, read_lock_capacity};
use unslide_store::{Store, StoreError};
use unslide_stream::access::{
    AccessFinding, AccessOutcome, AccessRule, KafkaLogin, NamePattern, check_access,
};
use unslide_stream::{StreamError, admin, count_workers};

/// How long one server may take to answer all that it is asked.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);
/// A difference between clocks that an operator should know of. Signatures of requests and records allow minutes.
const CLOCK_TOLERANCE_SECONDS: i64 = 5;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckResult {
    Ok(String),
    Warning(String),
    Missing(String),
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckResult::Ok(text) => write!(f, "ok: {text}"),
            CheckResult::Warning(text) => write!(f, "warning: {text}"),
            CheckResult::Missing(text) => write!(f, "missing: {text}"),
        }
    }
}

/// Tries what this service needs, or what all services need, and prints a line for each thing.
pub fn run(configuration: &Configuration, login: Option<KafkaLogin>) -> Outcome {
    let services = [KafkaLogin::Api, KafkaLogin::Builder, KafkaLogin::Symbolizer, KafkaLogin::Indexer];
    let logins = login.map_or_else(|| services.to_vec(), |login| vec![login]);
    let reads = |section: Section| logins.iter().any(|login| section.is_read_by(*login));
    // A migration has a login of its own, which no service uses.
    let postgres = reads(Section::Postgres) && login != Some(KafkaLogin::Migrate);
    block_on(async {
        let mut results = check_kafka(&configuration.api.kafka, &logins).await;
        if postgres {
            results.extend(check_database(&configuration.api.postgres).await);
        }
        if reads(Section::Objects) {
            results.extend(check_objects(&configuration.api.objects).await);
        }
        if reads(Section::History) && configuration.api.history.is_on() {
            results.push(check_history(&configuration.api.history).await);
        }
        if logins.contains(&KafkaLogin::Api) && configuration.api.cells.is_on() {
            results.push(check_directory(configuration).await);
        }
        for result in &results {
            say!("{result}");
        }
        let missing = results.iter().filter(|result| matches!(result, CheckResult::Missing(_))).count();
        if missing == 0 {
            return Ok(Exit::Ready);
        }
        say!("{missing} of {} checks found something missing", results.len());
        Ok(Exit::Usage)
    })
}

/// Checks the login at Kafka, its rights, and the topics' settings.
async fn check_kafka(settings: &unslide_stream::Settings, logins: &[KafkaLogin]) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for login in logins {
        let checked = timeout(SERVER_TIMEOUT, check_access(settings, *login)).await;
        match checked.unwrap_or_else(|_| Err(StreamError::Silent(settings.bootstrap.clone()))) {
            Ok(findings) => {
                if results.is_empty() {
                    let text =
                        format!("Kafka at {} lets {} in", settings.bootstrap, settings.describe_login());
                    results.push(CheckResult::Ok(text));
                }
                results
                    .extend(merge_findings(findings).iter().map(|finding| describe_right(settings, finding)));
            }
            Err(error) => {
                let text =
                    format!("Kafka at {} (kafka.bootstrap): {}", settings.bootstrap, format_causes(&error));
                return vec![CheckResult::Missing(text)];
            }
        }
    }
    // Without the rights the settings of topics cannot be read.
    if results.iter().all(|result| !matches!(result, CheckResult::Missing(_))) {
        results.extend(check_topics(settings, logins).await);
        results.extend(check_partitions(settings, logins).await);
    }
    results
}

/// Checks the settings of the topics, for services that refuse to work with wrong ones. The api leaves out
/// those of tenants.
async fn check_topics(settings: &unslide_stream::Settings, logins: &[KafkaLogin]) -> Option<CheckResult> {
    let reads_tenants = logins.contains(&KafkaLogin::Symbolizer) || logins.contains(&KafkaLogin::Indexer);
    if !reads_tenants && !logins.contains(&KafkaLogin::Api) {
        return None;
    }
    let tenant_topics = settings.tenant_topics && reads_tenants;
    let settings = unslide_stream::Settings { tenant_topics, ..settings.clone() };
    Some(match admin::verify_topics(&settings).await {
        Ok(()) => CheckResult::Ok("Kafka: every topic has the settings that it needs".to_owned()),
        Err(error) => CheckResult::Missing(format!("Kafka: {}", format_causes(&error))),
    })
}

/// Warns if symbolizers have nothing to do because their topic has too few partitions.
async fn check_partitions(settings: &unslide_stream::Settings, logins: &[KafkaLogin]) -> Option<CheckResult> {
    if !logins.contains(&KafkaLogin::Symbolizer) {
        return None;
    }
    let input = settings.topic_names().input;
    Some(match count_workers(settings).await {
        Ok((workers, partitions)) if workers > partitions => CheckResult::Warning(format!(
            "Kafka: {workers} symbolizers share the {partitions} partitions of {input}: {} of them have no work. Add partitions: \
             unslide migrate --topics --partitions {}",
            workers - partitions,
            workers * 2
        )),
        Ok((workers, partitions)) => CheckResult::Ok(format!(
            "Kafka: {input} has {partitions} partitions for {workers} symbolizers that run now"
        )),
        Err(error) => CheckResult::Missing(format!("Kafka: {}", format_causes(&error))),
    })
}

/// Findings with the same operations and outcome in one, so that one command grants them.
fn merge_findings(findings: Vec<AccessFinding>) -> Vec<AccessFinding> {
    let mut merged: Vec<AccessFinding> = Vec::new();
    for finding in findings {
        let same = merged.iter_mut().find(|known| {
            let names = AccessRule { names: finding.rule.names.clone(), ..known.rule.clone() };
            names == finding.rule && known.outcome == finding.outcome
        });
        match same {
            Some(known) => known.rule.names.extend(finding.rule.names),
            None => merged.push(finding),
        }
    }
    merged
}

/// Returns the line for a right at Kafka.
fn describe_right(settings: &unslide_stream::Settings, finding: &AccessFinding) -> CheckResult {
    let AccessFinding { rule, outcome } = finding;
    let operations: Vec<&str> = rule.operations.iter().map(|operation| operation.name()).collect();
    let plural = if rule.names.len() == 1 { "" } else { "s" };
    let end = if rule.pattern == NamePattern::Prefixed { "*" } else { "" };
    let names: Vec<String> = rule.names.iter().map(|name| format!("{name}{end}")).collect();
    let (resource, names) = (rule.resource.display_name(), names.join(", "));
    let what =
        format!("Kafka, {}: {} on {resource}{plural} {names}", rule.login.name(), operations.join(", "));
    match outcome {
        AccessOutcome::Granted => CheckResult::Ok(what),
        AccessOutcome::Missing => {
            let principal = match settings.security.username.as_str() {
                "" => format!("User:unslide-{}", rule.login.name()),
                name => format!("User:{name}"),
            };
            let grant = logins::acl_command(settings, rule, &principal);
            CheckResult::Missing(format!("{what}. Grant it: {grant}"))
        }
        AccessOutcome::NoTopic => CheckResult::Missing(format!(
            "{what}: the topic does not exist. Create it: unslide migrate --topics"
        )),
        AccessOutcome::Untried(reason) => {
            CheckResult::Warning(format!("{what} could not be tried: {reason}"))
        }
    }
}

/// Checks the login at PostgreSQL, its role, the sessions, the migrations, the clock, and the size of the table of locks.
async fn check_database(settings: &unslide_store::Settings) -> Vec<CheckResult> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let place = format!("PostgreSQL at {}", boot::database_address(settings));
    let connected = timeout(SERVER_TIMEOUT, Store::connect(settings, clock.clone())).await;
    let store = match connected {
        Ok(Ok(store)) => store,
        Ok(Err(error)) => return vec![CheckResult::Missing(refused_database(&place, settings, &error))],
        Err(_) => return vec![CheckResult::Missing(no_answer(&format!("{place} (postgres.url)")))],
    };
    let works = format!(
        "{place}: the login acts as {}, its connections have sessions of their own, and all migrations of this version are applied",
        settings.role
    );
    let clocks = clock_difference("PostgreSQL", clock.now(), store.clock().now());
    let locks = timeout(SERVER_TIMEOUT, read_lock_capacity(&store)).await;
    store.close().await;
    let mut results = vec![CheckResult::Ok(works), clocks];
    match locks {
        Ok(Ok(capacity)) => results.push(compare_locks(&capacity)),
        Ok(Err(error)) => results.push(CheckResult::Missing(format!("{place}: {}", format_causes(&error)))),
        Err(_) => results.push(CheckResult::Missing(no_answer(&place))),
    }
    results
}

/// Says whether PostgreSQL has locks for the partitions of the stored days.
fn compare_locks(capacity: &LockCapacity) -> CheckResult {
    let statements = capacity.count_statements();
    let LockCapacity { for_each_connection, widest_statement, .. } = capacity;
    match capacity.find_needed_setting() {
        None => CheckResult::Ok(format!(
            "PostgreSQL has locks for {statements} statements over all stored days at once (max_locks_per_transaction = {for_each_connection})"
        )),
        Some(needed) => CheckResult::Warning(format!(
            "PostgreSQL has locks for {statements} statements over all stored days at once: each takes up to {widest_statement}. Set \
             max_locks_per_transaction = {needed} (it is {for_each_connection}) and restart PostgreSQL, before statements fail with \
             \"out of shared memory\""
        )),
    }
}

fn no_answer(place: &str) -> String {
    format!("{place} did not answer within {} s", SERVER_TIMEOUT.as_secs())
}

fn refused_database(place: &str, settings: &unslide_store::Settings, error: &StoreError) -> String {
    let text = format!("{place} (postgres.url): {}", format_causes(error));
    if !error.is_denied() {
        return text;
    }
    format!(
        "{text}. Grant it as the database's owner: GRANT {} TO {}",
        settings.role,
        boot::database_user(settings)
    )
}

/// Tries each action of a service on object storage, and compares the clocks.
async fn check_objects(settings: &unslide_artifacts::Settings) -> Vec<CheckResult> {
    let endpoint = settings.endpoint.as_deref().unwrap_or("AWS");
    let place = format!("object storage at {endpoint}, bucket {}", settings.bucket);
    let key = keys::access_check(SystemClock.now_micros());
    let tried = timeout(SERVER_TIMEOUT, use_bucket(&ObjectStore::s3(settings).await, &key)).await;
    match tried {
        Ok(Ok(modified)) => {
            let works = format!("{place}: list, put, get and delete, tried with {key}");
            // The store tells whole seconds.
            let here = SystemClock.now();
            let clocks = modified.map(|there| clock_difference("object storage", here, there));
            std::iter::once(CheckResult::Ok(works)).chain(clocks).collect()
        }
        Ok(Err((action, error))) => {
            let resource = if action == "s3:ListBucket" { "" } else { "/*" };
            vec![CheckResult::Missing(format!(
                "{place}: {}. Check objects.bucket and the keys, and allow {action} on arn:aws:s3:::{}{resource}",
                format_causes(&error),
                settings.bucket
            ))]
        }
        Err(_) => vec![CheckResult::Missing(no_answer(&format!("{place} (objects.endpoint)")))],
    }
}

/// Checks the login at ClickHouse, the tables, and that no other user reads rows.
async fn check_history(settings: &HistorySettings) -> CheckResult {
    let place = format!("ClickHouse at {} (history.url)", settings.url.as_deref().unwrap_or_default());
    let asked = async { History::new(settings)?.check().await };
    match timeout(SERVER_TIMEOUT, asked).await {
        Ok(Ok(check)) => judge_history(&place, check),
        Ok(Err(error)) => CheckResult::Missing(format!("{place}: {}", format_causes(&error))),
        Err(_) => CheckResult::Missing(no_answer(&place)),
    }
}

/// Checks the login at the directory of cells, and that the directory has this cell as it is.
async fn check_directory(configuration: &Configuration) -> CheckResult {
    let (cells, api) = (&configuration.api.cells, &configuration.api);
    let settings = cells.directory_settings(&api.postgres);
    let place = format!("the directory of cells at {} (cells.directory)", boot::database_address(&settings));
    let listed = async {
        let store = Store::connect(&settings, Arc::new(SystemClock)).await?;
        let listed = list_cells(&store).await;
        store.close().await;
        listed
    };
    match timeout(SERVER_TIMEOUT, listed).await {
        Ok(Ok(listed)) => judge_directory(&place, &cells.name, &api.kafka.topic_prefix, &listed),
        Ok(Err(error)) => CheckResult::Missing(format!("{place}: {}", format_causes(&error))),
        Err(_) => CheckResult::Missing(no_answer(&place)),
    }
}

fn judge_directory(place: &str, name: &str, topic_prefix: &str, listed: &[Cell]) -> CheckResult {
    let Some(cell) = listed.iter().find(|cell| cell.name == name) else {
        return CheckResult::Missing(format!(
            "{place} has no cell {name}. Add it: unslide cells set {name} --url URL"
        ));
    };
    if cell.topic_prefix != topic_prefix {
        return CheckResult::Missing(format!(
            "{place}: the cell {name} has the topic prefix \"{}\" there, and \"{topic_prefix}\" here (kafka.topic_prefix). \
             Records of tenants that move here would be lost: unslide cells set {name}",
            cell.topic_prefix
        ));
    }
    CheckResult::Ok(format!("{place}: {} cells, and this one is {name} at {}", listed.len(), cell.url))
}

fn judge_history(place: &str, check: HistoryCheck) -> CheckResult {
    let HistoryCheck { version, has_schema, policies, cluster_problem } = check;
    if !has_schema {
        return CheckResult::Missing(format!(
            "{place}: the tables are missing. Create them: unslide migrate"
        ));
    }
    if let Some(problem) = cluster_problem {
        return CheckResult::Missing(format!("{place}: {problem}"));
    }
    match policies {
        HistoryPolicies::Closed => CheckResult::Ok(format!(
            "{place}: version {version}, the tables are there, and no other user reads their rows"
        )),
        HistoryPolicies::NoAccessControl => CheckResult::Warning(format!(
            "{place}: version {version} keeps no users and row policies: everyone who reaches it reads the rows"
        )),
        HistoryPolicies::Open(reason) => CheckResult::Missing(format!("{place}: {reason}")),
    }
}

/// Lists, puts, reads and deletes. Gives the time of the object, or the action that was refused.
async fn use_bucket(
    store: &ObjectStore,
    key: &ObjectKey,
) -> Result<Option<OffsetDateTime>, (&'static str, StorageError)> {
    let failed = |action| move |error| (action, error);
    store.check().await.map_err(failed("s3:ListBucket"))?;
    store
        .put(key, "written by `unslide config check --connect`".into(), &Put::default())
        .await
        .map_err(failed("s3:PutObject"))?;
    let read = store.get(key, 1 << 10).await.map_err(failed("s3:GetObject"));
    store.delete(key).await.map_err(failed("s3:DeleteObject"))?;
    Ok(read?.and_then(|object| object.head.modified))
}

fn clock_difference(server: &str, here: OffsetDateTime, there: OffsetDateTime) -> CheckResult {
    let seconds = (here - there).whole_seconds();
    if seconds.abs() <= CLOCK_TOLERANCE_SECONDS {
        return CheckResult::Ok(format!("the clock of this machine is that of {server}"));
    }
    let direction = if seconds > 0 { "ahead of" } else { "behind" };
    CheckResult::Warning(format!(
        "the clock of this machine is {} s {direction} that of {server}: set both by NTP",
        seconds.abs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_stream::access::{AccessOperation, AccessResource};

    #[test]
    fn a_clock_that_is_wrong_by_seconds_is_a_warning_that_says_which_way() {
        let there = OffsetDateTime::UNIX_EPOCH;
        let at = |seconds| clock_difference("PostgreSQL", there + time::Duration::seconds(seconds), there);
        for seconds in [-5, 0, 5] {
            assert!(matches!(at(seconds), CheckResult::Ok(_)), "{seconds}");
        }
        let CheckResult::Warning(ahead) = at(6) else { panic!("{:?}", at(6)) };
        assert!(ahead.contains("6 s ahead of that of PostgreSQL"), "{ahead}");
        let CheckResult::Warning(behind) = at(-90) else { panic!("{:?}", at(-90)) };
        assert!(behind.contains("90 s behind that of PostgreSQL"), "{behind}");
    }

    #[test]
    fn too_few_locks_are_a_warning_with_the_setting_that_is_needed() {
        let capacity = LockCapacity { for_each_connection: 64, connections: 100, widest_statement: 1_410 };
        let CheckResult::Warning(text) = compare_locks(&capacity) else { panic!("a warning") };
        assert!(text.contains("4 statements") && text.contains("max_locks_per_transaction = 256"), "{text}");
        assert!(matches!(
            compare_locks(&LockCapacity { for_each_connection: 512, ..capacity }),
            CheckResult::Ok(_)
        ));
    }

    #[test]
    fn a_directory_without_this_cell_or_with_other_topics_is_refused() {
        let cell = Cell {
            name: "eu".to_owned(),
            url: "http://eu:8080".to_owned(),
            topic_prefix: "eu.".to_owned(),
            region: String::new(),
        };
        let judge =
            |name, prefix| judge_directory("the directory", name, prefix, std::slice::from_ref(&cell));
        assert!(matches!(judge("eu", "eu."), CheckResult::Ok(_)));
        let CheckResult::Missing(absent) = judge("us", "us.") else { panic!("it is refused") };
        assert!(absent.contains("unslide cells set us"), "{absent}");
        let CheckResult::Missing(other) = judge("eu", "unslide.") else { panic!("it is refused") };
        assert!(other.contains("kafka.topic_prefix"), "{other}");
    }

    #[test]
    fn a_clickhouse_whose_rows_others_read_is_refused() {
        let check = |policies, has_schema| HistoryCheck {
            version: "25.8.1.1".into(),
            has_schema,
            policies,
            cluster_problem: None,
        };
        let judge = |check| judge_history("ClickHouse", check);
        assert!(matches!(judge(check(HistoryPolicies::Closed, true)), CheckResult::Ok(_)));
        let CheckResult::Missing(open) = judge(check(HistoryPolicies::Open("bob reads".into()), true)) else {
            panic!("it is refused")
        };
        assert!(open.contains("bob reads"), "{open}");
        let CheckResult::Missing(bare) = judge(check(HistoryPolicies::Closed, false)) else {
            panic!("it is refused")
        };
        assert!(bare.contains("unslide migrate"), "{bare}");
        let problem = Some("the server knows no cluster c".to_owned());
        let other = HistoryCheck { cluster_problem: problem, ..check(HistoryPolicies::Closed, true) };
        assert!(matches!(judge(other), CheckResult::Missing(_)));
    }

    #[test]
    fn rights_that_are_missing_in_the_same_way_are_one_line_with_one_command() {
        let settings = unslide_stream::Settings::single_broker("kafka:9092");
        let finding = |name: &str, outcome| AccessFinding {
            rule: AccessRule {
                login: KafkaLogin::Builder,
                resource: AccessResource::Topic,
                pattern: NamePattern::Literal,
                names: vec![name.to_owned()],
                operations: vec![AccessOperation::Write],
            },
            outcome,
        };
        let findings = vec![
            finding("a", AccessOutcome::Missing),
            finding("b", AccessOutcome::Granted),
            finding("c", AccessOutcome::Missing),
        ];
        let lines: Vec<String> = merge_findings(findings)
            .iter()
            .map(|finding| describe_right(&settings, finding).to_string())
            .collect();
        let grant = "kafka-acls.sh --bootstrap-server kafka:9092 --command-config kafka-admin.properties --add --allow-principal \
                     User:unslide-builder --operation Write --topic a --topic c";
        assert_eq!(
            lines,
            [
                format!("missing: Kafka, builder: Write on topics a, c. Grant it: {grant}"),
                "ok: Kafka, builder: Write on topic b".to_owned(),
            ]
        );
    }
}
