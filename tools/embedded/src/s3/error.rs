//! The errors of S3, with their codes and status codes.

use super::body::{Body, S3Answer};
use super::xml;
use hyper::header::{CONTENT_RANGE, CONTENT_TYPE};
use hyper::{Response, StatusCode};

/// Why a request is refused or failed. The names of the variants are the codes of S3, which clients read.
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
    fn status(&self) -> StatusCode {
        match self {
            S3Error::AccessDenied(_)
            | S3Error::InvalidAccessKeyId
            | S3Error::RequestTimeTooSkewed
            | S3Error::SignatureDoesNotMatch => StatusCode::FORBIDDEN,
            S3Error::NoSuchBucket | S3Error::NoSuchKey | S3Error::NoSuchUpload => StatusCode::NOT_FOUND,
            S3Error::InternalError(_) => StatusCode::INTERNAL_SERVER_ERROR,
            S3Error::InvalidRange(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            S3Error::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            S3Error::MissingContentLength => StatusCode::LENGTH_REQUIRED,
            S3Error::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            S3Error::NotModified => StatusCode::NOT_MODIFIED,
            S3Error::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the answer with the error in its body. An answer to HEAD and one of 304 have no body.
    pub(super) fn into_answer(self, with_body: bool) -> S3Answer {
        let status = self.status();
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = status;
        if let S3Error::InvalidRange(size) = self
            && let Ok(range) = format!("bytes */{size}").parse()
        {
            answer.headers_mut().insert(CONTENT_RANGE, range);
        }
        if with_body && status != StatusCode::NOT_MODIFIED {
            let (debug, message) = (format!("{self:?}"), xml::escape(&self.to_string()));
            let code = debug.split('(').next().unwrap_or_default();
            let text = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            answer.headers_mut().insert(CONTENT_TYPE, xml::CONTENT_TYPE);
            *answer.body_mut() = Body::from_text(xml::document(&text));
        }
        answer
    }
}
