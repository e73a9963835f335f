//! Uploads in parts.
//!
//! An upload is a folder in `.uploads`, named after its id. The file `upload` in it has the object's bucket, key and headers;
//! each part is a file with its number as name.

use super::body::{Body, S3Answer};
use super::body_headers::BodyHeaders;
use super::error::S3Error;
use super::folder::{Facts, Folder, Object, is_absent};
use super::objects::{ObjectPlace, quote_etag, read_stored_headers};
use super::receive::receive_body;
use super::request::{Conditions, UrlQuery};
use super::run_blocking;
use super::signature::{SIGNED_QUERY, hex, read_hex};
use super::xml::{self, NamedPart};
use crate::random::random_text;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, ETAG};
use hyper::{HeaderMap, Response, StatusCode};
use md5::{Digest, Md5};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The file in the folder of an upload that describes the upload.
const UPLOAD_FILE: &str = "upload";
/// The highest number of a part, and the least bytes of each part but the last, as of S3.
const PART_NUMBER_MAX: u32 = 10_000;
const PART_BYTES_MIN: u64 = 5 << 20;
/// The digits of an id.
const ID_BYTES: usize = 32;

/// An upload that was begun.
struct Upload {
    path: PathBuf,
    headers: Vec<(String, String)>,
}

/// Returns the first line of the file of an upload.
fn describe(place: &ObjectPlace) -> String {
    let bucket = place.bucket.file_name().unwrap_or_default().to_string_lossy();
    format!("{bucket}/{}", percent_encoding::utf8_percent_encode(&place.key, SIGNED_QUERY))
}

/// Finds the upload of an id that was begun for this object.
fn find_upload(place: &ObjectPlace, id: &str) -> Result<Upload, S3Error> {
    if id.len() != ID_BYTES || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(S3Error::NoSuchUpload);
    }
    let path = place.folder.upload_folder(id);
    let text = match fs::read_to_string(path.join(UPLOAD_FILE)) {
        Err(error) if is_absent(&error) => return Err(S3Error::NoSuchUpload),
        read => read?,
    };
    let mut lines = text.lines();
    if lines.next() != Some(describe(place).as_str()) {
        return Err(S3Error::NoSuchUpload);
    }
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(Upload { path, headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() })
}

/// Deletes an upload with its parts.
fn delete_upload(folder: &Folder, upload: &Upload) -> io::Result<()> {
    let doomed = folder.temporary_path()?;
    match fs::rename(&upload.path, &doomed) {
        Err(error) if is_absent(&error) => return Ok(()),
        renamed => renamed?,
    }
    for file in fs::read_dir(&doomed)? {
        folder.delete_file(&file?.path())?;
    }
    fs::remove_dir(doomed)
}

fn answer_xml(root: &str) -> S3Answer {
    let mut answer = Response::new(Body::from_text(xml::document(root)));
    answer.headers_mut().insert(CONTENT_TYPE, xml::CONTENT_TYPE);
    answer
}

pub(super) async fn create_upload(place: ObjectPlace, headers: &HeaderMap) -> Result<S3Answer, S3Error> {
    let stored = read_stored_headers(headers)?;
    let id = random_text().map_err(io::Error::other)?;
    let bucket = place.bucket.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let key = xml::escape(&place.key);
    let answer = format!(
        "<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{key}</Key><UploadId>{id}</UploadId>\
         </InitiateMultipartUploadResult>"
    );
    run_blocking(move || {
        let lines: String = stored.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
        let path = place.folder.upload_folder(&id);
        fs::create_dir(&path)?;
        Ok(fs::write(path.join(UPLOAD_FILE), describe(&place) + &lines)?)
    })
    .await?;
    Ok(answer_xml(&answer))
}

pub(super) async fn put_part(
    place: ObjectPlace,
    query: &UrlQuery,
    body_headers: BodyHeaders,
    body: &mut Incoming,
) -> Result<S3Answer, S3Error> {
    let number: Option<u32> = query.find("partNumber").and_then(|number| number.parse().ok());
    let number = number.filter(|number| (1..=PART_NUMBER_MAX).contains(number));
    let number = number.ok_or(S3Error::InvalidArgument("partNumber is from 1 to 10,000"))?;
    let id = query.find("uploadId").unwrap_or_default().to_owned();
    let folder = Arc::clone(&place.folder);
    let etag = receive_body(body, folder, body_headers, move |received| {
        let upload = find_upload(&place, &id)?;
        let facts = Facts { etag: received.md5, headers: Vec::new() };
        let path = upload.path.join(number.to_string());
        // The upload may end while its part arrives.
        let check = |_: &_| if upload.path.is_dir() { Ok(()) } else { Err(S3Error::NoSuchUpload) };
        place.folder.store(&received.file, &upload.path, &path, &facts, check)?;
        Ok(facts.etag)
    });
    let mut answer = Response::new(Body::empty());
    answer.headers_mut().insert(ETAG, quote_etag(&etag.await?)?);
    Ok(answer)
}

pub(super) async fn complete_upload(
    place: ObjectPlace,
    query: &UrlQuery,
    headers: &HeaderMap,
    document: Bytes,
) -> Result<S3Answer, S3Error> {
    let (conditions, id) = (Conditions::read(headers), query.find("uploadId").unwrap_or_default().to_owned());
    run_blocking(move || {
        let upload = find_upload(&place, &id)?;
        let named = xml::read_parts(&document).ok_or(S3Error::MalformedXML)?;
        let etag = check_parts(&place.folder, &upload, &named)?;
        let mut whole = place.folder.create_temporary()?;
        for name in &named {
            // The system copies from file to file, so that no part is in memory.
            io::copy(&mut open_part(&place.folder, &upload, name)?.file, &mut whole.file)?;
        }
        let facts = Facts { etag, headers: upload.headers.clone() };
        place.folder.store_object(&whole, &place.bucket, &place.key, &facts, &conditions)?;
        let guard = place.folder.lock_changes();
        delete_upload(&place.folder, &upload)?;
        drop(guard);
        let bucket = place.bucket.file_name().unwrap_or_default().to_string_lossy();
        Ok(answer_xml(&format!(
            "<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{}</Key><ETag>&quot;{}&quot;</ETag>\
             </CompleteMultipartUploadResult>",
            xml::escape(&place.key),
            facts.etag
        )))
    })
    .await
}

fn open_part(folder: &Folder, upload: &Upload, name: &NamedPart) -> Result<Object, S3Error> {
    let part = folder.open_object(&upload.path.join(name.number.to_string()))?;
    part.filter(|part| part.facts.etag == name.etag).ok_or(S3Error::InvalidPart)
}

/// Checks that the named parts make an object. Returns its ETag.
fn check_parts(folder: &Folder, upload: &Upload, named: &[NamedPart]) -> Result<String, S3Error> {
    if named.iter().zip(named.iter().skip(1)).any(|(part, next)| part.number >= next.number) {
        return Err(S3Error::InvalidPartOrder);
    }
    let (mut hashes, mut is_small) = (Md5::new(), false);
    for name in named {
        let part = open_part(folder, upload, name)?;
        if is_small {
            return Err(S3Error::EntityTooSmall);
        }
        is_small = part.size < PART_BYTES_MIN;
        hashes.update(read_hex(&part.facts.etag).unwrap_or_default());
    }
    let hash: [u8; 16] = hashes.finalize().into();
    Ok(format!("{}-{}", hex(&hash), named.len()))
}

pub(super) async fn abort_upload(place: ObjectPlace, query: &UrlQuery) -> Result<S3Answer, S3Error> {
    let id = query.find("uploadId").unwrap_or_default().to_owned();
    run_blocking(move || {
        let upload = find_upload(&place, &id)?;
        let _guard = place.folder.lock_changes();
        Ok(delete_upload(&place.folder, &upload)?)
    })
    .await?;
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    Ok(answer)
}
