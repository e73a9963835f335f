//! Replays quarantined records at an operator's request: reads each record again from its position in Kafka
//! and stores it, or records why it cannot.

use crate::failure::Failure;
use crate::failure::IndexerError;
use crate::pipeline::Pipeline;
use std::time::Duration;
use unslide_runtime::{Shutdown, causes};
use unslide_store::Store;
use unslide_store::quarantine::{self, QuarantinedRecord, ReplayStatus};
use unslide_stream::{Record, Settings, StreamError, scan, topic_facts};

/// Interval between two look-ups of requested replays.
const PAUSE: Duration = Duration::from_secs(2);
/// Number of replays per look-up.
const PAGE: u32 = 20;

/// Replays requested records until the shutdown begins. Every indexer does this: storing a record twice
/// changes no data.
pub async fn run(store: Store, kafka: Settings, mut pipelines: Vec<Pipeline>, shutdown: Shutdown) {
    loop {
        let round = async {
            tokio::time::sleep(PAUSE).await;
            if let Err(error) = replay_due(&store, &kafka, &mut pipelines).await {
                tracing::warn!(error = causes(&error), "quarantined records cannot be replayed for now");
            }
        };
        tokio::select! {
            () = shutdown.begun() => return,
            // A replay that is interrupted by the shutdown is due again.
            () = round => {}
        }
    }
}

async fn replay_due(store: &Store, kafka: &Settings, pipelines: &mut [Pipeline]) -> Result<(), IndexerError> {
    let mut failed = None;
    for due in quarantine::replays_due(store, PAGE).await? {
        if let Err(trouble) = Box::pin(replay(store, kafka, pipelines, &due)).await {
            failed = failed.or(Some(trouble));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Replays one record to its end.
async fn replay(
    store: &Store,
    kafka: &Settings,
    pipelines: &mut [Pipeline],
    due: &QuarantinedRecord,
) -> Result<(), IndexerError> {
    let (status, detail) = match held(kafka, due).await? {
        Err(why) => (ReplayStatus::PastRetention, why),
        Ok(record) => {
            let Some(pipeline) = pipelines.iter_mut().find(|pipeline| pipeline.stores(&due.place.topic))
            else {
                return end(store, due, ReplayStatus::Failed, "no indexer reads this topic").await;
            };
            match pipeline.replay(due, record).await? {
                Ok(()) => return Ok(()),
                Err(Failure { reason, detail }) => (ReplayStatus::Failed, format!("{reason}: {detail}")),
            }
        }
    };
    end(store, due, status, &detail).await
}

async fn end(
    store: &Store,
    due: &QuarantinedRecord,
    status: ReplayStatus,
    detail: &str,
) -> Result<(), IndexerError> {
    let mut tx = store.batch().await?;
    quarantine::replayed(&mut tx, due.id, status, Some(detail)).await?;
    Ok(tx.commit().await?)
}

/// Returns the record, or why it cannot be read any more.
async fn held(kafka: &Settings, due: &QuarantinedRecord) -> Result<Result<Record, String>, IndexerError> {
    let at = &due.place;
    let facts = match topic_facts(kafka, &at.topic).await {
        Ok(facts) => facts,
        Err(StreamError::NoTopic(_)) => return Ok(Err("the topic was deleted since".to_owned())),
        Err(error) => return Err(error.into()),
    };
    if facts.id.to_string() != due.topic_id {
        return Ok(Err("the topic was created again after the request".to_owned()));
    }
    let record = scan::record(kafka, &at.topic, at.partition, at.offset).await?;
    Ok(record.ok_or_else(|| "the topic does not hold the record any more".to_owned()))
}
