//! Own keys: counts in the rows of reports, and the API and the pages that show them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod counts;
mod keyed_reports;
mod standing_out;
