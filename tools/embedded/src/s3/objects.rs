//! Puts, reads and deletes objects.

use super::body::{Body, S3Answer};
use super::body_headers::BodyHeaders;
use super::error::S3Error;
use super::folder::{Facts, Folder, Object};
use super::names;
use super::receive::receive_body;
use super::request::Conditions;
use super::run_blocking;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED,
    RANGE,
};
use hyper::{HeaderMap, Response, StatusCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The beginning of the names of headers with user metadata.
const USER_METADATA: &str = "x-amz-meta-";
/// The most bytes of user metadata, as of S3.
const USER_METADATA_BYTES_LIMIT: usize = 2 << 10;
/// Other headers that are stored with an object.
const STORED_HEADERS: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];

/// The object that a request names.
#[derive(Clone)]
pub(super) struct ObjectPlace {
    pub(super) folder: Arc<Folder>,
    pub(super) bucket: PathBuf,
    pub(super) key: String,
}

/// Returns the headers that are stored with an object.
///
/// # Errors
/// They are too long or not ASCII.
pub(super) fn read_stored_headers(headers: &HeaderMap) -> Result<Vec<(String, String)>, S3Error> {
    let (mut stored, mut user_bytes) = (Vec::new(), 0);
    for (name, value) in headers {
        let name = name.as_str();
        if !name.starts_with(USER_METADATA) && !STORED_HEADERS.contains(&name) {
            continue;
        }
        let value = value.to_str().map_err(|_| S3Error::InvalidArgument("metadata is ASCII"))?;
        if let Some(name) = name.strip_prefix(USER_METADATA) {
            user_bytes += name.len() + value.len();
        }
        // The encoding of the request is none of the object.
        let codings = value.split(',').map(str::trim).filter(|coding| *coding != "aws-chunked");
        let value =
            if name == "content-encoding" { codings.collect::<Vec<_>>().join(",") } else { value.to_owned() };
        if !value.is_empty() {
            stored.push((name.to_owned(), value));
        }
    }
    if user_bytes > USER_METADATA_BYTES_LIMIT { Err(S3Error::MetadataTooLarge) } else { Ok(stored) }
}

/// Returns a header's value of an ETag.
pub(super) fn quote_etag(etag: &str) -> Result<HeaderValue, S3Error> {
    HeaderValue::from_str(&format!("\"{etag}\"")).map_err(|error| std::io::Error::other(error).into())
}

pub(super) async fn put_object(
    place: ObjectPlace,
    headers: &HeaderMap,
    body_headers: BodyHeaders,
    body: &mut Incoming,
) -> Result<S3Answer, S3Error> {
    let (conditions, stored) = (Conditions::read(headers), read_stored_headers(headers)?);
    let folder = Arc::clone(&place.folder);
    let etag = receive_body(body, folder, body_headers, move |received| {
        let facts = Facts { etag: received.md5, headers: stored };
        place.folder.store_object(&received.file, &place.bucket, &place.key, &facts, &conditions)?;
        Ok(facts.etag)
    });
    let mut answer = Response::new(Body::empty());
    answer.headers_mut().insert(ETAG, quote_etag(&etag.await?)?);
    Ok(answer)
}

/// Answers GET, or HEAD without a body.
pub(super) async fn read_object(
    place: ObjectPlace,
    headers: &HeaderMap,
    with_body: bool,
) -> Result<S3Answer, S3Error> {
    let conditions = Conditions::read(headers);
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok()).map(str::to_owned);
    run_blocking(move || {
        let object = place.folder.open_object(&names::object_path(&place.bucket, &place.key))?;
        let object = object.ok_or(S3Error::NoSuchKey)?;
        conditions.check_read(&object.facts.etag)?;
        answer_object(object, range.as_deref(), with_body)
    })
    .await
}

fn answer_object(object: Object, range: Option<&str>, with_body: bool) -> Result<S3Answer, S3Error> {
    let mut answer = Response::new(Body::empty());
    let (mut start, mut end) = (0, object.size);
    let wanted = range.and_then(|range| read_range(range, object.size));
    if let Some(wanted) = wanted {
        (start, end) = wanted.ok_or(S3Error::InvalidRange(object.size))?;
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("binary/octet-stream"));
    for (name, value) in &object.facts.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(object.modified.unsigned_abs());
    let texts =
        [(LAST_MODIFIED, httpdate::fmt_http_date(modified)), (CONTENT_LENGTH, (end - start).to_string())];
    let of_range = (CONTENT_RANGE, format!("bytes {start}-{}/{}", end.saturating_sub(1), object.size));
    for (name, text) in texts.into_iter().chain(wanted.map(|_| of_range)) {
        headers.insert(name, HeaderValue::try_from(text).map_err(std::io::Error::other)?);
    }
    headers.insert(ETAG, quote_etag(&object.facts.etag)?);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if with_body {
        *answer.body_mut() = Body::from_file(object.file, start, end)?;
    }
    Ok(answer)
}

/// Returns the first byte of a range and the byte behind its last one, or `Some(None)` if the range begins behind the object.
/// A header with several ranges, or one that is malformed, asks for the whole object.
fn read_range(header: &str, size: u64) -> Option<Option<(u64, u64)>> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (start, end) = match (first.is_empty(), last.is_empty()) {
        (true, _) => (size.saturating_sub(number(last)?), if number(last)? == 0 { 0 } else { size }),
        (false, true) => (number(first)?, size),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, size.min(last.saturating_add(1)))
        }
    };
    Some((start < end).then_some((start, end)))
}

pub(super) async fn delete_object(place: ObjectPlace) -> Result<S3Answer, S3Error> {
    run_blocking(move || Ok(place.folder.delete_object(&place.bucket, &place.key)?)).await?;
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_within_the_object() {
        for (header, range) in [
            ("bytes=0-0", Some(Some((0, 1)))),
            ("bytes=2-4", Some(Some((2, 5)))),
            ("bytes=8-100", Some(Some((8, 10)))),
            ("bytes=3-", Some(Some((3, 10)))),
            ("bytes=-3", Some(Some((7, 10)))),
            ("bytes=-100", Some(Some((0, 10)))),
            ("bytes=0-18446744073709551615", Some(Some((0, 10)))),
            ("bytes=10-", Some(None)),
            ("bytes=10-12", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=3-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=a-b", None),
            ("bytes=-", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(read_range(header, 10), range, "{header}");
        }
        assert_eq!(read_range("bytes=0-1", 0), Some(None));
    }
}
