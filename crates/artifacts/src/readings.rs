//! Decides when an object counts as lost or damaged: only if several reads of it agree. If each
//! read differs, the bytes were changed in transit.

use crate::StorageError;
use crate::keys::ObjectKey;
use std::time::Duration;
use unslide_model::ContentHash;

/// How often an object with wrong contents is read.
pub const WRONG_CONTENT_READS_LIMIT: u32 = 4;

/// The wrong result of a read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// No object.
    #[error("is not there")]
    Absent,
    /// More bytes than were written.
    #[error("is longer than what was written")]
    Longer,
    /// Other bytes. The value is their SHA-256.
    #[error("is not what was written: its SHA-256 is {0}")]
    Other(ContentHash),
}

/// Reads an object until it is right, at most [`WRONG_CONTENT_READS_LIMIT`] times. The pause between two reads grows
/// by `pause`. The inner error is the result on which all reads agreed.
///
/// # Errors
/// Returns the errors of `read`, and [`StorageError::ObjectAtFault`] if the reads differ.
pub async fn read_again<T, E, F>(
    key: &ObjectKey,
    pause: Duration,
    mut read: impl FnMut() -> F,
) -> Result<Result<T, Wrong>, E>
where
    E: From<StorageError>,
    F: Future<Output = Result<Result<T, Wrong>, E>>,
{
    let mut last = match read().await? {
        Ok(right) => return Ok(Ok(right)),
        Err(wrong) => wrong,
    };
    let mut agree = true;
    for reading in 1..WRONG_CONTENT_READS_LIMIT {
        tracing::warn!(object.key = %key, "an object {last} and is read again");
        tokio::time::sleep(pause * reading).await;
        match read().await? {
            Ok(right) => return Ok(Ok(right)),
            Err(wrong) => {
                agree &= wrong == last;
                last = wrong;
            }
        }
    }
    if agree {
        return Ok(Err(last));
    }
    let detail = format!("{WRONG_CONTENT_READS_LIMIT} readings of it differ; by the last it {last}");
    Err(StorageError::ObjectAtFault { operation: "get", key: key.to_string(), detail }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::TenantId;

    async fn after(found: &[Result<u8, Wrong>]) -> (Result<Result<u8, Wrong>, StorageError>, usize) {
        let key = ObjectKey::parse_for_tenant(&TenantId::new("acme").unwrap(), "t/acme/uploads/one").unwrap();
        let mut readings = found.iter().cloned();
        let mut count = 0;
        let read = || {
            count += 1;
            std::future::ready(Ok(readings.next().unwrap()))
        };
        (read_again(&key, Duration::from_millis(1), read).await, count)
    }

    /// Proves: outages
    #[tokio::test]
    async fn only_readings_that_agree_are_believed() {
        let other = |byte| Err(Wrong::Other(ContentHash([byte; 32])));
        let (right, count) = after(&[Ok(1)]).await;
        assert_eq!((right.unwrap(), count), (Ok(1), 1));
        let (right, count) = after(&[Err(Wrong::Absent), other(1), other(1), Ok(2)]).await;
        assert_eq!((right.unwrap(), count), (Ok(2), 4));
        for wrong in [Wrong::Absent, Wrong::Longer, Wrong::Other(ContentHash([7; 32]))] {
            let all = vec![Err(wrong.clone()); WRONG_CONTENT_READS_LIMIT as usize];
            assert_eq!(after(&all).await.0.unwrap(), Err(wrong));
        }
        for differ in [
            [other(1), other(2), other(3), other(4)],
            [other(1), other(1), other(1), Err(Wrong::Absent)],
            [other(2), other(1), other(1), other(1)],
        ] {
            let error = after(&differ).await.0.unwrap_err();
            assert!(error.is_transient(), "{error}");
        }
    }
}
