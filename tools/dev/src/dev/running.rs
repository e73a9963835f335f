//! The services and servers that `unslide dev` has started.

use super::Embedded;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_cli::BoxError;
use unslide_model::format_causes;
use unslide_runtime::Host;

/// How long the services may take until they are ready.
pub const LONGEST_START: Duration = Duration::from_secs(60);
/// How often the embedded servers are looked after.
const LOOK: Duration = Duration::from_millis(500);

/// The run of all services, and how the first that failed ended.
pub type Services = JoinHandle<Result<(), (&'static str, BoxError)>>;

/// Running services on running servers, with their addresses.
pub struct Running<F> {
    pub facts: F,
    /// One host for each installation. They share one shutdown.
    pub(super) hosts: Vec<Host>,
    pub(super) services: Services,
    pub(super) embedded: Embedded,
}

impl<F> Running<F> {
    /// Serves until the shutdown begins or a part ends unexpectedly, then stops everything in order.
    ///
    /// # Errors
    /// Returns an error if a part ended unexpectedly.
    pub async fn until_stopped(mut self) -> Result<(), BoxError> {
        let shutdown = self.hosts[0].shutdown.clone();
        let failed = loop {
            tokio::select! {
                () = shutdown.wait_until_begun() => break None,
                _ = &mut self.services => break Some("a service has ended".to_owned()),
                () = tokio::time::sleep(LOOK) => {
                    if let Some(failed) = self.embedded.servers.failed() {
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
        self.hosts.iter().for_each(|host| host.shutdown.begin());
        let ended = if self.services.is_finished() { None } else { Some((&mut self.services).await?) };
        for host in &self.hosts {
            host.stop_traces().await;
            // Probes and metrics hold clients, which would go on looking for servers that are gone.
            host.health.clear();
            host.process_metrics().clear();
        }
        let Embedded { servers, s3 } = self.embedded;
        s3.stop().await;
        tokio::task::spawn_blocking(move || drop(servers)).await?;
        match ended {
            Some(Err((name, error))) => {
                Err(format!("the {name} has failed: {}", format_causes(error.as_ref())).into())
            }
            _ => Ok(()),
        }
    }
}

/// Waits until every service has registered its probes and all succeed.
///
/// # Errors
/// Returns what is not ready in time.
pub async fn wait_ready(host: &Host, services: usize) -> Result<(), BoxError> {
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

/// Waits as [`wait_ready`] does for each host, or for the first service that ends instead.
///
/// # Errors
/// Returns why a service does not start.
pub async fn wait_started(hosts: &[(&Host, usize)], services: &mut Services) -> Result<(), BoxError> {
    let ready = async {
        for (host, count) in hosts {
            wait_ready(host, *count).await?;
        }
        Ok::<(), BoxError>(())
    };
    tokio::select! {
        ready = ready => ready,
        ended = services => Err(ended?.err().map_or_else(|| "the services have ended".into(), |(name, error)| {
            format!("the {name} does not start: {}", format_causes(error.as_ref())).into()
        })),
    }
}
