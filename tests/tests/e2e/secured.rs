//! A Kafka that asks for passwords and denies what no rule allows: each service has a login of its own, with the rights
//! of the list that `unslide migrate --acls` prints.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::time::Duration;
use tempfile::TempDir;
use unslide_embedded::{BrokerLogin, Options, S3Endpoint, Servers};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::acls::Acls;
use unslide_tests::app::{App, FUNCTIONS, list_functions};
use unslide_tests::installation::{BUCKET, Installation, Place, TENANT};

const SERVICES: [&str; 4] = ["builder", "api", "indexer", "symbolizer"];
const NOBODY: &str = "nobody";

fn password(name: &str) -> String {
    format!("{name}-password")
}

/// The settings with which a process logs in, as the list names the logins.
fn login(name: &str) -> [(&'static str, String); 2] {
    let user = format!("unslide-{name}");
    [("UNSLIDE_KAFKA__SECURITY__PASSWORD", password(&user)), ("UNSLIDE_KAFKA__SECURITY__USERNAME", user)]
}

fn borrowed<'s>(settings: &'s [(&'static str, String)]) -> Vec<(&'s str, &'s str)> {
    settings.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

/// The servers of the test, and an installation without topics whose own login is that of `migrate`.
struct Secured {
    installation: Installation,
    acls: Acls,
    servers: Servers,
    _s3: S3Endpoint,
    _folder: TempDir,
}

impl Secured {
    async fn start() -> Secured {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["admin", "unslide-api", "unslide-builder", "unslide-symbolizer", "unslide-indexer"];
        let logins = names.into_iter().chain(["unslide-migrate", "unslide-audit", "unslide-nobody"]);
        let logins = logins.map(|name| BrokerLogin { name: name.to_owned(), password: password(name) });
        let kafka_logins: Vec<BrokerLogin> = logins.collect();
        let admin = kafka_logins[0].clone();
        let options =
            Options { data: folder.path().join("servers"), fast: true, kafka_logins, ..Options::default() };
        let servers = tokio::task::block_in_place(|| Servers::start(&options, &|_| {})).expect("the servers");
        let s3 = S3Endpoint::start(&folder.path().join("objects"), BUCKET).expect("an S3 endpoint");
        let keys = &s3;
        let place = Place {
            kafka: servers.kafka_bootstrap(),
            postgres: servers.postgres_url().to_owned(),
            objects: s3.url(),
            object_keys: (keys.access_key.clone(), keys.secret_key.clone()),
            kafka_admin: Some(admin.clone()),
        };
        let mut settings = login("migrate").to_vec();
        settings.extend([
            ("UNSLIDE_KAFKA__SECURITY__PROTOCOL", "sasl_plaintext".to_owned()),
            ("UNSLIDE_KAFKA__SECURITY__MECHANISM", "PLAIN".to_owned()),
            ("UNSLIDE_KAFKA__TENANT_TOPICS", "true".to_owned()),
        ]);
        let own = tempfile::tempdir().expect("a folder");
        let installation = Installation::unmigrated_on(&place, own, &borrowed(&settings)).await;
        let acls = Acls::connect(&place.kafka, &admin);
        Secured { installation, acls, servers, _s3: s3, _folder: folder }
    }

    /// The rules of the list, as the program prints them.
    fn rules(&self) -> Vec<Value> {
        let printed = self.installation.command_succeeds(&["migrate", "--acls", "--json"]);
        serde_json::from_str(&printed).expect("JSON")
    }

    /// Gives or takes rights; the broker needs a moment to know.
    fn give(&self, rules: &[Value]) {
        tokio::task::block_in_place(|| rules.iter().for_each(|rule| self.acls.grant_rule(rule)));
    }

    /// What `unslide config check --connect` says, with the login of a service and further settings.
    fn check(&self, service: &str, further: &[(&str, &str)]) -> (i32, String) {
        self.check_as(service, service, further)
    }

    fn check_as(&self, user: &str, service: &str, further: &[(&str, &str)]) -> (i32, String) {
        let own = login(user);
        let mut settings = borrowed(&own);
        settings.extend(further);
        let arguments = ["config", "check", "--connect", "--service", service];
        let (code, output, error) =
            tokio::task::block_in_place(|| self.installation.command_with(&arguments, &settings));
        (code, output + &error)
    }

    /// Checks until nothing is missing: rules take a moment to reach the broker.
    async fn check_succeeds(&self, service: &str) {
        let mut waited = Duration::ZERO;
        loop {
            let (code, said) = self.check(service, &[]);
            if code == 0 {
                assert!(!said.contains("missing: "), "{said}");
                return;
            }
            assert!(waited < EVENTUAL_TIMEOUT, "{service}: {said}");
            tokio::time::sleep(Duration::from_millis(500)).await;
            waited += Duration::from_millis(500);
        }
    }

    /// Migrates, starts every service with a login of its own, and makes a tenant with topics of its own.
    async fn start_services(&mut self) {
        self.installation.command_succeeds(&["migrate", "--topics"]);
        for service in SERVICES {
            self.installation.start_service(service, service, &borrowed(&login(service)));
        }
        self.installation.make_tenant(TENANT);
        for service in SERVICES {
            self.installation.wait_ready(service).await;
        }
    }

    async fn stop(self) {
        self.installation.stop().await;
        tokio::task::block_in_place(|| self.servers.stop());
    }
}

/// Sends a report each way before its dSYM is there, then the dSYM, and waits for both revisions of both. What came over
/// HTTP is answered in the output of all, what came in the tenant's own topic in its own output.
async fn late_symbols(installation: &Installation) {
    let app = App::from_fixture("app");
    let client = installation.client();
    let own_input = installation.topic_name(&format!("crash.reports.{TENANT}"));
    let outputs = ["crash.symbolicated".to_owned(), format!("crash.symbolicated.{TENANT}")];
    let outputs = outputs.map(|output| installation.topic_name(&output));
    let (status, accepted) = client.post("/v1/reports", app.build_report(1).bytes()).await;
    assert_eq!(status, 202, "{accepted}");
    installation.topics.produce_record(&own_input, None, &[], &app.build_report(2).bytes()).await;
    for output in &outputs {
        let first =
            installation.topics.wait_for(output, EVENTUAL_TIMEOUT, |records| !records.is_empty()).await;
        assert!(first.iter().all(|record| list_functions(&record.parse_json()).iter().all(Vec::is_empty)));
    }
    // A report that nothing knows to wait could not be woken.
    client
        .wait_for("/v1/missing-symbols", EVENTUAL_TIMEOUT, |_, page| {
            page.to_string().contains(&app.debug_id.to_string())
        })
        .await;
    client
        .wait_for("/v1/reports?app=com.example.shop", EVENTUAL_TIMEOUT, |status, page| {
            status == 200 && page["items"].as_array().is_some_and(|items| items.len() == 2)
        })
        .await;
    client.upload_symbols(app.dsym.clone()).await;
    for output in &outputs {
        let all = installation.topics.wait_for(output, EVENTUAL_TIMEOUT, |records| records.len() >= 2).await;
        let healed =
            all.iter().filter(|record| list_functions(&record.parse_json()) == FUNCTIONS.map(<[_]>::to_vec));
        assert_eq!((all.len(), healed.count()), (2, 1), "{output}");
    }
    client
        .wait_for("/v1/reports?app=com.example.shop", EVENTUAL_TIMEOUT, |status, page| {
            let stored = page["items"].as_array().map_or(0, Vec::len);
            status == 200 && stored == 2 && !page.to_string().contains(r#""revision":1"#)
        })
        .await;
}

/// Makes a dead letter and replays it.
async fn dead_letter(installation: &mut Installation) {
    let create = ["key", "create", "--tenant", TENANT, "--scope", "tenant:admin,reports:write"];
    let made = installation.command_succeeds(&create);
    let key = made.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key");
    let key = std::mem::replace(&mut installation.key, key.to_owned());
    let input = installation.topic_name("crash.reports");
    installation.topics.produce_record(&input, None, &[("tenant", TENANT)], b"{\"report\":").await;
    let letters = async |count: usize| {
        let mut waited = Duration::ZERO;
        loop {
            let listed = installation.command_succeeds(&["dead-letter", "list", "--json"]);
            let found: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
            if found.len() >= count {
                return found;
            }
            assert!(waited < EVENTUAL_TIMEOUT, "{listed}");
            tokio::time::sleep(Duration::from_millis(300)).await;
            waited += Duration::from_millis(300);
        }
    };
    let first = letters(1).await;
    installation.command_succeeds(&["dead-letter", "replay", first[0]["id"].as_str().expect("an id")]);
    letters(2).await;
    installation.key = key;
}

/// Waits until the tenant's topics are gone.
async fn delete_tenant(secured: &Secured) {
    secured.installation.command_succeeds(&["tenant", "delete", TENANT, "--yes"]);
    let mut waited = Duration::ZERO;
    while secured.installation.topics.list_names().iter().any(|topic| topic.ends_with(TENANT)) {
        assert!(waited < EVENTUAL_TIMEOUT, "{}", secured.installation.read_log("builder"));
        tokio::time::sleep(Duration::from_millis(300)).await;
        waited += Duration::from_millis(300);
    }
}

/// Takes rights away, and expects each to be named with the command that gives it.
async fn missing_rights_are_named(secured: &mut Secured) {
    let topic = secured.installation.topic_name("crash.reports");
    let (group, transactions) =
        (secured.installation.topic_name("unslide.retry"), secured.installation.topic_name("unslide.live."));
    let taken = [
        ("topic", "literal", &topic, "DescribeConfigs", "--topic"),
        ("group", "literal", &group, "Read", "--group"),
        ("transactional_id", "prefixed", &transactions, "Write", "--transactional-id"),
    ];
    for (resource, pattern, name, operation, _) in taken {
        let rule = serde_json::json!({
            "principal": "User:unslide-symbolizer", "resource": resource, "pattern": pattern, "names": [name],
            "operations": [operation],
        });
        tokio::task::block_in_place(|| secured.acls.revoke_rule(&rule));
    }
    let mut waited = Duration::ZERO;
    let said = loop {
        let (code, said) = secured.check("symbolizer", &[]);
        let missing = said.lines().filter(|line| line.starts_with("missing: ")).count();
        if missing == taken.len() {
            assert_eq!(code, 2, "{said}");
            break said;
        }
        assert!(waited < EVENTUAL_TIMEOUT, "{said}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        waited += Duration::from_millis(500);
    };
    for (_, pattern, name, operation, option) in taken {
        let prefixed = if pattern == "prefixed" { "--resource-pattern-type prefixed " } else { "" };
        let grant = format!(
            "--allow-principal User:unslide-symbolizer --operation {operation} {prefixed}{option} {name}"
        );
        assert!(
            said.lines().any(|line| line.starts_with("missing: ") && line.ends_with(&grant)),
            "{grant}\n{said}"
        );
    }
    // A symbolizer does not start then, and says why in words that an operator can act on.
    let logged = ended(secured, "denied", &login("symbolizer")).await;
    let text = format!(
        "the settings of {topic} may not be read: grant the operation DescribeConfigs on this topic to User:unslide-symbolizer"
    );
    assert!(logged.contains(&text), "{logged}");
}

/// Starts a symbolizer that cannot run, and what it had logged when it had ended.
async fn ended(secured: &mut Secured, name: &str, settings: &[(&'static str, String)]) -> String {
    secured.installation.start_service(name, "symbolizer", &borrowed(settings));
    let mut waited = Duration::ZERO;
    while secured.installation.find_process(name).exit_status().is_none() {
        assert!(waited < EVENTUAL_TIMEOUT, "{}", secured.installation.read_log(name));
        tokio::time::sleep(Duration::from_millis(100)).await;
        waited += Duration::from_millis(100);
    }
    secured.installation.take_process(name);
    secured.installation.read_log(name)
}

/// What a wrong password, a bucket and a database that refuse look like.
async fn refusals_are_named(secured: &mut Secured) {
    let wrong = [("UNSLIDE_KAFKA__SECURITY__PASSWORD", "guessed-it")];
    let (code, said) = secured.check("symbolizer", &wrong);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("missing: Kafka") && said.contains("refuses the login"), "{said}");
    assert!(said.contains("kafka.security") && !said.contains("guessed-it"), "{said}");
    let [_, user] = login("symbolizer");
    let settings = [("UNSLIDE_KAFKA__SECURITY__PASSWORD", "guessed-it".to_owned()), user];
    let logged = ended(secured, "wrong", &settings).await;
    assert!(logged.contains("Kafka refuses the login") && !logged.contains("guessed-it"), "{logged}");

    let (code, said) = secured.check("builder", &[("UNSLIDE_OBJECTS__SECRET_KEY", "guessed-it")]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("missing: object storage") && said.contains("SignatureDoesNotMatch"), "{said}");
    assert!(said.contains("s3:ListBucket") && !said.contains("guessed-it"), "{said}");

    let mut database = PgConnection::connect(&secured.installation.database_url()).await.expect("PostgreSQL");
    let create = format!("CREATE ROLE {NOBODY} LOGIN PASSWORD 'guessed-it'");
    database.execute(AssertSqlSafe(create)).await.expect("a role");
    let url = secured.installation.database_url();
    let (_, place) = url.split_once('@').expect("a URL with a password");
    let url = format!("postgres://{NOBODY}:guessed-it@{place}");
    let (code, said) = secured.check("indexer", &[("UNSLIDE_POSTGRES__URL", &url)]);
    assert_eq!(code, 2, "{said}");
    let grant = format!("GRANT unslide_service TO {NOBODY}");
    assert!(said.contains("missing: PostgreSQL") && said.contains(&grant), "{said}");
    assert!(!said.contains("guessed-it"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_list_are_enough_for_everything_and_a_missing_one_is_named() {
    let mut secured = Secured::start().await;
    // Nothing is allowed yet: even who migrates is told what to grant.
    let (code, said) = secured.check("migrate", &[]);
    assert!(
        code == 2 && said.contains("Create") && said.contains("--allow-principal User:unslide-migrate"),
        "{said}"
    );
    let mut rules = secured.rules();
    // The broker applies rules in their order: once those of this login hold, those of all others do.
    rules.sort_by_key(|rule| rule["principal"] == "User:unslide-migrate");
    secured.give(&rules);
    secured.check_succeeds("migrate").await;
    secured.start_services().await;
    for name in SERVICES.into_iter().chain(["audit"]) {
        secured.check_succeeds(name).await;
    }
    let (code, said) = secured.check_as("nobody", "api", &[]);
    assert!(code == 2 && said.contains("missing: Kafka, api: Write, DescribeConfigs on topics"), "{said}");

    late_symbols(&secured.installation).await;
    dead_letter(&mut secured.installation).await;
    let (code, audit, error) =
        secured.installation.command_with(&["audit", "--json"], &borrowed(&login("audit")));
    let audit: Value = serde_json::from_str(&audit).unwrap_or_else(|e| panic!("{e}: {audit}{error}"));
    assert_eq!((code, &audit["clean"]), (0, &true.into()), "{audit}");
    delete_tenant(&secured).await;
    for service in SERVICES {
        let logged = secured.installation.read_log(service).to_lowercase();
        let denied = logged.lines().find(|line| line.contains("authorization"));
        assert_eq!(denied, None, "{service}");
    }
    let running = secured.installation.take_process("symbolizer");
    assert!(tokio::task::block_in_place(|| running.terminate()).success());
    missing_rights_are_named(&mut secured).await;
    refusals_are_named(&mut secured).await;
    secured.stop().await;
}
