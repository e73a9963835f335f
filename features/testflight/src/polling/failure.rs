//! Failures of a turn, and the pause after each.

use super::{NEXT_TURN_INTERVAL, POLL_INTERVAL};
use crate::apple::{AppleError, AppleKeyError};
use crate::sealing::SEALING_KEY;
use crate::store::PollEnd;
use time::Duration;
use unslide_api::feature::sealing::SealError;
use unslide_api::problem::Problem;
use unslide_model::TenantId;
use unslide_store::StoreError;

/// The first pause after a failure of Apple's, which doubles up to the longest.
const FIRST_BACKOFF: Duration = Duration::minutes(1);
const BACKOFF_MAX: Duration = Duration::hours(1);
/// The pause after a failure that a person has to mend. Setting the key again, or asking for a poll, ends it.
const PERSON_NEEDED_INTERVAL: Duration = Duration::days(1);

/// The failure of a turn. Texts are for the tenant.
#[derive(Debug, thiserror::Error)]
pub enum TurnFailure {
    #[error("{0}")]
    Apple(#[from] AppleError),
    #[error("{app}: {error}")]
    App { app: String, error: AppleError },
    #[error("the team of the key has no app {0}, or the key may not see it")]
    UnknownApp(String),
    #[error("the requests of this hour are used up to a tenth, which is left to others")]
    RateUsedUp,
    #[error("the key has passed the end that was set for it: set a new one")]
    Expired,
    #[error(transparent)]
    Sealed(#[from] SealError),
    #[error("{0}")]
    Key(#[from] AppleKeyError),
    #[error("the operator of the service has removed {SEALING_KEY}")]
    NoSealer,
    #[error("TLS cannot be set up")]
    NoTls,
    #[error("the database fails")]
    Store(#[from] StoreError),
    #[error("reports cannot be sent now")]
    Send(Problem),
}

impl TurnFailure {
    /// Returns true if only a person can mend it.
    fn needs_person(&self) -> bool {
        match self {
            TurnFailure::Apple(error) | TurnFailure::App { error, .. } => {
                matches!(
                    error,
                    AppleError::Unauthorized(_) | AppleError::Forbidden(_) | AppleError::NotFound { .. }
                )
            }
            TurnFailure::UnknownApp(_)
            | TurnFailure::Expired
            | TurnFailure::Sealed(_)
            | TurnFailure::Key(_)
            | TurnFailure::NoSealer
            | TurnFailure::NoTls => true,
            TurnFailure::RateUsedUp | TurnFailure::Store(_) | TurnFailure::Send(_) => false,
        }
    }

    /// Returns the end of a poll after which `failures` polls in a row had failed before.
    pub fn into_end(self, failures: i32, tenant: &TenantId) -> PollEnd {
        let problem = self.to_string();
        let (pause, is_held) = match &self {
            TurnFailure::RateUsedUp => return PollEnd { pause: POLL_INTERVAL, is_held: true, problem: None },
            TurnFailure::Store(error) => {
                tracing::warn!(error = %error, %tenant, "a poll of a TestFlight inbox failed");
                (NEXT_TURN_INTERVAL, false)
            }
            TurnFailure::Send(problem) => {
                tracing::warn!(problem = ?problem, %tenant, "a crash log of TestFlight could not be sent");
                (FIRST_BACKOFF, false)
            }
            TurnFailure::Apple(AppleError::Limited { pause }) => {
                let named = pause.and_then(|pause| Duration::try_from(pause).ok());
                (named.unwrap_or_else(|| backoff(failures)), true)
            }
            _ if self.needs_person() => (PERSON_NEEDED_INTERVAL, false),
            _ => (backoff(failures), false),
        };
        PollEnd { pause, is_held, problem: Some(problem) }
    }
}

fn backoff(failures: i32) -> Duration {
    let doublings = u32::try_from(failures).unwrap_or_default().min(6);
    (FIRST_BACKOFF * 2_i32.pow(doublings)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[test]
    fn each_failure_has_its_pause() {
        let tenant = TenantId::new("acme").unwrap();
        let minutes = |failure: TurnFailure, failures| {
            let end = failure.into_end(failures, &tenant);
            (end.pause.whole_minutes(), end.is_held)
        };
        let limited =
            |seconds: Option<u64>| AppleError::Limited { pause: seconds.map(std::time::Duration::from_secs) };
        assert_eq!(minutes(limited(Some(600)).into(), 5), (10, true), "Apple names the pause");
        assert_eq!(minutes(limited(None).into(), 0), (1, true));
        assert_eq!(minutes(limited(None).into(), 3), (8, true));
        assert_eq!(minutes(limited(None).into(), i32::MAX), (60, true));
        assert_eq!(minutes(AppleError::Server(StatusCode::BAD_GATEWAY).into(), 1), (2, false));
        assert_eq!(minutes(AppleError::Forbidden("revoked".to_owned()).into(), 1), (24 * 60, false));
        assert_eq!(minutes(TurnFailure::RateUsedUp, 0), (15, true));
        assert_eq!(minutes(TurnFailure::Expired, 0), (24 * 60, false));
    }
}
