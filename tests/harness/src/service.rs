//! A service that runs in the process of its test.

use std::fmt::Debug;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use unslide_runtime::Host;
use unslide_runtime::health::Readiness;

/// How long a test waits for a service, on a machine that is busy.
pub const SERVICE_TIMEOUT: Duration = Duration::from_secs(300);

/// A running service and its host.
pub struct RunningService<E> {
    /// The host that it runs on.
    pub host: Host,
    task: JoinHandle<Result<(), E>>,
    /// The number of its probes when it has started.
    probes: usize,
}

impl<E: Debug + Send + 'static> RunningService<E> {
    /// Runs a service that has this number of probes when it has started.
    pub fn spawn(
        host: Host,
        probes: usize,
        service: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> RunningService<E> {
        RunningService { host, task: tokio::spawn(service), probes }
    }

    /// Stops the service, which must drain.
    pub async fn stop(self) {
        self.host.shutdown.begin();
        let ended = tokio::time::timeout(SERVICE_TIMEOUT, self.task).await;
        ended.expect("it drains").expect("no panic").expect("no error");
        // The probes hold connections.
        self.host.health.clear();
    }

    /// Ends the service in the middle of its work, as a kill does.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|end| end.is_cancelled()), "it had ended");
        self.host.health.clear();
    }

    /// The value of a counter, summed over its labels.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.values(name).into_iter().sum()
    }

    /// The values of a metric, one for each set of labels.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<u64> {
        let page = self.host.process_metrics().render_page().expect("a page of metrics");
        let is_it =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ',', ' ']));
        let values = page.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next());
        values.map(|value| value.parse().expect("a whole number")).collect()
    }

    /// Waits until a counter has this value: it counts what was committed before.
    pub async fn wait_for_counter(&self, name: &str, wanted: u64) {
        let end = Instant::now() + SERVICE_TIMEOUT;
        loop {
            let found = self.counter(name);
            if found == wanted {
                return;
            }
            assert!(Instant::now() < end, "{name}: {found} and not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until all probes succeed.
    pub async fn wait_until_ready(&self) {
        self.wait_for_readiness(|answer| answer.ready && answer.probes.len() == self.probes).await;
    }

    /// Waits until a probe fails with these words.
    pub async fn wait_until_unready(&self, words: &str) {
        let fails = |reason: &String| reason.contains(words);
        self.wait_for_readiness(|answer| {
            answer.probes.values().any(|p| p.reason.as_ref().is_some_and(fails))
        })
        .await;
    }

    async fn wait_for_readiness(&self, wanted: impl Fn(&Readiness) -> bool) {
        let end = Instant::now() + SERVICE_TIMEOUT;
        loop {
            let answer = self.host.health.check_readiness().await;
            if wanted(&answer) {
                return;
            }
            assert!(Instant::now() < end, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
