//! A new consumer after the group has refused this one forever.
//!
//! The group fences a member with a fixed name when another one joins under its name. That is another process, or this
//! lane itself: while the group moves between brokers, a member that joins again may be counted as two. Time tells them
//! apart: a member without a process is gone once its session is over.

use crate::error::StreamError;
use crate::lane::assignment::expulsion::{Expulsion, make_consumer};
use crate::lane::engine::{Engine, STORE_ATTEMPT_TIMEOUT};
use crate::lane::progress::AssignmentChecks;
use crate::lane::{LaneError, Processor};
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use std::time::Duration;
use tokio::time::Instant;

/// How often the lane looks for a member of its name.
const NAME_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// New consumers in a row, without a commit, after which the lane ends.
const NEW_CONSUMERS_LIMIT: u32 = 5;

impl<P: Processor> Engine<P> {
    /// Drops all work and pauses, until [`Engine::try_rejoin`] has made another consumer.
    pub(in crate::lane) fn begin_expulsion(&mut self, error: &KafkaError) {
        tracing::error!(error = %error, "the group refuses this lane's consumer: a new one joins once the name is free");
        self.queues.clear();
        self.trial = None;
        // A stop needs to wait for nothing.
        self.rewinding = true;
        self.pause.begin_pause(format!("out of the consumer group, and about to join again: {error}"));
        let now = Instant::now();
        self.expulsion = Some(Expulsion { begun: now, next_check: now, name_seen: None });
    }

    /// Joins the group with a new consumer if no living member has this lane's name.
    ///
    /// # Errors
    /// [`LaneError::Fenced`] if another process has the name.
    pub(in crate::lane) fn try_rejoin(&mut self) -> Result<(), LaneError> {
        let Some(Expulsion { begun, next_check, name_seen }) = &self.expulsion else { return Ok(()) };
        let (begun, now) = (*begun, Instant::now());
        if now < *next_check {
            return Ok(());
        }
        let seen = match self.is_name_taken() {
            Some(true) => Some(name_seen.unwrap_or(now)),
            Some(false) => return self.join_again(),
            // A group that cannot be looked at is no reason to stay away from it.
            None if now - begun >= self.session_end() => return self.join_again(),
            None => *name_seen,
        };
        if seen.is_some_and(|seen| now - seen >= self.session_end()) {
            return Err(self.fenced_error());
        }
        self.expulsion = Some(Expulsion { begun, next_check: now + NAME_CHECK_INTERVAL, name_seen: seen });
        Ok(())
    }

    /// Returns the time after which a member without a process is surely gone.
    fn session_end(&self) -> Duration {
        2 * self.lane.timings.session
    }

    /// Returns true if the group has a member of this lane's name; `None` if the group cannot be asked.
    fn is_name_taken(&self) -> Option<bool> {
        let _call = self.control.watch.enter_call("look for the name in the group");
        let name = self.lane.group_name(&self.settings);
        let groups = self.consumer.fetch_group_list(Some(&name), STORE_ATTEMPT_TIMEOUT).ok()?;
        let group = groups.groups().iter().find(|group| group.name() == name)?;
        // The id of a member with a fixed name begins with it.
        let prefix = format!("{}-", self.lane.member_name(&self.settings));
        Some(group.members().iter().any(|member| member.id().starts_with(&prefix)))
    }

    fn join_again(&mut self) -> Result<(), LaneError> {
        self.progress.new_consumers += 1;
        if self.progress.new_consumers > NEW_CONSUMERS_LIMIT {
            return Err(self.fenced_error());
        }
        let made = make_consumer(&self.settings, &self.lane, &self.control, &self.observer);
        let consumer =
            made.map_err(|e| self.client_error(StreamError::from_kafka("making a new consumer", e)))?;
        {
            let _call = self.control.watch.enter_call("close the refused consumer");
            drop(std::mem::replace(&mut self.consumer, consumer));
        }
        let joined = self.consumer.subscribe(&self.lane.list_subscriptions());
        joined.map_err(|e| self.client_error(StreamError::from_kafka("joining the group again", e)))?;
        self.checks = AssignmentChecks::default();
        self.polling.fetching_paused = false;
        self.pause.end_pause();
        self.expulsion = None;
        tracing::info!("a new consumer joins the group");
        // A transaction of this lane may still be open.
        self.start_over()
    }

    fn fenced_error(&self) -> LaneError {
        LaneError::Fenced { lane: self.lane.name.clone(), worker: self.lane.worker.clone() }
    }
}
