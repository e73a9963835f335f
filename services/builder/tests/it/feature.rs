//! A feature of these tests: its jobs have a child count the words of a text.

use crate::builder_fixture::{World, acme};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::time::Duration;
use unslide_builder::feature::{BuilderFeature, FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler};
use unslide_model::TenantId;
use unslide_sandbox::{ChildTask, ChildTaskError};
use unslide_store::jobs::{self, FeatureWork, Work};
use unslide_store::{HookFuture, OwnerTx};
use unslide_symbolicate::{DeriveError, DeriveResult, DerivedObject, DerivedSource};

/// End of a dSYM from which [`DAMAGED`] cannot be derived.
pub const REFUSED_END: &[u8] = b"refused";
pub const KIND: &str = "count";
pub const TASK: ChildTask = ChildTask { name: "count_words", run: count };
pub const FEATURE: BuilderFeature =
    BuilderFeature { jobs: &[JobHandler { kind: KIND, places: 2, child_task: Some(TASK), run, give_up }] };

/// The length of a dSYM in bytes, as text.
pub const LENGTH: DerivedObject = DerivedObject {
    name: "length-v1",
    source: DerivedSource::DebugInfo,
    derive: |slice| Ok(Some(slice.len().to_string().into_bytes())),
};
/// An object that cannot be derived from a dSYM that ends with [`REFUSED_END`].
pub const DAMAGED: DerivedObject =
    DerivedObject { name: "damaged-v1", source: DerivedSource::DebugInfo, derive: refuse_marked };

/// The last bytes of a binary, if they are code to these tests: [`CODE_START`] and one more byte.
pub const CODE: DerivedObject =
    DerivedObject { name: "code-v1", source: DerivedSource::Binary, derive: read_code };
/// First bytes of the code at the end of a binary.
pub const CODE_START: &[u8] = b"code-";

fn read_code(slice: &[u8]) -> DeriveResult {
    let end = slice.get(slice.len().saturating_sub(CODE_START.len() + 1)..).unwrap_or_default();
    Ok(end.starts_with(CODE_START).then(|| end.to_vec()))
}

fn refuse_marked(slice: &[u8]) -> DeriveResult {
    if slice.ends_with(REFUSED_END) {
        Err(DeriveError("it has too many entries".to_owned()))
    } else {
        Ok(None)
    }
}

fn count(input: Value) -> Result<Box<RawValue>, ChildTaskError> {
    let text: String = serde_json::from_value(input)?;
    match text.split_whitespace().count() {
        0 => Err(ChildTaskError::Malformed("it has no words".to_owned())),
        words => Ok(to_raw_value(&words)?),
    }
}

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(async move {
        let Work::Feature(work) = &job.lease.work else {
            return Err(JobFailure::job("internal", "it is another job"));
        };
        let room = job.acquire_room(1 << 20).await?;
        let words: u64 = job.run_child(&room, &TASK, &work.arguments["text"], 1 << 10).await?;
        drop(room);
        let mut tx = job.store().tenant(job.lease.tenant()?).await?;
        job.hold_tenant(&mut tx).await?;
        note(&mut tx, &format!("{words} words")).await?;
        jobs::complete_job(&mut tx, job.lease).await?;
        Ok(tx.commit().await?)
    })
}

fn give_up<'t>(tx: &'t mut OwnerTx, given_up: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async move { note(tx, &format!("{}: {}", given_up.reason, given_up.detail)).await })
}

async fn note(tx: &mut OwnerTx, text: &str) -> unslide_store::Result<()> {
    unslide_store::audit::append_entry(tx, "test", "count", text, &Value::Null).await
}

/// Adds a job that counts the words of a text.
pub async fn add(world: &World, tenant: &TenantId, text: &str) {
    let arguments = [("text".to_owned(), Value::from(text))].into_iter().collect();
    let mut tx = world.store.tenant(tenant).await.unwrap();
    let work = Work::Feature(FeatureWork { kind: KIND.into(), arguments });
    jobs::add_job(&mut tx, &work).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_feature_runs_a_child_and_is_given_up_with_the_reason_of_its_task() {
    let world = World::start(1).await;
    for (text, noted) in [("three more words", "3 words"), (" ", "malformed: it has no words")] {
        add(&world, &acme(), text).await;
        let query = format!("SELECT count(*) FROM audit_log WHERE action = 'count' AND subject = '{noted}'");
        let is_noted = async {
            while world.number(&query).await == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::builder_fixture::BUILDER_TIMEOUT, is_noted).await.expect(noted);
    }
    world.wait_until_idle().await;
    world.stop().await;
}
