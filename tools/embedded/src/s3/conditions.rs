//! `If-Match` and `If-None-Match`.

use super::error::S3Error;
use hyper::HeaderMap;
use hyper::header::{IF_MATCH, IF_NONE_MATCH};

/// The conditions of a request on the object that is there.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    /// Without quotes, as the ETags of objects.
    if_match: Option<String>,
    if_none_match: Option<String>,
}

impl Conditions {
    pub(super) fn read(headers: &HeaderMap) -> Conditions {
        let etag = |name| {
            let text: &str = headers.get(name)?.to_str().ok()?;
            Some(text.trim().trim_matches('"').to_owned())
        };
        Conditions { if_match: etag(IF_MATCH), if_none_match: etag(IF_NONE_MATCH) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// Checks the conditions of a read.
    pub(super) fn check_read(&self, etag: &str) -> Result<(), S3Error> {
        if self.if_match.as_deref().is_some_and(|wanted| !matches(wanted, etag)) {
            return Err(S3Error::PreconditionFailed);
        }
        match &self.if_none_match {
            Some(known) if matches(known, etag) => Err(S3Error::NotModified),
            _ => Ok(()),
        }
    }

    /// Checks the conditions of a write, on the ETag of the former object. S3 answers 404 if the object to be replaced is
    /// missing.
    pub(super) fn check_write(&self, former: Option<&str>) -> Result<(), S3Error> {
        match (&self.if_match, former) {
            (Some(_), None) => return Err(S3Error::NoSuchKey),
            (Some(wanted), Some(etag)) if !matches(wanted, etag) => return Err(S3Error::PreconditionFailed),
            _ => {}
        }
        match (&self.if_none_match, former) {
            (Some(known), Some(etag)) if matches(known, etag) => Err(S3Error::PreconditionFailed),
            _ => Ok(()),
        }
    }
}

fn matches(condition: &str, etag: &str) -> bool {
    condition == "*" || condition == etag
}
