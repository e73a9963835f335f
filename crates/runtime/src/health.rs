//! Readiness: whether a process serves, and the state of its dependencies, probed on request.

use crate::Shutdown;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The time after which a probe counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for which an answer is reused, so that many requests cause one round of probes.
const READINESS_REUSE_INTERVAL: Duration = Duration::from_millis(500);

type Probe = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;
type LastAnswer = Arc<tokio::sync::Mutex<Option<(Instant, Readiness)>>>;

#[derive(Clone)]
struct Registered {
    probe: Probe,
    /// False for a dependency that the process can partly serve without.
    is_required: bool,
}

/// The probes of a process. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    probes: Arc<Mutex<BTreeMap<String, Registered>>>,
    /// The prefixes of services that must register probes.
    services: Arc<Mutex<BTreeSet<String>>>,
    last_readiness: LastAnswer,
    last_dependencies: LastAnswer,
    shutdown: Shutdown,
    prefix: String,
}

/// The results of the probes.
#[derive(Clone, Debug, Serialize)]
pub struct Readiness {
    /// True if the process serves: every required probe succeeded, and the process is not about to stop.
    pub ready: bool,
    /// True after the announcement of the shutdown.
    pub stopping: bool,
    /// The result of each probe, by name.
    pub probes: BTreeMap<String, ProbeState>,
}

/// The result of one probe.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeState {
    /// True if the probe succeeded.
    pub ok: bool,
    /// The duration of the probe, in milliseconds.
    pub milliseconds: u64,
    /// The reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Readiness {
    /// Returns true if every probe succeeded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ready && self.probes.values().all(|probe| probe.ok)
    }
}

impl Health {
    /// Creates a set without probes: ready until the shutdown begins.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Health {
        Health {
            probes: Arc::default(),
            services: Arc::default(),
            last_readiness: LastAnswer::default(),
            last_dependencies: LastAnswer::default(),
            shutdown,
            prefix: String::new(),
        }
    }

    /// Returns the same set of probes, with new ones named `prefix.…`. The process is not ready until there is at least
    /// one: a service without probes is still starting.
    #[must_use]
    pub fn with_prefix(&self, prefix: &str) -> Health {
        self.services.lock().insert(prefix.to_owned());
        Health { prefix: format!("{prefix}."), ..self.clone() }
    }

    /// Adds a required probe, or replaces the one with that name. A probe must contact its dependency (one round trip)
    /// and give a reason that an operator can act on. It fails after two seconds.
    pub fn register_probe<F, A>(&self, name: &str, probe: F)
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.insert_probe(name, Registered { probe: Arc::new(move || Box::pin(probe())), is_required: true });
    }

    /// Adds the required probe `serving`, which fails until the returned flag is true: until everything is set up, the service is
    /// not ready.
    #[must_use]
    pub fn register_serving(&self) -> Arc<AtomicBool> {
        let serving = Arc::new(AtomicBool::new(false));
        let asked = serving.clone();
        self.register_probe("serving", move || {
            let serving = asked.load(Ordering::Relaxed);
            async move { if serving { Ok(()) } else { Err("starting".to_owned()) } }
        });
        serving
    }

    /// Works as [`Health::register_probe`], for a dependency that the process can partly serve without.
    pub fn register_dependency<F, A>(&self, name: &str, probe: F)
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.insert_probe(
            name,
            Registered { probe: Arc::new(move || Box::pin(probe())), is_required: false },
        );
    }

    /// Removes the probe with this name.
    pub fn unregister_probe(&self, name: &str) {
        self.probes.lock().remove(&format!("{}{name}", self.prefix));
    }

    fn insert_probe(&self, name: &str, probe: Registered) {
        self.probes.lock().insert(format!("{}{name}", self.prefix), probe);
    }

    /// Removes all probes and the clients that they hold. For the time after the services have ended.
    pub fn clear(&self) {
        self.services.lock().clear();
        self.probes.lock().clear();
    }

    /// Returns the services without a probe.
    fn list_starting(&self) -> Vec<String> {
        let (services, probes) = (self.services.lock(), self.probes.lock());
        let has_one = |service: &String| {
            probes.keys().any(|name| name.strip_prefix(service).is_some_and(|rest| rest.starts_with('.')))
        };
        services.iter().filter(|service| !has_one(service)).cloned().collect()
    }

    /// Runs the required probes at the same time. Returns the last answer again if it is at most half a second
    /// old.
    pub async fn check_readiness(&self) -> Readiness {
        self.ask_again(&self.last_readiness, true).await
    }

    /// Works as [`Health::check_readiness`], with all dependencies.
    pub async fn check_dependencies(&self) -> Readiness {
        self.ask_again(&self.last_dependencies, false).await
    }

    async fn ask_again(&self, last: &LastAnswer, only_required: bool) -> Readiness {
        let mut last = last.lock().await;
        if let Some((asked, answer)) = last.as_ref()
            && asked.elapsed() < READINESS_REUSE_INTERVAL
            && answer.stopping == self.shutdown.is_announced()
        {
            return answer.clone();
        }
        let answer = self.run_probes(only_required).await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Runs all probes at the same time, without reusing the last answer.
    pub async fn ask_now(&self) -> Readiness {
        self.run_probes(false).await
    }

    async fn run_probes(&self, only_required: bool) -> Readiness {
        let stopping = self.shutdown.is_announced();
        let starting = self.list_starting();
        let asked = self.probes.lock().clone();
        let required: BTreeSet<String> =
            asked.iter().filter(|(_, probe)| probe.is_required).map(|(name, _)| name.clone()).collect();
        let probes = asked.into_iter().filter(|(_, probe)| probe.is_required || !only_required);
        let probes: Vec<(String, Probe)> = probes.map(|(name, probe)| (name, probe.probe)).collect();
        let asked = probes.into_iter().map(|(name, probe)| async move { (name, run_probe(&probe).await) });
        let mut probes: BTreeMap<String, ProbeState> =
            futures::future::join_all(asked).await.into_iter().collect();
        let optional: BTreeSet<String> =
            probes.keys().filter(|name| !required.contains(*name)).cloned().collect();
        for service in starting {
            let reason = Some("it is still starting".to_owned());
            probes.insert(service, ProbeState { ok: false, milliseconds: 0, reason });
        }
        let ready = !stopping && probes.iter().all(|(name, probe)| probe.ok || optional.contains(name));
        Readiness { ready, stopping, probes }
    }
}

async fn run_probe(probe: &Probe) -> ProbeState {
    let start = Instant::now();
    let answer = tokio::time::timeout(PROBE_TIMEOUT, probe()).await;
    let reason = match answer {
        Ok(Ok(())) => None,
        Ok(Err(reason)) => Some(reason),
        Err(_) => Some(format!("did not answer within {} s", PROBE_TIMEOUT.as_secs())),
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    ProbeState { ok: reason.is_none(), milliseconds, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_probe_is_asked_and_a_slow_one_has_failed() {
        let shutdown = Shutdown::new(Duration::from_secs(1));
        let health = Health::new(shutdown.clone());
        assert!(health.check_readiness().await.ready);
        tokio::time::advance(READINESS_REUSE_INTERVAL).await;
        health.with_prefix("api").register_probe("database", || async { Ok(()) });
        health.with_prefix("api").register_probe("kafka", || async { Err("no broker".to_owned()) });
        health.with_prefix("indexer").register_probe("kafka", std::future::pending);
        let answer = health.check_readiness().await;
        assert!(!answer.ready);
        let reasons: Vec<(&str, Option<&str>)> =
            answer.probes.iter().map(|(name, p)| (name.as_str(), p.reason.as_deref())).collect();
        assert_eq!(
            reasons,
            [
                ("api.database", None),
                ("api.kafka", Some("no broker")),
                ("indexer.kafka", Some("did not answer within 2 s"))
            ]
        );
    }

    #[tokio::test]
    async fn a_dependency_is_told_and_does_not_decide() {
        let health = Health::new(Shutdown::new(Duration::from_secs(1)));
        health.register_probe("serving", || async { Ok(()) });
        health.register_dependency("objects", || async { Err("refused".to_owned()) });
        let readiness = health.check_readiness().await;
        assert!(readiness.ready && !readiness.probes.contains_key("objects"), "it is not even asked");
        let all = health.check_dependencies().await;
        assert!(all.ready && !all.is_complete() && !all.probes["objects"].ok);
    }

    #[tokio::test]
    async fn a_service_that_has_registered_no_probe_is_still_starting() {
        let health = Health::new(Shutdown::new(Duration::from_secs(1)));
        let (api, other) = (health.with_prefix("api"), health.with_prefix("api-of-old"));
        other.register_probe("database", || async { Ok(()) });
        let answer = health.ask_now().await;
        assert!(!answer.ready);
        assert_eq!(answer.probes["api"].reason.as_deref(), Some("it is still starting"));
        api.register_probe("database", || async { Ok(()) });
        let answer = health.ask_now().await;
        assert!(answer.ready && !answer.probes.contains_key("api"));
        health.with_prefix("indexer").clear();
        assert!(health.ask_now().await.ready, "who has ended is not starting");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_process_is_not_ready_even_with_a_fresh_answer() {
        let shutdown = Shutdown::new(Duration::from_secs(1));
        let health = Health::new(shutdown.clone());
        assert!(health.check_readiness().await.ready);
        shutdown.announce();
        assert!(!health.check_readiness().await.ready && !shutdown.is_begun());
    }
}
