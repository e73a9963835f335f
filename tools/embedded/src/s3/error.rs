//! The errors of S3, with their codes and status codes.

use super::body::{Answer, Body};
use super::xml;
use hyper::header::{CONTENT_RANGE, CONTENT_TYPE};
use hyper::{Response, StatusCode};

/// Why a request is refused or failed. The names are the codes of S3.
#[derive(Debug, thiserror::Error)]
pub(super) enum S3Error {
    #[error("Access denied: {0}")]
    AccessDenied(&'static str),
    #[error("The authorization header is not one of AWS Signature Version 4")]
    AuthorizationHeaderMalformed,
    #[error("The body is not the one of its checksum or Content-MD5")]
    BadDigest,
    #[error("The body is larger than an object may be")]
    EntityTooLarge,
    #[error("A part other than the last is smaller than 5 MiB")]
    EntityTooSmall,
    #[error("The body ended early, is too long, or its chunks are malformed")]
    IncompleteBody,
    #[error("The disk failed: {0}")]
    InternalError(#[from] std::io::Error),
    #[error("There is no such access key")]
    InvalidAccessKeyId,
    #[error("Invalid argument: {0}")]
    InvalidArgument(&'static str),
    #[error("A part is missing, or its ETag is another one")]
    InvalidPart,
    #[error("The numbers of the parts do not rise")]
    InvalidPartOrder,
    #[error("The range begins behind the last of {0} bytes")]
    InvalidRange(u64),
    #[error("Invalid request: {0}")]
    InvalidRequest(&'static str),
    #[error("A key has at most 1,024 bytes")]
    KeyTooLongError,
    #[error("The body is not the XML that the operation takes")]
    MalformedXML,
    #[error("User metadata has at most 2 KB")]
    MetadataTooLarge,
    #[error("The method is not allowed against this resource")]
    MethodNotAllowed,
    #[error("The length of the body is missing")]
    MissingContentLength,
    #[error("There is no such bucket")]
    NoSuchBucket,
    #[error("There is no such key")]
    NoSuchKey,
    #[error("There is no such upload; it may have been completed or aborted")]
    NoSuchUpload,
    #[error("This endpoint does not implement {0}")]
    NotImplemented(String),
    #[error("The object is that of If-None-Match")]
    NotModified,
    #[error("A condition of the request does not hold")]
    PreconditionFailed,
    #[error("The time of the request is more than 15 minutes from that of the server")]
    RequestTimeTooSkewed,
    #[error("The signature is not the one of this request and this access key")]
    SignatureDoesNotMatch,
    #[error("The body is not the one of x-amz-content-sha256")]
    XAmzContentSHA256Mismatch,
}

impl S3Error {
    fn describe(&self) -> (StatusCode, &'static str) {
        match self {
            S3Error::AccessDenied(_) => (StatusCode::FORBIDDEN, "AccessDenied"),
            S3Error::AuthorizationHeaderMalformed => {
                (StatusCode::BAD_REQUEST, "AuthorizationHeaderMalformed")
            }
            S3Error::BadDigest => (StatusCode::BAD_REQUEST, "BadDigest"),
            S3Error::EntityTooLarge => (StatusCode::BAD_REQUEST, "EntityTooLarge"),
            S3Error::EntityTooSmall => (StatusCode::BAD_REQUEST, "EntityTooSmall"),
            S3Error::IncompleteBody => (StatusCode::BAD_REQUEST, "IncompleteBody"),
            S3Error::InternalError(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            S3Error::InvalidAccessKeyId => (StatusCode::FORBIDDEN, "InvalidAccessKeyId"),
            S3Error::InvalidArgument(_) => (StatusCode::BAD_REQUEST, "InvalidArgument"),
            S3Error::InvalidPart => (StatusCode::BAD_REQUEST, "InvalidPart"),
            S3Error::InvalidPartOrder => (StatusCode::BAD_REQUEST, "InvalidPartOrder"),
            S3Error::InvalidRange(_) => (StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange"),
            S3Error::InvalidRequest(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
            S3Error::KeyTooLongError => (StatusCode::BAD_REQUEST, "KeyTooLongError"),
            S3Error::MalformedXML => (StatusCode::BAD_REQUEST, "MalformedXML"),
            S3Error::MetadataTooLarge => (StatusCode::BAD_REQUEST, "MetadataTooLarge"),
            S3Error::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            S3Error::MissingContentLength => (StatusCode::LENGTH_REQUIRED, "MissingContentLength"),
            S3Error::NoSuchBucket => (StatusCode::NOT_FOUND, "NoSuchBucket"),
            S3Error::NoSuchKey => (StatusCode::NOT_FOUND, "NoSuchKey"),
            S3Error::NoSuchUpload => (StatusCode::NOT_FOUND, "NoSuchUpload"),
            S3Error::NotImplemented(_) => (StatusCode::NOT_IMPLEMENTED, "NotImplemented"),
            S3Error::NotModified => (StatusCode::NOT_MODIFIED, "NotModified"),
            S3Error::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, "PreconditionFailed"),
            S3Error::RequestTimeTooSkewed => (StatusCode::FORBIDDEN, "RequestTimeTooSkewed"),
            S3Error::SignatureDoesNotMatch => (StatusCode::FORBIDDEN, "SignatureDoesNotMatch"),
            S3Error::XAmzContentSHA256Mismatch => (StatusCode::BAD_REQUEST, "XAmzContentSHA256Mismatch"),
        }
    }

    /// Returns the answer with the error in its body. An answer to HEAD and one of 304 have no body.
    pub(super) fn into_answer(self, with_body: bool) -> Answer {
        let (status, code) = self.describe();
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = status;
        if let S3Error::InvalidRange(size) = self
            && let Ok(range) = format!("bytes */{size}").parse()
        {
            answer.headers_mut().insert(CONTENT_RANGE, range);
        }
        if with_body && status != StatusCode::NOT_MODIFIED {
            let message = xml::escape(&self.to_string());
            let text = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            answer.headers_mut().insert(CONTENT_TYPE, xml::CONTENT_TYPE);
            *answer.body_mut() = Body::from_text(xml::document(&text));
        }
        answer
    }
}
