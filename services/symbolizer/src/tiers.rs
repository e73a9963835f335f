//! The retry tiers: topics whose records wait a fixed time each.

use std::time::Duration;
use unslide_proto::topics::TopicNames;

/// One tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// `unslide.retry.10s`
    TenSeconds,
    /// `unslide.retry.1m`
    Minute,
    /// `unslide.retry.10m`
    TenMinutes,
}

impl Tier {
    /// Where a record goes that was tried so often; `None` once it was in every tier.
    pub fn after(tries: u32) -> Option<Tier> {
        match tries {
            0 | 1 => Some(Tier::TenSeconds),
            2 => Some(Tier::Minute),
            3 => Some(Tier::TenMinutes),
            _ => None,
        }
    }

    /// The tier whose topic this is.
    pub fn of(names: &TopicNames, topic: &str) -> Option<Tier> {
        [Tier::TenSeconds, Tier::Minute, Tier::TenMinutes].into_iter().find(|tier| tier.topic(names) == topic)
    }

    /// Its topic.
    pub fn topic(self, names: &TopicNames) -> &str {
        match self {
            Tier::TenSeconds => &names.retry_10s,
            Tier::Minute => &names.retry_1m,
            Tier::TenMinutes => &names.retry_10m,
        }
    }

    /// How long a record waits from its arrival there. The same for all, so that the first record of
    /// a partition is always the first that is due.
    pub fn delay(self) -> Duration {
        match self {
            Tier::TenSeconds => Duration::from_secs(10),
            Tier::Minute => Duration::from_secs(60),
            Tier::TenMinutes => Duration::from_secs(600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_try_goes_to_a_longer_wait_and_the_fourth_is_the_last() {
        let names = TopicNames::with_prefix("x.");
        let topics: Vec<_> = (1..=3).map(|tries| Tier::after(tries).unwrap().topic(&names)).collect();
        assert_eq!(topics, ["x.unslide.retry.10s", "x.unslide.retry.1m", "x.unslide.retry.10m"]);
        assert_eq!(Tier::after(4), None);
        for topic in topics {
            assert_eq!(Tier::of(&names, topic).unwrap().topic(&names), topic);
        }
        assert_eq!(Tier::of(&names, &names.overflow), None);
        assert!(Tier::TenSeconds.delay() < Tier::Minute.delay());
        assert!(Tier::Minute.delay() < Tier::TenMinutes.delay());
    }
}
