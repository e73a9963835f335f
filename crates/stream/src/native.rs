//! Objects of librdkafka that rdkafka does not wrap.

use rdkafka::bindings as sys;
use rdkafka::client::Client;
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientContext, error::RDKafkaErrorCode};
use std::ffi::{CStr, c_char};

/// Frees a native object however the function that made it ends.
pub(crate) struct Freed<T>(pub(crate) *mut T, pub(crate) unsafe extern "C" fn(*mut T));

impl<T> Drop for Freed<T> {
    #[expect(unsafe_code, reason = "librdkafka's objects are freed by its own functions")]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the pointer came from the constructor that belongs to this destructor, and it is freed
            // only here.
            unsafe { (self.1)(self.0) };
        }
    }
}

/// Reads a text of librdkafka's; empty for none.
///
/// # Safety
/// `text` is null or ends with a zero, and lives during the call.
#[expect(unsafe_code, reason = "librdkafka's texts are C's")]
pub(crate) unsafe fn read_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Returns true if a record of a producer may be in the log of its partition, also if it was not confirmed.
#[expect(unsafe_code, reason = "rdkafka has no safe call for this state of a record")]
pub(crate) fn may_be_written(record: &BorrowedMessage<'_>) -> bool {
    // SAFETY: the record outlives the call, which only reads it.
    let status = unsafe { sys::rd_kafka_message_status(record.ptr()) };
    status != sys::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED
}

/// Takes the errors that a client has met since the last call, the oldest first. For clients that are not
/// polled otherwise.
#[expect(unsafe_code, reason = "rdkafka does not read the main queue of an admin client")]
pub(crate) fn take_errors<C: ClientContext>(client: &Client<C>) -> Vec<(RDKafkaErrorCode, String)> {
    let mut errors = Vec::new();
    // SAFETY: the client outlives this function; the queue and each event are freed once, by their guards, after
    // their last use.
    unsafe {
        let queue = Freed(sys::rd_kafka_queue_get_main(client.native_ptr()), sys::rd_kafka_queue_destroy);
        loop {
            let event = Freed(sys::rd_kafka_queue_poll(queue.0, 0), sys::rd_kafka_event_destroy);
            if event.0.is_null() {
                return errors;
            }
            if sys::rd_kafka_event_type(event.0) == sys::RD_KAFKA_EVENT_ERROR {
                let code = sys::rd_kafka_event_error(event.0).into();
                errors.push((code, read_text(sys::rd_kafka_event_error_string(event.0))));
            }
        }
    }
}
