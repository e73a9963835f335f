//! `unslide dev`: every service in this process, with embedded servers.

mod operator;
mod state;
mod unused;

use crate::product::{Product, ServiceConfigs};
use clap::Args;
use serde::Serialize;
use state::Credentials;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_api::entropy::Entropy;
use unslide_cli::{BoxError, Configured, Console, Exit, Outcome, block_on, note, reachable_address, say};
use unslide_embedded::{Options, S3Endpoint, Servers};
use unslide_model::{Scope, Secret, TenantId, format_causes, shell_word};
use unslide_runtime::{Host, admin, supervise_services, telemetry};
use unslide_store::accounts::{create_key, create_tenant};
use unslide_store::{Store, keys, outbox, tenants};
use unslide_stream::admin::Created;

/// The bucket of the embedded S3 endpoint.
const BUCKET: &str = "unslide";
/// The log filter if none is set. Kafka's clients warn while the broker starts.
const QUIET: &str = "warn,unslide_stream::client=error";
/// Database connections at most: few, because each is a process with megabytes. The api and the
/// builder keep one for listening, the builder one more for the lock of the relay.
const API_CONNECTIONS: u32 = 4;
const BUILDER_CONNECTIONS: u32 = 5;
const INDEXER_CONNECTIONS: u32 = 3;
/// The apps that the public key of an installation covers, until the tenant makes one for its own.
const PUBLIC_APPS: &str = "com.example.*";
/// How long the services may take until they are ready.
const LONGEST_START: Duration = Duration::from_secs(60);
/// How often the embedded servers are looked after.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// The folder of all state; made where there is none
    #[arg(long, value_name = "FOLDER", default_value = ".unslide")]
    data_dir: PathBuf,
    /// Where the api listens [default: 127.0.0.1:8080, or a free port where that is taken]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where Kafka listens [default: a free port of 127.0.0.1, the same on each start]
    #[arg(long, value_name = "ADDRESS")]
    kafka_listen: Option<SocketAddr>,
    /// Where health and metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    admin_listen: SocketAddr,
    /// Print one line of JSON when everything is ready, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Log what the services do, not only what goes wrong
    #[arg(long, short)]
    verbose: bool,
}

/// The options of an installation.
pub struct Start {
    pub data: PathBuf,
    pub listen: Option<SocketAddr>,
    pub kafka_listen: Option<SocketAddr>,
    pub admin_listen: SocketAddr,
    pub tenant: TenantId,
}

impl Start {
    /// Returns the options for free ports of the loopback interface.
    pub fn on(data: &Path, tenant: TenantId) -> Start {
        let admin_listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Start { data: data.to_path_buf(), listen: None, kafka_listen: None, admin_listen, tenant }
    }
}

/// The addresses of everything, and the logins to use.
#[derive(Clone, Debug, Serialize)]
pub struct Installation {
    pub api_url: String,
    /// The URL to which apps send reports, if the product has such URLs. It has a public key in it.
    pub app_url: Option<String>,
    pub kafka_bootstrap: String,
    pub s3_endpoint: String,
    pub s3_bucket: String,
    pub s3_access_key: String,
    pub s3_secret_key: String,
    pub tenant: String,
    pub api_key: String,
    pub admin_url: String,
    /// The configuration with which commands of operators reach the servers.
    pub config: String,
}

pub struct Running {
    pub facts: Installation,
    host: Host,
    services: JoinHandle<Result<(), (&'static str, BoxError)>>,
    s3: S3Endpoint,
    servers: Arc<Servers>,
}

/// Runs everything until a signal stops it.
pub fn run<P: Product>(arguments: &Arguments) -> Outcome {
    // A shell that uses the output of the last run names that run's file, which this one writes again.
    let own = operator::is_of(arguments.configured.config.as_deref(), &arguments.data_dir);
    let config = arguments.configured.config.as_deref().filter(|_| !own);
    let mut product = P::load_settings(config)?;
    quiet(product.log_settings(), arguments.verbose);
    telemetry::init_logging(product.log_settings())?;
    let start = Start {
        data: arguments.data_dir.clone(),
        listen: arguments.listen,
        kafka_listen: arguments.kafka_listen,
        admin_listen: arguments.admin_listen,
        tenant: TenantId::new("dev")?,
    };
    let json = arguments.json;
    block_on(async move {
        let host = product.create_host()?;
        let begin = tokio::time::Instant::now();
        let progress = |line: &str| note!("{line}");
        for section in unused::sections(product.service_configs().api) {
            note!("[{section}] of the configuration is not used: `unslide dev` starts servers of its own");
        }
        let Some(running) = start_or_stop(product, &host, &start, &progress).await? else {
            return Ok(Exit::Ready);
        };
        if json {
            say!("{}", serde_json::to_string(&running.facts)?);
        } else {
            Console::get().say_lines(&running.facts.page(begin.elapsed(), &start.data));
            say!("");
            say!("  {}", running.facts.export());
        }
        running.until_stopped().await?;
        Ok(Exit::Ready)
    })
}

/// Logs only failures if no log filter is set: the page that is printed is for people.
pub fn quiet(log: &mut telemetry::Settings, verbose: bool) {
    if !verbose && std::env::var_os("UNSLIDE_LOG__FILTER").is_none() {
        QUIET.clone_into(&mut log.filter);
    }
}

/// Starts everything. Returns `None` if it was stopped before it was ready.
///
/// # Errors
/// Returns an error if a server or service does not start. Nothing is left running.
pub async fn start_or_stop<P: Product>(
    product: P,
    host: &Host,
    start: &Start,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Option<Running>, BoxError> {
    tokio::select! {
        running = boot_all(product, host, start, progress) => running.map(Some),
        // The servers' processes end with this one.
        () = host.shutdown.wait_until_begun() => Ok(None),
    }
}

async fn boot_all<P: Product>(
    mut product: P,
    host: &Host,
    start: &Start,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Running, BoxError> {
    state::make(&start.data)?;
    progress("starting Apache Kafka, PostgreSQL and S3");
    let (servers, mut told) = launch(start);
    let s3 = S3Endpoint::start(&start.data, BUCKET)?;
    while let Some(line) = told.recv().await {
        progress(&line);
    }
    let servers = Arc::new(servers.await??);
    aim(product.service_configs(), start, &servers, &s3);
    let problems = product.validate_settings();
    if !problems.is_empty() {
        return Err(unslide_runtime::config::Problems(problems).into());
    }
    let (database, kafka) =
        (product.service_configs().api.postgres.clone(), product.service_configs().api.kafka.clone());
    let topics = unslide_stream::admin::create_topics(&kafka);
    let (migrated, topics) = tokio::join!(unslide_store::apply_migrations(&database.url), topics);
    migrated?;
    let new_topics = topics?.iter().any(|(_, created)| *created == Created::New);
    let store = Store::connect(&database, host.clock.clone()).await?;
    let (mut credentials, announced) = tenant_and_key(&store, start, new_topics).await?;
    if credentials.public_path.is_none() {
        let apps = [PUBLIC_APPS.to_owned()];
        credentials.public_path = product.make_public_path(&store, &start.tenant, &apps).await?;
        credentials.write(&start.data)?;
    }

    progress("starting the services");
    let listener = state::listen(start.listen, &start.data).await?;
    let api_url = format!("http://{}", reachable_address(listener.local_addr()?));
    let configured = &mut product.service_configs().api.api.public_url;
    if configured.is_empty() {
        configured.clone_from(&api_url);
    }
    let services = product.prepare_services(host, listener)?;
    let (count, supervised) = (services.len(), host.clone());
    let mut services = tokio::spawn(async move { supervise_services(services, &supervised.shutdown).await });
    let admin = admin::start_server(&admin::Settings { listen: start.admin_listen }, host).await?;
    let config = operator::write(&start.data, product.service_configs().api, admin)?;

    tokio::select! {
        ready = ready(host, count) => ready?,
        ended = &mut services => return Err(ended?.err().map_or_else(|| "the services have ended".into(), |(name, error)| {
            format!("the {name} does not start: {}", format_causes(error.as_ref())).into()
        })),
    }
    if let Some(announcement) = announced {
        outbox::wait_sent(&store, &start.tenant, announcement, LONGEST_START).await?;
    }
    store.close().await;
    let facts = Installation {
        app_url: credentials.public_path.map(|path| format!("{api_url}{path}")),
        api_url,
        kafka_bootstrap: servers.kafka_bootstrap(),
        s3_endpoint: s3.url(),
        s3_bucket: BUCKET.to_owned(),
        s3_access_key: s3.access_key.clone(),
        s3_secret_key: s3.secret_key.clone(),
        tenant: credentials.tenant,
        api_key: credentials.api_key,
        admin_url: format!("http://{admin}"),
        config: config.display().to_string(),
    };
    Ok(Running { facts, host: host.clone(), services, s3, servers })
}

type Launched = JoinHandle<Result<Servers, unslide_embedded::Error>>;

/// Starts the servers where blocking is allowed; what they tell comes over the channel, which ends
/// when they are ready.
fn launch(start: &Start) -> (Launched, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let options =
        Options { data: start.data.clone(), kafka_listen: start.kafka_listen, ..Options::default() };
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let launched = tokio::task::spawn_blocking(move || {
        Servers::start(&options, &|line| {
            // Nobody listens any more when the process is about to end.
            let _ = tell.send(line.to_owned());
        })
    });
    (launched, told)
}

/// Points every service at the embedded servers.
fn aim(configs: ServiceConfigs<'_>, start: &Start, servers: &Servers, s3: &S3Endpoint) {
    let kafka = unslide_stream::Settings::single_broker(servers.kafka_bootstrap());
    let postgres = |most| {
        let settings = unslide_store::Settings::with_url(servers.postgres_url());
        unslide_store::Settings { max_connections: most, ..settings }
    };
    let objects = unslide_artifacts::Settings {
        endpoint: Some(s3.url()),
        bucket: BUCKET.to_owned(),
        access_key: Some(s3.access_key.clone()),
        secret_key: Secret::new(s3.secret_key.clone()),
        path_style: true,
        ..unslide_artifacts::Settings::default()
    };
    let cache = start.data.join("cache");
    let ServiceConfigs { api, builder, indexer, symbolizer } = configs;
    (api.kafka, api.postgres, api.objects) = (kafka.clone(), postgres(API_CONNECTIONS), objects.clone());
    (builder.kafka, builder.postgres, builder.objects) =
        (kafka.clone(), postgres(BUILDER_CONNECTIONS), objects.clone());
    (indexer.kafka, indexer.postgres, indexer.objects) =
        (kafka.clone(), postgres(INDEXER_CONNECTIONS), objects.clone());
    (symbolizer.kafka, symbolizer.objects) = (kafka, objects);
    builder.builder.work_dir = start.data.join("work");
    api.api.cache_dir = cache.join("api");
    // No balancer has to notice its end.
    api.api.stop_delay_seconds = 0;
    symbolizer.symbolizer.cache_dir = cache.join("symbolizer");
}

/// Returns the tenant and the key of the data folder, and creates them on the first start. The number is that
/// of the tenant's announcement, if it has to be waited for.
async fn tenant_and_key(
    store: &Store,
    start: &Start,
    new_topics: bool,
) -> Result<(Credentials, Option<i64>), BoxError> {
    let announced = create_tenant(store, &start.tenant, None, &tenants::QuotaLimits::default()).await?;
    if announced.is_none() && new_topics {
        // Kafka's data was lost, the database's was not: the workers need its messages again.
        tenants::announce_all(store).await?;
    }
    if let Some(kept) = Credentials::read(&start.data)
        && keys::authenticate(store, &kept.api_key)
            .await?
            .is_some_and(|principal| principal.tenant == start.tenant)
    {
        return Ok((kept, announced));
    }
    let name = "unslide dev".to_owned();
    let new = keys::NewApiKey { name, scopes: Scope::ALL.to_vec(), app: None, expires_at: None };
    let text = create_key(store, &start.tenant, &new, &Entropy::default().generate_key()?).await?;
    let api_key = text.reveal().to_owned();
    let credentials = Credentials { tenant: start.tenant.to_string(), api_key, public_path: None };
    credentials.write(&start.data)?;
    Ok((credentials, announced))
}

/// Waits until every service has registered its probes and all succeed.
async fn ready(host: &Host, services: usize) -> Result<(), BoxError> {
    let end = tokio::time::Instant::now() + LONGEST_START;
    loop {
        let answer = host.health.ask_now().await;
        let registered: std::collections::BTreeSet<&str> =
            answer.probes.keys().filter_map(|name| Some(name.split_once('.')?.0)).collect();
        if answer.is_complete() && registered.len() >= services {
            return Ok(());
        }
        if tokio::time::Instant::now() >= end {
            let failing =
                answer.probes.iter().filter_map(|(name, p)| Some(format!("{name}: {}", p.reason.as_ref()?)));
            let failing: Vec<String> = failing.collect();
            return Err(
                format!("not ready after {} s: {}", LONGEST_START.as_secs(), failing.join("; ")).into()
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Running {
    /// Serves until the shutdown begins or a part ends unexpectedly, then stops everything in order.
    ///
    /// # Errors
    /// Returns an error if a part ended unexpectedly.
    pub async fn until_stopped(mut self) -> Result<(), BoxError> {
        let failed = loop {
            tokio::select! {
                () = self.host.shutdown.wait_until_begun() => break None,
                _ = &mut self.services => break Some("a service has ended".to_owned()),
                () = tokio::time::sleep(LOOK) => {
                    if let Some(failed) = self.servers.failed() {
                        break Some(failed);
                    }
                }
            }
        };
        let stopped = self.stop().await;
        match failed {
            Some(failed) => Err(stopped.err().unwrap_or_else(|| failed.into())),
            None => stopped,
        }
    }

    /// Drains the services, then stops the servers.
    ///
    /// # Errors
    /// Returns an error if a service failed.
    pub async fn stop(mut self) -> Result<(), BoxError> {
        self.host.shutdown.begin();
        let ended = if self.services.is_finished() { None } else { Some((&mut self.services).await?) };
        self.host.stop_traces().await;
        // Probes and metrics hold clients, which would go on looking for servers that are gone.
        self.host.health.clear();
        self.host.process_metrics().clear();
        self.s3.stop().await;
        let servers = self.servers;
        tokio::task::spawn_blocking(move || drop(servers)).await?;
        match ended {
            Some(Err((name, error))) => {
                Err(format!("the {name} has failed: {}", format_causes(error.as_ref())).into())
            }
            _ => Ok(()),
        }
    }
}

impl Installation {
    /// Returns all addresses and keys for people, ready to be copied.
    fn page(&self, took: Duration, data: &Path) -> String {
        format!(
            "\
Unslide is ready ({:.1} s). State is kept in {}; Ctrl-C stops everything.

  console          {}/console   (sign in with the key below)
  api              {}   (docs: {}/docs)
  health, metrics  {}/readyz  {}/metrics
  Kafka            {}   (reports to crash.reports with header tenant={}, answers on crash.symbolicated)
  S3               {}   (bucket {}, key {}, secret {})
{}
With this line every command reaches this installation, as tenant {} and as its operator:",
            took.as_secs_f64(),
            data.display(),
            self.api_url,
            self.api_url,
            self.api_url,
            self.admin_url,
            self.admin_url,
            self.kafka_bootstrap,
            self.tenant,
            self.s3_endpoint,
            self.s3_bucket,
            self.s3_access_key,
            self.s3_secret_key,
            self.describe_app_url().map(|line| format!("  {line}\n")).unwrap_or_default(),
            self.tenant,
        )
    }

    /// Returns a line about the URL for apps.
    pub fn describe_app_url(&self) -> Option<String> {
        let url = self.app_url.as_ref()?;
        Some(format!(
            "URL for apps     {url}   (of {PUBLIC_APPS}; a key for yours: `unslide key create --kind public --app …`)"
        ))
    }

    /// Returns a line for a shell.
    fn export(&self) -> String {
        format!(
            "export UNSLIDE_CONFIG={} UNSLIDE_URL={} UNSLIDE_API_KEY={} KAFKA={}",
            shell_word(&self.config),
            self.api_url,
            self.api_key,
            self.kafka_bootstrap
        )
    }
}
