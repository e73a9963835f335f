//! Reports in requests, stored reports, and reports that are symbolicated for a response.

pub mod app_intake;
pub mod image_symbols;
pub mod ingest;
pub mod rules_cache;
pub mod sampled;
pub mod source_lines;
pub mod sources;
pub mod stored_body;
pub mod symbolication;
