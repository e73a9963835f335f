//! Builds the symcache of a source map.

use super::lines::source_lines;
use super::mappings::{Mapping, NO_INDEX};
use super::source_map::{Source, SourceMap, read_facts};
use super::table::{
    HEADER_SIZE, MAPPING_SIZE, MOST_CONTEXT_BYTES, MOST_NAME_BYTES, SOURCE_HAS_SCOPES, SOURCE_IS_LIBRARY,
    SOURCE_SIZE, TABLE_MAGIC, TABLE_VERSION,
};
use crate::json::escape_text;
use crate::object::error::ObjectError;
use crate::object::facts::{BuiltSymCache, MAX_SYMCACHE_BYTES, ObjectKind};
use crate::symcache::{CodeRanges, ObjectHeader, Writer};
use std::collections::HashMap;
use unslide_model::{CpuType, DebugId, Quality, first_bytes};

/// Lines of a bundle that any map may have. A map with more bytes may have as many lines. Each takes four
/// bytes.
const FREE_LINES: usize = 1 << 20;

/// Builds the symcache of a source map for the map's own debug id. The same map always gives the same bytes.
pub(crate) fn build_for_own_debug_id(bytes: &[u8]) -> Result<BuiltSymCache, ObjectError> {
    let facts = read_facts(bytes).ok_or(ObjectError::NotAnObject)??;
    let debug_id = facts.debug_id.ok_or_else(|| ObjectError::Unsupported("no debug id".into()))?;
    build_for(bytes, debug_id)
}

/// Builds the symcache of a source map for a given debug id.
///
/// # Errors
/// Returns an error if it is not a source map, or is damaged or too large.
pub fn build_for(bytes: &[u8], debug_id: DebugId) -> Result<BuiltSymCache, ObjectError> {
    let most_lines = bytes.len().max(FREE_LINES);
    let table = TableWriter::default().into_table(&SourceMap::from_bytes(bytes)?, most_lines)?;
    let header = ObjectHeader {
        debug_id,
        cpu: CpuType::JAVASCRIPT,
        text_address: 0,
        text_size: 0,
        extent: 0,
        quality: Quality::Dwarf,
    };
    let symcache =
        Writer::from_table(table, MAX_SYMCACHE_BYTES).into_bytes(&header, CodeRanges::default())?;
    Ok(BuiltSymCache {
        debug_id,
        cpu: CpuType::JAVASCRIPT,
        kind: ObjectKind::SourceMap,
        quality: Quality::Dwarf,
        symcache,
        warnings: Vec::new(),
        steps: 0,
    })
}

/// Collects the texts of a table, each once.
#[derive(Default)]
struct TableWriter<'m> {
    texts: Vec<u8>,
    known: HashMap<&'m str, u32>,
}

impl<'m> TableWriter<'m> {
    fn add_text(&mut self, text: &'m str, most: usize) -> Result<u32, ObjectError> {
        let text = first_bytes(text, most);
        if let Some(at) = self.known.get(text) {
            return Ok(*at);
        }
        let at = u32::try_from(self.texts.len()).map_err(|_| too_large())?;
        let start = self.texts.len() + 4;
        self.texts.extend_from_slice(&[0; 4]);
        escape_text(text, &mut self.texts);
        let length = u32::try_from(self.texts.len() - start).map_err(|_| too_large())?;
        self.texts[start - 4..start].copy_from_slice(&length.to_le_bytes());
        if self.texts.len() > MAX_SYMCACHE_BYTES {
            return Err(too_large());
        }
        self.known.insert(text, at);
        Ok(at)
    }

    fn into_table(mut self, map: &'m SourceMap, most_lines: usize) -> Result<Vec<u8>, ObjectError> {
        let lines = Some(map.lines).filter(|lines| *lines as usize <= most_lines).ok_or_else(too_large)?;
        let mut records = Vec::with_capacity(map.mappings.len() * MAPPING_SIZE);
        let names: Vec<u32> =
            map.names.iter().map(|name| self.add_text(name, MOST_NAME_BYTES)).collect::<Result<_, _>>()?;
        for mapping in &map.mappings {
            let name = names.get(mapping.name as usize).copied().unwrap_or(NO_INDEX);
            let function = self.add_function(map.sources.get(mapping.source as usize), mapping)?;
            let Mapping { column, source, source_line, source_column, .. } = *mapping;
            write_words(&mut records, [column, source, source_line, source_column, name, function]);
        }
        let (sources, context) = self.write_sources(&map.sources)?;
        let mut out = Vec::with_capacity(HEADER_SIZE + records.len() + sources.len() + self.texts.len());
        out.extend_from_slice(TABLE_MAGIC);
        let counts = [map.mappings.len(), map.sources.len(), context.len() / 4, self.texts.len()];
        write_words(&mut out, [TABLE_VERSION, lines]);
        for count in counts {
            write_words(&mut out, [u32::try_from(count).map_err(|_| too_large())?]);
        }
        let mut above = 0_u32;
        let mut mappings = map.mappings.iter().peekable();
        for line in 0..=lines {
            while mappings.next_if(|mapping| mapping.line < line).is_some() {
                above += 1;
            }
            write_words(&mut out, [above]);
        }
        [records, sources, context, self.texts].iter().for_each(|section| out.extend_from_slice(section));
        for part in &map.parts {
            write_words(&mut out, [part.segment, part.module, part.first_line, part.end_line]);
        }
        Ok(out)
    }

    fn add_function(&mut self, source: Option<&'m Source>, mapping: &Mapping) -> Result<u32, ObjectError> {
        let functions = source.and_then(|source| source.functions.as_ref().or(source.scopes.as_ref()));
        let around = functions.and_then(|all| all.find_around(mapping.source_line, mapping.source_column));
        around.map_or(Ok(NO_INDEX), |name| self.add_text(name, MOST_NAME_BYTES))
    }

    /// Writes the sources, and the lines of the app's own: a report shows no library code.
    fn write_sources(&mut self, sources: &'m [Source]) -> Result<(Vec<u8>, Vec<u8>), ObjectError> {
        let (mut records, mut context) = (Vec::with_capacity(sources.len() * SOURCE_SIZE), Vec::new());
        for source in sources {
            let first = u32::try_from(context.len() / 4).map_err(|_| too_large())?;
            let content = source.content.as_deref().filter(|_| !source.is_library).unwrap_or_default();
            let mut count = 0;
            for line in source_lines(content) {
                write_words(&mut context, [self.add_text(line, MOST_CONTEXT_BYTES)?]);
                count += 1;
            }
            let path = self.add_text(&source.path, MOST_NAME_BYTES)?;
            let library = if source.is_library { SOURCE_IS_LIBRARY } else { 0 };
            let scopes = if source.scopes.is_some() { SOURCE_HAS_SCOPES } else { 0 };
            write_words(&mut records, [path, library | scopes, first, count]);
        }
        Ok((records, context))
    }
}

fn write_words<const N: usize>(out: &mut Vec<u8>, words: [u32; N]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn too_large() -> ObjectError {
    ObjectError::TooLarge("the symcache would be larger than allowed".into())
}
