//! Request bodies: read piece by piece, bounded in bytes, and never waited for without end.

use crate::problem::{Kind, Problem};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use futures::{Stream, stream};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::io::Read;
use std::time::Duration;

/// A request body under a limit.
#[derive(Debug)]
pub struct Chunks {
    body: Body,
    limit: u64,
    seen: u64,
    stall: Duration,
}

impl Chunks {
    /// Wraps a body of at most `limit` bytes of which a piece must come every `stall`.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] where the announced length is over the limit already.
    pub fn new(headers: &HeaderMap, body: Body, limit: u64, stall: Duration) -> Result<Chunks, Problem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        Ok(Chunks { body, limit, seen: 0, stall })
    }

    /// The next piece; `None` once the body is complete.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] past the limit, [`Kind::BodyTimeout`] when it stalls,
    /// [`Kind::IncompleteBody`] where the connection ends before the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = tokio::time::timeout(self.stall, self.body.frame()).await.map_err(|_| {
                Problem::new(Kind::BodyTimeout, format!("nothing came for {} s", self.stall.as_secs()))
            })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| {
                Problem::new(
                    Kind::IncompleteBody,
                    format!("the connection ended after {} bytes of the body", self.seen),
                )
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            self.seen += data.len() as u64;
            if self.seen > self.limit {
                return Err(too_large(self.limit));
            }
            return Ok(Some(data));
        }
    }

    /// The pieces as a stream that ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Problem>> + Send + 'static {
        stream::unfold(Some(self), |chunks| async move {
            let mut chunks = chunks?;
            match chunks.next().await {
                Ok(Some(data)) => Some((Ok(data), Some(chunks))),
                Ok(None) => None,
                Err(problem) => Some((Err(problem), None)),
            }
        })
    }

    /// The whole body, for operations whose limit is small enough to hold it.
    ///
    /// # Errors
    /// As [`Chunks::next`].
    pub async fn collect(mut self) -> Result<Bytes, Problem> {
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next().await? else { return Ok(first) };
        let mut whole = BytesMut::from(first);
        whole.extend_from_slice(&second);
        while let Some(data) = self.next().await? {
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }
}

fn too_large(limit: u64) -> Problem {
    Problem::new(Kind::TooLarge, format!("the limit is {limit} bytes"))
}

/// True where the bytes begin like a gzip member (RFC 1952 §2.3.1).
#[must_use]
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Unpacks gzip to at most `limit` bytes. Takes CPU time: call it on the CPU pool.
///
/// # Errors
/// [`Kind::TooLarge`] where there is more, [`Kind::InvalidBody`] where the data is damaged.
pub fn gunzip(bytes: &[u8], limit: u64) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(limit.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|error| Problem::new(Kind::InvalidBody, format!("damaged gzip data: {error}")))?;
    if out.len() as u64 > limit {
        return Err(Problem::new(Kind::TooLarge, format!("unpacked, the limit is {limit} bytes")));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    const STALL: Duration = Duration::from_millis(50);

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn collect(body: Body, limit: u64) -> Result<Bytes, Kind> {
        let chunks = Chunks::new(&HeaderMap::new(), body, limit, STALL).map_err(|p| p.kind())?;
        chunks.collect().await.map_err(|p| p.kind())
    }

    #[tokio::test]
    async fn a_body_is_taken_to_its_limit_and_no_further() {
        let parts = || Body::from_stream(stream::iter(["ab", "", "cd", "e"].map(Ok::<_, std::io::Error>)));
        assert_eq!(collect(parts(), 5).await, Ok(Bytes::from_static(b"abcde")));
        assert_eq!(collect(parts(), 4).await, Err(Kind::TooLarge));
    }

    #[tokio::test]
    async fn an_announced_length_over_the_limit_is_refused_unread() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, 6.into());
        let refused = Chunks::new(
            &headers,
            Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()),
            5,
            STALL,
        );
        assert_eq!(refused.unwrap_err().kind(), Kind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_or_breaks_ends() {
        let stalled = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"a")) });
        let stalled = futures::StreamExt::chain(stalled, stream::pending());
        assert_eq!(collect(Body::from_stream(stalled), 9).await, Err(Kind::BodyTimeout));
        let broken = stream::iter([Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("cut"))]);
        assert_eq!(collect(Body::from_stream(broken), 9).await, Err(Kind::IncompleteBody));
    }

    #[test]
    fn gzip_is_bounded_before_it_is_held() {
        let bomb = gzip(&vec![0; 5_000_000]);
        assert!(is_gzip(&bomb) && bomb.len() < 10_000);
        assert_eq!(gunzip(&bomb, 1_000).unwrap_err().kind(), Kind::TooLarge);
        assert_eq!(gunzip(&bomb, 5_000_000).unwrap().len(), 5_000_000);
        assert_eq!(gunzip(&bomb[..bomb.len() - 9], 5_000_000).unwrap_err().kind(), Kind::InvalidBody);
    }
}
