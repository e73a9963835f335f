//! Bodies in the encoding `aws-chunked`: chunks with their lengths, signed or not, and headers behind them.

use super::error::S3Error;
use super::signature::ChunkSigner;
use sha2::{Digest, Sha256};

/// The most bytes of the line before a chunk, and of a header behind the chunks.
const LINE_BYTES_LIMIT: usize = 1 << 10;
/// The most headers behind the chunks.
const TRAILERS_LIMIT: usize = 8;
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// The part of the encoding that comes next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// The line with the length of a chunk.
    Length,
    /// This many bytes of a chunk.
    Bytes(u64),
    /// The end of the line behind a chunk.
    EndOfChunk,
    Trailer,
    /// The empty line behind the signature of the trailer.
    LastLine,
    Nothing,
}

/// Headers behind the chunks.
pub(super) type Trailers = Vec<(String, String)>;

/// Decodes a body as it arrives.
pub(super) struct ChunkDecoder {
    next: Next,
    line: Vec<u8>,
    signer: Option<ChunkSigner>,
    /// The bytes of this chunk so far, if chunks are signed.
    hash: Sha256,
    signature: String,
    trailers: Trailers,
}

impl ChunkDecoder {
    pub(super) fn new(signer: Option<ChunkSigner>) -> ChunkDecoder {
        let (line, signature, trailers) = (Vec::new(), String::new(), Vec::new());
        ChunkDecoder { next: Next::Length, line, signer, hash: Sha256::new(), signature, trailers }
    }

    /// Decodes the next bytes of the body, and passes on the bytes of the object.
    ///
    /// # Errors
    /// The encoding or a signature is wrong, or the receiver fails.
    pub(super) fn decode(
        &mut self,
        mut bytes: &[u8],
        mut receive: impl FnMut(&[u8]) -> Result<(), S3Error>,
    ) -> Result<(), S3Error> {
        while !bytes.is_empty() {
            if let Next::Bytes(left) = self.next {
                let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let (chunk, rest) = bytes.split_at(here);
                if self.signer.is_some() {
                    self.hash.update(chunk);
                }
                receive(chunk)?;
                bytes = rest;
                let left = left - here as u64;
                self.next = if left == 0 { Next::EndOfChunk } else { Next::Bytes(left) };
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.line.extend_from_slice(part);
            bytes = rest;
            if self.line.len() > LINE_BYTES_LIMIT || self.next == Next::Nothing {
                return Err(S3Error::IncompleteBody);
            }
            if end.is_some() {
                let line =
                    String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| S3Error::IncompleteBody)?;
                self.read_line(line.trim_end_matches(['\r', '\n']))?;
            }
        }
        Ok(())
    }

    fn read_line(&mut self, line: &str) -> Result<(), S3Error> {
        self.next = match self.next {
            Next::Length => {
                let (length, extension) = line.split_once(';').unwrap_or((line, ""));
                let length = u64::from_str_radix(length, 16).map_err(|_| S3Error::IncompleteBody)?;
                let signature = extension.strip_prefix("chunk-signature=").unwrap_or_default();
                signature.clone_into(&mut self.signature);
                if length == 0 {
                    self.check_signature()?;
                    Next::Trailer
                } else {
                    Next::Bytes(length)
                }
            }
            Next::EndOfChunk if line.is_empty() => {
                self.check_signature()?;
                Next::Length
            }
            Next::Trailer | Next::LastLine if line.is_empty() => Next::Nothing,
            Next::Trailer if self.trailers.len() < TRAILERS_LIMIT => self.read_trailer(line)?,
            _ => return Err(S3Error::IncompleteBody),
        };
        Ok(())
    }

    fn check_signature(&mut self) -> Result<(), S3Error> {
        match &mut self.signer {
            Some(signer) => signer.check_chunk(std::mem::take(&mut self.hash), &self.signature),
            None => Ok(()),
        }
    }

    fn read_trailer(&mut self, line: &str) -> Result<Next, S3Error> {
        let (name, value) = line.split_once(':').ok_or(S3Error::IncompleteBody)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name != TRAILER_SIGNATURE {
            self.trailers.push((name, value.to_owned()));
            return Ok(Next::Trailer);
        }
        if let Some(mut signer) = self.signer.take() {
            let lines: String =
                self.trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
            signer.check_trailer(&lines, value)?;
        }
        Ok(Next::LastLine)
    }

    /// Returns the headers behind the chunks.
    ///
    /// # Errors
    /// The body is not complete, or its trailer is not signed though its chunks are.
    pub(super) fn finish(self) -> Result<Trailers, S3Error> {
        // Some clients leave the last empty line out.
        let is_complete = matches!(self.next, Next::Nothing | Next::Trailer | Next::LastLine);
        if !is_complete || !self.line.is_empty() {
            return Err(S3Error::IncompleteBody);
        }
        if self.signer.is_some() && !self.trailers.is_empty() {
            return Err(S3Error::SignatureDoesNotMatch);
        }
        Ok(self.trailers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(encoded: &[u8], at_once: usize) -> Result<(Vec<u8>, Trailers), S3Error> {
        let (mut decoder, mut decoded) = (ChunkDecoder::new(None), Vec::new());
        for bytes in encoded.chunks(at_once) {
            decoder.decode(bytes, |chunk| {
                decoded.extend_from_slice(chunk);
                Ok(())
            })?;
        }
        Ok((decoded, decoder.finish()?))
    }

    #[test]
    fn chunks_are_decoded_however_they_arrive() {
        let encoded = b"5\r\nhello\r\nC;x=y\r\n wide\r\nworld\r\n0\r\nX-Amz-Checksum-CRC32: AAAA\r\n\r\n";
        for at_once in 1..=encoded.len() {
            let (decoded, trailers) = decode(encoded, at_once).unwrap();
            assert_eq!(decoded, b"hello wide\r\nworld");
            assert_eq!(trailers, [("x-amz-checksum-crc32".to_owned(), "AAAA".to_owned())]);
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        let (long_line, trailers) = ([b'1'; 2000], [b"0\r\n".to_vec(), b"a:b\r\n".repeat(9)].concat());
        for encoded in [
            &b""[..],
            b"5\r\nhello\r\n",
            b"5\r\nhello",
            b"5\r\nhelloo\r\n0\r\n\r\n",
            b"g\r\n",
            b"-1\r\n",
            b"fffffffffffffffff\r\n",
            b"0\r\nno header\r\n\r\n",
            b"0\r\n\r\nmore",
            &long_line,
            &trailers,
        ] {
            assert!(matches!(decode(encoded, 7), Err(S3Error::IncompleteBody)), "{encoded:?}");
        }
    }
}
