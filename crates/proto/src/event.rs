//! Events that apps and gateways send: the common parts of their kinds.

use std::ops::RangeInclusive;
use time::{Date, Duration, OffsetDateTime, UtcOffset};
use unslide_model::SenderKeyId;
use unslide_model::json::JsonError;

/// Characters of an id.
pub const ID_CHARS: usize = 100;
/// Characters of every other text.
pub const TEXT_CHARS: usize = 200;
/// How many days before its arrival the time of an event may lie: the figures of earlier days stay.
const LATEST_DAYS: i64 = 30;
/// By how much the device's clock may be ahead.
const CLOCK_AHEAD_LIMIT: Duration = Duration::DAY;
/// The least share that may be sampled.
const LEAST_SAMPLED: f64 = 0.001;

/// An event that is sent by a topic. The same id again is the same event.
pub trait GatewayEvent: Sized + Send + 'static {
    /// Reads the JSON of one event.
    ///
    /// # Errors
    /// [`EventError`], which names the field.
    fn from_json(json: &[u8]) -> Result<Self, EventError>;

    /// Returns the id that distinguishes the events of an app.
    fn id(&self) -> &str;

    /// Returns the bundle identifier.
    fn app(&self) -> &str;

    /// Returns the time that the event is counted for, and the field that has it.
    fn event_time(&self) -> (&'static str, OffsetDateTime);

    /// Keys with values that were not understood.
    fn unread_keys(&self) -> &[String] {
        &[]
    }

    /// Returns the day that the event is counted for.
    fn event_day(&self) -> Date {
        let (_, at) = self.event_time();
        at.checked_to_offset(UtcOffset::UTC).unwrap_or(at).date()
    }

    /// Checks the event's time against the time of arrival: a device's clock may be wrong.
    ///
    /// # Errors
    /// [`EventError::Field`] for a time in the future.
    fn check_time(&self, arrived: OffsetDateTime) -> Result<(), EventError> {
        let (field, at) = self.event_time();
        // Written so that no time is out of the range that a time can have.
        if at - arrived > CLOCK_AHEAD_LIMIT {
            return Err(field_error(field, "lies more than a day ahead: the device's clock is wrong"));
        }
        Ok(())
    }

    /// Reads one event that arrives now.
    ///
    /// # Errors
    /// As of [`GatewayEvent::from_json`] and [`GatewayEvent::check_time`].
    fn read_at(json: &[u8], arrived: OffsetDateTime) -> Result<Self, EventError> {
        let event = Self::from_json(json)?;
        event.check_time(arrived)?;
        Ok(event)
    }
}

/// An event that came from its topic.
#[derive(Clone, Debug, PartialEq)]
pub struct EventArrival<E> {
    /// The event.
    pub event: E,
    /// The broker's time.
    pub received_at: OffsetDateTime,
    /// The public key that an app sent it with.
    pub sender_key: Option<SenderKeyId>,
}

impl<E: GatewayEvent> EventArrival<E> {
    /// Returns true if the event's time is so long before its arrival that it is not counted any more.
    #[must_use]
    pub fn is_late(&self) -> bool {
        is_late(&self.event, self.received_at)
    }
}

/// Returns true if an event's time is so long before its arrival that it is not counted any more.
#[must_use]
pub fn is_late<E: GatewayEvent>(event: &E, received_at: OffsetDateTime) -> bool {
    event.event_day() < received_at.date().saturating_sub(Duration::days(LATEST_DAYS))
}

/// Why an event is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// It is too long.
    #[error("the event has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The event's size.
        bytes: usize,
        /// The size that is allowed.
        limit: usize,
    },
    /// It is no JSON object with the fields of such an event.
    #[error("{0}")]
    Json(String),
    /// A field has a value that is not taken.
    #[error("`{field}` {problem}")]
    Field {
        /// The field.
        field: &'static str,
        /// The problem with its value, and which values are right.
        problem: String,
    },
}

impl From<JsonError> for EventError {
    fn from(error: JsonError) -> EventError {
        EventError::Json(error.to_string())
    }
}

/// Returns the refusal of a field's value.
pub fn field_error(field: &'static str, problem: impl Into<String>) -> EventError {
    EventError::Field { field, problem: problem.into() }
}

/// Checks the size of an event's JSON.
///
/// # Errors
/// [`EventError::TooLarge`].
pub fn check_size(json: &[u8], limit: usize) -> Result<(), EventError> {
    match json.len() {
        bytes if bytes > limit => Err(EventError::TooLarge { bytes, limit }),
        _ => Ok(()),
    }
}

/// Returns true if a text has so many characters, and none that PostgreSQL cannot store.
pub fn is_text(text: &str, chars: &RangeInclusive<usize>) -> bool {
    chars.contains(&text.chars().count()) && !text.contains('\0')
}

/// Checks texts, each with its field and the characters that it may have.
///
/// # Errors
/// [`EventError::Field`].
pub fn check_texts<'e>(
    texts: impl IntoIterator<Item = (&'static str, Option<&'e String>, RangeInclusive<usize>)>,
) -> Result<(), EventError> {
    for (field, text, chars) in texts {
        let Some(text) = text else { continue };
        if !chars.contains(&text.chars().count()) {
            return Err(field_error(
                field,
                format!("must have {} to {} characters", chars.start(), chars.end()),
            ));
        }
        if text.contains('\0') {
            return Err(field_error(field, "must not contain the character U+0000"));
        }
    }
    Ok(())
}

/// Checks the share that is sampled. Returns 1 if no share is named.
///
/// # Errors
/// [`EventError::Field`].
pub fn check_sampled(share: Option<f64>) -> Result<f64, EventError> {
    match share.unwrap_or(1.0) {
        share if (LEAST_SAMPLED..=1.0).contains(&share) => Ok(share),
        _ => Err(field_error("sampled", format!("must be between {LEAST_SAMPLED} and 1"))),
    }
}
