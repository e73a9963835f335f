//! Builders that are killed, and servers that go away or refuse.

mod kill_points;
mod outages;
pub mod stubborn;
