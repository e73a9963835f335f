//! States of declared files, as the clients read them.
//!
//! Every entry has a final state, or `assembling`, or `not_found` with at least one missing chunk: a client takes
//! `created`, an absent entry, and `not_found` without missing chunks as done, and would lose the file silently.

use super::hash::Sha1Hash;
use super::store::{ChunkedFile, ChunkedFileState};
use serde::Serialize;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};
use unslide_store::objects::ObjectStatus;
use unslide_store::uploads::UploadStatus;

/// How long a failure is reported. After that, the file may be sent again.
const FAILURE_LIFETIME: Duration = Duration::minutes(2);

/// How long a remark is reported on a file that is no symbols. After that, the file is made again.
const REMARK_LIFETIME: Duration = Duration::minutes(10);

/// The state of one file in an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileAnswer {
    state: &'static str,
    #[serde(rename = "missingChunks")]
    missing_chunks: Vec<Sha1Hash>,
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dif: Option<Value>,
}

impl FileAnswer {
    /// Reports that chunks have to be sent. There is at least one.
    pub fn not_found(missing_chunks: Vec<Sha1Hash>) -> FileAnswer {
        FileAnswer { missing_chunks, ..FileAnswer::new("not_found", None) }
    }

    /// Reports that the file is being made or built.
    pub fn in_progress() -> FileAnswer {
        FileAnswer::new("assembling", None)
    }

    /// Reports that nothing can be made of the file.
    pub fn with_error(detail: impl Into<String>) -> FileAnswer {
        FileAnswer::new("error", Some(detail.into()))
    }

    /// Returns the answer without the facts about an object, for a file that is no debug file.
    #[must_use]
    pub fn without_facts(self) -> FileAnswer {
        FileAnswer { dif: None, ..self }
    }

    fn new(state: &'static str, detail: Option<String>) -> FileAnswer {
        FileAnswer { state, missing_chunks: Vec::new(), detail, dif: None }
    }

    /// Returns the state of a declared file, or None if it has to be made again.
    pub fn from_file(file: &ChunkedFile, now: OffsetDateTime) -> Option<FileAnswer> {
        match file.state {
            ChunkedFileState::Waiting => Some(FileAnswer::in_progress()),
            // Whether source files are kept may change: later the file is made again.
            ChunkedFileState::Ignored => {
                (now - file.updated_at < REMARK_LIFETIME).then(|| FileAnswer::new("ok", file.detail.clone()))
            }
            ChunkedFileState::Failed => recent_failure(file.detail.as_deref(), file.updated_at, now),
            ChunkedFileState::Stored => upload_state(file, now),
        }
    }
}

fn recent_failure(detail: Option<&str>, at: OffsetDateTime, now: OffsetDateTime) -> Option<FileAnswer> {
    let is_recent = now - at < FAILURE_LIFETIME;
    is_recent.then(|| FileAnswer::with_error(detail.unwrap_or("the file could not be read")))
}

fn upload_state(file: &ChunkedFile, now: OffsetDateTime) -> Option<FileAnswer> {
    match file.upload_status? {
        UploadStatus::Receiving | UploadStatus::Queued | UploadStatus::Building => {
            Some(FileAnswer::in_progress())
        }
        UploadStatus::Failed => {
            recent_failure(file.upload_detail.as_deref(), file.upload_updated_at.unwrap_or(now), now)
        }
        // Without objects, they were deleted since.
        UploadStatus::Done => match file.object_status? {
            ObjectStatus::Queued | ObjectStatus::Building => Some(FileAnswer::in_progress()),
            ObjectStatus::Ready => {
                Some(FileAnswer { dif: object_facts(file), ..FileAnswer::new("ok", None) })
            }
            ObjectStatus::Malformed | ObjectStatus::Unsupported | ObjectStatus::TooComplex => {
                let reason = file.object_reason.as_deref().unwrap_or("no symbols can be built from it");
                Some(FileAnswer::with_error(format!("{}: {reason}", file.name)))
            }
        },
    }
}

/// Returns the facts about a built object. None for one without a debug id, which the clients demand.
fn object_facts(file: &ChunkedFile) -> Option<Value> {
    let debug_id = file.debug_id?.to_string();
    let kind = match file.kind.as_deref() {
        Some("dsym") => "dbg",
        Some("executable") => "exe",
        _ => "lib",
    };
    let features = [("debug", file.has_dwarf), ("symtab", file.has_symtab)];
    let features: Vec<&str> =
        features.into_iter().filter(|(_, has)| *has == Some(true)).map(|(name, _)| name).collect();
    Some(json!({
        "uuid": debug_id,
        "debugId": debug_id,
        "objectName": file.name,
        "cpuName": file.arch,
        "sha1": Sha1Hash::from_bytes(&file.sha1),
        "symbolType": "macho",
        "size": file.size,
        "headers": { "Content-Type": "application/x-mach-binary" },
        "data": { "type": kind, "features": features },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_store::Uuid;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn file(state: ChunkedFileState) -> ChunkedFile {
        ChunkedFile {
            sha1: vec![0xab; 20],
            name: "Shop".to_owned(),
            state,
            detail: Some("a remark".to_owned()),
            updated_at: NOW,
            upload_status: None,
            upload_detail: None,
            upload_updated_at: None,
            object_status: None,
            object_reason: None,
            debug_id: Some(Uuid::from_u128(7)),
            arch: Some("arm64".to_owned()),
            kind: Some("dsym".to_owned()),
            size: Some(9),
            has_dwarf: Some(true),
            has_symtab: Some(false),
        }
    }

    fn stored(upload: UploadStatus, object: Option<ObjectStatus>) -> ChunkedFile {
        let upload_updated_at = Some(NOW);
        ChunkedFile {
            upload_status: Some(upload),
            upload_updated_at,
            object_status: object,
            ..file(ChunkedFileState::Stored)
        }
    }

    fn state_after(file: &ChunkedFile, minutes: i64) -> Option<&'static str> {
        FileAnswer::from_file(file, NOW + Duration::minutes(minutes)).map(|answer| answer.state)
    }

    #[test]
    fn a_file_is_final_only_once_its_object_is() {
        use ObjectStatus::{Building, Malformed, Ready, TooComplex};
        use UploadStatus::{Done, Failed, Queued};
        assert_eq!(state_after(&file(ChunkedFileState::Waiting), 99), Some("assembling"));
        assert_eq!(state_after(&stored(Queued, None), 99), Some("assembling"));
        assert_eq!(state_after(&stored(UploadStatus::Building, Some(Ready)), 99), Some("assembling"));
        assert_eq!(state_after(&stored(Done, Some(Building)), 99), Some("assembling"));
        assert_eq!(state_after(&stored(Done, Some(Ready)), 99), Some("ok"));
        assert_eq!(state_after(&stored(Done, Some(Malformed)), 0), Some("error"));
        assert_eq!(state_after(&stored(Done, Some(TooComplex)), 0), Some("error"));
        assert_eq!(state_after(&stored(Failed, None), 1), Some("error"));
        assert_eq!(state_after(&file(ChunkedFileState::Ignored), 9), Some("ok"));
        assert_eq!(state_after(&file(ChunkedFileState::Ignored), 10), None, "the switch may have changed");
    }

    #[test]
    fn a_failure_and_deleted_symbols_let_the_file_be_sent_again() {
        assert_eq!(state_after(&file(ChunkedFileState::Failed), 1), Some("error"));
        assert_eq!(state_after(&file(ChunkedFileState::Failed), 2), None);
        assert_eq!(state_after(&stored(UploadStatus::Failed, None), 2), None);
        assert_eq!(state_after(&stored(UploadStatus::Done, None), 0), None);
        assert_eq!(state_after(&file(ChunkedFileState::Stored), 0), None);
    }

    #[test]
    fn every_entry_has_the_members_that_clients_demand() {
        let answer = FileAnswer::from_file(&stored(UploadStatus::Done, Some(ObjectStatus::Ready)), NOW);
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!(answer["missingChunks"], json!([]));
        assert_eq!(answer["dif"]["objectName"], "Shop");
        assert_eq!(answer["dif"]["cpuName"], "arm64");
        assert_eq!(answer["dif"]["sha1"], "ab".repeat(20));
        assert_eq!(answer["dif"]["debugId"], "00000000-0000-0000-0000-000000000007");
        assert_eq!(answer["dif"]["data"], json!({"type": "dbg", "features": ["debug"]}));
        let missing = serde_json::to_value(FileAnswer::not_found(vec![Sha1Hash([0; 20])])).unwrap();
        assert_eq!(missing, json!({"state": "not_found", "missingChunks": ["0".repeat(40)], "detail": null}));
    }
}
