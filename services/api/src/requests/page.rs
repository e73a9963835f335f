//! Cursors: the start of the next page of a list.
//!
//! A cursor is text that the client returns unchanged: hexadecimal of a version byte, a fingerprint of the
//! tenant and the filters that it was made for (8 bytes), and the last row's position, a UTF-8 text that the
//! list defines. A cursor with other filters, or from another tenant, is refused rather than answered with a
//! page that makes no sense; row-level security guards the rows themselves.
//!
//! History: version 1, the first.

use crate::problem::{Kind, Problem};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::{Debug, Display};
use std::str::FromStr;
use time::OffsetDateTime;
use unslide_model::timestamp;
use unslide_store::outbox::to_micros;
use utoipa::{IntoParams, ToSchema};

const CURSOR_VERSION: u8 = 1;
const CURSOR_HEAD_BYTES: usize = 9;
/// Longer cursors are refused before they are decoded.
const CURSOR_TEXT_BYTES: usize = 4_096;

/// Entries per page: the maximum, and the default if the client gives no number.
pub const MAX_LIMIT: u32 = 500;
const DEFAULT_LIMIT: u32 = 50;

/// Which part of a list to answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page<T> {
    /// The entries of this page.
    pub items: Vec<T>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The list that a cursor belongs to.
#[derive(Clone, Copy, Debug)]
pub struct List([u8; 8]);

impl List {
    /// Creates the list that an operation returns for an owner with these filters.
    #[must_use]
    pub fn for_operation(owner: &impl Display, operation: &str, filters: &impl Debug) -> List {
        let digest = Sha256::digest(format!("{owner}\n{operation}\n{filters:?}"));
        let mut tag = [0; 8];
        tag.copy_from_slice(&digest[..8]);
        List(tag)
    }

    /// Returns the cursor of the page after `position`.
    #[must_use]
    pub fn encode_cursor(self, position: &str) -> String {
        let bytes = [CURSOR_VERSION].into_iter().chain(self.0).chain(position.bytes());
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the position in a cursor of this list.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`] if the text is no cursor of this list.
    pub fn decode_cursor(self, cursor: &str) -> Result<String, Problem> {
        if cursor.len() > CURSOR_TEXT_BYTES {
            return Err(refuse_cursor("too long"));
        }
        let bytes = decode_hex(cursor).filter(|b| b.len() > CURSOR_HEAD_BYTES && b[0] == CURSOR_VERSION);
        let bytes = bytes.ok_or_else(foreign_cursor)?;
        if bytes[1..CURSOR_HEAD_BYTES] != self.0 {
            return Err(refuse_cursor("it was made for other filters; begin again without a cursor"));
        }
        String::from_utf8(bytes[CURSOR_HEAD_BYTES..].to_vec()).map_err(|_| foreign_cursor())
    }
}

fn refuse_cursor(why: &str) -> Problem {
    Problem::new(Kind::InvalidParameter, format!("cursor: {why}"))
}

/// Returns the problem for a cursor that no list of this service made.
#[must_use]
pub fn foreign_cursor() -> Problem {
    refuse_cursor("not one that this service gave out")
}

impl<T> Page<T> {
    /// Creates a page from `found`, which was queried with one entry more than `limit`; `position` returns an
    /// entry's position in the list.
    #[must_use]
    pub fn from_rows<R: Into<T>>(
        mut found: Vec<R>,
        limit: u32,
        list: List,
        position: impl Fn(&R) -> String,
    ) -> Page<T> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(|last| list.encode_cursor(&position(last)));
        Page { items: found.into_iter().map(R::into).collect(), next_cursor }
    }
}

impl PageQuery {
    /// Returns the end of the previous page, read from its cursor; `None` on the first page.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`] for a cursor of another list, or if `read` finds no position.
    pub fn read_cursor<P>(&self, list: List, read: impl Fn(&str) -> Option<P>) -> Result<Option<P>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        read(&list.decode_cursor(cursor)?).map(Some).ok_or_else(foreign_cursor)
    }

    /// Returns the number of entries per page.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`] outside 1 to 500.
    pub fn check_limit(&self) -> Result<u32, Problem> {
        match self.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MAX_LIMIT => Ok(limit),
            _ => Err(Problem::new(Kind::InvalidParameter, format!("limit: 1 to {MAX_LIMIT}"))),
        }
    }
}

/// Returns the position of a row that is ordered by a number, and then by its id.
#[must_use]
pub fn position_by_number(number: i64, id: impl Display) -> String {
    format!("{number}.{id}")
}

/// Returns the position of a row that is ordered by a time, and then by its id.
#[must_use]
pub fn position_by_time(at: OffsetDateTime, id: impl Display) -> String {
    position_by_number(to_micros(at), id)
}

/// Reads the time and the id of a [`position_by_time`] position.
#[must_use]
pub fn time_and_id<T: FromStr>(position: &str) -> Option<(OffsetDateTime, T)> {
    let (micros, id) = number_and_id(position)?;
    Some((timestamp::from_micros(micros)?, id))
}

/// Reads the number and the id of a [`position_by_number`] position.
#[must_use]
pub fn number_and_id<T: FromStr>(position: &str) -> Option<(i64, T)> {
    let (number, id) = position.split_once('.')?;
    Some((number.parse().ok()?, id.parse().ok()?))
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::TenantId;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    /// The format outlives a deployment: clients hold cursors across a rollout. A change needs a
    /// new version and an entry in the history above.
    #[test]
    fn version_1_is_fixed() {
        let list = List::for_operation(&tenant("acme"), "list_reports", &("app", Some("Shop")));
        let cursor = list.encode_cursor("position");
        insta::assert_snapshot!(cursor);
        assert_eq!(list.decode_cursor(&cursor).unwrap(), "position");
    }

    #[test]
    fn a_cursor_serves_one_list_of_one_tenant() {
        let list = List::for_operation(&tenant("acme"), "list_reports", &"filters");
        let cursor = list.encode_cursor("position");
        for other in [
            List::for_operation(&tenant("umbrella"), "list_reports", &"filters"),
            List::for_operation(&tenant("acme"), "list_symbols", &"filters"),
            List::for_operation(&tenant("acme"), "list_reports", &"others"),
        ] {
            assert_eq!(other.decode_cursor(&cursor).unwrap_err().kind(), Kind::InvalidParameter);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,80}") {
            let list = List::for_operation(&tenant("acme"), "list", &());
            proptest::prop_assert!(list.decode_cursor(&text).is_err());
        }

        #[test]
        fn a_position_survives(position in "\\PC{1,40}") {
            let list = List::for_operation(&tenant("acme"), "list", &());
            proptest::prop_assert_eq!(list.decode_cursor(&list.encode_cursor(&position)).unwrap(), position);
        }
    }
}
