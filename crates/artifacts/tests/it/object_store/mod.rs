//! Object storage: in memory and by the S3 protocol.

mod bad_s3;
mod s3_server;
pub mod suite;
