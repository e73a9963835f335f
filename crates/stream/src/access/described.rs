//! Operations that a login may do with a topic or a group, as Kafka itself says. rdkafka wraps neither
//! request.

use crate::access::AccessOperation;
use crate::client::BROKER_REQUEST_TIMEOUT;
use crate::native::{Freed, read_text};
use rdkafka::ClientContext;
use rdkafka::bindings as sys;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use std::collections::HashMap;
use std::ffi::{CString, c_char};

/// The operations on one resource, or why they are not known.
pub(super) type Authorized = Result<Vec<AccessOperation>, RDKafkaErrorCode>;

/// The kind of resource that a question is about.
#[derive(Clone, Copy)]
enum Described {
    Topics,
    Groups,
}

/// Returns the operations on each topic, in the same order.
pub(super) fn described_topics<C: ClientContext>(client: &Client<C>, names: &[String]) -> Vec<Authorized> {
    in_order(client, names, Described::Topics)
}

/// Returns the operations on each consumer group, in the same order.
pub(super) fn described_groups<C: ClientContext>(client: &Client<C>, names: &[String]) -> Vec<Authorized> {
    in_order(client, names, Described::Groups)
}

fn in_order<C: ClientContext>(client: &Client<C>, names: &[String], what: Described) -> Vec<Authorized> {
    match request_operations(client, names, what) {
        Ok(mut all) => {
            names.iter().map(|name| all.remove(name).unwrap_or(Err(RDKafkaErrorCode::Fail))).collect()
        }
        Err(code) => names.iter().map(|_| Err(code)).collect(),
    }
}

#[expect(unsafe_code, reason = "rdkafka has no safe call that tells authorized operations")]
fn request_operations<C: ClientContext>(
    client: &Client<C>,
    names: &[String],
    what: Described,
) -> Result<HashMap<String, Authorized>, RDKafkaErrorCode> {
    use sys::rd_kafka_admin_op_t::{
        RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
    };
    let owned: Vec<CString> = names.iter().filter_map(|name| CString::new(name.as_str()).ok()).collect();
    let mut pointers: Vec<*const c_char> = owned.iter().map(|name| name.as_ptr()).collect();
    let native = client.native_ptr();
    let millis = i32::try_from(BROKER_REQUEST_TIMEOUT.as_millis()).unwrap_or(10_000);
    let operation = match what {
        Described::Topics => RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
        Described::Groups => RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
    };
    // SAFETY: `native` lives as long as `client`, which outlives this function, and the names as long as `owned`; each
    // object made here is freed once, by its guard, after its last use; `event` is alive while its result is read.
    unsafe {
        let queue = Freed(sys::rd_kafka_queue_new(native), sys::rd_kafka_queue_destroy);
        let options =
            Freed(sys::rd_kafka_AdminOptions_new(native, operation), sys::rd_kafka_AdminOptions_destroy);
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, millis, std::ptr::null_mut(), 0);
        // The error that it may give back is only of an option that the question does not know.
        drop(Freed(
            sys::rd_kafka_AdminOptions_set_include_authorized_operations(options.0, 1),
            sys::rd_kafka_error_destroy,
        ));
        let topics = match what {
            Described::Topics => {
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len())
            }
            Described::Groups => std::ptr::null_mut(),
        };
        let topics = Freed(topics, sys::rd_kafka_TopicCollection_destroy);
        match what {
            Described::Topics => sys::rd_kafka_DescribeTopics(native, topics.0, options.0, queue.0),
            Described::Groups => sys::rd_kafka_DescribeConsumerGroups(
                native,
                pointers.as_mut_ptr(),
                pointers.len(),
                options.0,
                queue.0,
            ),
        }
        let event = Freed(sys::rd_kafka_queue_poll(queue.0, millis + 1_000), sys::rd_kafka_event_destroy);
        if event.0.is_null() {
            return Err(RDKafkaErrorCode::OperationTimedOut);
        }
        let code: RDKafkaErrorCode = sys::rd_kafka_event_error(event.0).into();
        if code != RDKafkaErrorCode::NoError {
            return Err(code);
        }
        Ok(match what {
            Described::Topics => topics_of(event.0),
            Described::Groups => groups_of(event.0),
        })
    }
}

/// # Safety
/// `event` is alive and the answer to `DescribeTopics`. Pointers into it are read while it is.
#[expect(unsafe_code, reason = "rdkafka has no safe call that tells authorized operations")]
unsafe fn topics_of(event: *mut sys::rd_kafka_event_t) -> HashMap<String, Authorized> {
    let mut found = HashMap::new();
    // SAFETY: as above.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return found;
        }
        let mut count = 0;
        let described = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        for one in (0..count).map(|number| *described.add(number)) {
            let mut operations = 0;
            let first = sys::rd_kafka_TopicDescription_authorized_operations(one, &raw mut operations);
            let error = sys::rd_kafka_TopicDescription_error(one);
            let name = read_text(sys::rd_kafka_TopicDescription_name(one));
            found.insert(name, read_authorized(error, first, operations));
        }
    }
    found
}

/// # Safety
/// `event` is alive and the answer to `DescribeConsumerGroups`. Pointers into it are read while it is.
#[expect(unsafe_code, reason = "rdkafka has no safe call that tells authorized operations")]
unsafe fn groups_of(event: *mut sys::rd_kafka_event_t) -> HashMap<String, Authorized> {
    let mut found = HashMap::new();
    // SAFETY: as above.
    unsafe {
        let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event);
        if result.is_null() {
            return found;
        }
        let mut count = 0;
        let described = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
        for one in (0..count).map(|number| *described.add(number)) {
            let mut operations = 0;
            let first =
                sys::rd_kafka_ConsumerGroupDescription_authorized_operations(one, &raw mut operations);
            let error = sys::rd_kafka_ConsumerGroupDescription_error(one);
            let name = read_text(sys::rd_kafka_ConsumerGroupDescription_group_id(one));
            found.insert(name, read_authorized(error, first, operations));
        }
    }
    found
}

/// # Safety
/// `error` is null or alive, and `first` is null or begins `count` operations that are.
#[expect(unsafe_code, reason = "rdkafka has no safe call that tells authorized operations")]
unsafe fn read_authorized(
    error: *const sys::rd_kafka_error_t,
    first: *const sys::rd_kafka_AclOperation_t,
    count: usize,
) -> Authorized {
    // SAFETY: as above. Operations are read as numbers: a broker may know more of them than this client.
    unsafe {
        if !error.is_null() {
            let code: RDKafkaErrorCode = sys::rd_kafka_error_code(error).into();
            if code != RDKafkaErrorCode::NoError {
                return Err(code);
            }
        }
        if first.is_null() {
            return Err(RDKafkaErrorCode::UnsupportedFeature);
        }
        Ok((0..count).filter_map(|number| parse_operation(first.cast::<u32>().add(number).read())).collect())
    }
}

fn parse_operation(number: u32) -> Option<AccessOperation> {
    use sys::rd_kafka_AclOperation_t as native;
    [
        (native::RD_KAFKA_ACL_OPERATION_READ, AccessOperation::Read),
        (native::RD_KAFKA_ACL_OPERATION_WRITE, AccessOperation::Write),
        (native::RD_KAFKA_ACL_OPERATION_CREATE, AccessOperation::Create),
        (native::RD_KAFKA_ACL_OPERATION_DELETE, AccessOperation::Delete),
        (native::RD_KAFKA_ACL_OPERATION_ALTER, AccessOperation::Alter),
        (native::RD_KAFKA_ACL_OPERATION_DESCRIBE, AccessOperation::Describe),
        (native::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS, AccessOperation::DescribeConfigs),
    ]
    .into_iter()
    .find_map(|(native, own)| (native as u32 == number).then_some(own))
}
