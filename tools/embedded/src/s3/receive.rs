//! Receives the body of an upload into a temporary file, and checks it.

use super::body_headers::{Algorithm, BodyHeaders};
use super::chunked::ChunkDecoder;
use super::error::S3Error;
use super::folder::{Folder, TemporaryFile};
use super::run_blocking;
use super::signature::hex;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use md5::Md5;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The bytes that are collected before they are hashed and written, while the next ones arrive.
const WRITE_BYTES: usize = 1 << 20;

/// A body that is complete and as announced.
pub(super) struct ReceivedBody {
    pub(super) file: TemporaryFile,
    /// MD5 in hexadecimal digits, the ETag of an object or a part.
    pub(super) md5: String,
}

/// Hashes and writes a body.
struct Writer {
    file: TemporaryFile,
    headers: BodyHeaders,
    decoder: Option<ChunkDecoder>,
    hashes: Hashes,
}

struct Hashes {
    length: u64,
    md5: Md5,
    sha256: Option<Sha256>,
    crc: Option<crc_fast::Digest>,
}

/// Receives a body, then does what is left to do with it, on a thread that may block.
///
/// # Errors
/// The body is not as announced, or the disk fails. Then nothing is left of it.
pub(super) async fn receive_body<T: Send + 'static>(
    body: &mut Incoming,
    folder: Arc<Folder>,
    headers: BodyHeaders,
    finish: impl FnOnce(ReceivedBody) -> Result<T, S3Error> + Send + 'static,
) -> Result<T, S3Error> {
    let mut writing: Option<JoinHandle<Result<Writer, S3Error>>> = None;
    let (mut headers, mut chunks, mut bytes) = (Some(headers), Vec::new(), 0);
    loop {
        let frame = body.frame().await.transpose().map_err(|_| S3Error::IncompleteBody)?;
        let is_last = frame.is_none();
        if let Some(data) = frame.and_then(|frame| frame.into_data().ok()) {
            bytes += data.len();
            chunks.push(data);
        }
        if bytes < WRITE_BYTES && !is_last {
            continue;
        }
        let former = match writing.take() {
            Some(writing) => Some(writing.await.map_err(std::io::Error::other)??),
            None => None,
        };
        let (chunks, headers, folder) = (std::mem::take(&mut chunks), headers.take(), Arc::clone(&folder));
        bytes = 0;
        let write = move || {
            let mut writer = match (former, headers) {
                (Some(writer), _) => writer,
                (None, Some(headers)) => Writer::new(folder.create_temporary()?, headers),
                (None, None) => return Err(S3Error::IncompleteBody),
            };
            writer.write(&chunks)?;
            Ok(writer)
        };
        if is_last {
            return run_blocking(move || finish(write()?.finish()?)).await;
        }
        writing = Some(tokio::task::spawn_blocking(write));
    }
}

impl Writer {
    fn new(file: TemporaryFile, mut headers: BodyHeaders) -> Writer {
        let wants_sha256 = headers.sha256.is_some() || headers.algorithm == Some(Algorithm::Sha256);
        let crc = headers.algorithm.and_then(Algorithm::crc);
        let hashes = Hashes {
            length: 0,
            md5: Md5::new(),
            sha256: wants_sha256.then(Sha256::new),
            crc: crc.map(crc_fast::Digest::new),
        };
        let decoder = headers.chunks.take().map(ChunkDecoder::new);
        Writer { file, headers, decoder, hashes }
    }

    fn write(&mut self, chunks: &[Bytes]) -> Result<(), S3Error> {
        let Writer { file, headers, decoder, hashes } = self;
        let mut receive = |bytes: &[u8]| {
            hashes.update(bytes);
            if hashes.length > headers.length {
                return Err(S3Error::IncompleteBody);
            }
            Ok(file.file.write_all(bytes)?)
        };
        for chunk in chunks {
            match decoder {
                Some(decoder) => decoder.decode(chunk, &mut receive)?,
                None => receive(chunk)?,
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<ReceivedBody, S3Error> {
        let Writer { file, headers, decoder, hashes } = self;
        let trailers = decoder.map(ChunkDecoder::finish).transpose()?.unwrap_or_default();
        if hashes.length != headers.length {
            return Err(S3Error::IncompleteBody);
        }
        let md5: [u8; 16] = hashes.md5.finalize().into();
        let sha256: Option<[u8; 32]> = hashes.sha256.map(|hash| hash.finalize().into());
        if headers.sha256.is_some() && headers.sha256 != sha256 {
            return Err(S3Error::XAmzContentSHA256Mismatch);
        }
        if headers.md5.is_some_and(|announced| announced != md5) {
            return Err(S3Error::BadDigest);
        }
        if let Some(algorithm) = headers.algorithm {
            let name = algorithm.header();
            let trailer = trailers.into_iter().find(|(trailer, _)| trailer == name).map(|(_, value)| value);
            let announced = headers.checksum.or(trailer).ok_or(S3Error::IncompleteBody)?;
            let crc = hashes.crc.map(|crc| crc.finalize()).unwrap_or_default();
            if announced != algorithm.write(crc, sha256.unwrap_or_default()) {
                return Err(S3Error::BadDigest);
            }
        }
        Ok(ReceivedBody { file, md5: hex(&md5) })
    }
}

impl Hashes {
    fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.md5.update(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
    }
}
