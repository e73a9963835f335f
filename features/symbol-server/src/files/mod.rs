//! The bytes of a file of symbols: found for a key, streamed from object storage, and written down in the audit log.

mod conditions;
mod rates;

pub use rates::DownloadRates;

use crate::SymbolServer;
use crate::store::{self, SymbolFile};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use conditions::AskedBytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Kind, Permit, Problem, Reservation, SymbolsDownload, reserve_bytes,
};
use unslide_artifacts::keys::{ObjectKey, for_object};
use unslide_model::DebugId;
use unslide_store::audit;

/// Bytes that are fetched at a time.
const PIECE_BYTES: u64 = 2 << 20;
/// Kinds of files that hold debug information.
pub const DSYM_KINDS: &[&str] = &["dsym"];
/// Kinds of files that a device runs.
pub const EXECUTABLE_KINDS: &[&str] = &["executable", "dylib", "bundle", "kext", "dylinker"];

/// Finds the file of a debug id for a key and records the download. The key's tenant, and its app if it has one, decide
/// which files there are.
///
/// # Errors
/// [`Kind::NotFound`], [`Kind::RateLimited`], or the database fails.
pub async fn find_for_download(
    storage: &Storage,
    server: &SymbolServer,
    access: &Access<SymbolsDownload>,
    debug_id: &DebugId,
    kinds: &[&str],
) -> Result<SymbolFile, Problem> {
    let tenant = access.tenant();
    server.rates.take_download(storage.clock.monotonic_micros(), tenant)?;
    let mut tx = storage.tenant(tenant).await?;
    let file = store::find_file(&mut tx, debug_id, kinds, access.only_app()).await?;
    let Some(file) = file else { return Err(no_file()) };
    let actor = access.principal.key_id.to_string();
    audit::append_once_an_hour(&mut tx, &actor, "symbols.download", &debug_id.to_string()).await?;
    tx.commit().await?;
    Ok(file)
}

fn no_file() -> Problem {
    Problem::new(Kind::NotFound, "there is no such file for this debug id")
}

/// Answers with a file or a range of it.
///
/// # Errors
/// The file is gone, the tenant has too many downloads, or object storage does not answer.
pub async fn answer_file(
    storage: &Arc<Storage>,
    access: &Access<SymbolsDownload>,
    file: &SymbolFile,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let etag = format!("\"{}\"", file.content_hash);
    let tag = HeaderValue::from_str(&etag).map_err(Problem::internal)?;
    if conditions::is_unchanged(headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let asked = conditions::asked_bytes(headers, &etag, file.size);
    let range = asked.to_range(file.size);
    let body = open_body(storage, access, file, range.clone()).await?;
    let mut response = Response::new(body);
    let answered = response.headers_mut();
    let length = range.end - range.start;
    answered.insert(header::CONTENT_LENGTH, length.into());
    answered.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    answered.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    answered.insert(header::ETAG, tag);
    // A browser must not show as a page what a tenant sent.
    let sandbox = HeaderValue::from_static("sandbox; default-src 'none'");
    answered.insert(header::CONTENT_SECURITY_POLICY, sandbox);
    let disposition = format!("attachment; filename=\"{}\"", to_header_text(&file.name));
    let disposition = HeaderValue::from_str(&disposition).map_err(Problem::internal)?;
    answered.insert(header::CONTENT_DISPOSITION, disposition);
    if let AskedBytes::Part(range) = asked {
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, file.size);
        answered.insert(header::CONTENT_RANGE, HeaderValue::from_str(&text).map_err(Problem::internal)?);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// Returns a name with the characters that a header can hold.
pub fn to_header_text(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '_' };
    name.chars().map(kept).collect()
}

/// The rest of a file that is being sent, with its permits.
struct Sending {
    storage: Arc<Storage>,
    key: ObjectKey,
    range: Range<u64>,
    _permit: Permit,
    _reservation: Reservation,
}

impl Sending {
    /// Fetches the next piece. Returns None at the end.
    async fn next_piece(mut self) -> Result<Option<(Bytes, Sending)>, io::Error> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let end = self.range.end.min(self.range.start + PIECE_BYTES);
        let piece = self.storage.objects.get_range(&self.key, self.range.start..end).await;
        let piece = piece.map_err(io::Error::other)?.ok_or_else(|| io::Error::other("the file is gone"))?;
        self.range.start = end;
        Ok(Some((piece, self)))
    }
}

/// Opens the bytes of a range. The first piece is fetched before the answer begins, so that a file that is gone and an
/// outage are answered as such.
async fn open_body(
    storage: &Arc<Storage>,
    access: &Access<SymbolsDownload>,
    file: &SymbolFile,
    range: Range<u64>,
) -> Result<Body, Problem> {
    if range.is_empty() {
        return Ok(Body::empty());
    }
    let tenant = access.tenant();
    let permit = storage.capacity.permits.streams.try_acquire(tenant, 1)?;
    let reservation =
        reserve_bytes(&storage.capacity.permits, tenant, PIECE_BYTES.min(range.end - range.start))?;
    let key = for_object(tenant.scope(file.content_hash));
    let end = range.end.min(range.start + PIECE_BYTES);
    let first = storage.objects.get_range(&key, range.start..end).await?.ok_or_else(no_file)?;
    let rest = Sending {
        storage: storage.clone(),
        key,
        range: end..range.end,
        _permit: permit,
        _reservation: reservation,
    };
    let state = (Some(first), rest);
    let pieces = stream::try_unfold(state, |(first, rest)| async move {
        match first {
            Some(first) => Ok(Some((first, (None, rest)))),
            None => Ok::<_, io::Error>(rest.next_piece().await?.map(|(piece, rest)| (piece, (None, rest)))),
        }
    });
    Ok(Body::from_stream(pieces))
}
