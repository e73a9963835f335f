//! The CPU pool: a fixed number of threads for work that must not run on the async runtime.

mod classes;

use crate::errors::panic_text;
use crate::fairness::{FairPermit, FairSemaphore};
use crate::resource_use::measure_cpu;
use classes::{Classes, JobOwner};
use parking_lot::{Condvar, Mutex};
use prometheus::{Histogram, HistogramOpts, IntGauge, Registry};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use unslide_model::{PROCESS_USE, TenantId};

/// Queued jobs per thread and owner in [`CpuPool::run`]. Further jobs wait in their callers.
const QUEUED_PER_THREAD: usize = 4;

/// The weight of a pool's first class. A service with separate classes adds them with
/// [`CpuPool::add_class`].
const USUAL_WEIGHT: u32 = 8;

/// The reason why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// The job panicked. The text is the panic's message.
    #[error("the job panicked: {0}")]
    Panicked(String),
    /// The pool was dropped before the job ran.
    #[error("the pool is closed")]
    Closed,
}

/// Runs a job. Returns false if the job was skipped.
type Work = Box<dyn FnOnce() -> bool + Send>;

struct Queue {
    jobs: Classes<Work>,
    open: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
    /// Permits of each owner for queued and running jobs.
    places: FairSemaphore<JobOwner>,
    waiting: IntGauge,
    seconds: Histogram,
    /// Receives the threads that have ended.
    ended: Sender<EndedThread>,
}

/// A thread to start again: its pool, and its number there.
type EndedThread = (Arc<Shared>, usize);

/// Closes the queue when the last handle of the pool is dropped.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.queue.lock().open = false;
        self.0.more.notify_all();
    }
}

/// A fixed set of threads that run jobs. Classes of jobs share the threads by weight, tenants of a class take
/// turns, and the jobs of one tenant start in the order of submission. One tenant can use all threads except one,
/// so another tenant's job never waits for one of them to end. Cheap to clone: the jobs of a clone belong to the
/// same class. The threads end when the last handle is dropped and the queue is empty.
#[derive(Clone)]
pub struct CpuPool {
    handle: Arc<Handle>,
    threads: usize,
    class: usize,
}

impl CpuPool {
    /// Creates a pool that gives each owner of jobs `threads` threads (at least one).
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread.
    pub fn new(threads: usize) -> std::io::Result<CpuPool> {
        let threads = threads.max(1);
        let mut jobs = Classes::new(threads);
        let class = jobs.add_class(USUAL_WEIGHT);
        let queued = u32::try_from(threads * (1 + QUEUED_PER_THREAD)).unwrap_or(u32::MAX);
        let (ended, successors) = channel();
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { jobs, open: true }),
            more: Condvar::new(),
            places: FairSemaphore::new("jobs", u32::MAX, queued),
            waiting: new_gauge("unslide_cpu_waiting", "Jobs that wait for a thread of the CPU pool."),
            seconds: new_seconds_histogram(),
            ended,
        });
        let pool = CpuPool { handle: Arc::new(Handle(shared)), threads, class };
        for number in 0..=threads {
            start_thread(pool.handle.0.clone(), number)?;
        }
        std::thread::Builder::new().name("cpu-start".to_owned()).spawn(move || start_again(&successors))?;
        Ok(pool)
    }

    /// Returns the same threads for a separate class of jobs. Classes with waiting jobs share the threads
    /// by weight, so each makes progress regardless of the others. Unused time of a class goes to the
    /// others. Classes stay until the pool ends: create them at start, not for each job.
    #[must_use]
    pub fn add_class(&self, weight: u32) -> CpuPool {
        let class = self.handle.0.queue.lock().jobs.add_class(weight);
        CpuPool { class, ..self.clone() }
    }

    /// Returns the number of threads for the jobs of one owner.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        self.threads
    }

    /// Runs a job on the pool and waits for it without blocking the async runtime. If the queue is full,
    /// waits for capacity first. If the caller is dropped, a running job continues to its end. A queued
    /// one is not started, but keeps its place in the queue until its turn.
    ///
    /// # Errors
    /// Returns [`CpuError`] if the job panicked or the pool was closed.
    pub async fn run<T, F>(&self, job: F) -> Result<T, CpuError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_of(None, job).await
    }

    /// Works as [`CpuPool::run`], for a job of one tenant. The job waits for that tenant's earlier jobs, and takes
    /// turns with those of other tenants.
    ///
    /// # Errors
    /// Returns [`CpuError`] if the job panicked or the pool was closed.
    pub async fn run_for<T, F>(&self, tenant: &TenantId, job: F) -> Result<T, CpuError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_of(Some(tenant.clone()), job).await
    }

    async fn run_of<T, F>(&self, owner: JobOwner, job: F) -> Result<T, CpuError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let place = self.handle.0.places.acquire(&owner, 1).await;
        self.push(owner, job, Some(place)).await
    }

    /// Queues a job at once, without a limit. For callers that limit their own batches,
    /// on or off the async runtime. Await the result, or wait for it with [`CpuJob::wait`].
    pub fn submit_job<T, F>(&self, job: F) -> CpuJob<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.push(None, job, None)
    }

    /// Works as [`CpuPool::submit_job`], for a job of one tenant, if the tenant is known.
    pub fn submit_for<T, F>(&self, tenant: Option<TenantId>, job: F) -> CpuJob<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.push(tenant, job, None)
    }

    /// Queues a job. `place` is its permit in the queue, if its caller may be dropped before the job starts.
    fn push<T, F>(&self, owner: JobOwner, job: F, place: Option<FairPermit<JobOwner>>) -> CpuJob<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (send, receive) = oneshot::channel();
        let shared = self.handle.0.clone();
        let work: Work = Box::new(move || {
            if place.is_some() && send.is_closed() {
                return false;
            }
            let result = catch_unwind(AssertUnwindSafe(job))
                .map_err(|panic| CpuError::Panicked(panic_text(panic.as_ref())));
            drop(place);
            // A caller that no longer waits is not an error.
            let _ = send.send(result);
            true
        });
        shared.queue.lock().jobs.push(self.class, owner, work);
        shared.waiting.inc();
        shared.more.notify_one();
        CpuJob(receive)
    }

    /// Registers the pool's metrics.
    ///
    /// # Errors
    /// Returns an error if the registry already has them.
    pub fn register_metrics(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let shared = &self.handle.0;
        registry.register(Box::new(shared.waiting.clone()))?;
        registry.register(Box::new(shared.seconds.clone()))
    }
}

/// The future result of a job.
#[must_use = "a job's result says whether it panicked"]
pub struct CpuJob<T>(oneshot::Receiver<Result<T, CpuError>>);

impl<T> CpuJob<T> {
    /// Blocks this thread until the job is done.
    ///
    /// # Errors
    /// Returns [`CpuError`] if the job panicked or the pool was closed.
    ///
    /// # Panics
    /// Panics on the async runtime, which it would block.
    pub fn wait(self) -> Result<T, CpuError> {
        self.0.blocking_recv().unwrap_or(Err(CpuError::Closed))
    }
}

impl<T> Future for CpuJob<T> {
    type Output = Result<T, CpuError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|received| received.unwrap_or(Err(CpuError::Closed)))
    }
}

/// The nice value of the pool's threads, added to that of the process (see nice(2)).
const NICE: i32 = 10;
/// The nice value of a thread with a large job: it gets a quarter of a core that another job wants, too.
const LARGE_NICE: i32 = 15;
/// Size in bytes above which a job is large.
const LARGE_JOB_BYTES: usize = 1 << 20;

thread_local! {
    /// True if the job of this thread is large. `None` if the thread belongs to no pool.
    static IS_LARGE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Reports the size of a pool's job from within. Call it when the size is known: a large job continues at a lower
/// priority. Does nothing on other threads.
pub fn job_bytes(bytes: usize) {
    if bytes > LARGE_JOB_BYTES && IS_LARGE.get() == Some(false) {
        IS_LARGE.set(Some(true));
        lower_priority(LARGE_NICE - NICE);
    }
}

/// Gives precedence to the threads that answer other tenants and talk to Kafka and PostgreSQL, if one tenant's large
/// bodies keep every core busy. On Linux, each thread has its own priority.
fn lower_priority(nice: i32) {
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::nice(nice)
    {
        tracing::debug!(%error, "the CPU pool keeps its priority");
    }
}

fn start_thread(shared: Arc<Shared>, number: usize) -> std::io::Result<()> {
    let body = move || {
        lower_priority(NICE);
        IS_LARGE.set(Some(false));
        run_jobs(&shared, number);
    };
    std::thread::Builder::new().name(format!("cpu-{number}")).spawn(body).map(drop)
}

/// Restarts threads that ended after a large job. A thread inherits the priority of the one that starts it.
fn start_again(ended: &Receiver<EndedThread>) {
    while let Ok((shared, number)) = ended.recv() {
        while let Err(error) = start_thread(shared.clone(), number) {
            tracing::error!(%error, "a thread of the CPU pool cannot be started");
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn run_jobs(shared: &Arc<Shared>, number: usize) {
    loop {
        let (owner, job) = {
            let mut queue = shared.queue.lock();
            loop {
                if let Some(job) = queue.jobs.pop() {
                    break job;
                }
                if !queue.open {
                    return;
                }
                shared.more.wait(&mut queue);
            }
        };
        shared.waiting.dec();
        let start = Instant::now();
        let (is_run, used) = measure_cpu(job);
        if let Some(tenant) = &owner {
            PROCESS_USE.add(Some(tenant), used);
        }
        if is_run {
            shared.seconds.observe(start.elapsed().as_secs_f64());
        }
        let mut queue = shared.queue.lock();
        queue.jobs.finish_job(&owner);
        drop(queue);
        // A waiting job of this owner may now run on an idle thread.
        shared.more.notify_one();
        if IS_LARGE.get() == Some(true) {
            // A lowered priority cannot be raised again.
            let _ = shared.ended.send((Arc::clone(shared), number));
            return;
        }
    }
}

#[expect(clippy::expect_used, reason = "the names are constants that Prometheus accepts")]
fn new_gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect("a valid name")
}

#[expect(clippy::expect_used, reason = "the name is a constant that Prometheus accepts")]
fn new_seconds_histogram() -> Histogram {
    let buckets = vec![0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
    let options = HistogramOpts::new("unslide_cpu_job_seconds", "How long a job of the CPU pool ran.");
    Histogram::with_opts(options.buckets(buckets)).expect("a valid name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_thread_goes_on() {
        let pool = CpuPool::new(1).unwrap();
        let failed = pool.run(|| panic!("no")).await;
        assert_eq!(failed, Err::<(), _>(CpuError::Panicked("no".to_owned())));
        assert_eq!(pool.run(|| 7).await, Ok(7));
    }

    /// Proves: fairness
    #[cfg(target_os = "linux")]
    #[test]
    fn a_large_job_gets_what_others_leave_and_the_jobs_after_it_do_not() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let own = nice();
        let pool = CpuPool::new(1).unwrap();
        let of = |bytes| {
            let job = move || {
                job_bytes(bytes);
                nice()
            };
            pool.submit_job(job).wait().unwrap()
        };
        // More jobs than there are threads.
        for _ in 0..4 {
            assert_eq!(of(LARGE_JOB_BYTES), (own + NICE).min(19));
            assert_eq!(of(LARGE_JOB_BYTES + 1), (own + LARGE_NICE).min(19));
        }
        job_bytes(LARGE_JOB_BYTES + 1);
        assert_eq!(nice(), own, "this thread is not the pool's");
    }

    #[test]
    fn no_more_jobs_run_at_once_than_there_are_threads() {
        let pool = CpuPool::new(2).unwrap();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let meeting = Arc::new(std::sync::Barrier::new(2));
        let jobs: Vec<_> = (0..20)
            .map(|i| {
                let (now, most, meeting) = (now.clone(), most.clone(), meeting.clone());
                pool.submit_job(move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // The first two are there at once, however slow the machine is.
                    if i < 2 {
                        meeting.wait();
                    }
                    std::thread::sleep(Duration::from_millis(2));
                    now.fetch_sub(1, Ordering::SeqCst);
                    i
                })
            })
            .collect();
        let results: Vec<i32> = jobs.into_iter().map(|job| job.wait().unwrap()).collect();
        assert_eq!(results, (0..20).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn callers_that_go_away_leave_a_bounded_number_of_jobs() {
        let pool = CpuPool::new(1).unwrap();
        let (waiting, places) = (&pool.handle.0.waiting, &pool.handle.0.places);
        let (begin, gate) = std::sync::mpsc::channel::<()>();
        let held = pool.submit_job(move || gate.recv());
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let begun = begun.clone();
            let run = pool.run(move || begun.fetch_add(1, Ordering::SeqCst));
            // Asked once, and then nobody waits for it any more.
            tokio::time::timeout(Duration::ZERO, run).await.unwrap_err();
        }
        let most = 1 + QUEUED_PER_THREAD;
        // The job that holds the thread may have waited, too.
        assert!(usize::try_from(waiting.get()).unwrap() <= most + 1, "{}", waiting.get());
        begin.send(()).unwrap();
        held.await.unwrap().unwrap();
        assert_eq!(pool.run(|| 7).await, Ok(7));
        assert_eq!((begun.load(Ordering::SeqCst), waiting.get()), (0, 0));
        assert_eq!(places.held_permits(), 0);
    }

    /// The noisy tenant's jobs never end while the quiet one's run.
    /// Proves: fairness
    #[tokio::test]
    async fn a_tenant_that_fills_the_pool_leaves_a_thread_for_others() {
        let pool = CpuPool::new(2).unwrap();
        let [noisy, quiet] = ["noisy", "quiet"].map(|slug| TenantId::new(slug).unwrap());
        let gate = Arc::new(std::sync::Barrier::new(3));
        let begin = Arc::new(AtomicUsize::new(0));
        let held: Vec<_> = (0..50)
            .map(|n| {
                let (pool, noisy, gate, begin) = (pool.clone(), noisy.clone(), gate.clone(), begin.clone());
                tokio::spawn(async move {
                    let job = move || {
                        if begin.fetch_add(1, Ordering::SeqCst) < 2 {
                            gate.wait();
                        }
                        n
                    };
                    pool.run_for(&noisy, job).await
                })
            })
            .collect();
        while begin.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        for n in 0..20 {
            assert_eq!(pool.run_for(&quiet, move || n).await, Ok(n));
        }
        assert_eq!(begin.load(Ordering::SeqCst), 2, "it has its two threads and no more");
        tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
        for job in held {
            job.await.unwrap().unwrap();
        }
    }

    /// Proves: one-outcome
    #[test]
    fn classes_share_one_thread_by_weight_in_the_order_of_execution() {
        let pool = CpuPool::new(1).unwrap();
        let lanes = [('a', pool.add_class(8)), ('b', pool.add_class(2)), ('c', pool.add_class(1))];
        // The only thread is held until everything waits.
        let (begin, gate) = std::sync::mpsc::channel::<()>();
        let held = pool.submit_job(move || gate.recv());
        let order = Arc::new(Mutex::new(String::new()));
        let mut jobs = Vec::new();
        // Most jobs of the lightest class first: arrival must not decide.
        for (name, lane) in lanes.iter().rev() {
            for _ in 0..22 {
                let order = Arc::clone(&order);
                let name = *name;
                jobs.push(lane.submit_job(move || order.lock().push(name)));
            }
        }
        begin.send(()).unwrap();
        held.wait().unwrap().unwrap();
        jobs.into_iter().for_each(|job| job.wait().unwrap());
        let order = order.lock().clone();
        let count = |part: &str, name| part.matches(name).count();
        let (first, _) = order.split_at_checked(22).unwrap();
        assert_eq!((count(first, 'a'), count(first, 'b'), count(first, 'c')), (16, 4, 2), "{order}");
        // The heaviest is done after 22 jobs of its own; the others go on two to one.
        let rest = order.rsplit_once('a').and_then(|(_, rest)| rest.get(..12)).unwrap();
        assert_eq!((count(rest, 'b'), count(rest, 'c')), (8, 4), "{order}");
    }

    #[test]
    fn jobs_that_wait_are_finished_when_the_pool_is_dropped() {
        let pool = CpuPool::new(1).unwrap();
        let jobs: Vec<_> = (0..5).map(|i| pool.submit_job(move || i)).collect();
        drop(pool);
        assert_eq!(jobs.into_iter().map(|j| j.wait().unwrap()).sum::<i32>(), 10);
    }
}
