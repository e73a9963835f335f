//! Extension of the builder by features.

pub use crate::build::receive::{JobFile, ReceivedFile};
pub use crate::build::resources::JobState;
pub use crate::build::work_folder::Room;
pub use crate::failure::JobFailure;
pub use crate::stored_bodies::{ReaderError, ReportVariant};

use crate::build::child::{self, ChildError};
use crate::build::receive;
use crate::build::resources::BuildResources;
use crate::build::slices::unpack_file;
use crate::deleted_tenants::check_alive;
use crate::stored_bodies;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use time::Duration;
use unslide_artifacts::ObjectStore;
use unslide_model::DebugId;
use unslide_report::reader::ReportReaders;
use unslide_sandbox::{ChildTask, Task};
use unslide_store::jobs::{self, JobLease};
use unslide_store::requests::RequestSource;
use unslide_store::{HookFuture, OwnerTx, Store, TenantTx};
use unslide_symbolicate::DerivedObject;

/// Everything that one feature adds to the builder.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuilderFeature {
    /// The feature's kinds of jobs.
    pub jobs: &'static [JobHandler],
}

/// Everything that features add to a builder.
#[derive(Clone, Debug, Default)]
pub struct BuilderFeatures {
    /// Their hooks, in the order in which they run.
    pub hooks: Vec<unslide_store::StoreHook>,
    /// Their readers of reports in other formats, in the order in which they are tried.
    pub readers: unslide_report::reader::ReportReaders,
    /// Their additions to the builder's own work.
    pub features: Vec<BuilderFeature>,
    /// Derived objects of their analyses, each once.
    pub derived: Vec<DerivedObject>,
    /// States of features, each of a type of its own.
    pub states: Vec<JobState>,
}

/// The work of a job. It ends the job itself if it returns without a failure.
pub type JobFuture<'j> = Pin<Box<dyn Future<Output = Result<(), JobFailure>> + Send + 'j>>;

/// The handler of a kind of jobs. Such jobs share places with uploads, and are given up after some attempts.
#[derive(Clone, Copy, Debug)]
pub struct JobHandler {
    /// The kind in the rows of jobs. No other handler and no job of the core may have the same.
    pub kind: &'static str,
    /// Number of jobs of the kind that a builder runs concurrently.
    pub places: usize,
    /// The part of the work that a child process of the builder does.
    pub child_task: Option<ChildTask>,
    /// Does the work of a job. Every step may be repeated.
    pub run: for<'j> fn(&'j FeatureJob<'j>) -> JobFuture<'j>,
    /// Records a failure in the transaction that gives the job up.
    pub give_up: for<'t> fn(&'t mut OwnerTx, &'t GivenUpJob<'t>) -> HookFuture<'t>,
}

/// A job that is given up.
#[derive(Clone, Copy, Debug)]
pub struct GivenUpJob<'t> {
    pub job: &'t JobLease,
    pub reason: &'t str,
    pub detail: &'t str,
}

/// A job of a feature, with what its handler may use.
pub struct FeatureJob<'b> {
    resources: &'b BuildResources,
    pub lease: &'b JobLease,
}

impl fmt::Debug for FeatureJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeatureJob").field("lease", self.lease).finish_non_exhaustive()
    }
}

impl<'b> FeatureJob<'b> {
    pub(crate) fn new(resources: &'b BuildResources, lease: &'b JobLease) -> FeatureJob<'b> {
        FeatureJob { resources, lease }
    }

    #[must_use]
    pub fn store(&self) -> &Store {
        &self.resources.storage.store
    }

    #[must_use]
    pub fn objects(&self) -> &ObjectStore {
        &self.resources.storage.objects
    }

    /// Returns the readers of reports in other formats. Cheap to clone.
    #[must_use]
    pub fn readers(&self) -> &ReportReaders {
        &self.resources.readers
    }

    /// Gives the document of each of these reports of the tenant, as it was published, to `read` on a blocking thread. Returns what
    /// that makes of them. A report without a readable body, and one that `read` fails for is left out; `failed` is what the log
    /// says then.
    ///
    /// # Errors
    /// Returns the failure of the database or of object storage.
    pub async fn read_bodies<T: Send + 'static>(
        &self,
        reports: &[ReportVariant],
        failed: &'static str,
        read: impl Fn(ReportVariant, &RequestSource, Vec<u8>) -> Result<T, ReaderError> + Clone + Send + 'static,
    ) -> Result<Vec<T>, JobFailure> {
        let tenant = self.lease.tenant()?;
        stored_bodies::read_bodies(&self.resources.storage, tenant, reports, failed, read).await
    }

    /// Returns the state of the job's feature by its type.
    ///
    /// # Errors
    /// The builder runs without it.
    pub fn find_state<T: Any + Send + Sync>(&self) -> Result<&T, JobFailure> {
        let found = self.resources.states.iter().find_map(|state| state.downcast_ref());
        found.ok_or_else(|| {
            JobFailure::Again("the feature of the job has no state in this builder".to_owned())
        })
    }

    /// Waits for capacity in the work folder for a file of `bytes` and its unpacked contents.
    ///
    /// # Errors
    /// Returns an error if it does not fit, or no capacity becomes free in time.
    pub async fn acquire_room(&self, bytes: u64) -> Result<Arc<Room>, JobFailure> {
        self.resources.work.acquire_room(bytes, self.resources.places.is_extra(self.lease.id)).await
    }

    /// Has a child process list the debug ids of the objects in a file of the job's folder, which it unpacks as an upload. The file
    /// is gone afterwards.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or a limit is reached.
    pub async fn list_debug_ids(
        &self,
        room: &Arc<Room>,
        file: &str,
        name: &str,
    ) -> Result<Vec<DebugId>, JobFailure> {
        let unpacked = unpack_file(self.resources, self.lease, room, file, name).await?;
        Ok(unpacked.slices.iter().filter_map(|slice| slice.new.debug_id).collect())
    }

    /// Returns the largest size of a file that the job's tenant may upload.
    ///
    /// # Errors
    /// The database fails.
    pub async fn read_file_limit(&self) -> Result<u64, JobFailure> {
        receive::read_file_limit(self.resources, self.lease).await
    }

    /// Takes a file of the job's folder as an upload of the job's tenant: a job of its own builds what is in it.
    ///
    /// # Errors
    /// Returns an error if a server fails, or the tenant is deleted.
    pub async fn receive_file(&self, file: &JobFile<'_>) -> Result<ReceivedFile, JobFailure> {
        receive::receive_file(self.resources, self.lease, file).await
    }

    /// Runs a task in a child process in the job's folder, and reads its answer of at most `answer_bytes`.
    ///
    /// # Errors
    /// Returns an error if the task fails or reaches a limit.
    pub async fn run_child<T: DeserializeOwned>(
        &self,
        room: &Arc<Room>,
        task: &ChildTask,
        input: &impl Serialize,
        answer_bytes: u64,
    ) -> Result<T, JobFailure> {
        let input = serde_json::to_value(input).map_err(io::Error::from)?;
        let task = Task::Named { name: task.name.to_owned(), input, file_bytes: answer_bytes };
        child::run_task(self.resources, self.lease, room, task).await.map_err(ChildError::into_failure)
    }

    /// Ends a turn of the job with the transaction: the job goes on after the pause, and is over without one.
    ///
    /// # Errors
    /// Returns the database's failure, or the loss of the lease.
    pub async fn end_turn(&self, mut tx: TenantTx, pause: Option<Duration>) -> Result<(), JobFailure> {
        match pause {
            Some(pause) => {
                jobs::record_progress(&mut tx, self.lease, &self.lease.work).await?;
                jobs::postpone_job(&mut tx, self.lease, pause).await?;
            }
            None => jobs::complete_job(&mut tx, self.lease).await?,
        }
        Ok(tx.commit().await?)
    }

    /// Fails if the transaction's tenant is deleted. Otherwise delays the deletion until the transaction
    /// ends, for data that is stored outside of the database.
    ///
    /// # Errors
    /// Returns [`JobFailure::TenantDeleted`], or the database's failure.
    pub async fn hold_tenant(&self, tx: &mut OwnerTx) -> Result<(), JobFailure> {
        check_alive(tx).await
    }
}
