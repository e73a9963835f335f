//! The symbolizer: reports from Kafka to enriched reports on Kafka, with symcaches from object
//! storage. (The service's own files are being written by the lead; the lanes are in
//! `unslide_stream::lane`.)
