//! Uploads of symbol files to object storage.

pub mod format;
pub mod multipart;
pub mod parts;
pub mod receive;
pub mod unpack;
