//! Uploads of a test, and waiting for what services do to the database.

use crate::TestServers;
use crate::service::SERVICE_TIMEOUT;
use std::time::Duration;
use tokio::time::Instant;
use unslide_artifacts::{Put, keys};
use unslide_model::Owner;
use unslide_store::uploads::{self, SymbolUpload, UploadObject};
use unslide_store::{UploadId, jobs};

/// How long a test waits for the end of an upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

impl TestServers {
    /// Stores a file and its upload, as the api does.
    pub async fn receive_upload(&self, owner: &Owner, name: &str, bytes: &[u8]) -> UploadId {
        let mut tx = self.store.owner(owner).await.expect("a transaction");
        let id = uploads::create_upload(&mut tx, Some(name), None).await.expect("a new upload");
        tx.commit().await.expect("committed");
        let key = keys::for_upload(owner.own(id));
        let stored = self.bucket().await.put_stream(&key, bytes, u64::MAX, &Put::default()).await;
        let stored = stored.expect("a stored file");
        let mut tx = self.store.owner(owner).await.expect("a transaction");
        let received = uploads::record_received(&mut tx, id, stored.size, &stored.sha256).await;
        assert!(received.expect("the database"), "the upload has ended");
        tx.commit().await.expect("committed");
        id
    }

    /// Waits until an upload has ended.
    pub async fn wait_for_upload(&self, owner: &Owner, id: UploadId) -> (SymbolUpload, Vec<UploadObject>) {
        let found = uploads::wait_for_status(&self.store, owner.clone(), id, UPLOAD_TIMEOUT).await;
        let found = found.expect("the database").expect("an upload");
        assert!(found.0.status.is_final(), "{found:?}");
        found
    }

    /// Waits until no job is left.
    pub async fn wait_until_idle(&self) {
        let end = Instant::now() + SERVICE_TIMEOUT;
        loop {
            let left = jobs::count_jobs(&self.store).await.expect("the database");
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "{left:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a query gives this number to the superuser.
    pub async fn wait_for_number(&self, query: &str, wanted: i64) {
        let end = Instant::now() + SERVICE_TIMEOUT;
        loop {
            let found = self.number(query).await;
            if found == wanted {
                return;
            }
            assert!(Instant::now() < end, "{query}: {found} and not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the indexers have read every record that is in these topics now.
    pub async fn wait_until_read(&self, topics: &[String]) {
        for topic in topics {
            let facts = unslide_stream::topic_facts(&self.kafka, topic).await.expect("a topic");
            for held in facts.partitions {
                // What the idempotent producer wrote has no markers behind it.
                let query = format!(
                    "SELECT coalesce(max(next_offset), 0) FROM positions WHERE topic = '{topic}' AND partition = {}",
                    held.partition
                );
                self.wait_for_number(&query, held.end).await;
            }
        }
    }
}
