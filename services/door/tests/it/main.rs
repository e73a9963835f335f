//! The door before two apis, each with servers of its own, and before cells that a test makes up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod callers;
mod claims;
mod fake_cell;
mod hostile;
mod outages;
mod places;
mod streams;
mod test_door;
mod two_cells;
