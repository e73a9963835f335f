//! Several services in one process: they stop together.

use crate::Shutdown;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

/// The result of a service's `run`. The error is boxed because each service has a different type.
pub type ServiceEnd = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A service's name and its `run` future.
pub type Supervised = (&'static str, BoxFuture<'static, ServiceEnd>);

/// Runs services until all have ended. The first that ends, for any reason, begins the shutdown of
/// all. Services that have not drained when the shutdown expires are dropped and named in the log.
/// Returns the first service that failed, with its error.
pub async fn supervise_services(
    services: Vec<Supervised>,
    shutdown: &Shutdown,
) -> Result<(), (&'static str, Box<dyn std::error::Error + Send + Sync>)> {
    let mut names: Vec<&'static str> = services.iter().map(|(name, _)| *name).collect();
    let mut running: FuturesUnordered<_> =
        services.into_iter().map(|(name, run)| async move { (name, tokio::spawn(run).await) }).collect();
    let mut first = Ok(());
    loop {
        let ended = tokio::select! {
            ended = running.next() => ended,
            () = shutdown.wait_until_expired() => {
                tracing::error!(services = ?names, "not drained in time: given up");
                break;
            }
        };
        let Some((name, outcome)) = ended else { break };
        names.retain(|n| *n != name);
        let outcome = outcome.unwrap_or_else(|panic| Err(panic.into()));
        if !shutdown.is_begun() {
            tracing::info!(service.name = name, "a service has ended: stopping the others");
        }
        if first.is_ok()
            && let Err(error) = outcome
        {
            first = Err((name, error));
        }
        shutdown.begin();
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn one_failure_stops_all_and_is_named() {
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let other = shutdown.clone();
        let ended = supervise_services(
            vec![
                ("first", Box::pin(async { Err("broken".into()) })),
                (
                    "second",
                    Box::pin(async move {
                        other.wait_until_begun().await;
                        Ok(())
                    }),
                ),
                ("stuck", Box::pin(std::future::pending())),
            ],
            &shutdown,
        )
        .await;
        let (name, error) = ended.unwrap_err();
        assert_eq!((name, error.to_string().as_str()), ("first", "broken"));
    }
}
