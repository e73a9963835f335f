//! Where a page of a list ends, as a text that a client hands back.
//!
//! The text is hexadecimal: one byte of format version, one byte that says which list it is of, then
//! the last row's key. History: version 1, the first.

use crate::Uuid;
use crate::keys::ApiKey;
use crate::number::to_row32;
use crate::objects::ObjectRow;
use time::OffsetDateTime;
use unslide_model::ReportId;

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;

/// A text that is no cursor of the list that it was given to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list: take it from the page before, unchanged")]
pub struct CursorError;

/// The last entry of a page: its time, and the `N` bytes of what orders entries of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCursor<const LIST: u8, const N: usize> {
    pub(crate) at: OffsetDateTime,
    key: [u8; N],
}

/// The last report of a page.
pub type ReportCursor = PageCursor<b'r', 20>;
/// The last object of a page.
pub type ObjectCursor = PageCursor<b'o', 32>;
/// The last API key of a page.
pub type KeyCursor = PageCursor<b'k', 16>;

impl<const LIST: u8, const N: usize> PageCursor<LIST, N> {
    /// As text.
    #[must_use]
    pub fn write(&self) -> String {
        let micros = crate::outbox::micros(self.at).to_be_bytes();
        let bytes = [VERSION, LIST].into_iter().chain(micros).chain(self.key);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// From text.
    ///
    /// # Errors
    /// [`CursorError`] for any other text.
    pub fn read(text: &str) -> Result<PageCursor<LIST, N>, CursorError> {
        let digits = text.as_bytes();
        if digits.len() != (2 + 8 + N) * 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(CursorError);
        }
        let byte = |at: usize| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| CursorError);
        if byte(0)? != VERSION || byte(1)? != LIST {
            return Err(CursorError);
        }
        let (mut micros, mut key) = ([0; 8], [0; N]);
        for (place, to) in micros.iter_mut().chain(&mut key).enumerate() {
            *to = byte(2 + place)?;
        }
        let nanos = i128::from(i64::from_be_bytes(micros)) * 1_000;
        let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| CursorError)?;
        Ok(PageCursor { at, key })
    }
}

impl ReportCursor {
    pub(crate) fn after(at: OffsetDateTime, report_id: ReportId, variant: u32) -> ReportCursor {
        let mut key = [0; 20];
        key[..16].copy_from_slice(&report_id.0);
        key[16..].copy_from_slice(&to_row32(variant).to_be_bytes());
        PageCursor { at, key }
    }

    /// The report and its variant.
    pub(crate) fn report(&self) -> (Uuid, i32) {
        let (id, variant) = self.key.split_at(16);
        (
            Uuid::from_slice(id).unwrap_or_default(),
            variant.iter().fold(0, |n, byte| n << 8 | i32::from(*byte)),
        )
    }
}

impl ObjectCursor {
    pub(crate) fn after(object: &ObjectRow) -> ObjectCursor {
        PageCursor { at: object.created_at, key: object.content_hash.0 }
    }

    pub(crate) fn content_hash(&self) -> &[u8] {
        &self.key
    }
}

impl KeyCursor {
    /// The page that ends with this key.
    #[must_use]
    pub fn after(key: &ApiKey) -> KeyCursor {
        PageCursor { at: key.created_at, key: key.id.into_bytes() }
    }

    pub(crate) fn id(&self) -> Uuid {
        Uuid::from_bytes(self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients keep cursors over an update: a changed text needs a new version and a line in the
    /// history above.
    #[test]
    fn the_format_is_version_1() {
        let at = OffsetDateTime::from_unix_timestamp(1_763_600_000).unwrap();
        let report = ReportCursor::after(at, ReportId([0xAB; 16]), 2);
        let text = report.write();
        assert_eq!(text, "0172000643fc1f86a000abababababababababababababababab00000002");
        assert_eq!(ReportCursor::read(&text), Ok(report));
        assert_eq!(report.report(), (Uuid::from_bytes([0xAB; 16]), 2));
        let object = ObjectCursor { at, key: [1; 32] };
        let text = object.write();
        assert_eq!(text, format!("016f000643fc1f86a000{}", "01".repeat(32)));
        assert_eq!(ObjectCursor::read(&text), Ok(object));
        let key = KeyCursor { at, key: [2; 16] };
        let text = key.write();
        assert_eq!(text, format!("016b000643fc1f86a000{}", "02".repeat(16)));
        assert_eq!(KeyCursor::read(&text), Ok(key));
    }

    #[test]
    fn anything_else_is_refused() {
        let good = ObjectCursor { at: OffsetDateTime::UNIX_EPOCH, key: [1; 32] }.write();
        let far = format!("0172{}{}", "7f".repeat(8), "00".repeat(20));
        for bad in ["", "01", "zz", &good, &good.replacen("01", "02", 1), "é", &far] {
            assert_eq!(ReportCursor::read(bad), Err(CursorError), "{bad}");
        }
    }
}
