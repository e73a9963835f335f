//! The container around a file: a fixed head, and a zip archive that may be compressed.

use bytes::{Bytes, BytesMut};
use futures::stream;
use futures::{Stream, StreamExt, TryStreamExt};
use unslide_api::feature::upload::{Packing, Pieces, decode_body};
use unslide_api::problem::{Kind, Problem};

const MAGIC: &[u8] = b"posthog_error_tracking";
/// The version of the head that this release reads.
const CONTAINER_VERSION: u32 = 2;
/// Bytes of the head: the magic text, the version, the kind and the compression.
const HEAD_BYTES: usize = MAGIC.len() + 9;

/// The kind of files with a dSYM.
const DSYM: u32 = 5;

/// A file, after its head was read.
pub struct OpenedContainer {
    pub is_dsym: bool,
    /// The number of the kind.
    pub kind: u32,
    /// The zip archive, unpacked if it was compressed.
    pub archive: Pieces<'static>,
}

/// Reads the head of a body. The archive in it may have `limit` bytes.
///
/// # Errors
/// [`Kind::InvalidUpload`] if it is no such container, [`Kind::UnsupportedFormat`] for another version or compression.
pub async fn open_container(
    body: impl Stream<Item = Result<Bytes, Problem>> + Send + 'static,
    limit: u64,
) -> Result<OpenedContainer, Problem> {
    let mut body = body.fuse().boxed();
    let mut head = BytesMut::new();
    while head.len() < HEAD_BYTES {
        let Some(piece) = body.try_next().await? else { break };
        head.extend_from_slice(&piece);
    }
    let wrong = |text: &str| Problem::new(Kind::InvalidUpload, text);
    if !head.starts_with(MAGIC) || head.len() < HEAD_BYTES {
        return Err(wrong("the body does not begin with posthog_error_tracking and its head"));
    }
    let rest = head.split_off(HEAD_BYTES).freeze();
    let (numbers, compression) = head[MAGIC.len()..].split_at(8);
    let [version, kind] = [&numbers[..4], &numbers[4..]]
        .map(|word| word.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)));
    if version != CONTAINER_VERSION {
        let detail =
            format!("the container has version {version}, and only version {CONTAINER_VERSION} is read");
        return Err(Problem::new(Kind::UnsupportedFormat, detail));
    }
    let coding = match compression {
        [0] => None,
        [1] => Some(Packing::Zstd),
        other => {
            let detail = format!("compression {other:?} is not known: 0 is none and 1 is zstd");
            return Err(Problem::new(Kind::UnsupportedFormat, detail));
        }
    };
    let archive = decode_body(stream::iter([Ok(rest)]).chain(body), coding, limit);
    Ok(OpenedContainer { is_dsym: kind == DSYM, kind, archive })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(body: &[u8], piece: usize) -> Result<(u32, Vec<u8>), Kind> {
        let pieces: Vec<_> = body.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let opened = open_container(stream::iter(pieces), 9).await.map_err(|problem| problem.kind())?;
        let archive: Result<Vec<Bytes>, Problem> = opened.archive.try_collect().await;
        Ok((opened.kind, archive.map_err(|problem| problem.kind())?.concat()))
    }

    fn container(version: u8, compression: u8, archive: &[u8]) -> Vec<u8> {
        [MAGIC, &[version, 0, 0, 0, 5, 0, 0, 0, compression], archive].concat()
    }

    #[tokio::test]
    async fn an_archive_follows_the_head() {
        let packed = zstd::encode_all(&b"PK\x03\x04"[..], 1).unwrap();
        for piece in [1, 7, 99] {
            let expected = Ok((DSYM, b"PK\x03\x04".to_vec()));
            assert_eq!(open(&container(2, 0, b"PK\x03\x04"), piece).await, expected);
            assert_eq!(open(&container(2, 1, &packed), piece).await, expected);
        }
        let bomb = zstd::encode_all(&[0; 10][..], 1).unwrap();
        assert_eq!(open(&container(2, 1, &bomb), 99).await, Err(Kind::TooLarge));
        assert_eq!(open(&container(3, 0, b""), 99).await, Err(Kind::UnsupportedFormat));
        assert_eq!(open(&container(2, 2, b""), 99).await, Err(Kind::UnsupportedFormat));
        for wrong in [&b""[..], b"PK\x03\x04", MAGIC] {
            assert_eq!(open(wrong, 99).await, Err(Kind::InvalidUpload));
        }
    }
}
