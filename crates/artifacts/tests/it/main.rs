//! Artifacts against a real S3 protocol endpoint and against memory.

mod s3_server;
mod store_suite;
