//! Measures CPU time for tenants, and hands on what the process used.

use crate::Shutdown;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use std::fmt::Display;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use unslide_model::{PROCESS_USE, ResourceUse, ResourceUses, TenantId};

/// Interval at which a process hands on what it used.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Time for the last uses when the process stops.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The beginnings of the names of threads that work for all records alike: Kafka's clients, and the lanes that read with them.
const KAFKA_THREADS: [&str; 2] = ["rdk:", "lane "];

/// The CPU time that was handed on.
struct HandedOn {
    /// Of tenants.
    attributed_micros: u64,
    /// Of the threads of Kafka's clients, as a part of both.
    kafka_micros: u64,
    /// The rest.
    shared_micros: u64,
}

static HANDED_ON: Mutex<HandedOn> =
    Mutex::new(HandedOn { attributed_micros: 0, kafka_micros: 0, shared_micros: 0 });

/// Runs a function on this thread, and returns its result with the CPU time that it took.
pub fn measure_cpu<T>(work: impl FnOnce() -> T) -> (T, ResourceUse) {
    let before = read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let result = work();
    (result, cpu_use(read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(before)))
}

/// Runs a future, and returns its result with the CPU time that it took: that of tasks and threads that it starts does not
/// count.
pub async fn measure_future<T>(future: impl Future<Output = T>) -> (T, ResourceUse) {
    Measured { future: pin!(future), taken: Duration::ZERO }.await
}

/// Runs a future, and adds its CPU time to what a tenant used.
pub async fn charge_future<T>(tenant: &TenantId, future: impl Future<Output = T>) -> T {
    let (result, used) = measure_future(future).await;
    PROCESS_USE.add(Some(tenant), used);
    result
}

struct Measured<'f, F> {
    future: Pin<&'f mut F>,
    taken: Duration,
}

impl<F: Future> Future for Measured<'_, F> {
    type Output = (F::Output, ResourceUse);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let before = read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let polled = self.future.as_mut().poll(context);
        self.taken += read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(before);
        polled.map(|result| (result, cpu_use(self.taken)))
    }
}

/// Hands on what the process used, once a minute and at the end of the shutdown. What `write` refuses is handed on with the
/// next uses.
pub async fn keep_writing<E: Display, F: Future<Output = Result<(), E>>>(
    shutdown: &Shutdown,
    write: impl Fn(ResourceUses) -> F,
) {
    let mut uses = ResourceUses::new();
    loop {
        let is_over = tokio::time::timeout(WRITE_INTERVAL, shutdown.wait_until_begun()).await.is_ok();
        for (tenant, used) in take_process_use() {
            *uses.entry(tenant).or_default() += used;
        }
        let limit = if is_over { LAST_WRITE_TIMEOUT } else { WRITE_INTERVAL };
        match tokio::time::timeout(limit, write(uses.clone())).await {
            Ok(Ok(())) => uses.clear(),
            Ok(Err(error)) => log_failure(&error),
            Err(elapsed) => log_failure(&elapsed),
        }
        if is_over {
            return;
        }
    }
}

fn log_failure(error: &impl Display) {
    tracing::warn!(%error, "what tenants used could not be recorded: it is tried again with the next uses");
}

/// Takes what was used since the last call. CPU time of Kafka's clients, which compress and check what they send and receive, counts
/// for tenants by their bytes. Other CPU time of the process and its children that is no tenant's counts as shared.
fn take_process_use() -> ResourceUses {
    let mut handed_on = HANDED_ON.lock();
    let mut uses = PROCESS_USE.take();
    let kafka: u64 = KAFKA_THREADS.map(read_thread_micros).iter().sum();
    share_by_bytes(&mut uses, kafka.saturating_sub(handed_on.kafka_micros));
    handed_on.kafka_micros = kafka;
    handed_on.attributed_micros += uses.values().map(|used| used.cpu_micros).sum::<u64>();
    let total = micros(read_clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)) + read_children_micros();
    let shared = total.saturating_sub(handed_on.attributed_micros + handed_on.shared_micros);
    handed_on.shared_micros += shared;
    uses.entry(None).or_default().cpu_micros += shared;
    uses
}

/// Adds CPU time to each use by its part of the bytes of Kafka.
fn share_by_bytes(uses: &mut ResourceUses, micros: u64) {
    let total: u128 = uses.values().map(|used| u128::from(used.kafka_bytes)).sum();
    for used in uses.values_mut() {
        let part = (u128::from(micros) * u128::from(used.kafka_bytes)).checked_div(total);
        used.cpu_micros += part.and_then(|part| u64::try_from(part).ok()).unwrap_or(0);
    }
}

fn cpu_use(time: Duration) -> ResourceUse {
    ResourceUse { cpu_micros: micros(time), ..ResourceUse::default() }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "CPU time is no time of day")]
fn read_clock(clock: ClockId) -> Duration {
    clock_gettime(clock).map(Duration::from).unwrap_or_default()
}

/// Returns the CPU time of the threads with names that begin like this; 0 where the system does not say.
#[cfg(target_os = "linux")]
fn read_thread_micros(name: &str) -> u64 {
    let Ok(threads) = procfs::process::Process::myself().and_then(|process| process.tasks()) else {
        return 0;
    };
    let stats = threads.flatten().filter_map(|thread| thread.stat().ok());
    let ticks: u64 =
        stats.filter(|stat| stat.comm.starts_with(name)).map(|stat| stat.utime + stat.stime).sum();
    ticks * 1_000_000 / procfs::ticks_per_second()
}

#[cfg(not(target_os = "linux"))]
fn read_thread_micros(_: &str) -> u64 {
    0
}

/// Returns the CPU time of child processes that have ended.
fn read_children_micros() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0 };
    let spent = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    u64::try_from(spent).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burn() {
        while read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID).as_micros() % 1_000 < 999 {}
    }

    #[test]
    fn the_time_of_clients_of_kafka_is_shared_by_bytes() {
        let bytes = |kafka_bytes| ResourceUse { kafka_bytes, ..ResourceUse::default() };
        let tenant = TenantId::new("acme").ok();
        let mut uses = ResourceUses::from([(None, bytes(1)), (tenant.clone(), bytes(3))]);
        share_by_bytes(&mut uses, 1_000);
        assert_eq!((uses[&None].cpu_micros, uses[&tenant].cpu_micros), (250, 750));
        let mut idle = ResourceUses::from([(None, bytes(0))]);
        share_by_bytes(&mut idle, 1_000);
        assert_eq!(idle[&None].cpu_micros, 0, "it counts with the rest of the process");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_time_of_a_thread_is_found_by_its_name() {
        let busy = std::thread::Builder::new().name("rdk:test".to_owned());
        let (send, stop) = std::sync::mpsc::channel::<()>();
        let busy = busy.spawn(move || {
            while read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID) < Duration::from_millis(30) {}
            stop.recv().unwrap_err();
        });
        while read_thread_micros("rdk:") == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(read_thread_micros("no such thread"), 0);
        drop(send);
        busy.unwrap().join().unwrap();
    }

    #[tokio::test]
    async fn the_time_of_a_future_is_that_of_its_polls_and_the_process_adds_up() {
        let tenant = TenantId::new("acme").unwrap();
        charge_future(&tenant, async {
            burn();
            tokio::time::sleep(Duration::from_millis(20)).await;
            burn();
        })
        .await;
        let ((), direct) = measure_cpu(burn);
        let uses = take_process_use();
        let of_tenant = uses[&Some(tenant)].cpu_micros;
        assert!(of_tenant > 0 && direct.cpu_micros > 0, "{uses:?}");
        // The rest has what the test itself took, and the process has no more.
        let total = micros(read_clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)) + read_children_micros();
        assert!(uses[&None].cpu_micros >= direct.cpu_micros, "{uses:?}");
        assert!(uses.values().map(|used| used.cpu_micros).sum::<u64>() <= total, "{uses:?}");
    }
}
