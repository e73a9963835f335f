//! Errors of object storage, by who has to act.

use std::io;

/// Reason why an operation on object storage failed. A missing object is not an error: reads return
/// `None`.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The condition of a conditional write did not hold: another writer was faster.
    #[error("the object {key} does not match the condition of the write")]
    Precondition {
        /// The object.
        key: String,
    },
    /// Access denied, no such bucket, wrong region, or a request that this store does not support: an
    /// operator has to act, and retries do not help.
    #[error("object storage refused to {operation} {key}: {detail}")]
    Refused {
        /// The operation.
        operation: &'static str,
        /// The object or prefix.
        key: String,
        /// The store's code and message.
        detail: String,
    },
    /// A time-out, a broken connection, throttling or a server error. A retry may succeed.
    #[error("object storage could not {operation} {key} for now: {detail}")]
    Transient {
        /// The operation.
        operation: &'static str,
        /// The object or prefix.
        key: String,
        /// The failure.
        detail: String,
    },
    /// The store answers, but this one object cannot be read: each read returns other bytes, or the
    /// object is in an archive tier. Other objects are not affected.
    #[error("object storage cannot {operation} {key}; other objects are not affected: {detail}")]
    ObjectAtFault {
        /// The operation.
        operation: &'static str,
        /// The object.
        key: String,
        /// The failure.
        detail: String,
    },
    /// A multipart upload, or a part with the caller's tag, does not exist (any more): the upload has to
    /// start again.
    #[error("the unfinished upload of {key} is not there")]
    Unfinished {
        /// The object to be created.
        key: String,
    },
    /// More bytes than the caller's limit.
    #[error("{key} has more than {limit} bytes")]
    TooLarge {
        /// The object.
        key: String,
        /// The caller's limit in bytes.
        limit: u64,
    },
    /// The range begins at or after the object's end.
    #[error("the range {start}..{end} lies outside {key}")]
    Range {
        /// The object.
        key: String,
        /// First requested byte.
        start: u64,
        /// One after the last requested byte.
        end: u64,
    },
    /// The source of cannot read the bytes to store.
    #[error("cannot read the bytes to store")]
    Source(#[source] io::Error),
    /// A local file could not be read or written.
    #[error("cannot read or write a local file")]
    File(#[source] io::Error),
}

impl StorageError {
    /// True if the operation may succeed later without an operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            StorageError::Transient { .. }
                | StorageError::ObjectAtFault { .. }
                | StorageError::Unfinished { .. }
        )
    }

    /// Describes the operation and the failure without the object's key, for readers that may not learn
    /// which tenants have objects.
    #[must_use]
    pub fn without_key(&self) -> String {
        match self {
            StorageError::Precondition { .. } => "an object does not match the condition of a write".into(),
            StorageError::Refused { operation, detail, .. } => {
                format!("object storage refused to {operation} an object: {detail}")
            }
            StorageError::Transient { operation, detail, .. } => {
                format!("object storage could not {operation} an object for now: {detail}")
            }
            StorageError::ObjectAtFault { operation, detail, .. } => {
                format!("object storage cannot {operation} this object; others are not affected: {detail}")
            }
            StorageError::Unfinished { .. } => "an unfinished upload is not there".into(),
            StorageError::TooLarge { limit, .. } => format!("an object has more than {limit} bytes"),
            StorageError::Range { start, end, .. } => {
                format!("the range {start}..{end} lies outside an object")
            }
            StorageError::Source(_) | StorageError::File(_) => self.to_string(),
        }
    }

    /// True if an operator has to act: keys, bucket, region, policy.
    #[must_use]
    pub fn is_operators_fault(&self) -> bool {
        matches!(self, StorageError::Refused { .. } | StorageError::File(_))
    }
}
