//! Signals from files: real symbols, published files, and the fuzz targets' corpus.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod corpus;
mod samples;
mod symbols;
