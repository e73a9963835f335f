//! Counts the statements that are sent to the database, by what sqlx says of each.

use std::cell::Cell;
use std::sync::Once;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// The statements of this thread.
    static SENT: Cell<usize> = const { Cell::new(0) };
}

/// Counts events of sqlx, each for the thread that sent the statement.
struct StatementCounter;

impl Subscriber for StatementCounter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        SENT.set(SENT.get() + 1);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Does some work, and returns what it gives and the number of statements that it sent from this thread: for tests
/// with a runtime of one thread.
///
/// The counter is the subscriber of the whole process. With one for each thread, another thread's first statement
/// can switch the event off for all of them.
///
/// # Panics
///
/// Where the process has another subscriber already.
pub async fn counted<T>(work: impl Future<Output = T>) -> (T, usize) {
    static COUNTING: Once = Once::new();
    COUNTING.call_once(|| {
        tracing::subscriber::set_global_default(StatementCounter)
            .expect("no other subscriber in this process");
        // An event that another thread registered before the subscriber was stored counts as unwanted.
        tracing::callsite::rebuild_interest_cache();
    });
    let before = SENT.get();
    let done = work.await;
    (done, SENT.get() - before)
}
