//! Compressed files, unpacked as a stream.

use crate::problem::{Kind, Problem};
use crate::uploads::receive::read_head;
use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderMap, header};
use std::pin::Pin;
use tokio::io::AsyncRead;
use tokio::task::yield_now;
use tokio_util::io::{ReaderStream, StreamReader};

/// Bytes of a file, in chunks.
pub type Pieces<'f> = BoxStream<'f, Result<Bytes, Problem>>;

/// The largest window of zstd, as a power of two: the maximum that RFC 9659 allows for HTTP.
const WINDOW_LOG: u32 = 23;
/// Bytes that are unpacked in one step.
const UNPACK_STEP_BYTES: usize = 64 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Compression format of a file or body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// Returns the coding in `Content-Encoding`, or `None` for a body without one.
    ///
    /// # Errors
    /// [`Kind::UnsupportedFormat`] for other codings, and for several.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Packing>, Problem> {
        let coding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
        match coding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Ok(None),
            Some("gzip" | "x-gzip") => Ok(Some(Packing::Gzip)),
            Some("zstd") => Ok(Some(Packing::Zstd)),
            Some(other) => {
                let detail = format!("content-encoding: {other} is not supported; use gzip or zstd");
                Err(Problem::new(Kind::UnsupportedFormat, detail))
            }
        }
    }

    /// Detects the format from the first bytes.
    fn from_head(head: &[u8]) -> Option<Packing> {
        match head {
            head if head.starts_with(GZIP) => Some(Packing::Gzip),
            head if head.starts_with(ZSTD) => Some(Packing::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }
}

/// Returns a file, unpacked if it begins like gzip or zstd: at most `left` bytes, which earlier files have
/// left of `most`. `coding` is the coding of the whole body.
///
/// # Errors
/// The first bytes cannot be read; [`Kind::InvalidUpload`] for a packed file in a body with a coding. Later
/// chunks are [`Kind::InvalidUpload`] if the data is damaged, and [`Kind::TooLarge`] past the limit.
pub async fn unpack_file<'f>(
    file: impl Stream<Item = Result<Bytes, Problem>> + Send + 'f,
    coding: Option<Packing>,
    left: u64,
    most: u64,
) -> Result<Pieces<'f>, Problem> {
    // A file that is shorter than a magic number is polled again after its end.
    let mut file = file.fuse().boxed();
    let head = read_head(&mut file, ZSTD.len()).await?;
    let packing = Packing::from_head(&head);
    let whole = stream::iter([Ok(head)]).chain(file).boxed();
    let pieces = match (packing, coding) {
        // The intermediate bytes would count against no limit.
        (Some(packing), Some(coding)) => {
            let detail = format!(
                "a {} file in a body with content-encoding: {}: pack the file or the body, not both",
                packing.name(),
                coding.name()
            );
            return Err(Problem::new(Kind::InvalidUpload, detail));
        }
        (Some(packing), None) => decode_stream(whole, packing),
        (None, _) => whole,
    };
    Ok(limit_bytes(pieces, left, format!("the files have more than {most} bytes together, unpacked")))
}

/// Returns the chunks of a body, unpacked to at most `limit` bytes if it has a coding.
pub fn decode_body(
    chunks: impl Stream<Item = Result<Bytes, Problem>> + Send + 'static,
    coding: Option<Packing>,
    limit: u64,
) -> Pieces<'static> {
    match coding {
        Some(packing) => unpack_limited(chunks, packing, limit),
        None => chunks.boxed(),
    }
}

/// Unpacks bytes, to at most `limit`.
pub fn unpack_limited<'f>(
    packed: impl Stream<Item = Result<Bytes, Problem>> + Send + 'f,
    packing: Packing,
    limit: u64,
) -> Pieces<'f> {
    limit_bytes(
        decode_stream(packed, packing),
        limit,
        format!("the file has more than {limit} bytes unpacked"),
    )
}

/// Unpacks bytes without a limit.
fn decode_stream<'f>(
    packed: impl Stream<Item = Result<Bytes, Problem>> + Send + 'f,
    packing: Packing,
) -> Pieces<'f> {
    // A lot of input may produce no output: yield to other requests.
    let packed = packed.then(|piece| async {
        yield_now().await;
        piece
    });
    let source = StreamReader::new(packed.map_err(std::io::Error::other).boxed());
    let unpacked: Pin<Box<dyn AsyncRead + Send + 'f>> = match packing {
        Packing::Gzip => {
            let mut decoder = GzipDecoder::new(source);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        Packing::Zstd => {
            let mut decoder = ZstdDecoder::with_params(source, &[DParameter::window_log_max(WINDOW_LOG)]);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
    };
    let pieces = ReaderStream::with_capacity(unpacked, UNPACK_STEP_BYTES).map_err(move |error| {
        error.downcast::<Problem>().unwrap_or_else(|error| {
            Problem::new(Kind::InvalidUpload, format!("damaged {} data: {error}", packing.name()))
        })
    });
    // A small chunk may become a large one a thousand times.
    pieces
        .then(|piece| async {
            yield_now().await;
            piece
        })
        .boxed()
}

/// Limits these chunks to `limit` bytes; `too_large` is the error for more.
fn limit_bytes(pieces: Pieces<'_>, limit: u64, too_large: String) -> Pieces<'_> {
    let mut size = 0;
    let bounded = pieces.map(move |piece| {
        let piece = piece?;
        size += piece.len() as u64;
        if size > limit {
            return Err(Problem::new(Kind::TooLarge, too_large.clone()));
        }
        Ok(piece)
    });
    bounded.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The file's bytes, which come one by one at first, and how many pieces there were.
    async fn read(file: &[u8], limit: u64) -> Result<(Vec<u8>, usize), Kind> {
        let (head, rest) = file.split_at(file.len().min(5));
        let mut pieces: Vec<Bytes> = head.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
        pieces.push(Bytes::copy_from_slice(rest));
        let unpacked = unpack_file(stream::iter(pieces.into_iter().map(Ok)), None, limit, limit).await;
        let pieces: Result<Vec<Bytes>, Problem> =
            unpacked.map_err(|problem| problem.kind())?.try_collect().await;
        pieces.map(|pieces| (pieces.concat(), pieces.len())).map_err(|problem| problem.kind())
    }

    #[tokio::test]
    async fn a_file_is_unpacked_where_it_begins_so_and_else_stays() {
        let text = b"main;draw 3\n".repeat(1_000);
        let zstd = zstd::encode_all(&text[..], 3).unwrap();
        let two = [gzip(&text[..5_000]), gzip(&text[5_000..])].concat();
        for file in [&text, &gzip(&text), &zstd, &two] {
            assert_eq!(read(file, 12_000).await.map(|(bytes, _)| bytes).as_ref(), Ok(&text));
        }
        for short in [&b""[..], b"\x1f", b"\x28\xb5\x2f"] {
            assert_eq!(read(short, 9).await.map(|(bytes, _)| bytes), Ok(short.to_vec()));
        }
    }

    #[tokio::test]
    async fn unpacking_ends_at_the_limit_and_at_damage() {
        let zeros = vec![0; 5_000_000];
        let (gzip, zstd) = (gzip(&zeros), zstd::encode_all(&zeros[..], 19).unwrap());
        for packed in [&gzip, &zstd] {
            assert!(packed.len() < 10_000);
            assert_eq!(read(packed, 4_999_999).await, Err(Kind::TooLarge));
            let (bytes, pieces) = read(packed, 5_000_000).await.unwrap();
            assert!(bytes == zeros && pieces >= zeros.len() / UNPACK_STEP_BYTES);
            assert_eq!(read(&packed[..packed.len() - 9], 5_000_000).await, Err(Kind::InvalidUpload));
        }
        let mut wide = Vec::new();
        let mut encoder = zstd::Encoder::new(&mut wide, 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&zeros).unwrap();
        encoder.finish().unwrap();
        assert_eq!(read(&wide, 5_000_000).await, Err(Kind::InvalidUpload), "its window takes 128 MiB");
    }

    #[tokio::test]
    async fn a_packed_file_in_a_packed_body_is_refused() {
        for (file, expected) in [(gzip(b"main 1"), Some(Kind::InvalidUpload)), (b"main 1".to_vec(), None)] {
            let unpacked =
                unpack_file(stream::iter([Ok(Bytes::from(file))]), Some(Packing::Zstd), 9, 9).await;
            assert_eq!(unpacked.err().map(|problem| problem.kind()), expected);
        }
    }

    #[tokio::test]
    async fn others_get_their_turn_while_nothing_comes_out() {
        let members = gzip(b"").repeat(1_000);
        let pieces: Vec<Result<Bytes, Problem>> =
            members.chunks(1_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let unpacked: Result<Vec<Bytes>, Problem> =
            unpack_limited(stream::iter(pieces), Packing::Gzip, 9).try_collect().await;
        other.abort();
        assert!(unpacked.unwrap().is_empty());
        assert!(turns.load(Ordering::Relaxed) >= 10);
    }

    #[test]
    fn a_coding_is_taken_or_refused_by_name() {
        let announced = |coding: &'static str| {
            let headers = [(header::CONTENT_ENCODING, http::HeaderValue::from_static(coding))];
            Packing::from_headers(&headers.into_iter().collect()).map_err(|problem| problem.kind())
        };
        assert_eq!(announced("GZip"), Ok(Some(Packing::Gzip)));
        assert_eq!(announced("zstd"), Ok(Some(Packing::Zstd)));
        assert_eq!(announced("identity"), Ok(None));
        assert_eq!(announced("br"), Err(Kind::UnsupportedFormat));
        assert_eq!(announced("gzip, gzip"), Err(Kind::UnsupportedFormat));
    }
}
