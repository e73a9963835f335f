//! Replays dead letters of the indexer on request: reads each record again from its position in Kafka and
//! stores it, or records why it can't.

use crate::failure::IndexerError;
use crate::pipeline::{Pipeline, StoreFailure};
use std::time::Duration;
use unslide_model::format_causes;
use unslide_runtime::Shutdown;
use unslide_store::dead_letters::{self, DeadLetter, ReplayResult};
use unslide_store::{Store, StoreError};
use unslide_stream::{Record, Settings, StreamError, scan, topic_facts};

/// Interval between two look-ups of requested replays.
const REPLAY_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Number of replays per look-up.
const REPLAY_PAGE_ENTRIES: u32 = 20;

/// Replays requested records until the shutdown begins. Every indexer does this: storing a record twice
/// changes no data.
pub async fn run(store: Store, kafka: Settings, mut pipelines: Vec<Pipeline>, shutdown: Shutdown) {
    loop {
        let round = async {
            tokio::time::sleep(REPLAY_POLL_INTERVAL).await;
            if let Err(error) = replay_due(&store, &kafka, &mut pipelines).await {
                tracing::warn!(error = format_causes(&error), "dead letters can't be replayed for now");
            }
        };
        tokio::select! {
            () = shutdown.wait_until_begun() => return,
            // A replay that is interrupted by the shutdown is due again.
            () = round => {}
        }
    }
}

async fn replay_due(store: &Store, kafka: &Settings, pipelines: &mut [Pipeline]) -> Result<(), IndexerError> {
    let mut failed = None;
    for due in dead_letters::requested_replays(store, REPLAY_PAGE_ENTRIES).await? {
        if let Err(trouble) = Box::pin(replay_record(store, kafka, pipelines, &due)).await {
            failed = failed.or(Some(trouble));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Replays one record to its end.
async fn replay_record(
    store: &Store,
    kafka: &Settings,
    pipelines: &mut [Pipeline],
    due: &DeadLetter,
) -> Result<(), IndexerError> {
    let result = match read_again(kafka, due).await {
        Err(ReadAgainError::Stream(error)) => return Err(error.into()),
        Err(gone) => ReplayResult::PastRetention(gone.to_string()),
        Ok(record) => match pipelines.iter_mut().find(|pipeline| pipeline.can_store(&due.topic)) {
            None => ReplayResult::Failed("no indexer reads this topic".to_owned()),
            Some(pipeline) => match pipeline.replay_record(due, record).await {
                Ok(()) => return Ok(()),
                Err(StoreFailure::Server(error)) => return Err(error),
                Err(StoreFailure::History(error)) => return Err(error.into()),
                Err(StoreFailure::Moving) => return Err(StoreError::TenantMoving.into()),
                Err(refused) => ReplayResult::Failed(refused.to_string()),
            },
        },
    };
    let mut tx = store.batch().await?;
    dead_letters::record_replay_result(&mut tx, &due.id, &result).await?;
    Ok(tx.commit().await?)
}

/// Reason why the record of a dead letter was not read.
#[derive(Debug, thiserror::Error)]
enum ReadAgainError {
    #[error("{0}")]
    Gone(&'static str),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

async fn read_again(kafka: &Settings, due: &DeadLetter) -> Result<Record, ReadAgainError> {
    let facts = match topic_facts(kafka, &due.topic).await {
        Ok(facts) => facts,
        Err(StreamError::NoTopic(_)) => return Err(ReadAgainError::Gone("the topic was deleted since")),
        Err(error) => return Err(error.into()),
    };
    if facts.id.to_string() != due.id.topic_id {
        return Err(ReadAgainError::Gone("the topic was deleted since, and created again"));
    }
    let record = scan::read_record_at(kafka, &due.topic, due.id.partition, due.id.offset).await?;
    record.ok_or(ReadAgainError::Gone("the topic does not hold the record any more"))
}
