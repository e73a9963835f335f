//! Access control lists of a broker, for its administrator. rdkafka wraps neither of the calls.

use crate::topics::client_config;
use rdkafka::admin::AdminClient;
use rdkafka::bindings as sys;
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use serde_json::Value;
use std::ffi::{CString, c_char};
use unslide_embedded::BrokerLogin;

/// How long the broker may take, in milliseconds.
const ANSWER_MILLIS: i32 = 30_000;

/// Gives rights and takes them away.
pub struct Acls {
    client: AdminClient<DefaultClientContext>,
}

/// A change of the list.
#[derive(Clone, Copy)]
enum Change {
    Give,
    Take,
}

/// One right.
struct Right {
    resource: sys::rd_kafka_ResourceType_t,
    pattern: sys::rd_kafka_ResourcePatternType_t,
    operation: sys::rd_kafka_AclOperation_t,
    name: CString,
    principal: CString,
}

impl Acls {
    /// A client of the broker.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn connect(bootstrap: &str, admin: &BrokerLogin) -> Acls {
        Acls { client: client_config(bootstrap, Some(admin)).create().expect("an admin client") }
    }

    /// Gives every right of a rule, as `unslide migrate --acls --json` prints it.
    ///
    /// # Panics
    /// If the broker refuses.
    pub fn grant_rule(&self, rule: &Value) {
        list_rights(rule).iter().for_each(|right| self.change_right(right, Change::Give));
    }

    /// Takes every right of a rule away.
    ///
    /// # Panics
    /// If the broker refuses.
    pub fn revoke_rule(&self, rule: &Value) {
        list_rights(rule).iter().for_each(|right| self.change_right(right, Change::Take));
    }

    #[expect(unsafe_code, reason = "rdkafka has no safe call for access control lists")]
    fn change_right(&self, right: &Right, change: Change) {
        use sys::rd_kafka_admin_op_t::{RD_KAFKA_ADMIN_OP_CREATEACLS, RD_KAFKA_ADMIN_OP_DELETEACLS};
        let native = self.client.inner().native_ptr();
        // SAFETY: the binding lives until after the broker's answer and is freed once; the texts are copied.
        unsafe {
            let mut binding = right.build_binding(change);
            match change {
                Change::Give => self.send_request(RD_KAFKA_ADMIN_OP_CREATEACLS, |options, queue| {
                    sys::rd_kafka_CreateAcls(native, &raw mut binding, 1, options, queue);
                }),
                Change::Take => self.send_request(RD_KAFKA_ADMIN_OP_DELETEACLS, |options, queue| {
                    sys::rd_kafka_DeleteAcls(native, &raw mut binding, 1, options, queue);
                }),
            }
            sys::rd_kafka_AclBinding_destroy(binding);
        }
    }

    /// # Safety
    /// `call` sends one request with the options and to the queue that it is given.
    #[expect(unsafe_code, reason = "rdkafka has no safe call for access control lists")]
    unsafe fn send_request(
        &self,
        operation: sys::rd_kafka_admin_op_t,
        call: impl FnOnce(*const sys::rd_kafka_AdminOptions_t, *mut sys::rd_kafka_queue_t),
    ) {
        let native = self.client.inner().native_ptr();
        // SAFETY: the client outlives this function, and each object is freed once after its last use.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(native, operation);
            sys::rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MILLIS, std::ptr::null_mut(), 0);
            let queue = sys::rd_kafka_queue_new(native);
            call(options, queue);
            let event = sys::rd_kafka_queue_poll(queue, ANSWER_MILLIS);
            assert!(!event.is_null(), "the broker does not answer");
            let code: RDKafkaErrorCode = sys::rd_kafka_event_error(event).into();
            assert_eq!(code, RDKafkaErrorCode::NoError);
            sys::rd_kafka_event_destroy(event);
            sys::rd_kafka_queue_destroy(queue);
            sys::rd_kafka_AdminOptions_destroy(options);
        }
    }
}

fn list_rights(rule: &Value) -> Vec<Right> {
    use sys::rd_kafka_AclOperation_t as operations;
    use sys::rd_kafka_ResourcePatternType_t as patterns;
    use sys::rd_kafka_ResourceType_t as resources;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let resource = match rule["resource"].as_str() {
        Some("topic") => resources::RD_KAFKA_RESOURCE_TOPIC,
        Some("group") => resources::RD_KAFKA_RESOURCE_GROUP,
        Some("transactional_id") => resources::RD_KAFKA_RESOURCE_TRANSACTIONAL_ID,
        other => panic!("{other:?} is no resource"),
    };
    let pattern = match rule["pattern"].as_str() {
        Some("literal") => patterns::RD_KAFKA_RESOURCE_PATTERN_LITERAL,
        Some("prefixed") => patterns::RD_KAFKA_RESOURCE_PATTERN_PREFIXED,
        other => panic!("{other:?} is no pattern"),
    };
    let mut rights = Vec::new();
    for name in rule["names"].as_array().expect("names") {
        for operation in rule["operations"].as_array().expect("operations") {
            let operation = match operation.as_str() {
                Some("Read") => operations::RD_KAFKA_ACL_OPERATION_READ,
                Some("Write") => operations::RD_KAFKA_ACL_OPERATION_WRITE,
                Some("Create") => operations::RD_KAFKA_ACL_OPERATION_CREATE,
                Some("Delete") => operations::RD_KAFKA_ACL_OPERATION_DELETE,
                Some("Alter") => operations::RD_KAFKA_ACL_OPERATION_ALTER,
                Some("Describe") => operations::RD_KAFKA_ACL_OPERATION_DESCRIBE,
                Some("DescribeConfigs") => operations::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS,
                other => panic!("{other:?} is no operation"),
            };
            let name = CString::new(text(name)).expect("a name");
            let principal = CString::new(text(&rule["principal"])).expect("a principal");
            rights.push(Right { resource, pattern, operation, name, principal });
        }
    }
    rights
}

/// Any host.
const ANY_HOST: &std::ffi::CStr = c"*";

impl Right {
    /// The right as the broker's list has it, or as a filter that finds it there, which has the same form.
    ///
    /// # Safety
    /// The caller frees it.
    #[expect(unsafe_code, reason = "rdkafka has no safe call for access control lists")]
    unsafe fn build_binding(&self, change: Change) -> *mut sys::rd_kafka_AclBinding_t {
        let make = match change {
            Change::Give => sys::rd_kafka_AclBinding_new,
            Change::Take => sys::rd_kafka_AclBindingFilter_new,
        };
        let mut error: [c_char; 256] = [0; 256];
        // SAFETY: the texts live during the call, which copies them.
        let made = unsafe {
            make(
                self.resource,
                self.name.as_ptr(),
                self.pattern,
                self.principal.as_ptr(),
                ANY_HOST.as_ptr(),
                self.operation,
                sys::rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        assert!(!made.is_null(), "the right on {:?} has no valid form", self.name);
        made
    }
}
