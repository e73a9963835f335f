//! Bytes of symbols on their way to the API: compressed if that makes them smaller.

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use std::io;

/// The level of zstd: a dSYM has a quarter of its bytes, and takes 4 ms of CPU for each of its megabytes.
const COMPRESSION_LEVEL: i32 = 3;
/// Bytes of one piece of a body.
const PIECE_BYTES: usize = 256 << 10;

/// The bytes of one request.
#[derive(Clone, Debug)]
pub struct UploadBody {
    bytes: Bytes,
    is_compressed: bool,
    /// Number of bytes before they were compressed.
    size: u64,
    sha256: String,
}

impl UploadBody {
    /// Compresses bytes with the SHA-256 `sha256`, unless they hardly get smaller. Takes CPU time.
    ///
    /// # Errors
    /// Returns an error if the compressor has no memory.
    pub fn new(bytes: Bytes, sha256: String) -> io::Result<UploadBody> {
        let size = bytes.len() as u64;
        let compressed = zstd::bulk::compress(&bytes, COMPRESSION_LEVEL)?;
        // Archives are packed already: unpacking them at the server would gain nothing.
        let is_compressed = compressed.len() < bytes.len() - bytes.len() / 16;
        let bytes = if is_compressed { compressed.into() } else { bytes };
        Ok(UploadBody { bytes, is_compressed, size, sha256 })
    }

    /// Returns the number of bytes that are sent.
    pub fn sent_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the coding for the header `Content-Encoding`.
    pub(super) fn content_encoding(&self) -> Option<&'static str> {
        self.is_compressed.then_some("zstd")
    }

    /// Returns the bytes as a stream. `progress` gets the number of uncompressed bytes of each piece.
    pub(super) fn to_stream<P: Fn(u64) + Send + 'static>(
        &self,
        progress: P,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static + use<P> {
        let (bytes, size) = (self.bytes.clone(), self.size);
        let sent = bytes.len().max(1) as u64;
        let uncompressed = move |end: usize| size * end as u64 / sent;
        stream::iter((0..bytes.len()).step_by(PIECE_BYTES)).map(move |start| {
            let end = bytes.len().min(start + PIECE_BYTES);
            progress(uncompressed(end) - uncompressed(start));
            Ok(bytes.slice(start..end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    async fn send_body(body: &UploadBody) -> (Vec<u8>, u64) {
        let counted = Arc::new(AtomicU64::new(0));
        let count = counted.clone();
        let pieces: Vec<Bytes> = body
            .to_stream(move |bytes| {
                count.fetch_add(bytes, Relaxed);
            })
            .try_collect()
            .await
            .unwrap();
        (pieces.concat(), counted.load(Relaxed))
    }

    #[tokio::test]
    async fn bytes_are_compressed_only_if_they_get_smaller() {
        let text = Bytes::from(b"__debug_info ".repeat(100_000));
        let body = UploadBody::new(text.clone(), String::new()).unwrap();
        assert_eq!(body.content_encoding(), Some("zstd"));
        let (sent, counted) = send_body(&body).await;
        assert_eq!((sent.len() as u64, counted), (body.sent_bytes(), text.len() as u64));
        assert!(sent.len() < text.len() / 100);
        assert_eq!(zstd::decode_all(&sent[..]).unwrap(), text);

        let packed = Bytes::from(sent.repeat(9));
        let noise = Bytes::from(zstd::encode_all(&packed[..], 1).unwrap());
        for small in [noise, Bytes::new()] {
            let body = UploadBody::new(small.clone(), String::new()).unwrap();
            assert_eq!((body.content_encoding(), send_body(&body).await.0), (None, small.to_vec()));
        }
    }

    #[tokio::test]
    async fn progress_ends_at_the_size_of_the_file() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0] & 3
        })
        .take(3_000_001)
        .collect();
        let body = UploadBody::new(noise.into(), String::new()).unwrap();
        assert!(body.content_encoding().is_some() && body.sent_bytes() > 2 * PIECE_BYTES as u64);
        assert_eq!(send_body(&body).await.1, 3_000_001);
    }
}
