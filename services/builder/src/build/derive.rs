//! Derived objects of a slice: what analyses read beside the symcache. Each is built in a child process of its own, so
//! that its failure costs no symcache.

use crate::build::child::{self, ChildError};
use crate::build::resources::BuildResources;
use crate::build::slices::UploadedSlice;
use crate::build::work_folder::Room;
use crate::failure::JobFailure;
use crate::storage::JobStorage;
use bytes::Bytes;
use std::sync::Arc;
use unslide_artifacts::{AliasMeta, Condition, Put, keys};
use unslide_model::{ContentHash, DebugId, Owned, Owner, Quality};
use unslide_sandbox::{DERIVED, Task};
use unslide_store::jobs::JobLease;
use unslide_symbolicate::{DerivedObject, DerivedSource};

/// A derived object that was built.
pub(crate) struct BuiltDerivative {
    pub(crate) name: &'static str,
    pub(crate) source: DerivedSource,
    bytes: Bytes,
    pub(crate) sha256: ContentHash,
}

/// Derived objects of one slice, and the reasons of those that could not be built.
#[derive(Default)]
pub(crate) struct BuiltDerivatives {
    pub(crate) built: Vec<BuiltDerivative>,
    pub(crate) warnings: Vec<String>,
}

/// Builds the derived objects of a slice. The slice stays usable without those that fail.
pub(crate) async fn derive_objects(
    resources: &BuildResources,
    job: &JobLease,
    room: &Arc<Room>,
    slice: &UploadedSlice,
) -> Result<BuiltDerivatives, JobFailure> {
    let mut derived = BuiltDerivatives::default();
    for object in resources.derived.iter().filter(|object| is_source(object, &job.owner, slice)) {
        let (file, range) = (slice.file.clone(), slice.range.clone());
        let task = Task::Derive { file, range, name: object.name.to_owned() };
        let outcome = match child::run_task::<Option<ContentHash>>(resources, job, room, task).await {
            Ok(Some(sha256)) => {
                let bytes = Bytes::from(tokio::fs::read(room.path().join(DERIVED)).await?);
                derived.built.push(BuiltDerivative {
                    name: object.name,
                    source: object.source,
                    bytes,
                    sha256,
                });
                "built"
            }
            Ok(None) => "empty",
            Err(ChildError::Failed(failure)) => return Err(failure),
            Err(ChildError::Rejected(_, reason)) => {
                tracing::warn!(object.hash = %slice.new.content_hash, reason, "{} cannot be built", object.name);
                derived.warnings.push(format!("{}: {reason}", object.name));
                "failed"
            }
        };
        resources.metrics.derived.with_label_values(&[object.name, outcome]).inc();
    }
    Ok(derived)
}

/// Returns true if the derived object may be built from the slice. Analyses read no code of the system's libraries.
fn is_source(object: &DerivedObject, owner: &Owner, slice: &UploadedSlice) -> bool {
    let is_binary = || matches!(slice.new.kind.as_str(), "executable" | "dylib" | "bundle");
    match object.source {
        DerivedSource::DebugInfo => slice.new.has_dwarf,
        DerivedSource::Binary => *owner != Owner::System && is_binary(),
    }
}

/// Stores derived objects, unless they are stored already. The caller holds the lock of the debug id.
pub(crate) async fn store_derivatives<'d>(
    storage: &JobStorage,
    id: &Owned<DebugId>,
    slice: &UploadedSlice,
    generation: u64,
    quality: Quality,
    derivatives: impl Iterator<Item = &'d BuiltDerivative>,
) -> Result<(), JobFailure> {
    let object = slice.new.content_hash;
    for derivative in derivatives {
        let key = keys::for_symbols(id).derived(derivative.name);
        let meta = AliasMeta { generation, quality, sha256: derivative.sha256, object };
        if find_derivative(storage, id, derivative.name).await? == Some(meta) {
            continue;
        }
        let put = Put { condition: Condition::Always, metadata: meta.to_metadata() };
        storage.objects.put(&key, derivative.bytes.clone(), &put).await?;
    }
    Ok(())
}

/// Returns the metadata of a stored derived object.
pub(crate) async fn find_derivative(
    storage: &JobStorage,
    id: &Owned<DebugId>,
    name: &str,
) -> Result<Option<AliasMeta>, JobFailure> {
    let head = storage.objects.head(&keys::for_symbols(id).derived(name)).await?;
    Ok(head.and_then(|head| AliasMeta::from_metadata(&head.metadata)))
}

/// Returns the keys of the stored derived objects of a debug id, with the objects that they were built from.
pub(crate) async fn find_derivatives(
    resources: &BuildResources,
    id: &Owned<DebugId>,
) -> Result<Vec<(keys::ObjectKey, ContentHash)>, JobFailure> {
    let mut found = Vec::new();
    for object in &resources.derived {
        if let Some(meta) = find_derivative(&resources.storage, id, object.name).await? {
            found.push((keys::for_symbols(id).derived(object.name), meta.object));
        }
    }
    Ok(found)
}
