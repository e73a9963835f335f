//! The file of a source: downloaded into the job's folder, looked into by a child process, and taken as an upload if it has the debug id that
//! was asked for.

use super::AskEnd;
use crate::fetching::{DownloadEnd, SourceDownload};
use crate::store::{DueRequest, SourceReply, SourceRow};
use unslide_builder::feature::{FeatureJob, JobFailure, JobFile, ReceivedFile};
use unslide_model::DebugId;

/// The file in the job's folder, and its second name, which the child does not take away.
const FETCHED: &str = "fetched";
const KEPT: &str = "kept";
/// Room for a file whose size the source does not name.
const UNNAMED_SIZE: u64 = 256 << 20;

/// Takes the file of an answer.
pub async fn take_file(
    job: &FeatureJob<'_>,
    row: &SourceRow,
    request: &DueRequest,
    download: SourceDownload,
) -> Result<AskEnd, JobFailure> {
    let refused = |reason: String| Ok(AskEnd::Answered(SourceReply::Refused(reason)));
    let most = job.read_file_limit().await?;
    let limit = download.size().unwrap_or(UNNAMED_SIZE).min(most);
    if download.size().is_some_and(|size| size > most) {
        return refused(format!("{}: the file has more than {most} bytes", request.debug_id));
    }
    let room = match job.acquire_room(limit).await {
        Err(JobFailure::Job { detail, .. }) => return refused(format!("{}: {detail}", request.debug_id)),
        room => room?,
    };
    let (path, kept) = (room.path().join(FETCHED), room.path().join(KEPT));
    let fetched = match download.write_to(&path, limit).await {
        Ok(fetched) => fetched,
        Err(DownloadEnd::Disk(error)) => return Err(error.into()),
        Err(DownloadEnd::Source(failure)) => return Ok(AskEnd::Failed(failure)),
        Err(DownloadEnd::TooLarge(limit)) => {
            return refused(format!("{}: the file has more than {limit} bytes", request.debug_id));
        }
    };
    tokio::fs::hard_link(&path, &kept).await?;
    let listed = match job.list_debug_ids(&room, FETCHED, FETCHED).await {
        // The file is at fault, or may be: it is read again with the next request.
        Err(JobFailure::Job { detail, .. } | JobFailure::Again(detail)) => {
            return refused(format!("{}: the file cannot be read: {detail}", request.debug_id));
        }
        listed => listed?,
    };
    if !listed.contains(&request.debug_id) {
        return refused(describe_other_ids(&request.debug_id, &listed));
    }
    let name = format!("{}/{}", row.name, row.layout.path_of_id(&request.debug_id));
    let file = JobFile { path: &kept, name: &name, size: fetched.size, sha256: fetched.sha256 };
    match job.receive_file(&file).await? {
        ReceivedFile::Taken(upload) => Ok(AskEnd::Answered(SourceReply::Found(upload))),
        ReceivedFile::OverQuota(reason) => refused(format!("{}: {reason}", request.debug_id)),
    }
}

/// Returns the sentence about a file with other debug ids than the one that was asked for.
fn describe_other_ids(asked: &DebugId, listed: &[DebugId]) -> String {
    let first: Vec<String> = listed.iter().take(3).map(DebugId::to_string).collect();
    match first.as_slice() {
        [] => format!("{asked}: the file has no Mach-O object with a debug id"),
        first => format!("{asked}: the file has other debug ids: {}", first.join(", ")),
    }
}
