//! The least pace at which clients have to send and to take bytes: one that stalls, or passes a byte now
//! and then, would hold a connection, a permit or memory forever.

use std::time::Duration;

/// How many bytes have to pass while a client is waited for. Only the waiting counts: what the service
/// itself takes long for is no fault of the client.
#[derive(Clone, Copy, Debug)]
pub struct ClientPace {
    stall: Duration,
    bytes: u64,
    waited: Duration,
    moved: u64,
}

impl ClientPace {
    /// A client may be waited for `stall` before `bytes` have passed.
    #[must_use]
    pub fn new(stall: Duration, bytes: u64) -> ClientPace {
        ClientPace { stall, bytes, waited: Duration::ZERO, moved: 0 }
    }

    /// How long the client may be waited for now.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.stall.saturating_sub(self.waited)
    }

    /// Counts a wait and the bytes that passed at its end.
    pub fn moved(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.bytes {
            *self = ClientPace::new(self.stall, self.bytes);
        }
    }

    /// What is said of a client that is slower.
    #[must_use]
    pub fn complaint(&self) -> String {
        format!("fewer than {} bytes in {} s", self.bytes, self.stall.as_secs())
    }
}
