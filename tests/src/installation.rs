//! One installation of the service: a database, a topic prefix and a bucket of its own, and every
//! service as a process.

use crate::binary::{self, Process};
use crate::client::Client;
use crate::topics::Topics;
use sqlx::{Connection, Executor, PgConnection};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use unslide_embedded::{BrokerLogin, S3Endpoint, free_port};
use unslide_harness::create_service_database;
use unslide_testkit::servers;

/// The tenant that an installation is made with.
pub const TENANT: &str = "acme";

/// The servers that an installation lives on.
#[derive(Clone, Debug)]
pub struct Place {
    /// Kafka's address.
    pub kafka: String,
    /// The URL of a superuser of PostgreSQL.
    pub postgres: String,
    /// The URL of an S3 endpoint with a bucket [`BUCKET`].
    pub objects: String,
    /// Credentials of the endpoint's clients: the key's id and its secret.
    pub object_keys: (String, String),
    /// Who may do everything at a Kafka that asks for passwords.
    pub kafka_admin: Option<BrokerLogin>,
}

impl Place {
    /// The URL of a database on its PostgreSQL, as the superuser.
    ///
    /// # Panics
    /// If the superuser's URL names no database.
    #[must_use]
    pub fn database_url(&self, name: &str) -> String {
        format!("{}/{name}", self.postgres.rsplit_once('/').expect("a URL with a database").0)
    }
}

/// The bucket of every installation.
pub const BUCKET: &str = "unslide";

/// An installation. Dropped, its processes are killed and its folder is deleted.
pub struct Installation {
    /// The api's address.
    pub url: String,
    /// A key of [`TENANT`] with every scope of a tenant.
    pub key: String,
    /// Clients of its Kafka.
    pub topics: Topics,
    environment: BTreeMap<String, String>,
    prefix: String,
    database: String,
    place: Place,
    processes: BTreeMap<String, Process>,
    _s3: Option<S3Endpoint>,
    folder: TempDir,
}

impl Installation {
    /// A migrated installation with a tenant and a key; no service runs yet.
    ///
    /// # Panics
    /// If a server is missing or a step fails.
    pub async fn prepare() -> Installation {
        Installation::prepare_with(&[]).await
    }

    /// As [`Installation::prepare`], with further settings.
    ///
    /// # Panics
    /// If a server is missing or a step fails.
    pub async fn prepare_with(settings: &[(&str, &str)]) -> Installation {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = folder.path().join("objects");
        let s3 = S3Endpoint::start(&objects, BUCKET).expect("an S3 endpoint");
        let keys = &s3;
        let place = Place {
            kafka: servers::kafka(),
            postgres: servers::postgres(),
            objects: s3.url(),
            object_keys: (keys.access_key.clone(), keys.secret_key.clone()),
            kafka_admin: None,
        };
        let mut installation = Installation::configure(&place, folder, settings);
        // A whole migration takes more time than most tests.
        Box::pin(create_service_database(&installation.database)).await;
        installation.command_succeeds(&["migrate", "--topics"]);
        installation._s3 = Some(s3);
        installation
    }

    /// As [`Installation::prepare`], on servers of one's own and with further settings. The folder
    /// takes caches and logs.
    ///
    /// # Panics
    /// If a step fails.
    pub async fn prepare_on(place: &Place, folder: TempDir, settings: &[(&str, &str)]) -> Installation {
        let installation = Installation::unmigrated_on(place, folder, settings).await;
        installation.command_succeeds(&["migrate", "--topics"]);
        installation
    }

    /// As [`Installation::prepare_on`], with an empty database and without topics.
    ///
    /// # Panics
    /// If a step fails.
    pub async fn unmigrated_on(place: &Place, folder: TempDir, settings: &[(&str, &str)]) -> Installation {
        let installation = Installation::configure(place, folder, settings);
        let mut admin = PgConnection::connect(&place.postgres).await.expect("PostgreSQL");
        let create = format!("CREATE DATABASE {}", installation.database);
        admin.execute(sqlx::AssertSqlSafe(create)).await.expect("a database");
        installation
    }

    fn configure(place: &Place, folder: TempDir, settings: &[(&str, &str)]) -> Installation {
        let name = servers::unique("e2e");
        let database = name.replace('-', "_");
        let port = free_port().expect("a port");
        let url = place.database_url(&database);
        let mut environment = BTreeMap::from(
            [
                ("UNSLIDE_KAFKA__BOOTSTRAP", place.kafka.clone()),
                ("UNSLIDE_KAFKA__TOPIC_PREFIX", format!("{name}.")),
                ("UNSLIDE_KAFKA__REPLICATION_FACTOR", "1".into()),
                ("UNSLIDE_KAFKA__MIN_INSYNC_REPLICAS", "1".into()),
                ("UNSLIDE_KAFKA__PARTITIONS__INPUT", "4".into()),
                ("UNSLIDE_KAFKA__PARTITIONS__OUTPUT", "2".into()),
                ("UNSLIDE_KAFKA__PARTITIONS__OVERFLOW", "1".into()),
                ("UNSLIDE_KAFKA__PARTITIONS__INTERNAL", "1".into()),
                ("UNSLIDE_POSTGRES__URL", url),
                ("UNSLIDE_POSTGRES__ANY_LOGIN", "true".into()),
                ("UNSLIDE_OBJECTS__ENDPOINT", place.objects.clone()),
                ("UNSLIDE_OBJECTS__BUCKET", BUCKET.into()),
                ("UNSLIDE_OBJECTS__ACCESS_KEY", place.object_keys.0.clone()),
                ("UNSLIDE_OBJECTS__SECRET_KEY", place.object_keys.1.clone()),
                ("UNSLIDE_OBJECTS__PATH_STYLE", "true".into()),
                ("UNSLIDE_API__LISTEN", format!("127.0.0.1:{port}")),
                // No balancer has to notice.
                ("UNSLIDE_API__STOP_DELAY", "0s".to_owned()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        environment.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        Installation {
            url: format!("http://127.0.0.1:{port}"),
            key: String::new(),
            topics: Topics::connect_as(&place.kafka, place.kafka_admin.as_ref()),
            environment,
            prefix: format!("{name}."),
            database,
            place: place.clone(),
            processes: BTreeMap::new(),
            _s3: None,
            folder,
        }
    }

    /// Adds settings for commands, and for processes that start from now on.
    pub fn add_settings(&mut self, settings: &[(&str, &str)]) {
        self.environment.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    }

    /// An installation with one process of each service, ready, and a tenant with a key.
    ///
    /// # Panics
    /// If a service does not become ready.
    pub async fn start() -> Installation {
        Installation::start_with(&[]).await
    }

    /// As [`Installation::start`], with further settings.
    ///
    /// # Panics
    /// If a service does not become ready.
    pub async fn start_with(settings: &[(&str, &str)]) -> Installation {
        let mut installation = Installation::prepare_with(settings).await;
        for service in ["builder", "api", "indexer", "symbolizer"] {
            installation.start_service(service, service, &[]);
        }
        installation.make_tenant(TENANT);
        for service in ["builder", "api", "indexer", "symbolizer"] {
            installation.wait_ready(service).await;
        }
        installation
    }

    /// Creates a tenant and a key, which it returns and which [`Installation::client`] uses from now on. The
    /// builder must run: it tells the workers of the tenant.
    ///
    /// # Panics
    /// If the command fails.
    pub fn make_tenant(&mut self, tenant: &str) -> String {
        self.command_succeeds(&["tenant", "create", tenant, "--wait", "120"]);
        self.key = self.make_key(tenant, "symbols:write,symbols:read,reports:write,reports:read");
        self.key.clone()
    }

    /// Creates a key of a tenant with these scopes.
    ///
    /// # Panics
    /// If the command fails.
    #[must_use]
    pub fn make_key(&self, tenant: &str, scopes: &str) -> String {
        let output = self.command_succeeds(&["key", "create", "--tenant", tenant, "--scope", scopes]);
        let key = output.split_whitespace().find(|w| w.starts_with("unslide_")).expect("a key is printed");
        key.to_owned()
    }

    /// Runs a command of the binary with this installation's configuration; its standard output.
    ///
    /// # Panics
    /// If it fails.
    pub fn command_succeeds(&self, arguments: &[&str]) -> String {
        let (status, output, error) = self.run_command(arguments);
        assert_eq!(status, 0, "unslide {arguments:?}: {output}{error}");
        output
    }

    /// Runs a command of the binary with this installation's configuration: exit code, standard
    /// output and standard error.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run_command(&self, arguments: &[&str]) -> (i32, String, String) {
        self.command_with(arguments, &[])
    }

    /// As [`Installation::run_command`], with further settings.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn command_with(&self, arguments: &[&str], settings: &[(&str, &str)]) -> (i32, String, String) {
        let done = binary::build_command(arguments)
            .envs(&self.environment)
            .envs(settings.iter().copied())
            .env("UNSLIDE_URL", &self.url)
            .env("UNSLIDE_API_KEY", &self.key)
            .output()
            .expect("starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
    }

    /// Starts a service under a name of its own, with further settings.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_service(&mut self, name: &str, service: &str, settings: &[(&str, &str)]) {
        self.launch_process(name, settings, binary::build_command(&[service]));
    }

    /// As [`Installation::start_service`], with a cache folder on a disk of its own of `bytes` bytes.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_service_on_disk(
        &mut self,
        name: &str,
        service: &str,
        settings: &[(&str, &str)],
        bytes: u64,
    ) {
        let data = self.data_folder(name);
        std::fs::create_dir_all(&data).expect("a data folder");
        self.launch_process(name, settings, binary::command_with_disk(&[service], &data, bytes));
    }

    /// The folder of what a process keeps on disk.
    #[must_use]
    pub fn data_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("data-{name}"))
    }

    fn launch_process(&mut self, name: &str, settings: &[(&str, &str)], mut command: Command) {
        command
            .envs(&self.environment)
            .env("UNSLIDE_ADMIN__LISTEN", format!("127.0.0.1:{}", self.admin_port(name)))
            .env("UNSLIDE_PROCESS__DATA_DIR", self.data_folder(name))
            .env("UNSLIDE_WORKER", name);
        command.envs(settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let process = Process::start(name, command, &self.log_path(name));
        self.processes.insert(name.to_owned(), process);
    }

    /// The address at which a process tells its readiness and its metrics.
    pub fn admin_address(&mut self, name: &str) -> String {
        format!("127.0.0.1:{}", self.admin_port(name))
    }

    fn admin_port(&mut self, name: &str) -> String {
        let key = format!("admin {name}");
        self.environment.entry(key).or_insert_with(|| free_port().expect("a port").to_string()).clone()
    }

    /// Its logs, caches and whatever else it keeps in files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder when the installation is dropped.
    pub fn keep_folder(&mut self) {
        self.folder.disable_cleanup(true);
    }

    /// The URL of its database, as the superuser.
    #[must_use]
    pub fn database_url(&self) -> String {
        self.place.database_url(&self.database)
    }

    /// The servers that it lives on.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// Returns the log of a process.
    #[must_use]
    pub fn read_log(&self, name: &str) -> String {
        std::fs::read_to_string(self.log_path(name)).unwrap_or_default()
    }

    /// Waits until a process is ready and all that it depends on answers.
    ///
    /// # Panics
    /// If it ends or is not ready after five minutes.
    pub async fn wait_ready(&mut self, name: &str) {
        let port = self.admin_port(name);
        let http = Client::new(&format!("http://127.0.0.1:{port}"), "");
        for _ in 0..3_000 {
            if let Some(status) = self.find_process(name).exit_status() {
                panic!("{name} has ended ({status}):\n{}", self.read_log(name));
            }
            if tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.is_ok()
                && http.get_text("/dependencies").await.0 == 200
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} is not ready: {:?}\n{}", http.get_text("/dependencies").await, self.read_log(name));
    }

    /// The metrics of a process, as Prometheus text.
    pub async fn fetch_metrics(&mut self, name: &str) -> String {
        let port = self.admin_port(name);
        Client::new(&format!("http://127.0.0.1:{port}"), "").get_text("/metrics").await.1
    }

    /// Returns the value of a metric of a process, named with its first label, such as `m_total{lane="live"`;
    /// `None` if it has none yet.
    pub async fn fetch_metric(&mut self, name: &str, metric: &str) -> Option<f64> {
        let text = self.fetch_metrics(name).await;
        text.lines().find(|line| line.starts_with(metric))?.rsplit_once(' ')?.1.parse().ok()
    }

    /// Waits until a metric of a process, named as in [`Installation::fetch_metric`], has a value.
    ///
    /// # Panics
    /// If it has not after five minutes.
    pub async fn wait_metric(&mut self, name: &str, metric: &str, wanted: f64) {
        let mut last = None;
        for _ in 0..1_500 {
            last = self.fetch_metric(name, metric).await;
            if last == Some(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{name}: {metric} is {last:?} and not {wanted} after five minutes:\n{}", self.read_log(name));
    }

    /// A running process.
    ///
    /// # Panics
    /// If none has that name.
    pub fn find_process(&mut self, name: &str) -> &mut Process {
        self.processes.get_mut(name).unwrap_or_else(|| panic!("no process {name}"))
    }

    /// The process with this address at its end of a TCP connection, and its name.
    #[must_use]
    pub fn connected_from(&self, address: SocketAddr) -> Option<(&str, &Process)> {
        let found = self.processes.iter().find(|(_, process)| process.connects_from(address));
        found.map(|(name, process)| (name.as_str(), process))
    }

    /// Takes a process out, to kill or to end it.
    ///
    /// # Panics
    /// If none has that name.
    pub fn take_process(&mut self, name: &str) -> Process {
        self.processes.remove(name).unwrap_or_else(|| panic!("no process {name}"))
    }

    /// A client of the public API.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.key)
    }

    /// The full name of a topic.
    #[must_use]
    pub fn topic_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Ends every process as an operator would, and deletes the database and the topics.
    ///
    /// # Panics
    /// If a process does not end in time or not with success.
    pub async fn stop(mut self) {
        for (name, process) in std::mem::take(&mut self.processes) {
            let status = tokio::task::block_in_place(|| process.terminate());
            assert!(status.success(), "{name} ended with {status}:\n{}", self.read_log(&name));
        }
        self.topics.delete_topics(&self.prefix).await;
        let mut admin = PgConnection::connect(&self.place.postgres).await.expect("PostgreSQL");
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.database);
        admin.execute(sqlx::AssertSqlSafe(drop)).await.expect("dropped");
    }
}
