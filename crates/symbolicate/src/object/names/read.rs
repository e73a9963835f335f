//! Reads a names file, which may be hostile.

use super::{
    EXTERNAL, FUNCTION_START, HEADER_SIZE, ImageNames, KIND_MASK, LOCAL, MAGIC, MAX_BODY_BYTES,
    MAX_BODY_RATIO, MAX_CODE_SECTIONS, MAX_FREE_BODY_BYTES, MAX_STARTS, NamedStart, START_BITS, StartName,
    VERSION,
};
use crate::object::error::malformed_error;
use crate::object::exports::read_uleb;
use crate::object::{MAX_NAME_BYTES, ObjectError};
use flate2::read::ZlibDecoder;
use std::io::Read;
use std::ops::Range;
use unslide_model::{CpuType, DebugId};

/// Returns true for the first bytes of a names file.
pub(in crate::object) fn is_names_file(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// A names file with its body unpacked.
pub(in crate::object) struct UnpackedNames {
    debug_id: DebugId,
    cpu: CpuType,
    text: Range<u64>,
    body: Vec<u8>,
}

/// Unpacks a names file, if its body and what is made of it fit into `memory_bytes`.
pub(in crate::object) fn unpack_names(file: &[u8], memory_bytes: u64) -> Result<UnpackedNames, ObjectError> {
    let (header, packed) = file.split_at_checked(HEADER_SIZE).ok_or_else(cut_error)?;
    let version = read_u32(header, 8);
    if version != VERSION {
        return Err(ObjectError::Unsupported(
            format!("names file of version {version}; this release reads version {VERSION}").into(),
        ));
    }
    let mut debug_id = DebugId([0; 16]);
    debug_id.0.copy_from_slice(header.get(12..28).ok_or_else(cut_error)?);
    if debug_id.0 == [0; 16] {
        return Err(ObjectError::Unsupported("no UUID".into()));
    }
    let start = read_u64(header, 36);
    let end = start.checked_add(read_u64(header, 44)).ok_or_else(|| malformed_error("__TEXT has no end"))?;
    let length = read_u32(header, 52) as usize;
    let most = packed.len().saturating_mul(MAX_BODY_RATIO).clamp(MAX_FREE_BODY_BYTES, MAX_BODY_BYTES);
    if length > most {
        return Err(ObjectError::TooLarge("the body of the names file is larger than allowed".into()));
    }
    // The body, and a symbol table with a record of 16 bytes for a start of two bytes.
    let memory = length as u64 * 9;
    if memory > memory_bytes {
        return Err(ObjectError::NeedsMemory(memory));
    }
    let mut body = Vec::with_capacity(length);
    let read = ZlibDecoder::new(packed).take(length as u64 + 1).read_to_end(&mut body);
    if read.is_err() || body.len() != length {
        return Err(malformed_error("the body of the names file is damaged"));
    }
    if crc32fast::hash(&body) != read_u32(header, 56) {
        return Err(malformed_error("the checksum of the names file is wrong"));
    }
    let cpu = CpuType::new(read_u32(header, 28), read_u32(header, 32));
    Ok(UnpackedNames { debug_id, cpu, text: start..end, body })
}

impl UnpackedNames {
    /// Returns the names. Each start lies in a code section.
    pub(in crate::object) fn read_names(&self) -> Result<ImageNames<'_>, ObjectError> {
        let mut body = self.body.as_slice();
        let code = read_sections(&mut body, self.text.end - self.text.start)?;
        let starts = read_starts(&mut body, &code)?;
        if !body.is_empty() {
            return Err(malformed_error("bytes follow the last name"));
        }
        Ok(ImageNames { debug_id: self.debug_id, cpu: self.cpu, text: self.text.clone(), code, starts })
    }
}

fn read_sections(body: &mut &[u8], text_size: u64) -> Result<Vec<Range<u32>>, ObjectError> {
    let outside = || malformed_error("a section of code lies outside __TEXT");
    let count = read_count(body, 2, MAX_CODE_SECTIONS)?;
    let mut code = Vec::with_capacity(count);
    let mut end = 0_u64;
    for _ in 0..count {
        let start = end.checked_add(read_uleb(body).ok_or_else(cut_error)?).ok_or_else(outside)?;
        end = start.checked_add(read_uleb(body).ok_or_else(cut_error)?).ok_or_else(outside)?;
        if end > text_size {
            return Err(outside());
        }
        let offset = |at: u64| u32::try_from(at).map_err(|_| outside());
        code.push(offset(start)?..offset(end)?);
    }
    Ok(code)
}

fn read_starts<'a>(body: &mut &'a [u8], code: &[Range<u32>]) -> Result<Vec<NamedStart<'a>>, ObjectError> {
    let count = read_count(body, 1, MAX_STARTS)?;
    let mut numbers = *body;
    for _ in 0..count {
        read_uleb(body).ok_or_else(cut_error)?;
    }
    let mut starts = Vec::with_capacity(count);
    let (mut last, mut sections) = (0_u32, code.iter().peekable());
    for _ in 0..count {
        let start = read_uleb(&mut numbers).ok_or_else(cut_error)?;
        let distance = u32::try_from(start >> START_BITS).ok();
        let offset =
            distance.and_then(|distance| last.checked_add(distance)).ok_or_else(outside_code_error)?;
        while sections.next_if(|section| section.end <= offset).is_some() {}
        if sections.peek().is_none_or(|section| section.start > offset) {
            return Err(outside_code_error());
        }
        let name = match start & KIND_MASK {
            0 => StartName::Unnamed,
            LOCAL => StartName::Local(read_name(body)?.into()),
            EXTERNAL => StartName::External(read_name(body)?.into()),
            _ => StartName::Withheld,
        };
        starts.push(NamedStart { offset, name, is_function_start: start & FUNCTION_START != 0 });
        last = offset;
    }
    Ok(starts)
}

/// Reads a number of entries. No more are allocated than the bytes that are there can hold.
fn read_count(body: &mut &[u8], entry_bytes: usize, most: usize) -> Result<usize, ObjectError> {
    let count = read_uleb(body).and_then(|count| usize::try_from(count).ok()).ok_or_else(cut_error)?;
    if count > most {
        return Err(ObjectError::TooLarge("it has more entries than a names file holds".into()));
    }
    if count.saturating_mul(entry_bytes) > body.len() { Err(cut_error()) } else { Ok(count) }
}

fn read_name<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], ObjectError> {
    let end = memchr::memchr(0, body).filter(|end| *end <= MAX_NAME_BYTES).ok_or_else(cut_error)?;
    let (name, rest) = body.split_at(end);
    *body = rest.get(1..).unwrap_or_default();
    Ok(name)
}

fn cut_error() -> ObjectError {
    malformed_error("the names file ends too early")
}

fn outside_code_error() -> ObjectError {
    malformed_error("a start lies outside the sections of code")
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}
