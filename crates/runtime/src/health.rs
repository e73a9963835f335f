//! Readiness: what a service needs, asked when someone wants to know.

use crate::Shutdown;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a probe may take before it counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer is good for, so that many askers cost one round of probes.
const FRESH: Duration = Duration::from_millis(500);

type Probe = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;
type LastAnswer = Arc<tokio::sync::Mutex<Option<(Instant, Readiness)>>>;

/// The probes of a process. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    probes: Arc<Mutex<BTreeMap<String, Probe>>>,
    /// Services that have to register probes: their prefixes.
    services: Arc<Mutex<BTreeSet<String>>>,
    last: LastAnswer,
    shutdown: Shutdown,
    prefix: String,
}

/// What the probes said.
#[derive(Clone, Debug, Serialize)]
pub struct Readiness {
    /// True where every probe succeeded and the process is not about to stop.
    pub ready: bool,
    /// True from the beginning of the shutdown on.
    pub stopping: bool,
    /// Each probe by name.
    pub probes: BTreeMap<String, ProbeState>,
}

/// What one probe said.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeState {
    /// Whether it succeeded.
    pub ok: bool,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Health {
    /// No probes yet: ready until the shutdown begins.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Health {
        let (probes, services, last) = (Arc::default(), Arc::default(), LastAnswer::default());
        Health { probes, services, last, shutdown, prefix: String::new() }
    }

    /// The same probes, with new ones named `prefix.…`. Until there is one of them nothing is ready: who
    /// has said nothing of what it needs is still starting.
    #[must_use]
    pub fn scoped(&self, prefix: &str) -> Health {
        self.services.lock().insert(prefix.to_owned());
        Health { prefix: format!("{prefix}."), ..self.clone() }
    }

    /// Adds a probe, or replaces the one of that name. A probe really asks what it names (one
    /// round trip) and gives a reason that an operator can act on; after two seconds it has failed.
    pub fn register<F, A>(&self, name: &str, probe: F)
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        let probe: Probe = Arc::new(move || Box::pin(probe()));
        self.probes.lock().insert(format!("{}{name}", self.prefix), probe);
    }

    /// Forgets all probes, and with them the clients that they hold: after the services have ended.
    pub fn clear(&self) {
        self.services.lock().clear();
        self.probes.lock().clear();
    }

    /// Services that have no probe yet.
    fn starting(&self) -> Vec<String> {
        let (services, probes) = (self.services.lock(), self.probes.lock());
        let has_one = |service: &String| {
            probes.keys().any(|name| name.strip_prefix(service).is_some_and(|rest| rest.starts_with('.')))
        };
        services.iter().filter(|service| !has_one(service)).cloned().collect()
    }

    /// Asks all probes at the same time; an answer of the last half second is given again.
    pub async fn check(&self) -> Readiness {
        let mut last = self.last.lock().await;
        if let Some((asked, answer)) = last.as_ref()
            && asked.elapsed() < FRESH
            && answer.stopping == self.shutdown.is_begun()
        {
            return answer.clone();
        }
        let answer = self.ask_now().await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Asks all probes at the same time, whatever they said just before.
    pub async fn ask_now(&self) -> Readiness {
        let stopping = self.shutdown.is_begun();
        let starting = self.starting();
        let probes: Vec<(String, Probe)> =
            self.probes.lock().iter().map(|(name, probe)| (name.clone(), probe.clone())).collect();
        let asked = probes.into_iter().map(|(name, probe)| async move { (name, ask(&probe).await) });
        let mut probes: BTreeMap<String, ProbeState> =
            futures::future::join_all(asked).await.into_iter().collect();
        for service in starting {
            let reason = Some("it is still starting".to_owned());
            probes.insert(service, ProbeState { ok: false, milliseconds: 0, reason });
        }
        let ready = !stopping && probes.values().all(|probe| probe.ok);
        Readiness { ready, stopping, probes }
    }
}

async fn ask(probe: &Probe) -> ProbeState {
    let start = Instant::now();
    let answer = tokio::time::timeout(PROBE_TIMEOUT, probe()).await;
    let reason = match answer {
        Ok(Ok(())) => None,
        Ok(Err(reason)) => Some(reason),
        Err(_) => Some(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
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
        assert!(health.check().await.ready);
        tokio::time::advance(FRESH).await;
        health.scoped("api").register("database", || async { Ok(()) });
        health.scoped("api").register("kafka", || async { Err("no broker".to_owned()) });
        health.scoped("indexer").register("kafka", std::future::pending);
        let answer = health.check().await;
        assert!(!answer.ready);
        let reasons: Vec<(&str, Option<&str>)> =
            answer.probes.iter().map(|(name, p)| (name.as_str(), p.reason.as_deref())).collect();
        assert_eq!(
            reasons,
            [
                ("api.database", None),
                ("api.kafka", Some("no broker")),
                ("indexer.kafka", Some("no answer within 2 s"))
            ]
        );
    }

    #[tokio::test]
    async fn a_service_that_has_registered_no_probe_is_still_starting() {
        let health = Health::new(Shutdown::new(Duration::from_secs(1)));
        let (api, other) = (health.scoped("api"), health.scoped("api-of-old"));
        other.register("database", || async { Ok(()) });
        let answer = health.ask_now().await;
        assert!(!answer.ready);
        assert_eq!(answer.probes["api"].reason.as_deref(), Some("it is still starting"));
        api.register("database", || async { Ok(()) });
        let answer = health.ask_now().await;
        assert!(answer.ready && !answer.probes.contains_key("api"));
        health.scoped("indexer").clear();
        assert!(health.ask_now().await.ready, "who has ended is not starting");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_process_is_not_ready_even_with_a_fresh_answer() {
        let shutdown = Shutdown::new(Duration::from_secs(1));
        let health = Health::new(shutdown.clone());
        assert!(health.check().await.ready);
        shutdown.begin();
        assert!(!health.check().await.ready);
    }
}
