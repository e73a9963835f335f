//! Runs the service, from its configuration to the end of its last request.

use crate::asking::CellQuestions;
use crate::callers::CallerCache;
use crate::cells::build_client;
use crate::config::Config;
use crate::directory::CellDirectory;
use crate::door::{Door, create_ask_permits};
use crate::metrics::Metrics;
use crate::server::serve;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use unslide_runtime::clients::TrustedProxies;
use unslide_runtime::fairness::TokenBuckets;
use unslide_runtime::{Host, startup};
use unslide_store::{Store, StoreError};

/// Why the door cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The directory of cells is not usable.
    #[error("cannot use the directory of cells")]
    Directory(#[from] StoreError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// Two metrics have the same name.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Listens on the configured address, and serves until the host says to stop.
///
/// # Errors
/// [`Error`] if the service cannot start.
pub async fn run(config: Config, host: Host) -> Result<(), Error> {
    let listener = bind_listener(&config).await?;
    run_on(listener, config, host).await
}

/// Binds the configured address, so that the caller knows the port before the service runs.
///
/// # Errors
/// [`Error::Listen`].
pub async fn bind_listener(config: &Config) -> Result<TcpListener, Error> {
    let address = config.door.listen;
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Serves on a listener until the host says to stop. Waits for the directory of cells first. Returns after running requests have
/// ended, or after the drain time.
///
/// # Errors
/// [`Error`] if the service cannot start.
pub async fn run_on(listener: TcpListener, config: Config, host: Host) -> Result<(), Error> {
    host.shutdown.set_notice(Duration::from_secs(config.door.stop_delay_seconds));
    let serving = host.health.register_serving();
    let metrics = Metrics::new(&host.metrics)?;
    let client = build_client()?;
    let directory = Arc::new(read_directory(&config, &host).await?);
    let questions = CellQuestions { client, metrics: metrics.clone() };
    questions.try_cells(&directory.list_cells()).await;
    let probed = directory.clone();
    host.health.register_dependency("directory", move || std::future::ready(probed.last_outcome()));
    let reading = tokio::spawn(directory.clone().keep_reading(metrics.clone(), host.shutdown.clone()));
    let (tried, trying) = (directory.clone(), questions.clone());
    let trying = tokio::spawn(async move { trying.keep_trying(|| tried.list_cells()).await });
    let door = Arc::new(Door {
        directory: directory.clone(),
        questions,
        callers: CallerCache::default(),
        asks: create_ask_permits(),
        unknown_callers: TokenBuckets::default(),
        // A network that cannot be read was refused with the configuration.
        proxies: TrustedProxies::from_networks(&config.door.trusted_proxies).unwrap_or_default(),
        clock: host.clock.clone(),
        metrics,
        shutdown: host.shutdown.clone(),
    });
    serving.store(true, Ordering::Relaxed);
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "the door listens");
    }
    let drain = host.shutdown.drain_timeout().mul_f32(0.9);
    serve(listener, door, host.shutdown.wait_until_begun(), drain).await;
    trying.abort();
    reading.abort();
    let _ = tokio::time::timeout(host.shutdown.drain_timeout() / 20, directory.close()).await;
    Ok(())
}

/// Reads the directory, as soon as its database answers.
async fn read_directory(config: &Config, host: &Host) -> Result<CellDirectory, StoreError> {
    let settings = config.cells.directory_settings(&config.postgres);
    let is_outage = StoreError::is_connection;
    startup::reach_dependency(host, "directory", is_outage, || connect_directory(&settings, host)).await
}

async fn connect_directory(
    settings: &unslide_store::Settings,
    host: &Host,
) -> Result<CellDirectory, StoreError> {
    let store = Store::connect(settings, host.clock.clone()).await?;
    CellDirectory::read(store).await
}
