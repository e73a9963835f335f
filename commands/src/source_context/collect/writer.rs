//! Writes a bundle of source files, in the form that Sentry's clients write and [`unslide_source_context_formats`] reads.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Seek, Write};
use symbolic_common::clean_path;
use unslide_cli::BoxError;
use unslide_source_context_formats::{BUNDLE_MAGIC, BUNDLE_VERSION, MANIFEST};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

#[derive(Serialize)]
struct Manifest<'a> {
    files: BTreeMap<String, ManifestEntry>,
    debug_id: &'a str,
    arch: &'a str,
}

#[derive(Serialize)]
struct ManifestEntry {
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
}

/// Writes the files of a bundle, and its manifest at the end.
pub struct BundleWriter<W: Write + Seek> {
    archive: ZipWriter<W>,
    /// By the name in the archive.
    files: BTreeMap<String, ManifestEntry>,
}

impl<W: Write + Seek> BundleWriter<W> {
    /// Writes the header of a bundle.
    pub fn start(mut output: W) -> Result<BundleWriter<W>, BoxError> {
        output.write_all(BUNDLE_MAGIC)?;
        output.write_all(&BUNDLE_VERSION.to_le_bytes())?;
        Ok(BundleWriter { archive: ZipWriter::new(output), files: BTreeMap::new() })
    }

    /// Adds a file by its path in the symbols. Returns false if the bundle has the file, under another form of its path.
    pub fn add_file(&mut self, path: &str, text: &[u8]) -> Result<bool, BoxError> {
        let name = format!("files/{}", clean_path(path).trim_start_matches('/'));
        if self.files.contains_key(&name) {
            return Ok(false);
        }
        self.archive.start_file(name.as_str(), SimpleFileOptions::default())?;
        self.archive.write_all(text)?;
        self.files.insert(name, ManifestEntry { kind: "source", path: path.to_owned() });
        Ok(true)
    }

    /// Writes the manifest and the directory of the archive.
    pub fn finish(mut self, debug_id: &str, arch: &str) -> Result<(), BoxError> {
        self.archive.start_file(MANIFEST, SimpleFileOptions::default())?;
        serde_json::to_writer(&mut self.archive, &Manifest { files: self.files, debug_id, arch })?;
        self.archive.finish()?.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use unslide_source_context_formats::SourceBundle;

    #[test]
    fn a_written_bundle_is_read_with_one_entry_for_each_file() {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = BundleWriter::start(&mut bytes).unwrap();
        assert!(writer.add_file("/ci/shop/Sources/Cart.swift", b"let a = 1\n").unwrap());
        assert!(!writer.add_file("/ci/shop/App/../Sources/Cart.swift", b"let a = 1\n").unwrap());
        assert!(writer.add_file("/ci/shop/Sources/Item.swift", b"let b = 2\n").unwrap());
        writer.finish("4c4c442c-5555-3144-a13c-cb08e4ddcb6b", "arm64").unwrap();
        let bundle = SourceBundle::parse(bytes.get_ref()).unwrap();
        assert_eq!(bundle.count_files(), 2);
        let mut reader = bundle.into_reader();
        assert_eq!(reader.read_text("/ci/shop/Sources/Cart.swift").as_deref(), Some("let a = 1\n"));
        assert_eq!(reader.read_text("/ci/shop/Sources/Item.swift").as_deref(), Some("let b = 2\n"));
    }
}
