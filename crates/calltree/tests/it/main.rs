//! Call trees of reports.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod reports;
