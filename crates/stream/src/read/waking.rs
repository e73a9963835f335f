//! A consumer that can be waited for together with other things. The Rust client's own waiting looks ten times a second
//! or once, and returns before its time for each event; only the client can end it.

use crate::signal::Signal;
use rdkafka::ClientConfig;
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaResult;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// A consumer. Its client raises a signal when there is something to poll.
pub(crate) struct WakingConsumer<C: ConsumerContext + 'static> {
    queue: NonNull<sys::rd_kafka_queue_t>,
    signal: Arc<Signal>,
    inner: Arc<BaseConsumer<C>>,
}

// SAFETY: the client locks its queue whenever it is used, and everything else is `Send`.
#[expect(unsafe_code, reason = "a pointer to the client's queue")]
unsafe impl<C: ConsumerContext + 'static> Send for WakingConsumer<C> {}

impl<C: ConsumerContext + 'static> WakingConsumer<C> {
    /// Makes the client, which has to be of a group.
    #[expect(unsafe_code, reason = "rdkafka has no safe call for the queue of a consumer")]
    pub(crate) fn new(
        config: &ClientConfig,
        context: C,
        signal: Arc<Signal>,
    ) -> KafkaResult<WakingConsumer<C>> {
        let mut inner: BaseConsumer<C> = config.create_with_context(context)?;
        let raised = Arc::clone(&signal);
        inner.set_nonempty_callback(move || raised.raise());
        // SAFETY: the client lives as long as `inner`, and `Drop` gives the queue back before that.
        let queue = NonNull::new(unsafe { sys::rd_kafka_queue_get_consumer(inner.client().native_ptr()) });
        let queue = queue.expect("a consumer of a group has a queue");
        Ok(WakingConsumer { queue, signal, inner: Arc::new(inner) })
    }

    /// Waits until there is something to poll or the signal is raised, at most `at_most`; it may return
    /// early. All calls have to come from one thread.
    #[expect(unsafe_code, reason = "rdkafka has no safe call for the length of a queue")]
    pub(crate) fn wait(&self, at_most: Duration) {
        // SAFETY: the queue is given back in `Drop` only.
        let queued = unsafe { sys::rd_kafka_queue_length(self.queue.as_ptr()) };
        // The client raises the signal for the first event of an empty queue alone.
        if queued == 0 && !at_most.is_zero() {
            self.signal.wait(at_most);
        }
    }
}

impl<C: ConsumerContext + 'static> Deref for WakingConsumer<C> {
    type Target = Arc<BaseConsumer<C>>;

    fn deref(&self) -> &Arc<BaseConsumer<C>> {
        &self.inner
    }
}

impl<C: ConsumerContext + 'static> Drop for WakingConsumer<C> {
    #[expect(unsafe_code, reason = "the counterpart of what `new` does")]
    fn drop(&mut self) {
        // SAFETY: it is done once, while the client lives.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}
