//! A report inside a message: its length (u32, little endian), then one lz4 block.

/// The reason why a compressed body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body claims more bytes than the reader accepts.
    #[error("the body claims {claimed} bytes, the limit is {limit}")]
    TooLarge {
        /// The claimed length in bytes.
        claimed: usize,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The block is damaged.
    #[error("the body is no lz4 block: {0}")]
    Damaged(String),
}

/// Compresses a report for [`crate::report::resymbolicate::Body::InlineLz4`].
#[must_use]
pub fn compress_report(report: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress_prepend_size(report)
}

/// Reads the output of [`compress_report`]. Checks the length against `limit` before it allocates memory.
///
/// # Errors
/// Returns [`BodyError`] if the body is over the limit or damaged.
pub fn decompress_report(body: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    let damaged = |e: lz4_flex::block::DecompressError| BodyError::Damaged(e.to_string());
    let (claimed, block) = lz4_flex::block::uncompressed_size(body).map_err(damaged)?;
    if claimed > limit {
        return Err(BodyError::TooLarge { claimed, limit });
    }
    lz4_flex::block::decompress(block, claimed).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_survives_and_a_bomb_is_refused_before_memory_is_taken() {
        let report = br#"{"report":{}}"#.repeat(50);
        let body = compress_report(&report);
        assert_eq!(decompress_report(&body, 1 << 20).unwrap(), report);
        assert_eq!(
            decompress_report(&body, 10),
            Err(BodyError::TooLarge { claimed: report.len(), limit: 10 })
        );
        assert!(matches!(
            decompress_report(&[0xFF, 0xFF, 0xFF, 0x7F, 0], 1 << 20),
            Err(BodyError::TooLarge { .. })
        ));
        assert!(matches!(decompress_report(&body[..body.len() - 3], 1 << 20), Err(BodyError::Damaged(_))));
        assert!(decompress_report(&[1], 10).is_err());
    }
}
