//! The records themselves, in the dead-letter topic.

use crate::problem::Problem;
use crate::state::Api;
use std::sync::Arc;
use tokio::sync::SemaphorePermit;
use unslide_store::dead_letters::LetterId;
use unslide_stream::scan::Scanner;
use unslide_stream::{Record, topic_facts};

/// A reader of the dead-letter topic, for one request. There are few at once, so that records in
/// memory are few.
pub struct Topic<'a> {
    scanner: Arc<Scanner>,
    name: String,
    id: String,
    _permit: SemaphorePermit<'a>,
}

impl<'a> Topic<'a> {
    /// Opens it; waits until few others read.
    ///
    /// # Errors
    /// Where Kafka does not answer.
    pub async fn open(api: &'a Api) -> Result<Topic<'a>, Problem> {
        let permit = api.letters.acquire().await.map_err(Problem::internal)?;
        let name = api.topics.dead_letter.clone();
        let facts = topic_facts(&api.kafka, &name).await?;
        let settings = api.kafka.clone();
        let scanner = tokio::task::spawn_blocking(move || Scanner::open(&settings));
        let scanner = Arc::new(scanner.await.map_err(Problem::internal)??);
        Ok(Topic { scanner, name, id: facts.id.to_string(), _permit: permit })
    }

    /// A letter's record; `None` where the topic does not hold it any more.
    ///
    /// # Errors
    /// Where Kafka does not answer.
    pub async fn record(&self, id: &LetterId) -> Result<Option<Record>, Problem> {
        if id.topic_id != self.id {
            return Ok(None);
        }
        let (scanner, name, id) = (Arc::clone(&self.scanner), self.name.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || scanner.record(&name, id.partition, id.offset));
        Ok(read.await.map_err(Problem::internal)??)
    }
}
