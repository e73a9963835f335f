//! Reports that come in a request, are stored, or are symbolicated for an answer.

pub mod image_symbols;
pub mod ingest;
pub mod sampled;
pub mod stored_body;
