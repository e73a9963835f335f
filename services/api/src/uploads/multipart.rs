//! Reads multipart/form-data (RFC 7578) part by part, and turns the framework's errors into problems.

use crate::problem::{Kind, Problem};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, header};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Bytes that may come before a part's data: text before its boundary, and its headers. The parser buffers
/// all of them.
const BEFORE_DATA: u64 = 1 << 20;

/// Bytes after which the parser must process its input before it gets more.
const PARSER_INPUT_BYTES: usize = 64 << 10;

/// Returns the boundary if the body is multipart/form-data.
///
/// # Errors
/// `malformed` if the content type is multipart/form-data but names no boundary.
pub fn parse_boundary(headers: &HeaderMap, malformed: Kind) -> Result<Option<String>, Problem> {
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

/// Converts an error of the multipart parser. Returns the body's own problem if there is one (too large, cut,
/// stalled), else `malformed`.
#[must_use]
pub fn to_problem(error: multer::Error, malformed: Kind) -> Problem {
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

/// Reads the parts of a body, of any size, as a stream. Limits the bytes before a part's data.
#[derive(Debug)]
pub struct Parts {
    parser: multer::Multipart<'static>,
    left: Arc<AtomicU64>,
    malformed: Kind,
}

impl Parts {
    /// Creates a reader of this body; errors in the framing have the kind `malformed`.
    pub fn new(
        body: impl Stream<Item = Result<Bytes, Problem>> + Send + 'static,
        boundary: String,
        malformed: Kind,
    ) -> Parts {
        let left = Arc::new(AtomicU64::new(0));
        let doled = Doled { body: body.boxed(), left: left.clone(), given: 0, malformed };
        Parts { parser: multer::Multipart::new(doled, boundary), left, malformed }
    }

    /// Returns the next part. The previous part must be read to its end: see [`stream_field`] and [`pass_over`].
    ///
    /// # Errors
    /// Those of [`to_problem`], and `malformed` if too much comes before the part's data.
    pub async fn next(&mut self) -> Result<Option<multer::Field<'static>>, Problem> {
        self.left.store(BEFORE_DATA, Ordering::Relaxed);
        let field = self.parser.next_field().await;
        self.left.store(u64::MAX, Ordering::Relaxed);
        field.map_err(|error| to_problem(error, self.malformed))
    }
}

/// A body that is passed to the parser in small portions, because the parser takes all available bytes before
/// it processes them.
struct Doled {
    body: BoxStream<'static, Result<Bytes, Problem>>,
    /// Bytes that may still come.
    left: Arc<AtomicU64>,
    /// Bytes since the parser last had to process its input.
    given: usize,
    malformed: Kind,
}

impl Stream for Doled {
    type Item = Result<Bytes, Problem>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.given >= PARSER_INPUT_BYTES {
            self.given = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            let detail = format!("more than {BEFORE_DATA} bytes come before a part's data");
            return Poll::Ready(Some(Err(Problem::new(self.malformed, detail))));
        }
        let next = self.body.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(piece))) => {
                self.given += piece.len();
                self.left.store(left.saturating_sub(piece.len() as u64), Ordering::Relaxed);
            }
            Poll::Pending => self.given = 0,
            Poll::Ready(_) => {}
        }
        next
    }
}

/// Reads an unused part to its end.
///
/// # Errors
/// Those of [`to_problem`].
pub async fn pass_over(mut field: multer::Field<'_>, malformed: Kind) -> Result<(), Problem> {
    while field.chunk().await.map_err(|error| to_problem(error, malformed))?.is_some() {}
    Ok(())
}

/// Returns the chunks of one part as a stream.
pub fn stream_field<'f>(
    field: multer::Field<'f>,
    malformed: Kind,
) -> impl Stream<Item = Result<Bytes, Problem>> + Send + 'f {
    stream::unfold(Some(field), move |field| async move {
        let mut field = field?;
        match field.chunk().await {
            Ok(Some(data)) => Some((Ok(data), Some(field))),
            Ok(None) => None,
            Err(error) => Some((Err(to_problem(error, malformed)), None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(content_type: &'static str) -> HeaderMap {
        [(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type))].into_iter().collect()
    }

    #[test]
    fn a_boundary_is_found_or_missed_loudly() {
        let read =
            |content_type| parse_boundary(&headers(content_type), Kind::InvalidUpload).map_err(|p| p.kind());
        assert_eq!(read("Multipart/Form-Data; boundary=abc"), Ok(Some("abc".to_owned())));
        assert_eq!(read("application/zip"), Ok(None));
        assert_eq!(read("multipart/form-data"), Err(Kind::InvalidUpload));
    }

    #[tokio::test]
    async fn a_problem_of_the_body_comes_out_as_it_went_in() {
        let head = "--abc\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\nxx";
        let body = stream::iter([Ok(Bytes::from(head)), Err(Problem::from_kind(Kind::TooLarge))]);
        let mut parts = multer::Multipart::new(body, "abc");
        // The parser reads ahead: the part itself may fail already.
        let failure = match parts.next_field().await {
            Ok(field) => {
                let outcome: Vec<_> = stream_field(field.unwrap(), Kind::InvalidUpload).collect().await;
                outcome.into_iter().find_map(Result::err).unwrap()
            }
            Err(error) => to_problem(error, Kind::InvalidUpload),
        };
        assert_eq!(failure.kind(), Kind::TooLarge);
    }

    /// A body that is there at once, in small pieces, and how much of it was taken.
    fn taken_from(body: &[u8]) -> (Arc<AtomicU64>, Parts) {
        let taken = Arc::new(AtomicU64::new(0));
        let counted = taken.clone();
        let pieces: Vec<_> = body.chunks(10_000).map(Bytes::copy_from_slice).collect();
        let body = stream::iter(pieces).map(move |piece| {
            counted.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Ok(piece)
        });
        (taken, Parts::new(body, "b".to_owned(), Kind::InvalidUpload))
    }

    const HEAD: &str = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";

    #[tokio::test]
    async fn what_comes_before_a_parts_data_is_bounded() {
        let endless = vec![b'x'; 8 << 20];
        for head in ["", "--b", "--b\r\nContent-Disposition: form-data; name=\""] {
            let (taken, mut parts) = taken_from(&[head.as_bytes(), &endless].concat());
            assert_eq!(parts.next().await.unwrap_err().kind(), Kind::InvalidUpload);
            assert!(taken.load(Ordering::Relaxed) < BEFORE_DATA + 100_000, "{head}");
        }
        // Also behind a part.
        let body = [HEAD.as_bytes(), b"1\r\n--b\r\na: ", &endless].concat();
        let (taken, mut parts) = taken_from(&body);
        pass_over(parts.next().await.unwrap().unwrap(), Kind::InvalidUpload).await.unwrap();
        assert_eq!(parts.next().await.unwrap_err().kind(), Kind::InvalidUpload);
        assert!(taken.load(Ordering::Relaxed) < BEFORE_DATA + 200_000);
    }

    #[tokio::test]
    async fn a_parts_data_has_any_size_and_is_read_as_it_is_wanted() {
        let data = vec![b'x'; 3 << 20];
        let part = [HEAD.as_bytes(), &data, b"\r\n"].concat();
        let (taken, mut parts) = taken_from(&[&b"before\r\n"[..], &part, &part, b"--b--\r\n"].concat());
        pass_over(parts.next().await.unwrap().unwrap(), Kind::InvalidUpload).await.unwrap();
        let second = parts.next().await.unwrap().unwrap();
        assert!(taken.load(Ordering::Relaxed) < (3 << 20) + 200_000);
        let pieces: Vec<_> = stream_field(second, Kind::InvalidUpload).map(Result::unwrap).collect().await;
        // What the parser had already, and what it took while it looked for the part and for its data.
        assert!(pieces.iter().all(|piece| piece.len() < 4 * PARSER_INPUT_BYTES));
        assert_eq!(pieces.concat(), data);
        assert!(parts.next().await.unwrap().is_none());
    }
}
