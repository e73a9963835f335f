//! The id of a dead letter, and its position in a list.

use super::DeadLetter;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use time::OffsetDateTime;
use unslide_model::timestamp;

/// A dead letter's place in the dead-letter topic, which names it: `<topic id>-<partition>-<offset>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterId {
    /// The broker's id of the topic.
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// A text that names no dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a dead letter")]
pub struct NoDeadLetterId;

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.topic_id, self.partition, self.offset)
    }
}

impl Serialize for DeadLetterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for DeadLetterId {
    type Err = NoDeadLetterId;

    fn from_str(text: &str) -> Result<DeadLetterId, NoDeadLetterId> {
        let parts: Vec<&str> = text.split('-').collect();
        let [topic_id, partition, offset] = parts[..] else { return Err(NoDeadLetterId) };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let hex = topic_id.len() == 32 && topic_id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !hex || !digits(partition) || !digits(offset) {
            return Err(NoDeadLetterId);
        }
        let id = DeadLetterId {
            topic_id: topic_id.to_owned(),
            partition: partition.parse().map_err(|_| NoDeadLetterId)?,
            offset: offset.parse().map_err(|_| NoDeadLetterId)?,
        };
        // Zeros in front would make another name for the same dead letter.
        if id.to_string() == text { Ok(id) } else { Err(NoDeadLetterId) }
    }
}

/// The last dead letter of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterCursor {
    pub(super) arrived_at: OffsetDateTime,
    pub(super) id: DeadLetterId,
}

impl DeadLetterCursor {
    /// Returns the cursor behind this dead letter.
    #[must_use]
    pub fn after_dead_letter(letter: &DeadLetter) -> DeadLetterCursor {
        DeadLetterCursor { arrived_at: letter.arrived_at, id: letter.id.clone() }
    }

    /// Writes it as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{}/{}", crate::outbox::to_micros(self.arrived_at), self.id)
    }

    /// Reads it from text; `None` for any other text.
    #[must_use]
    pub fn from_text(text: &str) -> Option<DeadLetterCursor> {
        let (micros, id) = text.split_once('/')?;
        Some(DeadLetterCursor {
            arrived_at: timestamp::from_micros(micros.parse().ok()?)?,
            id: id.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients keep cursors over an update: another text must not be read as this one.
    #[test]
    fn a_cursor_is_the_time_and_the_letter() {
        let id = DeadLetterId {
            topic_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            partition: 3,
            offset: 70,
        };
        let arrived_at = OffsetDateTime::from_unix_timestamp_nanos(1_763_600_000_000_001_000).unwrap();
        let cursor = DeadLetterCursor { arrived_at, id };
        let text = cursor.to_text();
        assert_eq!(text, "1763600000000001/0af7651916cd43dd8448eb211c80319c-3-70");
        assert_eq!(DeadLetterCursor::from_text(&text), Some(cursor));
        let far = text.replacen("1763600000000001", "9223372036854775807", 1);
        let zeros = text.replacen("-3-", "-03-", 1);
        let bad = [
            "",
            "/",
            "1763600000000001",
            &text.replacen('1', "", 1).replace('/', ""),
            &text.to_uppercase(),
            &far,
            &zeros,
        ];
        for bad in bad {
            assert_eq!(DeadLetterCursor::from_text(bad), None, "{bad}");
        }
    }
}
