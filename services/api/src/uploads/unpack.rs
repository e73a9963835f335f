//! Files that come packed, unpacked as they come.

use crate::http::problem::{Kind, Problem};
use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderMap, header};
use std::pin::Pin;
use tokio::io::AsyncRead;
use tokio::task::coop::consume_budget;
use tokio_util::io::{ReaderStream, StreamReader};

/// Bytes of a file, piece by piece.
pub type Pieces<'f> = BoxStream<'f, Result<Bytes, Problem>>;

/// The largest window of zstd, as a power of two: what RFC 9659 allows for HTTP.
const WINDOW_LOG: u32 = 23;
/// How much is unpacked at once.
const PIECE: usize = 64 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Packing {
    /// What `Content-Encoding` says of a body; `None` for one that comes as it is.
    ///
    /// # Errors
    /// [`Kind::UnsupportedFormat`] for other codings, and for several.
    pub fn announced(headers: &HeaderMap) -> Result<Option<Packing>, Problem> {
        let coding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
        match coding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Ok(None),
            Some("gzip" | "x-gzip") => Ok(Some(Packing::Gzip)),
            Some("zstd") => Ok(Some(Packing::Zstd)),
            Some(other) => {
                let detail = format!("content-encoding: {other} is not taken; gzip and zstd are");
                Err(Problem::new(Kind::UnsupportedFormat, detail))
            }
        }
    }

    /// What the first bytes say.
    fn of(head: &[u8]) -> Option<Packing> {
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

/// Unpacks a file that begins like gzip or zstd, to at most `limit` bytes.
///
/// # Errors
/// Where its first bytes do not come. Later pieces are [`Kind::InvalidUpload`] where the data is damaged, and
/// [`Kind::TooLarge`] past the limit.
pub async fn unpack_file<'f>(
    file: impl Stream<Item = Result<Bytes, Problem>> + Send + 'f,
    limit: u64,
) -> Result<Pieces<'f>, Problem> {
    // A file that is shorter than a mark is asked for more once it has ended.
    let mut file = file.fuse().boxed();
    let mut head = BytesMut::new();
    while head.len() < ZSTD.len() {
        let Some(piece) = file.try_next().await? else { break };
        head.extend_from_slice(&piece);
    }
    let packing = Packing::of(&head);
    let whole = stream::iter([Ok(head.freeze())]).chain(file).boxed();
    Ok(match packing {
        Some(packing) => unpack(whole, packing, limit),
        None => whole,
    })
}

/// Unpacks bytes, to at most `limit`.
pub fn unpack<'f>(
    packed: impl Stream<Item = Result<Bytes, Problem>> + Send + 'f,
    packing: Packing,
    limit: u64,
) -> Pieces<'f> {
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
    let mut size = 0;
    let bounded = ReaderStream::with_capacity(unpacked, PIECE).map(move |piece| {
        let piece = piece.map_err(|error| {
            error.downcast::<Problem>().unwrap_or_else(|error| {
                Problem::new(Kind::InvalidUpload, format!("damaged {} data: {error}", packing.name()))
            })
        })?;
        size += piece.len() as u64;
        if size > limit {
            return Err(Problem::new(Kind::TooLarge, format!("unpacked, the limit is {limit} bytes")));
        }
        Ok(piece)
    });
    // A small piece may become a large one a thousand times: others get their turn meanwhile.
    bounded
        .then(|piece| async {
            consume_budget().await;
            piece
        })
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

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
        let unpacked = unpack_file(stream::iter(pieces.into_iter().map(Ok)), limit).await;
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
            assert!(bytes == zeros && pieces >= zeros.len() / PIECE);
            assert_eq!(read(&packed[..packed.len() - 9], 5_000_000).await, Err(Kind::InvalidUpload));
        }
        let mut wide = Vec::new();
        let mut encoder = zstd::Encoder::new(&mut wide, 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&zeros).unwrap();
        encoder.finish().unwrap();
        assert_eq!(read(&wide, 5_000_000).await, Err(Kind::InvalidUpload), "its window takes 128 MiB");
    }

    #[test]
    fn a_coding_is_taken_or_refused_by_name() {
        let announced = |coding: &'static str| {
            let headers = [(header::CONTENT_ENCODING, http::HeaderValue::from_static(coding))];
            Packing::announced(&headers.into_iter().collect()).map_err(|problem| problem.kind())
        };
        assert_eq!(announced("GZip"), Ok(Some(Packing::Gzip)));
        assert_eq!(announced("zstd"), Ok(Some(Packing::Zstd)));
        assert_eq!(announced("identity"), Ok(None));
        assert_eq!(announced("br"), Err(Kind::UnsupportedFormat));
        assert_eq!(announced("gzip, gzip"), Err(Kind::UnsupportedFormat));
    }
}
