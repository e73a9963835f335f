//! The minimum pace at which clients must send and receive bytes. Without it, a client that stalls or passes
//! a byte now and then could hold a connection, a permit or memory forever.

use std::time::Duration;

/// Number of bytes that must pass while the service waits for a client. Only the waiting counts: the client
/// is not blamed for the service's own delays.
#[derive(Clone, Copy, Debug)]
pub struct ClientPace {
    stall: Duration,
    bytes: u64,
    waited: Duration,
    moved: u64,
}

impl ClientPace {
    /// Requires `bytes` to pass before the client has been waited for longer than `stall`.
    #[must_use]
    pub fn new(stall: Duration, bytes: u64) -> ClientPace {
        ClientPace { stall, bytes, waited: Duration::ZERO, moved: 0 }
    }

    /// Returns how long to wait for the client now.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.stall.saturating_sub(self.waited)
    }

    /// Records a wait and the bytes that passed at its end.
    pub fn record_progress(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.bytes {
            *self = ClientPace::new(self.stall, self.bytes);
        }
    }

    /// Describes the minimum pace, for the error of a client that is slower.
    #[must_use]
    pub fn describe_pace(&self) -> String {
        format!("fewer than {} bytes in {} s", self.bytes, self.stall.as_secs())
    }
}
