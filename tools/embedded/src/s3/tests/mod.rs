//! Signatures and requests that no client library sends.

mod requests;
mod signatures;
