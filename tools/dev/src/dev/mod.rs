//! `unslide dev`: every service in this process, with embedded servers.

mod cells;
mod installation;
mod operator;
mod place;
mod running;
mod state;
mod unused;

use crate::product::Product;
use clap::Args;
use place::DevPlace;
use running::{LONGEST_START, wait_started};
use serde::Serialize;
use std::iter::once;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;
use unslide_cli::{BoxError, Configured, Console, Exit, Outcome, block_on, note, reachable_address, say};
use unslide_embedded::{Options, S3Endpoint, Servers};
use unslide_model::TenantId;
use unslide_runtime::{Host, admin, supervise_services, telemetry};
use unslide_store::outbox;

pub use installation::Installation;
pub use running::Running;

/// The bucket of the embedded S3 endpoint.
const BUCKET: &str = "unslide";
/// The log filter if none is set. Kafka's clients warn while the broker starts.
const QUIET: &str = "warn,unslide_stream::client=error";
/// The apps that the public key of an installation covers, until the tenant makes one for its own.
const PUBLIC_APPS: &str = "com.example.*";

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
    /// Run as many cells, with a door in front of them [default: one installation without a door]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=cells::MAX_CELLS))]
    cells: Option<u8>,
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

/// The servers that `unslide dev` starts.
pub(crate) struct Embedded {
    servers: Servers,
    s3: S3Endpoint,
}

/// Runs everything until a signal stops it.
pub fn run<P: Product>(arguments: &Arguments) -> Outcome {
    // A shell that uses the output of the last run names that run's file, which this one writes again.
    let mut folders = once(arguments.data_dir.clone()).chain(cells::list_folders(&arguments.data_dir));
    let own = folders.any(|folder| operator::is_of(arguments.configured.config.as_deref(), &folder));
    let config = arguments.configured.config.clone().filter(|_| !own);
    let mut product = P::load_settings(config.as_deref())?;
    quiet(product.log_settings(), arguments.verbose);
    telemetry::init_logging(product.log_settings())?;
    let start = Start {
        data: arguments.data_dir.clone(),
        listen: arguments.listen,
        kafka_listen: arguments.kafka_listen,
        admin_listen: arguments.admin_listen,
        tenant: TenantId::new("dev")?,
    };
    let (json, cells) = (arguments.json, arguments.cells);
    block_on(async move {
        let host = product.create_host()?;
        let begin = tokio::time::Instant::now();
        let progress = |line: &str| note!("{line}");
        for section in unused::sections(product.service_configs().api) {
            note!("[{section}] of the configuration is not used: `unslide dev` starts servers of its own");
        }
        if let Some(count) = cells {
            let booted = cells::boot_cells(product, config.as_deref(), &host, &start, count, &progress);
            let Some(running) = finish_or_stop(&host, booted).await? else { return Ok(Exit::Ready) };
            print_facts(&running.facts, json, || running.facts.page(begin.elapsed(), &start.data))?;
            running.until_stopped().await?;
            return Ok(Exit::Ready);
        }
        let Some(running) = start_or_stop(product, &host, &start, &progress).await? else {
            return Ok(Exit::Ready);
        };
        let page = || {
            let Running { facts, .. } = &running;
            format!("{}\n\n  {}", facts.page(begin.elapsed(), &start.data), facts.export())
        };
        print_facts(&running.facts, json, page)?;
        running.until_stopped().await?;
        Ok(Exit::Ready)
    })
}

/// Prints the addresses: a line of JSON, or the page for people.
fn print_facts(facts: &impl Serialize, json: bool, page: impl FnOnce() -> String) -> Result<(), BoxError> {
    if json {
        say!("{}", serde_json::to_string(facts)?);
    } else {
        Console::get().say_lines(&page());
    }
    Ok(())
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
) -> Result<Option<Running<Installation>>, BoxError> {
    finish_or_stop(host, boot_all(product, host, start, progress)).await
}

/// Waits for a start, or returns `None` if the shutdown begins first.
async fn finish_or_stop<T>(
    host: &Host,
    booted: impl Future<Output = Result<T, BoxError>>,
) -> Result<Option<T>, BoxError> {
    tokio::select! {
        running = booted => running.map(Some),
        // The servers' processes end with this one.
        () = host.shutdown.wait_until_begun() => Ok(None),
    }
}

async fn boot_all<P: Product>(
    mut product: P,
    host: &Host,
    start: &Start,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Running<Installation>, BoxError> {
    let embedded = Embedded::start(start, BUCKET, progress).await?;
    let place = DevPlace {
        folder: start.data.clone(),
        database_url: embedded.servers.postgres_url().to_owned(),
        bucket: BUCKET.to_owned(),
        topic_prefix: String::new(),
        tenant: start.tenant.clone(),
    };
    let (store, new_topics) = place.migrate(&mut product, host, &embedded).await?;
    let (credentials, announced) = place.make_credentials(&product, &store, new_topics).await?;

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
    let config = operator::write(&start.data, product.service_configs().api, admin, None)?;

    wait_started(&[(host, count)], &mut services).await?;
    if let Some(announcement) = announced {
        outbox::wait_sent(&store, &start.tenant, announcement, LONGEST_START).await?;
    }
    store.close().await;
    let facts = Installation {
        app_url: credentials.public_path.map(|path| format!("{api_url}{path}")),
        api_url,
        kafka_bootstrap: embedded.servers.kafka_bootstrap(),
        s3_endpoint: embedded.s3.url(),
        s3_bucket: place.bucket,
        s3_access_key: embedded.s3.access_key.clone(),
        s3_secret_key: embedded.s3.secret_key.clone(),
        tenant: credentials.tenant,
        api_key: credentials.api_key,
        admin_url: format!("http://{admin}"),
        config: config.display().to_string(),
    };
    Ok(Running { facts, hosts: vec![host.clone()], services, embedded })
}

type Launched = JoinHandle<Result<Servers, unslide_embedded::Error>>;

impl Embedded {
    /// Starts the servers, and the S3 endpoint with a bucket.
    async fn start(
        start: &Start,
        bucket: &str,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Embedded, BoxError> {
        state::make(&start.data)?;
        progress("starting Apache Kafka, PostgreSQL and S3");
        let (servers, mut told) = launch(start);
        let s3 = S3Endpoint::start(&start.data, bucket)?;
        while let Some(line) = told.recv().await {
            progress(&line);
        }
        Ok(Embedded { servers: servers.await??, s3 })
    }
}

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
