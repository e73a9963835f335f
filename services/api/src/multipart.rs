//! multipart/form-data (RFC 7578), part by part, with the framework's errors as problems.

use crate::problem::{Kind, Problem};
use bytes::Bytes;
use futures::{Stream, stream};
use http::{HeaderMap, header};
use std::error::Error;

/// The boundary, where the body is multipart/form-data.
///
/// # Errors
/// `malformed` where the content type says so but names no boundary.
pub fn boundary(headers: &HeaderMap, malformed: Kind) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return Ok(None);
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("multipart/form-data") {
        return Ok(None);
    }
    multer::parse_boundary(value)
        .map(Some)
        .map_err(|error| Problem::new(malformed, format!("content-type: {error}")))
}

/// What a reader of parts says of a broken body: the body's own problem where it has one (too
/// large, cut, stalled), else `malformed`.
#[must_use]
pub fn problem(error: multer::Error, malformed: Kind) -> Problem {
    match error {
        multer::Error::StreamReadFailed(cause) => match cause.downcast::<Problem>() {
            Ok(problem) => *problem,
            Err(other) => Problem::new(Kind::IncompleteBody, other.to_string()),
        },
        multer::Error::IncompleteStream
        | multer::Error::IncompleteFieldData { .. }
        | multer::Error::IncompleteHeaders => {
            Problem::new(malformed, "the multipart body ends before its last boundary")
        }
        other => Problem::new(malformed, other.to_string()),
    }
}

/// The pieces of one part.
pub fn pieces<'f>(
    field: multer::Field<'f>,
    malformed: Kind,
) -> impl Stream<Item = Result<Bytes, Problem>> + Send + 'f {
    stream::unfold(Some(field), move |field| async move {
        let mut field = field?;
        match field.chunk().await {
            Ok(Some(data)) => Some((Ok(data), Some(field))),
            Ok(None) => None,
            Err(error) => Some((Err(problem(error, malformed)), None)),
        }
    })
}

/// A problem that travelled through a reader as an I/O error.
#[must_use]
pub fn carried(error: &(dyn Error + 'static)) -> Option<Problem> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(problem) = error.downcast_ref::<Problem>() {
            return Some(problem.clone());
        }
        // An io::Error's source is its inner error's source: the inner one has to be asked for.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
            && let Some(problem) = inner.downcast_ref::<Problem>()
        {
            return Some(problem.clone());
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    fn headers(content_type: &'static str) -> HeaderMap {
        [(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type))].into_iter().collect()
    }

    #[test]
    fn a_boundary_is_found_or_missed_loudly() {
        let read = |content_type| boundary(&headers(content_type), Kind::InvalidUpload).map_err(|p| p.kind());
        assert_eq!(read("Multipart/Form-Data; boundary=abc"), Ok(Some("abc".to_owned())));
        assert_eq!(read("application/zip"), Ok(None));
        assert_eq!(read("multipart/form-data"), Err(Kind::InvalidUpload));
    }

    #[tokio::test]
    async fn a_problem_of_the_body_comes_out_as_it_went_in() {
        let head = "--abc\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\nxx";
        let body = stream::iter([Ok(Bytes::from(head)), Err(Problem::bare(Kind::TooLarge))]);
        let mut parts = multer::Multipart::new(body, "abc");
        // The parser reads ahead: the part itself may fail already.
        let failure = match parts.next_field().await {
            Ok(field) => {
                let outcome: Vec<_> = pieces(field.unwrap(), Kind::InvalidUpload).collect().await;
                outcome.into_iter().find_map(Result::err).unwrap()
            }
            Err(error) => problem(error, Kind::InvalidUpload),
        };
        assert_eq!(failure.kind(), Kind::TooLarge);
        let wrapped = std::io::Error::other(Problem::bare(Kind::BodyTimeout));
        assert_eq!(carried(&wrapped).unwrap().kind(), Kind::BodyTimeout);
        assert!(carried(&std::io::Error::other("else")).is_none());
    }
}
