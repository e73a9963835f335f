//! What can go wrong with object storage, by who has to act.

use std::io;

/// Why an operation on object storage failed. "Not there" is no error: reads answer `None`.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The condition of a conditional write did not hold: another writer was first.
    #[error("the object {key} is not what the condition of the write asked for")]
    Precondition {
        /// The object.
        key: String,
    },
    /// Access denied, no such bucket, wrong region, or a request that this store does not take:
    /// an operator has to act, and trying again does not help.
    #[error("object storage refused to {operation} {key}: {detail}")]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// The object or prefix.
        key: String,
        /// The store's code and message.
        detail: String,
    },
    /// A time-out, a broken connection, throttling or a server error: worth another try.
    #[error("object storage could not {operation} {key} for now: {detail}")]
    Transient {
        /// What was tried.
        operation: &'static str,
        /// The object or prefix.
        key: String,
        /// What was seen.
        detail: String,
    },
    /// The store answers and this one object can't be read: each reading of it differs, or it lies in an
    /// archive. Other objects are not affected.
    #[error("object storage cannot {operation} {key}, which is at fault itself: {detail}")]
    ObjectAtFault {
        /// What was tried.
        operation: &'static str,
        /// The object.
        key: String,
        /// What was seen.
        detail: String,
    },
    /// A multipart upload, or a part of it as the caller has it, is not there (any more): all of it has
    /// to be begun again.
    #[error("the unfinished upload of {key} is not there")]
    Unfinished {
        /// The object that it was to become.
        key: String,
    },
    /// More bytes than the caller allows.
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
        /// First byte asked for.
        start: u64,
        /// One after the last byte asked for.
        end: u64,
    },
    /// What should have been stored could not be read from its source.
    #[error("the bytes to store could not be read")]
    Source(#[source] io::Error),
    /// A local file could not be read or written.
    #[error("a local file could not be read or written")]
    File(#[source] io::Error),
}

impl StorageError {
    /// True where what the caller wants may succeed later without an operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            StorageError::Transient { .. }
                | StorageError::ObjectAtFault { .. }
                | StorageError::Unfinished { .. }
        )
    }

    /// What was tried and what came of it, without the object's key: for those who may not learn which
    /// tenants have objects.
    #[must_use]
    pub fn without_key(&self) -> String {
        match self {
            StorageError::Precondition { .. } => {
                "an object is not what the condition of a write asked for".into()
            }
            StorageError::Refused { operation, detail, .. } => {
                format!("object storage refused to {operation} an object: {detail}")
            }
            StorageError::Transient { operation, detail, .. } => {
                format!("object storage could not {operation} an object for now: {detail}")
            }
            StorageError::ObjectAtFault { operation, detail, .. } => {
                format!("object storage cannot {operation} an object that is at fault itself: {detail}")
            }
            StorageError::Unfinished { .. } => "an unfinished upload is not there".into(),
            StorageError::TooLarge { limit, .. } => format!("an object has more than {limit} bytes"),
            StorageError::Range { start, end, .. } => {
                format!("the range {start}..{end} lies outside an object")
            }
            StorageError::Source(_) | StorageError::File(_) => self.to_string(),
        }
    }

    /// True where an operator has to act: keys, bucket, region, policy.
    #[must_use]
    pub fn is_operators_fault(&self) -> bool {
        matches!(self, StorageError::Refused { .. } | StorageError::File(_))
    }
}
