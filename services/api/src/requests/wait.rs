//! Requests that wait for something because their client asked for it.

use crate::limits::capacity::Capacity;
use crate::limits::permits::Permit;
use crate::limits::slot::RequestSlot;
use crate::problem::{Kind, Problem};
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::TenantId;

/// The longest time that a client may wait for an upload to be built.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Time between two checks of the awaited state.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A wait with an end. While it waits, the request holds a permit for waits, and none for running requests.
pub struct Wait {
    slot: RequestSlot,
    end: Instant,
    permit: Option<Permit>,
}

impl Wait {
    /// Creates a wait for the time that the client `asked` for, up to `longest`.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`].
    pub fn new(slot: RequestSlot, asked: Option<&str>, longest: Duration) -> Result<Wait, Problem> {
        let asked = asked.map(parse_duration).transpose()?.unwrap_or_default();
        Ok(Wait { slot, end: Instant::now() + asked.min(longest), permit: None })
    }

    /// Returns true once the time is over.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Waits until the next check.
    ///
    /// # Errors
    /// Too many requests wait.
    pub async fn wait_for_check(&mut self, capacity: &Capacity, tenant: &TenantId) -> Result<(), Problem> {
        if self.permit.is_none() {
            self.permit = Some(capacity.permits.waits.try_acquire(tenant, 1)?);
            self.slot.release();
        }
        tokio::time::sleep_until(self.end.min(Instant::now() + CHECK_INTERVAL)).await;
        Ok(())
    }
}

/// Reads how long a client asks to wait: a time such as `30s` or `500ms`; a bare number counts seconds.
///
/// # Errors
/// [`Kind::InvalidParameter`].
fn parse_duration(text: &str) -> Result<Duration, Problem> {
    let (digits, unit): (&str, fn(u64) -> Duration) = match (text.strip_suffix("ms"), text.strip_suffix('s'))
    {
        (Some(digits), _) => (digits, Duration::from_millis),
        (None, Some(digits)) => (digits, Duration::from_secs),
        (None, None) => (text, Duration::from_secs),
    };
    let number = Some(digits).filter(|d| (1..=6).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_digit()));
    let number: Option<u64> = number.and_then(|digits| digits.parse().ok());
    number.map(unit).ok_or_else(|| Problem::new(Kind::InvalidParameter, "wait: a time such as 30s or 500ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_unit_or_counts_seconds() {
        for (text, millis) in [("30s", 30_000), ("30", 30_000), ("500ms", 500), ("0", 0)] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "s", "-1", "1m", "1.5s", "9999999", "+5"] {
            assert_eq!(parse_duration(text).unwrap_err().kind(), Kind::InvalidParameter, "{text}");
        }
    }
}
