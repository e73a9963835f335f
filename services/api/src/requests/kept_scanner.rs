//! The reader of the dead-letter topic between two requests.

use parking_lot::Mutex;
use unslide_stream::scan::Scanner;
use unslide_stream::{Settings, StreamError, TopicId};

/// A scanner with open connections that a request leaves for the next one: to connect takes longer than to read.
#[derive(Default)]
pub struct KeptScanner(Mutex<Option<OpenScanner>>);

/// A scanner, and the topic that it has read. A scanner is not kept for a topic that was created again.
pub struct OpenScanner {
    pub topic: TopicId,
    pub scanner: Scanner,
}

impl KeptScanner {
    /// Returns the kept scanner or opens one. Blocks.
    ///
    /// # Errors
    /// Kafka does not answer, or there is no such topic.
    pub fn take_or_open(&self, settings: &Settings, name: &str) -> Result<OpenScanner, StreamError> {
        let kept = self.0.lock().take();
        if let Some(kept) = kept
            && kept.scanner.topic_id(name).is_ok_and(|id| id == kept.topic)
        {
            return Ok(kept);
        }
        let scanner = Scanner::open(settings)?;
        Ok(OpenScanner { topic: scanner.topic_id(name)?, scanner })
    }

    /// Keeps a scanner, unless another one is kept.
    pub fn keep(&self, scanner: OpenScanner) {
        let mut kept = self.0.lock();
        if kept.is_none() {
            *kept = Some(scanner);
        }
    }
}
