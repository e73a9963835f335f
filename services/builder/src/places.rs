//! The places of a builder for uploads and jobs of features, shared by tenants.
//!
//! No place is kept free for fairness: a single tenant may use all of them. If they are taken and a tenant
//! with no job under way waits, its oldest job starts as an extra one. While the extra job has a child
//! process, a job of the tenant with the most jobs here is stopped. It continues later, so that no more
//! children run than there are places. There is one extra job at a time. It takes a place as soon as one is
//! free.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep};
use unslide_model::Owner;
use unslide_store::JobId;
use unslide_store::jobs::{JobKind, JobLease};

/// How long one job may be stopped, all its stops together. Later extra jobs run beside it.
const STOPPED_TIME_LIMIT: Duration = Duration::from_secs(600);

/// The jobs of this process that share places.
pub(crate) struct SharedPlaces {
    /// The kinds that share places. A tenant with no job of these under way may have an extra job.
    kinds: Vec<&'static str>,
    extra: Arc<Semaphore>,
    jobs: Mutex<HashMap<JobId, RunningJob>>,
}

/// The places of jobs of some kinds.
pub(crate) struct JobLane {
    places: Arc<Semaphore>,
    /// The extra place; `None` if these kinds have none.
    extra: Option<Arc<Semaphore>>,
}

/// The place of one job.
pub(crate) enum Place {
    /// One of the lane's own places.
    Own(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
    /// The extra place, of which a builder has one.
    Extra(OwnedSemaphorePermit),
}

struct RunningJob {
    owner: Owner,
    began: Instant,
    is_extra: bool,
    /// True while the job's children are stopped.
    stop: watch::Sender<bool>,
    stopped_for: Option<Stop>,
    /// The time of stops that are over.
    stopped_before: Duration,
}

/// A stop that is not over.
struct Stop {
    extra: JobId,
    since: Instant,
}

/// Removes a job from the [`SharedPlaces`] when it is dropped.
pub(crate) struct Registered<'a> {
    places: &'a SharedPlaces,
    job: JobId,
}

/// Lets the job continue that is stopped for an extra one when it is dropped.
struct StopGuard<'a> {
    places: &'a SharedPlaces,
    extra: JobId,
    time_left: Duration,
}

impl SharedPlaces {
    /// Creates the places that uploads share with jobs of these kinds.
    pub(crate) fn new(kinds: impl IntoIterator<Item = &'static str>) -> SharedPlaces {
        let kinds = std::iter::once(JobKind::Build.as_str()).chain(kinds).collect();
        SharedPlaces { kinds, extra: Arc::new(Semaphore::new(1)), jobs: Mutex::default() }
    }

    /// Returns the kinds that share places.
    pub(crate) fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    /// Returns the places for jobs of these kinds.
    pub(crate) fn create_lane(&self, kinds: &[&str], places: usize) -> JobLane {
        let shares = kinds.iter().all(|kind| self.kinds.contains(kind));
        let extra = shares.then(|| Arc::clone(&self.extra));
        JobLane { places: Arc::new(Semaphore::new(places)), extra }
    }

    /// Registers a job until the guard is dropped. Returns `None` for a job of a kind that shares no places.
    pub(crate) fn register_job(&self, job: &JobLease, place: &Place) -> Option<Registered<'_>> {
        self.kinds.contains(&job.work.kind()).then(|| self.add_job(job.id, &job.owner, place.is_extra()))
    }

    fn add_job(&self, job: JobId, owner: &Owner, is_extra: bool) -> Registered<'_> {
        let running = RunningJob {
            owner: owner.clone(),
            began: Instant::now(),
            is_extra,
            stop: watch::Sender::new(false),
            stopped_for: None,
            stopped_before: Duration::ZERO,
        };
        self.jobs.lock().insert(job, running);
        Registered { places: self, job }
    }

    pub(crate) fn is_extra(&self, job: JobId) -> bool {
        self.jobs.lock().get(&job).is_some_and(|running| running.is_extra)
    }

    /// Returns a receiver that tells when a job's children have to stop.
    pub(crate) fn subscribe_stop(&self, job: JobId) -> watch::Receiver<bool> {
        match self.jobs.lock().get(&job) {
            Some(running) => running.stop.subscribe(),
            None => watch::channel(false).1,
        }
    }

    /// Returns for how long a job was stopped so far.
    pub(crate) fn stopped_time(&self, job: JobId) -> Duration {
        self.jobs.lock().get(&job).map_or(Duration::ZERO, RunningJob::stopped_time)
    }

    /// Runs a job's child. While an extra job's child runs, another job is stopped.
    pub(crate) async fn run_child<T>(&self, job: JobId, child: impl Future<Output = T>) -> T {
        let Some(stopped) = self.stop_for(job) else { return child.await };
        let mut child = pin!(child);
        tokio::select! {
            done = &mut child => return done,
            () = sleep(stopped.time_left) => drop(stopped),
        }
        child.await
    }

    /// Stops a job in favour of an extra one: the one that has run longest, of the tenant with the most.
    fn stop_for(&self, extra: JobId) -> Option<StopGuard<'_>> {
        let mut jobs = self.jobs.lock();
        let favoured = jobs.get(&extra).filter(|running| running.is_extra)?.owner.clone();
        let mut counts: HashMap<&Owner, usize> = HashMap::new();
        for running in jobs.values() {
            *counts.entry(&running.owner).or_default() += 1;
        }
        let most = jobs
            .values()
            .filter(|running| running.owner != favoured)
            .max_by_key(|running| (counts.get(&running.owner), std::cmp::Reverse(running.began)))?
            .owner
            .clone();
        let (job, running) = jobs
            .iter_mut()
            .filter(|(_, running)| running.owner == most && !running.time_left().is_zero())
            .min_by_key(|(_, running)| running.began)?;
        running.stopped_for = Some(Stop { extra, since: Instant::now() });
        running.stop.send_replace(true);
        tracing::info!(job.id = %job, owner = %most, extra.job.id = %extra, "a job is stopped while an extra one runs");
        Some(StopGuard { places: self, extra, time_left: running.time_left() })
    }

    /// Counts an extra job as one with a place of its own, and lets the job continue that is stopped for it.
    fn settle_extra(&self, extra: JobId) {
        let mut jobs = self.jobs.lock();
        if let Some(running) = jobs.get_mut(&extra) {
            running.is_extra = false;
        }
        continue_stopped(&mut jobs, extra);
    }
}

impl RunningJob {
    fn stopped_time(&self) -> Duration {
        self.stopped_before + self.stopped_for.as_ref().map_or(Duration::ZERO, |stop| stop.since.elapsed())
    }

    fn time_left(&self) -> Duration {
        STOPPED_TIME_LIMIT.saturating_sub(self.stopped_time())
    }
}

/// Lets the job continue that is stopped for an extra one, if there is one.
fn continue_stopped(jobs: &mut HashMap<JobId, RunningJob>, extra: JobId) {
    let is_for = |running: &RunningJob| running.stopped_for.as_ref().is_some_and(|stop| stop.extra == extra);
    for running in jobs.values_mut().filter(|running| is_for(running)) {
        running.stopped_before = running.stopped_time();
        running.stopped_for = None;
        running.stop.send_replace(false);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.places.jobs.lock().remove(&self.job);
    }
}

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        continue_stopped(&mut self.places.jobs.lock(), self.extra);
    }
}

impl JobLane {
    /// Waits for a place, or for the extra one if all others are taken.
    pub(crate) async fn acquire_place(&self) -> Option<Place> {
        let extra = async {
            match &self.extra {
                Some(extra) => Arc::clone(extra).acquire_owned().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            own = Arc::clone(&self.places).acquire_owned() => own.ok().map(Place::Own),
            extra = extra => extra.ok().map(Place::Extra),
        }
    }

    /// Waits until one of the lane's own places is free.
    pub(crate) async fn has_free_place(&self) {
        drop(self.places.acquire().await);
    }

    /// Runs a job in its place. An extra one gets a place of the lane when one is free.
    pub(crate) async fn run_in_place(
        &self,
        shared: &SharedPlaces,
        job: JobId,
        place: Place,
        work: impl Future<Output = ()>,
    ) {
        let Place::Extra(extra) = place else { return work.await };
        let mut work = pin!(work);
        let _own = tokio::select! {
            () = &mut work => return,
            own = self.places.acquire() => own,
        };
        shared.settle_extra(job);
        drop(extra);
        work.await;
    }
}

impl Place {
    pub(crate) fn is_extra(&self) -> bool {
        matches!(self, Place::Extra(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;
    use unslide_model::TenantId;

    fn owner(slug: &str) -> Owner {
        Owner::Tenant(TenantId::new(slug).unwrap())
    }

    fn id(number: u128) -> JobId {
        JobId::from_uuid(unslide_store::Uuid::from_u128(number))
    }

    /// Three jobs of a flood, two of a neighbour, and an extra one of a second neighbour.
    async fn flooded(places: &SharedPlaces) -> Vec<Registered<'_>> {
        let mut jobs = Vec::new();
        for (number, slug) in [(1, "neighbour"), (2, "flood"), (3, "flood"), (4, "neighbour"), (5, "flood")] {
            jobs.push(places.add_job(id(number), &owner(slug), false));
            advance(Duration::from_secs(1)).await;
        }
        jobs.push(places.add_job(id(9), &owner("extra"), true));
        jobs
    }

    fn stopped(places: &SharedPlaces) -> Vec<u128> {
        (1..=9).filter(|number| *places.subscribe_stop(id(*number)).borrow()).collect()
    }

    /// Proves: fairness
    #[tokio::test(start_paused = true)]
    async fn a_child_of_the_extra_job_stops_the_oldest_job_of_the_tenant_with_the_most() {
        let places = SharedPlaces::new([]);
        let jobs = flooded(&places).await;
        let seconds = |number| places.stopped_time(id(number)).as_secs();
        places
            .run_child(id(9), async {
                assert_eq!(stopped(&places), [2]);
                sleep(Duration::from_secs(5)).await;
                assert_eq!(seconds(2), 5);
            })
            .await;
        assert_eq!((stopped(&places), seconds(2), seconds(3)), (vec![], 5, 0));
        places.run_child(id(1), async { assert_eq!(stopped(&places), []) }).await;
        assert!(places.is_extra(id(9)));
        drop(jobs);
        places.run_child(id(9), async { assert_eq!(stopped(&places), []) }).await;
        assert!(places.jobs.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_is_stopped_for_a_bounded_time_and_then_the_next_one() {
        let places = SharedPlaces::new([]);
        let _jobs = flooded(&places).await;
        for number in [2, 3, 5] {
            places
                .run_child(id(9), async {
                    assert_eq!(stopped(&places), [number]);
                    sleep(STOPPED_TIME_LIMIT + Duration::from_secs(1)).await;
                    assert_eq!(stopped(&places), [], "it continues beside the extra one");
                })
                .await;
        }
        places
            .run_child(id(9), async { assert_eq!(stopped(&places), [], "no other tenant is stopped") })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_extra_job_that_gets_a_place_stops_no_other_and_leaves_the_extra_place() {
        let places = SharedPlaces::new([]);
        let _jobs = flooded(&places).await;
        let lane = places.create_lane(&[JobKind::Build.as_str()], 1);
        let own = lane.acquire_place().await.unwrap();
        let extra = lane.acquire_place().await.unwrap();
        assert!(extra.is_extra() && !own.is_extra());
        let work = places.run_child(id(9), async {
            assert_eq!(stopped(&places), [2]);
            sleep(Duration::from_secs(1)).await;
            drop(own);
            sleep(Duration::from_secs(1)).await;
            assert!(stopped(&places).is_empty() && !places.is_extra(id(9)));
            // Another extra job stops the same one; it continues when that one has ended, not this one.
            let _next = places.add_job(id(8), &owner("next"), true);
            assert!(lane.acquire_place().await.unwrap().is_extra());
            let guard = places.stop_for(id(8)).unwrap();
            drop(StopGuard { places: &places, extra: id(9), time_left: Duration::ZERO });
            assert_eq!(stopped(&places), [2]);
            drop(guard);
            assert_eq!(stopped(&places), []);
        });
        lane.run_in_place(&places, id(9), extra, work).await;
        assert!(!lane.acquire_place().await.unwrap().is_extra());
        let wakes = places.create_lane(&[JobKind::Wake.as_str()], 1);
        let _place = wakes.acquire_place().await.unwrap();
        assert!(
            tokio::time::timeout(Duration::from_secs(60), wakes.acquire_place()).await.is_err(),
            "they have none"
        );
    }
}
