//! Source maps of version 3 (ECMA-426), with React Native's additions.
//!
//! The sections of an index map are joined into one map, and keep their function maps. Invalid numbers make the
//! map malformed; no field of it is trusted.

use super::mappings::{FunctionMap, Mapping, NO_INDEX, SectionStart, malformed_error, read_mappings};
use super::scopes::{ScopeBudget, read_functions};
use super::table::MOST_NAME_BYTES;
use crate::object::error::ObjectError;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::{DebugId, first_bytes, json};

/// The content of a source map, with its sections joined.
#[derive(Debug, Default)]
pub(super) struct SourceMap {
    /// By line and column in the bundle.
    pub(super) mappings: Vec<Mapping>,
    pub(super) sources: Vec<Source>,
    pub(super) names: Vec<String>,
    /// The parts of the bundle that engines treat as files, by segment and module.
    pub(super) parts: Vec<BundlePart>,
    /// Number of lines up to the last mapped one.
    pub(super) lines: u32,
}

/// Line and column in the bundle.
type Place = (u32, u32);

/// The lines of a part of a bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct BundlePart {
    pub(super) segment: u32,
    /// [`NO_INDEX`] for the whole segment.
    pub(super) module: u32,
    pub(super) first_line: u32,
    /// The line after the last.
    pub(super) end_line: u32,
}

/// A source file of a bundle.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) content: Option<String>,
    /// True for a file of a library.
    pub(super) is_library: bool,
    pub(super) functions: Option<FunctionMap>,
    /// The functions found in the text of the source, if the map has no function map for it.
    pub(super) scopes: Option<FunctionMap>,
}

/// Facts about a source map, without its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceMapFacts {
    pub(crate) debug_id: Option<DebugId>,
    pub(crate) has_sources: bool,
}

/// The debug ids that a map may have. The one from `unslide upload` comes first.
#[derive(Deserialize)]
struct RawFacts {
    version: Option<u64>,
    mappings: Option<IgnoredAny>,
    sections: Option<IgnoredAny>,
    #[serde(rename = "sourcesContent")]
    sources_content: Option<IgnoredAny>,
    x_unslide_debug_id: Option<String>,
    #[serde(rename = "debugId")]
    debug_id: Option<String>,
    #[serde(rename = "debug_id")]
    debug_id_too: Option<String>,
}

#[derive(Deserialize)]
struct RawMap {
    version: Option<u64>,
    #[serde(rename = "sourceRoot")]
    source_root: Option<String>,
    sources: Option<Vec<Option<String>>>,
    #[serde(rename = "sourcesContent")]
    sources_content: Option<Vec<Option<String>>>,
    names: Option<Vec<RawName>>,
    mappings: Option<String>,
    #[serde(rename = "ignoreList")]
    ignore_list: Option<Vec<u64>>,
    #[serde(rename = "x_google_ignoreList")]
    ignore_list_too: Option<Vec<u64>>,
    x_facebook_sources: Option<Vec<Option<Vec<Option<RawFunctions>>>>>,
    sections: Option<Vec<RawSection>>,
    /// The first line of each module of a RAM bundle, by its number.
    x_facebook_offsets: Option<Vec<Option<u32>>>,
    /// The maps of the bundle's other segments, by their numbers.
    x_facebook_segments: Option<BTreeMap<u32, RawMap>>,
    /// The files of a RAM bundle's modules.
    x_metro_module_paths: Option<IgnoredAny>,
}

/// Some writers put numbers among the names.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawName {
    Text(String),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct RawFunctions {
    names: Vec<String>,
    mappings: String,
}

#[derive(Deserialize)]
struct RawSection {
    offset: RawOffset,
    map: Option<Box<RawMap>>,
    url: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct RawOffset {
    line: u32,
    column: u32,
}

impl RawOffset {
    /// Converts an offset within a map that begins at `base` to one in the bundle. The base column applies to
    /// the first line only.
    fn shift_by(self, base: RawOffset) -> Result<RawOffset, ObjectError> {
        let line = base.line.checked_add(self.line).ok_or_else(|| malformed_error("a section's line"))?;
        let column = if self.line == 0 { base.column } else { 0 };
        let column = column.checked_add(self.column).ok_or_else(|| malformed_error("a section's column"))?;
        Ok(RawOffset { line, column })
    }
}

/// Returns the JSON text of a possible source map, without the line `)]}'` that prevents execution as a script.
pub(super) fn json_text(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    let bytes = match bytes.strip_prefix(b")]}") {
        Some(rest) => &rest[memchr::memchr(b'\n', rest)?..],
        None => bytes,
    };
    Some(bytes.trim_ascii_start()).filter(|bytes| bytes.first() == Some(&b'{'))
}

/// True for a file that begins like a source map.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    json_text(bytes).is_some()
}

/// Returns a source map with this debug id before all other members; `None` if the bytes do not begin like a
/// source map. The rest of the map is unchanged.
#[must_use]
pub fn with_debug_id(map: &[u8], debug_id: DebugId) -> Option<Vec<u8>> {
    let inside = json_text(map)?.get(1..)?;
    let comma = if inside.trim_ascii_start().starts_with(b"}") { "" } else { "," };
    let mut named = format!(r#"{{"x_unslide_debug_id":"{debug_id}"{comma}"#).into_bytes();
    named.extend_from_slice(inside);
    Some(named)
}

/// Returns the facts about a source map; `None` for other files.
pub(crate) fn read_facts(bytes: &[u8]) -> Option<Result<SourceMapFacts, ObjectError>> {
    let text = json_text(bytes)?;
    let raw: RawFacts = match json::from_slice(text) {
        Ok(raw) => raw,
        Err(error) => return Some(Err(malformed_error(error))),
    };
    if raw.mappings.is_none() && raw.sections.is_none() {
        return None;
    }
    if raw.version != Some(3) {
        return Some(Err(ObjectError::Unsupported("a source map of another version than 3".into())));
    }
    let own = raw.x_unslide_debug_id.or(raw.debug_id).or(raw.debug_id_too);
    let debug_id = match own.map(|id| id.parse::<DebugId>()) {
        Some(Err(_)) => return Some(Err(malformed_error("its debug id is no UUID"))),
        Some(Ok(id)) => Some(id).filter(|id| *id != DebugId([0; 16])),
        None => None,
    };
    Some(Ok(SourceMapFacts { debug_id, has_sources: raw.sources_content.is_some() }))
}

impl SourceMap {
    /// Reads a whole map.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<SourceMap, ObjectError> {
        let text = json_text(bytes).ok_or(ObjectError::NotAnObject)?;
        let mut raw: RawMap = json::from_slice(text).map_err(malformed_error)?;
        if raw.version != Some(3) {
            return Err(ObjectError::Unsupported("a source map of another version than 3".into()));
        }
        let mut map = SourceMap::default();
        let segments = raw.x_facebook_segments.take();
        let has_parts = segments.is_some() || raw.x_facebook_offsets.is_some();
        map.add_segment(0, raw)?;
        for (segment, raw) in segments.unwrap_or_default() {
            map.add_segment(segment, raw)?;
        }
        if !has_parts {
            map.parts.clear();
        }
        map.read_scopes();
        map.mappings.sort_by_key(|mapping| (mapping.line, mapping.column));
        Ok(map)
    }

    /// Finds the functions of sources without a function map in their text.
    fn read_scopes(&mut self) {
        let mut budget = ScopeBudget::default();
        for source in self.sources.iter_mut().filter(|source| source.functions.is_none()) {
            let content = source.content.as_deref();
            source.scopes = content.and_then(|text| read_functions(&source.path, text, &mut budget));
        }
    }

    /// Adds the map of a segment. Its lines continue after the previous ones.
    fn add_segment(&mut self, segment: u32, mut raw: RawMap) -> Result<(), ObjectError> {
        let (first, known) = (self.lines, self.mappings.len());
        let offsets = raw.x_facebook_offsets.take().unwrap_or_default();
        if raw.x_metro_module_paths.is_some() {
            ignore_wrappers(raw.sections.as_mut());
        }
        self.add_map(raw, RawOffset { line: first, column: 0 }, None)?;
        let last = self.mappings.iter().skip(known).map(|mapping| mapping.line).max();
        self.lines = last
            .map_or(Some(first), |last| last.checked_add(1))
            .ok_or_else(|| malformed_error("too many lines"))?;
        let starts = offsets.iter().flatten().map(|offset| first.saturating_add(*offset));
        let starts: BTreeSet<u32> = starts.chain([self.lines]).collect();
        for (module, offset) in (0..).zip(&offsets) {
            let Some(first_line) = offset.map(|offset| first.saturating_add(offset)) else { continue };
            // Modules of a group begin on the same line.
            let end_line = starts.range(first_line.saturating_add(1)..).next().copied().unwrap_or(first_line);
            self.parts.push(BundlePart { segment, module, first_line, end_line });
        }
        self.parts.push(BundlePart { segment, module: NO_INDEX, first_line: first, end_line: self.lines });
        Ok(())
    }

    /// Adds a map, or the sections of one, that begins at `offset` in the bundle. Mappings at or after `end`
    /// are dropped, because another section begins there.
    fn add_map(&mut self, raw: RawMap, offset: RawOffset, end: Option<Place>) -> Result<(), ObjectError> {
        let sections = raw.sections.unwrap_or_default();
        let mut starts = Vec::with_capacity(sections.len());
        for section in &sections {
            starts.push(section.offset.shift_by(offset)?);
        }
        let mut ends: Vec<Place> = starts.iter().map(|start| (start.line, start.column)).chain(end).collect();
        ends.sort_unstable();
        for (section, start) in sections.into_iter().zip(starts) {
            let map = match (section.map, section.url) {
                (Some(map), _) => map,
                (None, Some(url)) => return Err(external_map_error(&url)),
                (None, None) => return Err(malformed_error("a section without a map")),
            };
            let next = ends.partition_point(|end| *end <= (start.line, start.column));
            self.add_map(*map, start, ends.get(next).copied())?;
        }
        let Some(mappings) = raw.mappings else { return Ok(()) };
        let (sources, names) = (self.sources.len(), self.names.len());
        let ignored: BTreeSet<u64> =
            [raw.ignore_list, raw.ignore_list_too].into_iter().flatten().flatten().collect();
        // It precedes each source, and longer texts are cut anyway.
        let root = raw.source_root.unwrap_or_default();
        let root = first_bytes(&root, MOST_NAME_BYTES);
        let mut contents = raw.sources_content.unwrap_or_default().into_iter();
        let mut functions = raw.x_facebook_sources.unwrap_or_default().into_iter();
        for (at, source) in raw.sources.unwrap_or_default().into_iter().enumerate() {
            let path = source.map(|source| join_root(root, source)).unwrap_or_default();
            let is_library = ignored.contains(&(at as u64)) || is_library(&path);
            // The function map is the first entry of Metro's data for a source.
            let raw = functions.next().flatten().and_then(|all| all.into_iter().next()).flatten();
            let functions =
                raw.map(|raw| FunctionMap::from_mappings(raw.names, &raw.mappings)).transpose()?;
            let content = contents.next().flatten();
            self.sources.push(Source { path, content, is_library, functions, scopes: None });
        }
        let text = |name| match name {
            RawName::Text(text) => text,
            RawName::Other(IgnoredAny) => String::new(),
        };
        self.names.extend(raw.names.unwrap_or_default().into_iter().map(text));
        let ends = (self.sources.len(), self.names.len());
        let at = SectionStart { line: offset.line, column: offset.column, sources, names, ends };
        let known = self.mappings.len();
        read_mappings(&mappings, at, &mut self.mappings)?;
        if let Some(end) = end {
            let own = self.mappings.split_off(known);
            self.mappings.extend(own.into_iter().filter(|mapping| (mapping.line, mapping.column) < end));
        }
        Ok(())
    }
}

/// Returns the text in `sourcesContent` of the first source with this path, as [`SourceMapTable`](super::SourceMapTable) has it.
/// Returns None if the map has no such text.
///
/// # Errors
/// Returns an error if the bytes are no source map.
pub fn read_map_source(bytes: &[u8], path: &str) -> Result<Option<String>, ObjectError> {
    let text = json_text(bytes).ok_or(ObjectError::NotAnObject)?;
    let raw: RawMap = json::from_slice(text).map_err(malformed_error)?;
    Ok(raw.into_source(path))
}

impl RawMap {
    fn into_source(self, path: &str) -> Option<String> {
        let root = self.source_root.unwrap_or_default();
        let root = first_bytes(&root, MOST_NAME_BYTES);
        let contents = self.sources_content.unwrap_or_default();
        let own = self.sources.unwrap_or_default().into_iter().zip(contents).find_map(|(source, content)| {
            let joined = join_root(root, source?);
            content.filter(|_| first_bytes(&joined, MOST_NAME_BYTES) == path)
        });
        let sections = self.sections.unwrap_or_default().into_iter().filter_map(|section| section.map);
        let segments = self.x_facebook_segments.unwrap_or_default().into_values();
        own.or_else(|| sections.map(|map| *map).chain(segments).find_map(|map| map.into_source(path)))
    }
}

/// Sets the columns of sections to 0. Metro counts the wrapper of a RAM bundle's module in its mappings, and
/// again as the column of its section. Every Metro that writes `x_metro_module_paths` does so.
fn ignore_wrappers(sections: Option<&mut Vec<RawSection>>) {
    sections.into_iter().flatten().for_each(|section| section.offset.column = 0);
}

/// Returns the error for a section with its map in another file, which older bundlers wrote.
fn external_map_error(url: &str) -> ObjectError {
    let url: String = url.chars().filter(|c| !c.is_control()).take(200).collect();
    let what = format!(
        "a section of the index map has its map in another file, {url:?}: upload an index map with that file's content \
         as the section's `map`"
    );
    ObjectError::Unsupported(what.into())
}

/// Returns a source's path after the root. ECMA-426 joins them with a slash.
fn join_root(root: &str, source: String) -> String {
    if root.is_empty() || source.starts_with('/') || source.contains("://") {
        return source;
    }
    format!("{}/{source}", root.trim_end_matches('/'))
}

/// True for a file of a package or of a bundler.
fn is_library(path: &str) -> bool {
    path.contains("node_modules/")
        || path.contains("node_modules\\")
        || path.starts_with("webpack/")
        || path.contains("://webpack/")
        || path.starts_with('\0')
        || path.is_empty()
        || path == "__prelude__"
        || path.ends_with("/__prelude__")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root before each source: half the bytes for the root, half for sources.
    fn path_bytes(sources: usize) -> usize {
        let sources: Vec<&str> = std::iter::repeat_n("a", sources).collect();
        let root = "r".repeat(4 * sources.len());
        let map = serde_json::json!({"version": 3, "sourceRoot": root, "sources": sources, "mappings": ""});
        let map = SourceMap::from_bytes(map.to_string().as_bytes()).unwrap();
        map.sources.iter().map(|source| source.path.len()).sum()
    }

    #[test]
    fn a_source_is_read_by_its_path_behind_the_root_in_any_section() {
        let map = r#"{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":{"version":3,"sourceRoot":"src/",
            "sources":["a.ts",null,"b.ts"],"sourcesContent":["let a;",null,null],"mappings":""}}]}"#;
        let read = |path: &str| read_map_source(map.as_bytes(), path).unwrap();
        assert_eq!(read("src/a.ts").as_deref(), Some("let a;"));
        for absent in ["a.ts", "src/b.ts", "", "src/../src/a.ts"] {
            assert_eq!(read(absent), None, "{absent}");
        }
        assert!(read_map_source(b"no map", "a").is_err());
    }

    #[test]
    fn paths_behind_a_long_root_grow_with_the_map() {
        let (few, many) = (path_bytes(1_000), path_bytes(2_000));
        println!("| source root | {few} | {many} |");
        assert!(many <= 2 * few, "{few} {many}");
    }
}
