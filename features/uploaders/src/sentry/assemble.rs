//! `POST /api/0/projects/{org}/{project}/files/difs/assemble/`: which files are wanted, and how far each is.
//!
//! A request costs the same number of statements for one file and for two thousand.

use super::assembly::Assembler;
use super::file_states::FileAnswer;
use super::hash::Sha1Hash;
use super::store::{self, FileLimits, FileUse, NewChunkedFile, StoredChunk};
use crate::declaration::read_declaration;
use crate::whole_file::storable_name;
use axum::body::Body;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unslide_api::feature::Capacity;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, check_texts};
use unslide_api::feature::upload::{SymbolsWrite, UploadQuota};
use unslide_api::problem::{Kind, Problem};

/// The most files in a request, and the most chunks of all of them.
const MAX_FILES: usize = 2_000;
const MAX_CHUNKS: usize = 50_000;
/// The most files of a tenant that wait to be made.
const MAX_WAITING_FILES: u64 = 10_000;
/// Seconds after which a tenant with too many waiting files may retry.
const WAITING_RETRY_SECONDS: u32 = 10;

/// A file that a client declares.
#[derive(Clone, Debug, Deserialize)]
pub struct DeclaredFile {
    #[serde(default)]
    pub name: String,
    pub chunks: Vec<Sha1Hash>,
}

pub type DeclaredFiles = BTreeMap<Sha1Hash, DeclaredFile>;

/// Answers the state of each declared debug file, and lets those be made of which all chunks are there.
///
/// # Errors
/// The body is not valid or too large, the key is for another app, or a server fails.
pub async fn assemble_files(
    storage: &Storage,
    assembler: &Assembler,
    access: &Access<SymbolsWrite>,
    project: String,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let files = read_declaration(&storage.capacity, access, headers, body, parse_files).await?;
    let answers = declare_files(storage, assembler, access, project, files, FileUse::DebugFile).await?;
    serde_json::to_value(answers).map_err(Problem::internal)
}

/// Returns the state of each file of a project, and lets those be made of which all chunks are there.
///
/// # Errors
/// The key is for another app, too many files wait, or a server fails.
pub async fn declare_files(
    storage: &Storage,
    assembler: &Assembler,
    access: &Access<SymbolsWrite>,
    project: String,
    files: DeclaredFiles,
    file_use: FileUse,
) -> Result<BTreeMap<Sha1Hash, FileAnswer>, Problem> {
    check_texts(Kind::InvalidParameter, 255, [("project", Some(project.as_str()))])?;
    let app = access.restrict_app(Some(project))?.unwrap_or_default();
    let mut tx = storage.tenant(access.tenant()).await?;
    let hashes: Vec<Sha1Hash> = files.keys().copied().collect();
    let now = tx.now();
    let known = store::find_files(&mut tx, &app, &hashes).await?;
    let mut answers: BTreeMap<Sha1Hash, FileAnswer> = known
        .iter()
        .filter_map(|file| Some((Sha1Hash::from_bytes(&file.sha1)?, FileAnswer::from_file(file, now)?)))
        .collect();
    let wanted: DeclaredFiles = files.into_iter().filter(|(sha1, _)| !answers.contains_key(sha1)).collect();
    let chunks: BTreeSet<Sha1Hash> = wanted.values().flat_map(|file| file.chunks.iter().copied()).collect();
    let chunks: Vec<Sha1Hash> = chunks.into_iter().collect();
    let present =
        if chunks.is_empty() { HashMap::new() } else { store::find_chunks(&mut tx, &chunks).await? };
    let limits = file_limits(&storage.capacity, access);
    let mut complete = Vec::new();
    for (sha1, file) in wanted {
        let answer = decide_state(&file, &present, limits.file_bytes);
        if answer == FileAnswer::in_progress() {
            let name = storable_name(&file.name);
            complete.push(NewChunkedFile { sha1, name, chunks: file.chunks, file_use });
        }
        answers.insert(sha1, answer);
    }
    if !complete.is_empty() {
        check_waiting(store::count_waiting(&mut tx).await?)?;
        store::add_files(&mut tx, &app, &complete, limits).await?;
        tx.commit().await?;
        assembler.notify_due();
    }
    Ok(answers)
}

/// Returns the state of a file that nothing is known of.
fn decide_state(file: &DeclaredFile, present: &HashMap<Sha1Hash, StoredChunk>, limit: u64) -> FileAnswer {
    if file.chunks.is_empty() {
        return FileAnswer::with_error("the file is empty");
    }
    let mut size: u64 = 0;
    let mut missing = BTreeSet::new();
    let mut expiring = BTreeSet::new();
    for sha1 in &file.chunks {
        match present.get(sha1) {
            None => drop(missing.insert(*sha1)),
            Some(chunk) => {
                size = size.saturating_add(chunk.size);
                if !chunk.is_lasting {
                    expiring.insert(*sha1);
                }
            }
        }
    }
    if size > limit {
        return FileAnswer::with_error(format!(
            "the file has {size} bytes or more, and the limit is {limit} bytes"
        ));
    }
    if missing.is_empty() {
        return FileAnswer::in_progress();
    }
    missing.append(&mut expiring);
    FileAnswer::not_found(missing.into_iter().collect())
}

fn file_limits(capacity: &Capacity, access: &Access<SymbolsWrite>) -> FileLimits {
    let quota = UploadQuota::from_access(capacity, access);
    FileLimits { is_for_one_app: quota.one_app, file_bytes: quota.bytes, symbol_bytes: quota.symbol_bytes }
}

fn check_waiting(waiting: u64) -> Result<(), Problem> {
    if waiting < MAX_WAITING_FILES {
        return Ok(());
    }
    let detail = format!(
        "{waiting} files of the tenant wait to be made of their chunks, and the limit is {MAX_WAITING_FILES}"
    );
    Err(Problem::new(Kind::RateLimited, detail).retry_after(WAITING_RETRY_SECONDS))
}

fn parse_files(body: &[u8]) -> Result<DeclaredFiles, Problem> {
    let files: DeclaredFiles =
        serde_json::from_slice(body).map_err(|error| Problem::new(Kind::InvalidBody, error.to_string()))?;
    check_counts(&files)?;
    Ok(files)
}

/// Checks the number of declared files and of their chunks.
///
/// # Errors
/// [`Kind::TooLarge`].
pub fn check_counts(files: &DeclaredFiles) -> Result<(), Problem> {
    let chunks: usize = files.values().map(|file| file.chunks.len()).sum();
    if files.len() > MAX_FILES || chunks > MAX_CHUNKS {
        let detail = format!(
            "{} files of {chunks} chunks: a request may have {MAX_FILES} files of {MAX_CHUNKS} chunks; upload fewer files at once",
            files.len()
        );
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_store::Uuid;

    fn hash(byte: u8) -> Sha1Hash {
        Sha1Hash([byte; 20])
    }

    fn declared(chunks: &[u8]) -> DeclaredFile {
        DeclaredFile { name: "Shop".to_owned(), chunks: chunks.iter().map(|byte| hash(*byte)).collect() }
    }

    fn present(chunks: &[(u8, bool)]) -> HashMap<Sha1Hash, StoredChunk> {
        let chunk = |is_lasting| StoredChunk { object_id: Uuid::nil(), size: 10, is_lasting };
        chunks.iter().map(|(byte, is_lasting)| (hash(*byte), chunk(*is_lasting))).collect()
    }

    #[test]
    fn a_file_is_made_once_no_chunk_is_missing() {
        let all = present(&[(1, true), (2, true)]);
        assert_eq!(decide_state(&declared(&[1, 2, 1]), &all, 30), FileAnswer::in_progress());
        assert_eq!(decide_state(&declared(&[1, 3, 2, 3]), &all, 30), FileAnswer::not_found(vec![hash(3)]));
        assert_eq!(decide_state(&declared(&[]), &all, 30), FileAnswer::with_error("the file is empty"));
        let too_large = FileAnswer::with_error("the file has 30 bytes or more, and the limit is 29 bytes");
        assert_eq!(decide_state(&declared(&[1, 2, 1]), &all, 29), too_large);
    }

    #[test]
    fn a_chunk_that_expires_soon_is_used_at_once_and_else_sent_again() {
        let expiring = present(&[(1, false), (2, true)]);
        assert_eq!(decide_state(&declared(&[1, 2]), &expiring, 30), FileAnswer::in_progress());
        assert_eq!(
            decide_state(&declared(&[1, 2, 3]), &expiring, 30),
            FileAnswer::not_found(vec![hash(1), hash(3)])
        );
    }

    #[test]
    fn a_request_is_read_within_its_limits() {
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
        let body = format!(r#"{{"{sha1}":{{"name":"crash","debug_id":"x","chunks":["{sha1}"]}}}}"#);
        let files = parse_files(body.as_bytes()).unwrap();
        assert_eq!(files[&sha1.parse().unwrap()].name, "crash");
        for wrong in ["", "[]", "{\"x\":{\"chunks\":[]}}", &format!(r#"{{"{sha1}":{{}}}}"#)] {
            assert_eq!(parse_files(wrong.as_bytes()).unwrap_err().kind(), Kind::InvalidBody, "{wrong}");
        }
        let many: Vec<String> = (0..=MAX_FILES).map(|n| format!(r#""{n:040x}":{{"chunks":[]}}"#)).collect();
        let problem = parse_files(format!("{{{}}}", many.join(",")).as_bytes()).unwrap_err();
        assert_eq!(problem.kind(), Kind::TooLarge);
    }
}
