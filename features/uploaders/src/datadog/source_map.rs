//! React Native's source maps: the event names the version of the app, and the map becomes an archive with a manifest, as `sentry-cli` sends it.
//!
//! The archive is a zip file without compression, made while the map arrives.

use bytes::Bytes;
use flate2::Crc;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::json;
use unslide_api::problem::{Kind, Problem};
use unslide_model::DebugId;

/// The type of events with a source map of React Native.
pub const SOURCE_MAP_EVENT: &str = "react_native_sourcemap";
/// The part with the source map.
pub const SOURCE_MAP_PART: &str = "source_map";
/// The most bytes of a source map: what a zip file without extensions may hold.
const MAP_BYTES_LIMIT: u64 = u32::MAX as u64 - (1 << 20);
/// The most bytes of a name in an event.
const NAME_BYTES_LIMIT: usize = 255;

/// Facts about a source map, from the event of an upload.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DatadogSourceMap {
    /// The app, unless the key is for one.
    #[serde(default)]
    service: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    build_number: String,
    #[serde(default)]
    bundle_name: String,
    #[serde(default)]
    debug_id: String,
}

/// The manifest of an archive, and the path of the map in it.
pub struct MapArchive {
    manifest: String,
    path: String,
    /// The name of the upload.
    pub name: String,
}

impl DatadogSourceMap {
    /// Returns the archive of a map. `key_app` is the app of the key, which has precedence over the service.
    ///
    /// # Errors
    /// [`Kind::UnsupportedFormat`] if no report could find the map: it has neither a version of an app nor a debug id.
    pub fn plan_archive(&self, key_app: Option<&str>) -> Result<MapArchive, Problem> {
        let DatadogSourceMap { service, version, build_number, bundle_name, debug_id } = self;
        let names = [service, version, build_number, bundle_name, debug_id];
        if names.iter().any(|name| name.len() > NAME_BYTES_LIMIT || name.contains(char::is_control)) {
            let detail = format!("event: a name has control characters or over {NAME_BYTES_LIMIT} bytes");
            return Err(Problem::new(Kind::InvalidUpload, detail));
        }
        let app = key_app.unwrap_or(service);
        let bundle = bundle_name.rsplit('/').next().unwrap_or_default();
        let is_of_version = !app.is_empty() && !version.is_empty() && is_native_bundle(bundle);
        let own = debug_id.parse::<DebugId>().ok();
        if !is_of_version && own.is_none() {
            let detail = format!(
                "{SOURCE_MAP_EVENT}: no report can find a source map without a debug id, or without a service (the bundle \
                 identifier), a version, a build and a bundle such as main.jsbundle"
            );
            return Err(Problem::new(Kind::UnsupportedFormat, detail));
        }
        let file = if bundle.is_empty() { "bundle" } else { bundle };
        let path = format!("files/_/_/{file}.map");
        let headers = own.map_or_else(|| json!({}), |id| json!({ "debug-id": id }));
        let listed = json!({ "type": "source_map", "url": format!("~/{file}.map"), "headers": headers });
        let release = is_of_version.then(|| format!("{app}@{version}+{build_number}"));
        let files = json!({ path.as_str(): listed });
        // A manifest is known by its first member.
        let manifest = format!(
            r#"{{"files":{files},"project":{},"release":{},"dist":{}}}"#,
            json!(app),
            json!(release),
            json!(build_number)
        );
        let name = format!("source map of {app} {version} ({build_number})");
        Ok(MapArchive { manifest, path, name })
    }
}

/// Returns true for the names that React Native gives to bundles. Others are of web pages.
fn is_native_bundle(bundle: &str) -> bool {
    bundle.rsplit_once('.').is_some_and(|(_, end)| matches!(end, "jsbundle" | "bundle"))
}

/// A file of a zip archive that was written.
struct ZipEntry {
    path: String,
    offset: u32,
    bytes: u32,
    crc: u32,
}

/// The numbers of a zip file: version 2.0, and the flags of a file with its length behind it and a name in UTF-8.
const ZIP_VERSION: u16 = 20;
const ZIP_FLAGS: u16 = 1 << 3 | 1 << 11;

impl MapArchive {
    /// Returns the archive with the pieces of the map.
    pub fn into_stream(
        self,
        pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
    ) -> impl Stream<Item = Result<Bytes, Problem>> + Send {
        let MapArchive { manifest, path, .. } = self;
        let head = local_header(&path);
        let map_offset = u32::try_from(head.len()).unwrap_or(u32::MAX);
        // The state is shared by the pieces, and the end that follows them.
        let state = std::sync::Arc::new(parking_lot::Mutex::new((Crc::new(), 0_u64)));
        let counted = state.clone();
        let pieces = pieces.and_then(move |piece| {
            let mut counted = counted.lock();
            counted.0.update(&piece);
            counted.1 += piece.len() as u64;
            let fits = counted.1 <= MAP_BYTES_LIMIT;
            let too_large =
                || Problem::new(Kind::TooLarge, format!("a source map may have {MAP_BYTES_LIMIT} bytes"));
            std::future::ready(if fits { Ok(piece) } else { Err(too_large()) })
        });
        let end = stream::once(async move {
            let counted = state.lock();
            let bytes = u32::try_from(counted.1).unwrap_or(u32::MAX);
            let map = ZipEntry { path, offset: 0, bytes, crc: counted.0.sum() };
            Ok(finish_archive(&map, map_offset, &manifest))
        });
        stream::iter([Ok(Bytes::from(head))]).chain(pieces).chain(end)
    }
}

fn local_header(path: &str) -> Vec<u8> {
    let mut header = b"PK\x03\x04".to_vec();
    put(&mut header, &[ZIP_VERSION, ZIP_FLAGS, 0, 0, 33]);
    // The checksum and the lengths follow the file.
    header.extend([0; 12]);
    put(&mut header, &[path_length(path), 0]);
    header.extend(path.as_bytes());
    header
}

/// Returns what follows the bytes of the map: its lengths, the manifest, and the list of both files.
fn finish_archive(map: &ZipEntry, map_offset: u32, manifest: &str) -> Bytes {
    let mut end = descriptor(map);
    let path = "manifest.json".to_owned();
    let before = map_offset.saturating_add(map.bytes);
    let offset = before.saturating_add(length(&end));
    let mut crc = Crc::new();
    crc.update(manifest.as_bytes());
    let listed = ZipEntry { path, offset, bytes: length(manifest.as_bytes()), crc: crc.sum() };
    end.extend(local_header(&listed.path));
    end.extend(manifest.as_bytes());
    end.extend(descriptor(&listed));
    let list_offset = before.saturating_add(length(&end));
    let list_begin = end.len();
    for entry in [map, &listed] {
        end.extend(b"PK\x01\x02");
        put(&mut end, &[ZIP_VERSION, ZIP_VERSION, ZIP_FLAGS, 0, 0, 33]);
        put_wide(&mut end, &[entry.crc, entry.bytes, entry.bytes]);
        put(&mut end, &[path_length(&entry.path), 0, 0, 0, 0]);
        put_wide(&mut end, &[0, entry.offset]);
        end.extend(entry.path.as_bytes());
    }
    let list_bytes = length(&end[list_begin..]);
    end.extend(b"PK\x05\x06");
    put(&mut end, &[0, 0, 2, 2]);
    put_wide(&mut end, &[list_bytes, list_offset]);
    put(&mut end, &[0]);
    Bytes::from(end)
}

fn descriptor(entry: &ZipEntry) -> Vec<u8> {
    let mut bytes = b"PK\x07\x08".to_vec();
    put_wide(&mut bytes, &[entry.crc, entry.bytes, entry.bytes]);
    bytes
}

fn put(bytes: &mut Vec<u8>, numbers: &[u16]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn put_wide(bytes: &mut Vec<u8>, numbers: &[u32]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn path_length(path: &str) -> u16 {
    u16::try_from(path.len()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};
    use zip::ZipArchive;

    const ID: &str = "1b5c7a6e-0000-4000-8000-000000000001";

    fn facts(service: &str, version: &str, bundle_name: &str, debug_id: &str) -> DatadogSourceMap {
        let [service, version, bundle_name, debug_id] =
            [service, version, bundle_name, debug_id].map(str::to_owned);
        DatadogSourceMap { service, version, build_number: "7".to_owned(), bundle_name, debug_id }
    }

    #[tokio::test]
    async fn a_map_and_its_manifest_are_an_archive() {
        let planned = facts("com.example.shop", "1.2", "main.jsbundle", ID).plan_archive(None).unwrap();
        let pieces = ["{\"version\"", ":3}"].map(|piece| Ok(Bytes::from_static(piece.as_bytes())));
        let pieces: Vec<Bytes> = planned.into_stream(stream::iter(pieces)).try_collect().await.unwrap();
        let mut archive = ZipArchive::new(Cursor::new(pieces.concat())).unwrap();
        let mut read = |path: &str| {
            let mut text = String::new();
            archive.by_name(path).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(read("files/_/_/main.jsbundle.map"), "{\"version\":3}");
        let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
        assert_eq!(manifest["release"], "com.example.shop@1.2+7");
        assert_eq!(manifest["files"]["files/_/_/main.jsbundle.map"]["headers"]["debug-id"], ID);
    }

    #[test]
    fn a_map_that_no_report_can_find_is_refused() {
        for (is_taken, facts, key_app) in [
            (true, facts("com.example.shop", "1.2", "main.jsbundle", ""), None),
            (true, facts("", "1.2", "main.jsbundle", ""), Some("com.example.shop")),
            (true, facts("", "", "", ID), None),
            (false, facts("com.example.shop", "", "main.jsbundle", ""), None),
            (false, facts("", "1.2", "main.jsbundle", ""), None),
            (false, facts("com.example.shop", "1.2", "app.min.js", "no-id"), None),
        ] {
            let planned = facts.plan_archive(key_app);
            assert_eq!(planned.is_ok(), is_taken, "{facts:?}");
            assert!(planned.err().is_none_or(|problem| problem.kind() == Kind::UnsupportedFormat));
        }
        let odd = facts("a\nb", "1.2", "main.jsbundle", "").plan_archive(None).err().unwrap();
        assert_eq!(odd.kind(), Kind::InvalidUpload);
    }
}
