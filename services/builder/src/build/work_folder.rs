//! The work folder, in which uploads are unpacked, and the limit on its total size.

use crate::config::Settings;
use crate::failure::JobFailure;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use unslide_archive::UnpackLimits;
use unslide_model::Stats;

/// Divisor for the extra job's share of the work folder.
const EXTRA_SHARE: u32 = 8;

/// The work folder. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WorkFolder {
    folder: PathBuf,
    limits: UnpackLimits,
    /// KiB of all jobs together, without the share of the extra job.
    shared: u32,
    /// One permit for each free KiB. A waiting job collects permits, so those are not counted here.
    free: Arc<Semaphore>,
    /// KiB of the extra job, so that a small one does not wait for other jobs.
    for_extra: u32,
    free_for_extra: Arc<Semaphore>,
    held: Arc<AtomicU64>,
    wanted: Arc<AtomicU64>,
    patience: Duration,
}

impl WorkFolder {
    /// Metrics of the work folder's limit.
    pub(crate) const WORK_FOLDER_STATS: [Stats<WorkFolder>; 1] = [Stats {
        name: "unslide_builder_work_bytes",
        help: "Bytes of the work folder that jobs may take, and those that further ones wait for.",
        label: "state",
        read: |work| {
            let bytes = |of: &AtomicU64| of.load(Ordering::Relaxed);
            vec![("held", bytes(&work.held)), ("wanted", bytes(&work.wanted))]
        },
    }];

    pub(crate) fn new(settings: &Settings) -> WorkFolder {
        let all = u32::try_from(settings.work_bytes >> 10).unwrap_or(u32::MAX);
        let for_extra = all / EXTRA_SHARE;
        let shared = all - for_extra;
        let semaphore = |kib| Arc::new(Semaphore::new(usize::try_from(kib).unwrap_or(usize::MAX)));
        WorkFolder {
            folder: settings.work_dir.clone(),
            limits: settings.unpack_limits(),
            shared,
            free: semaphore(shared),
            for_extra,
            free_for_extra: semaphore(for_extra),
            held: Arc::default(),
            wanted: Arc::default(),
            patience: Duration::from_secs(settings.patience_seconds),
        }
    }

    /// Returns a folder for a file of `size` bytes and its unpacked contents. Waits for capacity, as long as
    /// for a server. A job that already has capacity does not wait, so every job gets its turn.
    pub(crate) async fn acquire_room(&self, size: u64, is_extra: bool) -> Result<Arc<Room>, JobFailure> {
        // Files that a tar holds uncompressed are not counted as unpacked.
        let files = size.saturating_mul(2);
        let all = u64::from(self.shared) << 10;
        if files >= all {
            let detail = format!("a file of {size} bytes does not fit into a work folder of {all}");
            return Err(JobFailure::job("too_large", detail));
        }
        let explained = size.saturating_mul(self.limits.ratio).saturating_add(self.limits.free_bytes);
        let limits =
            UnpackLimits { total_bytes: self.limits.total_bytes.min(all - files), ..self.limits.clone() };
        let bytes = to_kib(files.saturating_add(limits.total_bytes.min(explained))).min(self.shared);
        let wanted = Wanted::new(&self.wanted, u64::from(bytes) << 10);
        let held = timeout(self.patience, self.acquire_permit(bytes, is_extra)).await;
        drop(wanted);
        let Ok(Ok(held)) = held else {
            return Err(JobFailure::Server(format!("the work folder has no room for {bytes} KiB")));
        };
        let held = Held::new(&self.held, held);
        let folder = tempfile::Builder::new()
            .prefix(&format!("job-{}-", std::process::id()))
            .tempdir_in(&self.folder)?;
        Ok(Arc::new(Room { folder, limits, held: Mutex::new(held) }))
    }

    async fn acquire_permit(&self, kib: u32, is_extra: bool) -> Result<OwnedSemaphorePermit, AcquireError> {
        let shared = self.free.clone().acquire_many_owned(kib);
        if !is_extra || kib > self.for_extra {
            return shared.await;
        }
        tokio::select! {
            biased;
            own = self.free_for_extra.clone().acquire_many_owned(kib) => own,
            // A job that was the extra one before may still hold that capacity.
            shared = shared => shared,
        }
    }
}

fn to_kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// Counts the bytes that a job waits for.
struct Wanted<'a> {
    all: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Wanted<'a> {
    fn new(all: &'a AtomicU64, bytes: u64) -> Wanted<'a> {
        all.fetch_add(bytes, Ordering::Relaxed);
        Wanted { all, bytes }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A job's part of the work folder. When no job and no child process works in it, the folder is removed and
/// its capacity is released.
pub struct Room {
    folder: TempDir,
    /// Limits on what may be unpacked.
    limits: UnpackLimits,
    held: Mutex<Held>,
}

/// The permits of a job.
struct Held {
    all: Arc<AtomicU64>,
    permits: OwnedSemaphorePermit,
}

impl Held {
    fn new(all: &Arc<AtomicU64>, permits: OwnedSemaphorePermit) -> Held {
        all.fetch_add((permits.num_permits() as u64) << 10, Ordering::Relaxed);
        Held { all: Arc::clone(all), permits }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub((self.permits.num_permits() as u64) << 10, Ordering::Relaxed);
    }
}

impl Room {
    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the limits on what may be unpacked.
    #[must_use]
    pub fn limits(&self) -> &UnpackLimits {
        &self.limits
    }

    /// Releases capacity beyond `bytes`, which is all that the job needs from here on.
    pub(crate) fn shrink_to(&self, bytes: u64) {
        let mut held = self.held.lock();
        let kept = usize::try_from(to_kib(bytes)).unwrap_or(usize::MAX);
        let more = held.permits.num_permits().saturating_sub(kept);
        if let Some(permits) = held.permits.split(more) {
            drop(Held { all: Arc::clone(&held.all), permits });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(work: &WorkFolder, state: &str) -> u64 {
        let [bytes] = &WorkFolder::WORK_FOLDER_STATS;
        (bytes.read)(work).into_iter().find(|(name, _)| *name == state).unwrap().1
    }

    /// A work folder with this much for jobs other than the extra one.
    fn work(bytes: u64, archive_bytes: u64) -> (TempDir, WorkFolder) {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            work_dir: folder.path().to_owned(),
            work_bytes: bytes * 8 / 7,
            archive_bytes,
            ..Settings::default()
        };
        (folder, WorkFolder::new(&settings))
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_share_the_work_folder_and_further_ones_wait_for_room() {
        let (_kept, work) = work(100 << 20, 40 << 20);
        let first = work.acquire_room(10 << 20, false).await.unwrap();
        assert_eq!((figure(&work, "held"), figure(&work, "wanted")), (60 << 20, 0));
        let second = work.acquire_room(10 << 20, false);
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut second).await.is_err(), "no room");
        assert_eq!((figure(&work, "held"), figure(&work, "wanted")), (60 << 20, 60 << 20));
        // It was unpacked, and is much less than it might have been.
        first.shrink_to(20 << 20);
        let second = second.await.unwrap();
        assert_eq!((figure(&work, "held"), figure(&work, "wanted")), (80 << 20, 0));
        // A job or child process that still works in a folder keeps it and its capacity.
        let (folder, worker) = (first.path().to_owned(), Arc::clone(&first));
        drop(first);
        assert!(folder.exists() && figure(&work, "held") == 80 << 20);
        drop(worker);
        assert!(!folder.exists() && figure(&work, "held") == 60 << 20);
        // A job that stops waiting at its timeout takes no capacity.
        let Err(JobFailure::Server(_)) = work.acquire_room(10 << 20, false).await else {
            panic!("room for a third")
        };
        drop(second);
        assert_eq!((figure(&work, "held"), figure(&work, "wanted")), (0, 0));
    }

    #[tokio::test]
    async fn an_upload_gets_no_more_than_the_work_folder_has() {
        let (_kept, work) = work(100 << 20, 90 << 20);
        let room = work.acquire_room(20 << 20, false).await.unwrap();
        assert_eq!((figure(&work, "held"), room.limits().total_bytes), (100 << 20, 60 << 20));
        drop(room);
        let Err(JobFailure::Job { reason, detail }) = work.acquire_room(50 << 20, false).await else {
            panic!("room for it")
        };
        assert!(reason == "too_large" && detail.contains("104857600"), "{reason}: {detail}");
    }

    /// Proves: fairness
    #[tokio::test(start_paused = true)]
    async fn a_small_extra_job_has_room_beside_all_others() {
        let (_kept, work) = work(800 << 20, 700 << 20);
        let all = work.acquire_room(20 << 20, false).await.unwrap();
        let soon = Duration::from_secs(60);
        // A small upload may be unpacked to 64 MiB.
        assert!(timeout(soon, work.acquire_room(1 << 10, false)).await.is_err());
        let extra = timeout(soon, work.acquire_room(1 << 10, true)).await.unwrap().unwrap();
        assert!(timeout(soon, work.acquire_room(1 << 10, true)).await.is_err(), "there is room for one");
        assert!(
            timeout(soon, work.acquire_room(10 << 20, true)).await.is_err(),
            "a large one waits for the others"
        );
        drop(all);
        drop(work.acquire_room(10 << 20, true).await.unwrap());
        drop(extra);
    }
}
