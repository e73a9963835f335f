//! Where a page of a list ends, as a text that a client hands back.
//!
//! The text is hexadecimal: one byte of format version, one byte that says which list it is of, then
//! the last row's key. History: version 1, the first.

use crate::Uuid;
use crate::number::{from_row32, to_row32};
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId};

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;
const REPORTS: u8 = b'r';
const OBJECTS: u8 = b'o';
const KEYS: u8 = b'k';

/// A text that is no cursor of the list that it was given to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list: take it from the page before, unchanged")]
pub struct CursorError;

/// The last report of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportCursor {
    pub(crate) received_at: OffsetDateTime,
    pub(crate) report_id: ReportId,
    pub(crate) variant: u32,
}

/// The last object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectCursor {
    pub(crate) created_at: OffsetDateTime,
    pub(crate) content_hash: ContentHash,
}

/// The last key of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCursor {
    pub(crate) created_at: OffsetDateTime,
    pub(crate) id: Uuid,
}

fn write(list: u8, parts: &[&[u8]]) -> String {
    let bytes = [VERSION, list].into_iter().chain(parts.iter().flat_map(|part| part.iter().copied()));
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn read<const N: usize>(list: u8, text: &str) -> Result<[u8; N], CursorError> {
    let digits = text.as_bytes();
    if digits.len() != (N + 2) * 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(CursorError);
    }
    let byte = |at: usize| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| CursorError);
    if byte(0)? != VERSION || byte(1)? != list {
        return Err(CursorError);
    }
    let mut out = [0; N];
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = byte(i + 2)?;
    }
    Ok(out)
}

fn at(micros: [u8; 8]) -> Result<OffsetDateTime, CursorError> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(i64::from_be_bytes(micros)) * 1_000)
        .map_err(|_| CursorError)
}

fn cut<const N: usize>(bytes: &[u8], from: usize) -> Result<[u8; N], CursorError> {
    bytes.get(from..from + N).and_then(|part| part.try_into().ok()).ok_or(CursorError)
}

impl ReportCursor {
    /// As text.
    #[must_use]
    pub fn write(&self) -> String {
        let micros = crate::outbox::micros(self.received_at).to_be_bytes();
        write(REPORTS, &[&micros, &self.report_id.0, &to_row32(self.variant).to_be_bytes()])
    }

    /// From text.
    ///
    /// # Errors
    /// [`CursorError`] for any other text.
    pub fn read(text: &str) -> Result<ReportCursor, CursorError> {
        let bytes: [u8; 28] = read(REPORTS, text)?;
        Ok(ReportCursor {
            received_at: at(cut(&bytes, 0)?)?,
            report_id: ReportId(cut(&bytes, 8)?),
            variant: from_row32(i32::from_be_bytes(cut(&bytes, 24)?)),
        })
    }
}

impl ObjectCursor {
    /// As text.
    #[must_use]
    pub fn write(&self) -> String {
        let micros = crate::outbox::micros(self.created_at).to_be_bytes();
        write(OBJECTS, &[&micros, &self.content_hash.0])
    }

    /// From text.
    ///
    /// # Errors
    /// [`CursorError`] for any other text.
    pub fn read(text: &str) -> Result<ObjectCursor, CursorError> {
        let bytes: [u8; 40] = read(OBJECTS, text)?;
        Ok(ObjectCursor { created_at: at(cut(&bytes, 0)?)?, content_hash: ContentHash(cut(&bytes, 8)?) })
    }
}

impl KeyCursor {
    /// The page that ends with this key.
    #[must_use]
    pub fn after(key: &crate::keys::Key) -> KeyCursor {
        KeyCursor { created_at: key.created_at, id: key.id }
    }

    /// As text.
    #[must_use]
    pub fn write(&self) -> String {
        write(KEYS, &[&crate::outbox::micros(self.created_at).to_be_bytes(), self.id.as_bytes()])
    }

    /// From text.
    ///
    /// # Errors
    /// [`CursorError`] for any other text.
    pub fn read(text: &str) -> Result<KeyCursor, CursorError> {
        let bytes: [u8; 24] = read(KEYS, text)?;
        Ok(KeyCursor { created_at: at(cut(&bytes, 0)?)?, id: Uuid::from_bytes(cut(&bytes, 8)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients keep cursors over an update: a changed text needs a new version and a line in the
    /// history above.
    #[test]
    fn the_format_is_version_1() {
        let cursor = ReportCursor {
            received_at: OffsetDateTime::from_unix_timestamp(1_763_600_000).unwrap(),
            report_id: ReportId([0xAB; 16]),
            variant: 2,
        };
        let text = cursor.write();
        assert_eq!(text, "0172000643fc1f86a000abababababababababababababababab00000002");
        assert_eq!(ReportCursor::read(&text), Ok(cursor));
        let object = ObjectCursor { created_at: cursor.received_at, content_hash: ContentHash([1; 32]) };
        let text = object.write();
        assert_eq!(text, format!("016f000643fc1f86a000{}", "01".repeat(32)));
        assert_eq!(ObjectCursor::read(&text), Ok(object));
        let key = KeyCursor { created_at: cursor.received_at, id: Uuid::from_bytes([2; 16]) };
        let text = key.write();
        assert_eq!(text, format!("016b000643fc1f86a000{}", "02".repeat(16)));
        assert_eq!(KeyCursor::read(&text), Ok(key));
    }

    #[test]
    fn anything_else_is_refused() {
        let good =
            ObjectCursor { created_at: OffsetDateTime::UNIX_EPOCH, content_hash: ContentHash([1; 32]) }
                .write();
        let far = format!("0172{}{}", "7f".repeat(8), "00".repeat(20));
        for bad in ["", "01", "zz", &good, &good.replacen("01", "02", 1), "é", &far] {
            assert_eq!(ReportCursor::read(bad), Err(CursorError), "{bad}");
        }
    }
}
