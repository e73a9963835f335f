//! State of a lane that its steps share: its progress, its pause, and when it last asked Kafka.

use crate::lane::LaneStatus;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The longest time between two polls while something is under way.
pub(super) const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Counts and times of the lane's work, and the channel of its status.
pub(super) struct LaneProgress {
    pub commits: u64,
    pub records: u64,
    /// Number of times that the producer was fenced since the last commit.
    pub fenced: u32,
    /// Number of times that a new consumer had to be made since the last commit.
    pub new_consumers: u32,
    /// When a transaction was last committed, a batch was last cut, or the lane last had no work.
    pub advanced: Instant,
    /// When a transaction last ended.
    pub written: Instant,
    status: watch::Sender<LaneStatus>,
}

impl LaneProgress {
    pub(super) fn new(status: watch::Sender<LaneStatus>) -> LaneProgress {
        let now = Instant::now();
        LaneProgress {
            commits: 0,
            records: 0,
            fenced: 0,
            new_consumers: 0,
            advanced: now,
            written: now,
            status,
        }
    }

    pub(super) fn record_commit(&mut self, records: usize) {
        self.advanced = Instant::now();
        self.fenced = 0;
        self.new_consumers = 0;
        self.commits += 1;
        self.records += records as u64;
    }

    /// Sends the lane's status if it has changed. A lane that has joined once remains so.
    pub(super) fn send_status(
        &self,
        partitions: usize,
        paused: Option<&str>,
        stalled: bool,
        has_joined: impl Fn() -> bool,
    ) {
        self.status.send_if_modified(|status| {
            let new = LaneStatus {
                joined: status.joined || has_joined(),
                partitions,
                paused: paused.map(str::to_owned),
                stalled,
                commits: self.commits,
                records: self.records,
                ended: false,
            };
            let changed = *status != new;
            *status = new;
            changed
        });
    }
}

/// A pause, during which no batch is prepared or written.
#[derive(Default)]
pub(super) struct LanePause {
    reason: Option<String>,
    /// The pause is for a topic that is missing: it ends with the next commit, and not with a preparation.
    until_commit: bool,
}

impl LanePause {
    pub(super) fn is_on(&self) -> bool {
        self.reason.is_some()
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(super) fn begin_pause(&mut self, reason: String) {
        self.reason = Some(reason);
    }

    /// Lets the pause that begins now end with a commit only.
    pub(super) fn hold_until_commit(&mut self) {
        self.until_commit = true;
    }

    pub(super) fn end_with_preparation(&mut self) {
        if !self.until_commit {
            self.reason = None;
        }
    }

    pub(super) fn end_pause(&mut self) {
        *self = LanePause::default();
    }
}

/// State of polling.
pub(super) struct PollState {
    /// Names of topics that records came from, so that all share one text.
    pub topic_names: BTreeSet<Arc<str>>,
    pub last_poll: Instant,
    pub fetching_paused: bool,
}

impl PollState {
    pub(super) fn new() -> PollState {
        PollState { topic_names: BTreeSet::new(), last_poll: Instant::now(), fetching_paused: false }
    }
}

/// When the lane asks Kafka about its assignment.
#[derive(Default)]
pub(super) struct AssignmentChecks {
    /// When Kafka is asked again for the number of partitions after it did not tell.
    pub shares_not_before: Option<Instant>,
    /// When the lane next looks for unassigned partitions of its group.
    pub unassigned_at: Option<Instant>,
    /// When the lane next looks for markers of transactions behind its commits.
    pub markers_at: Option<Instant>,
}
