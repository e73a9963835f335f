//! A producer that can be waited for. The Rust client's own waiting spins: it asks for what is left of the
//! time in whole milliseconds, and so without a wait throughout the last one. Its polling thread does so ten
//! times a second, also when nothing is sent.

use rdkafka::ClientConfig;
use rdkafka::bindings as sys;
use rdkafka::error::KafkaResult;
use rdkafka::producer::{BaseProducer, Producer as _, ProducerContext};
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// A producer. Its client wakes a thread when it has something to report.
pub(crate) struct WakingProducer<C: ProducerContext + 'static> {
    queue: NonNull<sys::rd_kafka_queue_t>,
    /// Who waits; on the heap, because the client points to it.
    waiter: Arc<OnceLock<Thread>>,
    inner: BaseProducer<C>,
}

// SAFETY: the client locks its queue whenever it is used, and everything else is `Send`.
#[expect(unsafe_code, reason = "a pointer to the client's queue")]
unsafe impl<C: ProducerContext + 'static> Send for WakingProducer<C> {}
// SAFETY: as above, and everything else is `Sync`.
#[expect(unsafe_code, reason = "a pointer to the client's queue")]
unsafe impl<C: ProducerContext + 'static> Sync for WakingProducer<C> {}

/// Wakes who waits. Called by a thread of the client when its empty queue gets a report.
#[expect(unsafe_code, reason = "called by the client")]
unsafe extern "C" fn wake(_: *mut sys::rd_kafka_t, waiter: *mut c_void) {
    // SAFETY: it is the `waiter` of a producer, which takes this function back before it goes.
    let waiter = unsafe { &*waiter.cast::<OnceLock<Thread>>() };
    if let Some(waiter) = waiter.get() {
        waiter.unpark();
    }
}

impl<C: ProducerContext + 'static> WakingProducer<C> {
    /// Makes the client.
    #[expect(unsafe_code, reason = "rdkafka has no safe call for the queue of a producer")]
    pub(crate) fn new(config: &ClientConfig, context: C) -> KafkaResult<WakingProducer<C>> {
        let inner: BaseProducer<C> = config.create_with_context(context)?;
        let waiter = Arc::new(OnceLock::new());
        let opaque: *const OnceLock<Thread> = Arc::as_ptr(&waiter);
        // SAFETY: the client lives as long as `inner`, and `Drop` gives the queue back and takes the function
        // back before that. The function needs nothing but `waiter`, which stays where it is.
        let queue = unsafe {
            let queue = sys::rd_kafka_queue_get_main(inner.client().native_ptr());
            sys::rd_kafka_queue_cb_event_enable(queue, Some(wake), opaque.cast_mut().cast());
            NonNull::new(queue)
        };
        let queue = queue.expect("every client has a main queue");
        Ok(WakingProducer { queue, waiter, inner })
    }

    /// Takes the client's reports as they are now.
    pub(crate) fn serve(&self) {
        while self.reports() > 0 {
            self.inner.poll(Duration::ZERO);
        }
    }

    /// Waits for a report, for at most so long. All calls are to come from one thread.
    pub(crate) fn wait(&self, at_most: Duration) {
        self.waiter.get_or_init(std::thread::current);
        // A report that comes now lets the thread go on at once.
        if self.reports() == 0 {
            std::thread::park_timeout(at_most);
        }
    }

    #[expect(unsafe_code, reason = "rdkafka has no safe call for the length of a queue")]
    fn reports(&self) -> usize {
        // SAFETY: the queue is given back in `Drop` only.
        unsafe { sys::rd_kafka_queue_length(self.queue.as_ptr()) }
    }
}

impl<C: ProducerContext + 'static> Deref for WakingProducer<C> {
    type Target = BaseProducer<C>;

    fn deref(&self) -> &BaseProducer<C> {
        &self.inner
    }
}

impl<C: ProducerContext + 'static> Drop for WakingProducer<C> {
    #[expect(unsafe_code, reason = "the counterpart of what `new` does")]
    fn drop(&mut self) {
        // SAFETY: both are done once, while the client lives; the client calls the function under the lock
        // that this takes, so that no call is under way afterwards.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, std::ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}
