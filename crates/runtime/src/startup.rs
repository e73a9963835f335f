//! Start during an outage: the service waits, reports the reason in its readiness, and starts when the outage is over.

use crate::Host;
use parking_lot::Mutex;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::format_causes;

/// The interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Repeats an attempt to reach a dependency until it succeeds. Registers a probe with this name that reports the last
/// error, and removes it after the last attempt. The probe stays if the shutdown begins between two attempts.
///
/// # Errors
/// Returns the error of the attempt if it is not an outage (such as a wrong secret), or if the shutdown has begun.
pub async fn reach_dependency<T, E, A>(
    host: &Host,
    dependency: &str,
    is_outage: impl Fn(&E) -> bool,
    attempt: impl Fn() -> A,
) -> Result<T, E>
where
    E: Error + 'static,
    A: Future<Output = Result<T, E>>,
{
    let missing = Arc::new(Mutex::new("not reached yet".to_owned()));
    let told = missing.clone();
    host.health.register_probe(dependency, move || std::future::ready(Err(told.lock().clone())));
    loop {
        let error = match attempt().await {
            Err(error) if is_outage(&error) && !host.shutdown.is_begun() => error,
            end => {
                host.health.unregister_probe(dependency);
                return end;
            }
        };
        let reason = format_causes(&error);
        let is_known = is_same_reason(&missing.lock(), &reason);
        if !is_known {
            tracing::warn!(dependency, error = reason, "the start waits for a dependency");
        }
        *missing.lock() = reason;
        tokio::select! {
            () = tokio::time::sleep(RETRY_INTERVAL) => {}
            () = host.shutdown.wait_until_begun() => return Err(error),
        }
    }
}

/// Returns true if two reasons differ only in numbers, such as the time at which a certificate was found to be expired.
fn is_same_reason(one: &str, other: &str) -> bool {
    let words = |text: &'_ str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(one) == words(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_time_in_a_reason_makes_it_no_other_one() {
        let expired =
            |time: u32| format!("certificate expired: verification time {time}, not after 1795161600");
        assert!(is_same_reason(&expired(1_795_161_601), &expired(1_795_161_602)));
        assert!(!is_same_reason(&expired(1), "connection refused"));
    }

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("no answer")]
        Away,
        #[error("wrong password")]
        Refused,
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_waited_for_and_told_and_a_refusal_is_not() {
        let host = Host::local().unwrap();
        let attempts = AtomicU32::new(0);
        let is_outage = |failure: &Failure| matches!(failure, Failure::Away);
        let reached = reach_dependency(&host, "postgres", is_outage, || {
            std::future::ready(match attempts.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(Failure::Away),
                attempt => Ok(attempt),
            })
        });
        let asked = async {
            tokio::time::sleep(RETRY_INTERVAL / 2).await;
            host.health.ask_now().await.probes["postgres"].reason.clone()
        };
        let (reached, reason) = tokio::join!(reached, asked);
        assert_eq!((reached.unwrap(), reason.as_deref()), (3, Some("no answer")));
        let refused = reach_dependency(&host, "postgres", is_outage, || {
            std::future::ready(Err::<(), _>(Failure::Refused))
        })
        .await;
        assert!(matches!(refused, Err(Failure::Refused)));
        host.shutdown.begin();
        let stopped = reach_dependency(&host, "postgres", is_outage, || {
            std::future::ready(Err::<(), _>(Failure::Away))
        })
        .await;
        assert!(matches!(stopped, Err(Failure::Away)));
    }
}
