//! The headers that say what the body of an upload has to be.

use super::error::S3Error;
use super::signature::{ChunkSigner, SignedBody};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use hyper::HeaderMap;

/// The most bytes of an object or a part in one request, as of S3.
const BODY_BYTES_LIMIT: u64 = 5 << 30;
const CHECKSUM: &str = "x-amz-checksum-";

/// A checksum that a client may send with a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Algorithm {
    Crc32,
    Crc32C,
    Crc64Nvme,
    Sha256,
}

/// The announced properties of a body.
#[derive(Debug)]
pub(super) struct BodyHeaders {
    /// The bytes of the object, decoded.
    pub(super) length: u64,
    pub(super) sha256: Option<[u8; 32]>,
    pub(super) md5: Option<[u8; 16]>,
    pub(super) algorithm: Option<Algorithm>,
    /// The checksum in Base64, or None if it comes behind the body.
    pub(super) checksum: Option<String>,
    /// Some if the body is in the encoding `aws-chunked`, with the signer of its chunks.
    pub(super) chunks: Option<Option<ChunkSigner>>,
}

impl Algorithm {
    const ALL: [Algorithm; 4] =
        [Algorithm::Crc32, Algorithm::Crc32C, Algorithm::Crc64Nvme, Algorithm::Sha256];

    /// Returns the name of the header with the checksum.
    pub(super) fn header(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Crc32C => "x-amz-checksum-crc32c",
            Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
        }
    }

    pub(super) fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Algorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32C => Some(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Algorithm::Sha256 => None,
        }
    }

    /// Writes a checksum as in its header.
    pub(super) fn write(self, crc: u64, sha256: [u8; 32]) -> String {
        let bytes = crc.to_be_bytes();
        match self {
            Algorithm::Crc32 | Algorithm::Crc32C => STANDARD.encode(&bytes[4..]),
            Algorithm::Crc64Nvme => STANDARD.encode(bytes),
            Algorithm::Sha256 => STANDARD.encode(sha256),
        }
    }
}

impl BodyHeaders {
    /// Reads the headers of a request.
    ///
    /// # Errors
    /// A header is missing or malformed, or names a checksum that this endpoint cannot compute.
    pub(super) fn read(headers: &HeaderMap, signed: SignedBody) -> Result<BodyHeaders, S3Error> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (sha256, chunks) = match signed {
            SignedBody::Unsigned => (None, None),
            SignedBody::Sha256(hash) => (Some(hash), None),
            SignedBody::Chunks(signer) => (None, Some(signer)),
        };
        let length_header = if chunks.is_some() { "x-amz-decoded-content-length" } else { "content-length" };
        let length = header(length_header).and_then(|length| length.parse().ok());
        let length = length.ok_or(S3Error::MissingContentLength)?;
        if length > BODY_BYTES_LIMIT {
            return Err(S3Error::EntityTooLarge);
        }
        let md5 = header("content-md5").map(|text| {
            let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
            bytes.ok_or(S3Error::InvalidArgument("Content-MD5 is no MD5 in Base64"))
        });
        let trailer = header("x-amz-trailer");
        let names = headers.keys().map(hyper::header::HeaderName::as_str).chain(trailer);
        let describes = ["algorithm", "mode", "type"].map(|word| format!("{CHECKSUM}{word}"));
        let mut names =
            names.filter(|name| name.starts_with(CHECKSUM) && !describes.iter().any(|d| d == name));
        let algorithm = names.next().map(|name| {
            let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.header() == name);
            found.ok_or_else(|| S3Error::NotImplemented(format!("the checksum {name}")))
        });
        let algorithm = algorithm.transpose()?;
        let checksum = algorithm.and_then(|algorithm| header(algorithm.header())).map(str::to_owned);
        Ok(BodyHeaders { length, sha256, md5: md5.transpose()?, algorithm, checksum, chunks })
    }
}
