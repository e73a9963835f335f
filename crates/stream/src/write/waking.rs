//! A producer that can be waited for. The Rust client's own waiting spins: it asks for the rest of the time
//! in whole milliseconds, and so without a wait throughout the last one. Its polling thread does so ten times
//! a second, also when nothing is sent. Nor does it send a value without a copy of it.

use crate::record::{OutRecord, charge_bytes};
use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::bindings as sys;
use rdkafka::error::{IsError as _, KafkaError, KafkaResult};
use rdkafka::producer::{BaseProducer, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaHeaders;
use rdkafka::util::IntoOpaque as _;
use std::ffi::{CString, c_void};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// State of a record in the client until its delivery is reported.
pub(crate) struct UndeliveredRecord<T> {
    /// Who sent it and wants to know.
    pub(crate) about: T,
    /// The client reads these bytes in place.
    _value: Option<Bytes>,
}

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

/// Wakes the waiting thread. Called by a thread of the client when its empty queue gets a report.
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
        // back before that. The function needs nothing but `waiter`, which does not move.
        let queue = unsafe {
            let queue = sys::rd_kafka_queue_get_main(inner.client().native_ptr());
            sys::rd_kafka_queue_cb_event_enable(queue, Some(wake), opaque.cast_mut().cast());
            NonNull::new(queue)
        };
        let queue = queue.expect("every client has a main queue");
        Ok(WakingProducer { queue, waiter, inner })
    }

    /// Takes the client's current reports.
    pub(crate) fn serve_reports(&self) {
        while self.report_count() > 0 {
            self.inner.poll(Duration::ZERO);
        }
    }

    /// Waits for a report, for at most so long. All calls are to come from one thread.
    pub(crate) fn wait(&self, at_most: Duration) {
        self.waiter.get_or_init(std::thread::current);
        // A report that comes now lets the thread go on at once.
        if self.report_count() == 0 {
            std::thread::park_timeout(at_most);
        }
    }

    /// Passes a record to the client, if its queue has room. The client reads the value in place, and gives
    /// `about` back when it does not need it any more.
    #[expect(unsafe_code, reason = "rdkafka's own call copies the value")]
    pub(crate) fn produce_record<T: Send + Sync>(&self, record: &OutRecord, about: T) -> KafkaResult<()>
    where
        C: ProducerContext<DeliveryOpaque = Box<UndeliveredRecord<T>>>,
    {
        use sys::rd_kafka_vtype_t as vtype;
        let part = |bytes: &Option<Bytes>| {
            bytes.as_ref().map_or((std::ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()))
        };
        let topic = CString::new(&*record.topic)?;
        let ((value, value_len), (key, key_len)) = (part(&record.value), part(&record.key));
        let sent = Box::new(UndeliveredRecord { about, _value: record.value.clone() }).into_ptr();
        // SAFETY: the pointers are valid for their lengths during the call, which copies all but the value.
        // The value does not move until `sent` is dropped: by this call if it fails, else by the receiver of
        // the delivery report, which is the client's last use of a record. Of the headers, which have their
        // own copies, the client is the owner if the call succeeds.
        unsafe {
            let headers = copy_headers(record);
            let code = sys::rd_kafka_producev(
                self.inner.client().native_ptr(),
                vtype::RD_KAFKA_VTYPE_TOPIC,
                topic.as_ptr(),
                vtype::RD_KAFKA_VTYPE_VALUE,
                value,
                value_len,
                vtype::RD_KAFKA_VTYPE_KEY,
                key,
                key_len,
                vtype::RD_KAFKA_VTYPE_OPAQUE,
                sent,
                vtype::RD_KAFKA_VTYPE_HEADERS,
                headers,
                vtype::RD_KAFKA_VTYPE_END,
            );
            if !code.is_error() {
                charge_bytes(record.key.as_ref(), &record.headers, record.size());
                return Ok(());
            }
            sys::rd_kafka_headers_destroy(headers);
            drop(C::DeliveryOpaque::from_ptr(sent));
            Err(KafkaError::MessageProduction(code.into()))
        }
    }

    #[expect(unsafe_code, reason = "rdkafka has no safe call for the length of a queue")]
    fn report_count(&self) -> usize {
        // SAFETY: the queue is given back in `Drop` only.
        unsafe { sys::rd_kafka_queue_length(self.queue.as_ptr()) }
    }
}

/// Makes the client's own copies of a record's headers.
#[expect(unsafe_code, reason = "the counterpart of `produce`")]
fn copy_headers(record: &OutRecord) -> *mut RDKafkaHeaders {
    // SAFETY: each pointer is valid for the length beside it during the call, which copies those bytes.
    unsafe {
        let headers = sys::rd_kafka_headers_new(record.headers.iter().count());
        for (name, value) in record.headers.iter() {
            let (name_len, value_len) = (name.len().cast_signed(), value.len().cast_signed());
            sys::rd_kafka_header_add(
                headers,
                name.as_ptr().cast(),
                name_len,
                value.as_ptr().cast(),
                value_len,
            );
        }
        headers
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

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::ClientContext;
    use rdkafka::producer::DeliveryResult;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Quiet;

    impl ClientContext for Quiet {
        fn error(&self, _: KafkaError, _: &str) {}
    }

    impl ProducerContext for Quiet {
        type DeliveryOpaque = Box<UndeliveredRecord<()>>;

        fn delivery(&self, _: &DeliveryResult<'_>, _: Box<UndeliveredRecord<()>>) {}
    }

    /// A value that notes when it is dropped.
    struct Watched(Arc<AtomicBool>);

    impl AsRef<[u8]> for Watched {
        fn as_ref(&self) -> &[u8] {
            b"value"
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn watched() -> (OutRecord, Arc<AtomicBool>) {
        let gone = Arc::new(AtomicBool::new(false));
        let value = Bytes::from_owner(Watched(Arc::clone(&gone)));
        (OutRecord::for_topic("topic", value).key("key").header("name", "text"), gone)
    }

    /// A producer that reaches no broker.
    fn producer(timeout: &str) -> WakingProducer<Quiet> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:1").set("message.timeout.ms", timeout);
        config.set("queue.buffering.max.messages", "1");
        WakingProducer::new(&config, Quiet).unwrap()
    }

    #[test]
    fn a_value_is_kept_until_the_client_needs_it_no_more() {
        let producer_of_late = producer("1");
        let (late, late_gone) = watched();
        producer_of_late.produce_record(&late, ()).unwrap();
        drop(late);
        while !late_gone.load(Ordering::SeqCst) {
            producer_of_late.wait(Duration::from_millis(10));
            producer_of_late.serve_reports();
        }

        let producer = producer("60000");
        let (queued, queued_gone) = watched();
        producer.produce_record(&queued, ()).unwrap();
        drop(queued);
        let (refused, refused_gone) = watched();
        let full = producer.produce_record(&refused, ()).unwrap_err();
        assert_eq!(full, KafkaError::MessageProduction(rdkafka::types::RDKafkaErrorCode::QueueFull));
        drop(refused);
        assert!(refused_gone.load(Ordering::SeqCst));
        assert!(!queued_gone.load(Ordering::SeqCst), "the client has it in its queue");
        drop(producer);
        assert!(queued_gone.load(Ordering::SeqCst));
    }
}
