//! Finds the operation of a request.

use super::body::{Body, S3Answer};
use super::body_headers::BodyHeaders;
use super::error::S3Error;
use super::folder::Folder;
use super::objects::{self, ObjectPlace};
use super::request::{S3Target, UrlQuery};
use super::signature::{AccessKeys, SignedBody};
use super::{listing, multipart};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{Clock, SystemClock};

/// The most bytes of a body in XML. One of 10,000 parts with checksums is shorter.
const DOCUMENT_BYTES_LIMIT: usize = 4 << 20;
/// The most bytes of the body of a refused request that are read, so that the client reads the answer.
const REFUSED_BYTES_LIMIT: u64 = 1 << 20;
/// How long that may take.
const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// The headers of S3 that this endpoint knows. Each other one asks for something that it would not do.
const KNOWN_HEADERS: [&str; 6] = [
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-trailer",
    "x-amz-user-agent",
];

pub(super) struct S3Service {
    pub(super) folder: Arc<Folder>,
    pub(super) keys: AccessKeys,
}

pub(super) async fn answer(service: Arc<S3Service>, request: Request<Incoming>) -> S3Answer {
    let (parts, mut body) = request.into_parts();
    match service.handle(&parts, &mut body).await {
        Ok(answer) => answer,
        Err(error) => {
            if body.size_hint().upper().is_some_and(|bytes| bytes <= REFUSED_BYTES_LIMIT) {
                // A client that writes more, or slowly, reads no answer.
                let _ = tokio::time::timeout(REFUSED_BODY_TIMEOUT, body.collect()).await;
            }
            error.into_answer(parts.method != Method::HEAD)
        }
    }
}

impl S3Service {
    async fn handle(&self, request: &Parts, body: &mut Incoming) -> Result<S3Answer, S3Error> {
        let signed = self.keys.verify(request, SystemClock.now())?;
        let S3Target { bucket, key, query } = S3Target::read(&request.uri)?;
        check_headers(request)?;
        if bucket.is_empty() {
            return Err(S3Error::NotImplemented("operations without a bucket".to_owned()));
        }
        let bucket = self.folder.find_bucket(&bucket)?;
        let Some(key) = key else {
            read_document(body, signed, 0).await?;
            return self.handle_bucket(&request.method, bucket, &query).await;
        };
        let place = ObjectPlace { folder: Arc::clone(&self.folder), bucket, key };
        let (headers, is_part) = (&request.headers, query.find("uploadId").is_some());
        if request.method == Method::PUT {
            let body_headers = BodyHeaders::read(headers, signed)?;
            if is_part {
                query.allow(&["partNumber", "uploadId"])?;
                return multipart::put_part(place, &query, body_headers, body).await;
            }
            query.allow(&[])?;
            return objects::put_object(place, headers, body_headers, body).await;
        }
        let document = read_document(body, signed, DOCUMENT_BYTES_LIMIT).await?;
        match request.method {
            Method::GET | Method::HEAD => {
                query.allow(&[])?;
                objects::read_object(place, headers, request.method == Method::GET).await
            }
            Method::POST if query.find("uploads").is_some() => {
                query.allow(&["uploads"])?;
                multipart::create_upload(place, headers).await
            }
            Method::POST => {
                query.allow(&["uploadId"])?;
                multipart::complete_upload(place, &query, headers, document).await
            }
            Method::DELETE if is_part => {
                query.allow(&["uploadId"])?;
                multipart::abort_upload(place, &query).await
            }
            Method::DELETE => {
                query.allow(&[])?;
                objects::delete_object(place).await
            }
            _ => Err(S3Error::MethodNotAllowed),
        }
    }

    async fn handle_bucket(
        &self,
        method: &Method,
        bucket: PathBuf,
        query: &UrlQuery,
    ) -> Result<S3Answer, S3Error> {
        match *method {
            Method::HEAD => {
                query.allow(&[])?;
                Ok(Response::new(Body::empty()))
            }
            Method::GET if query.find("list-type") == Some("2") => {
                let names =
                    ["list-type", "prefix", "delimiter", "start-after", "continuation-token", "max-keys"];
                query.allow(&[&names[..], &["encoding-type", "fetch-owner"]].concat())?;
                listing::list_objects(Arc::clone(&self.folder), bucket, query).await
            }
            Method::GET | Method::PUT | Method::POST | Method::DELETE => {
                Err(S3Error::NotImplemented("this operation of buckets".to_owned()))
            }
            _ => Err(S3Error::MethodNotAllowed),
        }
    }
}

fn check_headers(request: &Parts) -> Result<(), S3Error> {
    let is_known = |name: &&str| {
        !name.starts_with("x-amz-")
            || name.starts_with("x-amz-meta-")
            || name.starts_with("x-amz-checksum-")
            || KNOWN_HEADERS.contains(name)
    };
    match request.headers.keys().map(hyper::header::HeaderName::as_str).find(|name| !is_known(name)) {
        Some(other) => Err(S3Error::NotImplemented(format!("the header {other}"))),
        None => Ok(()),
    }
}

/// Reads a body that is not of an object, and checks its hash.
async fn read_document(body: &mut Incoming, signed: SignedBody, limit: usize) -> Result<Bytes, S3Error> {
    let document = if body.is_end_stream() {
        Bytes::new()
    } else {
        let read = Limited::new(body, limit).collect().await;
        read.map_err(|_| S3Error::InvalidRequest("the body is too long or incomplete"))?.to_bytes()
    };
    match signed {
        SignedBody::Unsigned => Ok(document),
        SignedBody::Sha256(hash) if hash == <[u8; 32]>::from(Sha256::digest(&document)) => Ok(document),
        SignedBody::Sha256(_) => Err(S3Error::XAmzContentSHA256Mismatch),
        SignedBody::Chunks(_) => {
            Err(S3Error::NotImplemented("chunks of other bodies than objects".to_owned()))
        }
    }
}
