//! What the head of a request says: bucket, key, parameters and conditions.

use super::error::S3Error;
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use hyper::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;

/// The most bytes of a key, as of S3.
const KEY_BYTES_LIMIT: usize = 1_024;

/// The subject of a request, in path style.
pub(super) struct S3Target {
    pub(super) bucket: String,
    /// None for the bucket itself.
    pub(super) key: Option<String>,
    pub(super) query: UrlQuery,
}

/// The parameters of a request, decoded.
pub(super) struct UrlQuery(Vec<(String, String)>);

fn decode(text: &str) -> Result<String, S3Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| S3Error::InvalidArgument("the URL is not UTF-8"))?.into_owned())
}

impl S3Target {
    pub(super) fn read(uri: &Uri) -> Result<S3Target, S3Error> {
        let path = uri.path();
        let path = path.strip_prefix('/').unwrap_or(path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let key = decode(key)?;
        if key.len() > KEY_BYTES_LIMIT {
            return Err(S3Error::KeyTooLongError);
        }
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        let query = UrlQuery(pairs.collect::<Result<_, S3Error>>()?);
        Ok(S3Target { bucket: decode(bucket)?, key: (!key.is_empty()).then_some(key), query })
    }
}

impl UrlQuery {
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Checks that each parameter is one that an operation takes.
    ///
    /// # Errors
    /// Another one asks for something that this endpoint would not do.
    pub(super) fn allow(&self, names: &[&str]) -> Result<(), S3Error> {
        // Clients name the operation in `x-id`.
        match self.0.iter().find(|(name, _)| name != "x-id" && !names.contains(&name.as_str())) {
            Some((other, _)) => {
                Err(S3Error::NotImplemented(format!("the parameter {other} of this operation")))
            }
            None => Ok(()),
        }
    }
}

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
