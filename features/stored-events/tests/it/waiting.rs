//! The events that wait in a database, as readers would get them.

use unslide_harness::database::{TestDatabase, acme};
use unslide_proto::stored::StoredEvent;
use unslide_stored_events::record::build_message;
use unslide_stored_events::store::{WRITING_HOOK, list_waiting};

/// A database of an installation that has turned events on.
pub async fn writing_database() -> TestDatabase {
    TestDatabase::new(&[WRITING_HOOK]).await
}

/// Returns the events of `acme` that wait, in their order.
pub async fn read_waiting(database: &TestDatabase) -> Vec<StoredEvent> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let waiting = list_waiting(&mut tx, false, 1_000).await.unwrap();
    tx.rollback().await.unwrap();
    waiting.iter().map(|event| build_message(&acme(), event)).collect()
}

/// Returns the first bytes of the ids of the reports, with their revisions and whether they are deleted.
pub fn describe_events(events: &[StoredEvent]) -> Vec<(String, u32, bool)> {
    let short = |event: &StoredEvent| event.report_id.get(..2).unwrap_or_default().to_owned();
    events.iter().map(|event| (short(event), event.revision, event.deleted)).collect()
}
