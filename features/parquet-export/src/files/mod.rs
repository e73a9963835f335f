//! The files in the bucket: their paths, their columns and the manifest of a day.

mod columns;
mod manifest;
mod parquet_file;
mod paths;

pub use manifest::{DayFile, DayManifest};
pub use parquet_file::{FileWriteError, ParquetFile};
pub use paths::{TEST_PATH, file_path, manifest_path};
