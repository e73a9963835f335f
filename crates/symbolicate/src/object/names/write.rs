//! Writes a names file.

use super::{
    EXTERNAL, FUNCTION_START, HEADER_SIZE, ImageNames, LOCAL, MAGIC, MAX_BODY_BYTES, MAX_CODE_SECTIONS,
    MAX_STARTS, NamedStart, START_BITS, StartName, VERSION, WITHHELD,
};
use crate::object::error::malformed_error;
use crate::object::{MAX_NAME_BYTES, ObjectError};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;
use std::ops::Range;

/// How much the body is compressed. The best level takes three times as long for a hundredth less.
const COMPRESSION_LEVEL: u32 = 6;

pub(super) fn to_file(names: &ImageNames<'_>) -> Result<Vec<u8>, ObjectError> {
    if names.code.len() > MAX_CODE_SECTIONS || names.starts.len() > MAX_STARTS {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(names.starts.len() * 16);
    write_sections(&names.code, &mut body)?;
    write_starts(&names.starts, &mut body)?;
    for name in names.starts.iter().filter_map(|start| start.name.as_bytes()) {
        body.extend_from_slice(as_stored(name));
        body.push(0);
        if body.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
    }
    let mut file = Vec::with_capacity(HEADER_SIZE + body.len() / 4);
    write_header(names, &body, &mut file);
    let mut encoder = ZlibEncoder::new(file, Compression::new(COMPRESSION_LEVEL));
    encoder
        .write_all(&body)
        .and_then(|()| encoder.finish())
        .map_err(|_| malformed_error("it cannot be compressed"))
}

fn too_large() -> ObjectError {
    ObjectError::TooLarge("it has more names than a names file holds".into())
}

/// Returns a name up to its first NUL, cut to the longest name.
fn as_stored(name: &[u8]) -> &[u8] {
    let name = name.get(..MAX_NAME_BYTES).unwrap_or(name);
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn write_header(names: &ImageNames<'_>, body: &[u8], file: &mut Vec<u8>) {
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&names.debug_id.0);
    file.extend_from_slice(&names.cpu.cpu_type.to_le_bytes());
    file.extend_from_slice(&names.cpu.cpu_subtype.to_le_bytes());
    file.extend_from_slice(&names.text.start.to_le_bytes());
    file.extend_from_slice(&names.text.end.saturating_sub(names.text.start).to_le_bytes());
    // The body has at most MAX_BODY_BYTES.
    file.extend_from_slice(&(body.len() as u32).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
}

fn write_sections(code: &[Range<u32>], body: &mut Vec<u8>) -> Result<(), ObjectError> {
    write_number(code.len() as u64, body);
    let mut end = 0;
    for section in code {
        let distance =
            section.start.checked_sub(end).ok_or_else(|| malformed_error("its sections overlap"))?;
        let size =
            section.end.checked_sub(section.start).ok_or_else(|| malformed_error("a section has no end"))?;
        write_number(distance.into(), body);
        write_number(size.into(), body);
        end = section.end;
    }
    Ok(())
}

fn write_starts(starts: &[NamedStart<'_>], body: &mut Vec<u8>) -> Result<(), ObjectError> {
    write_number(starts.len() as u64, body);
    let mut last = 0;
    for start in starts {
        let distance =
            start.offset.checked_sub(last).ok_or_else(|| malformed_error("its starts are out of order"))?;
        let kind = match start.name {
            StartName::Unnamed => 0,
            StartName::Local(_) => LOCAL,
            StartName::External(_) => EXTERNAL,
            StartName::Withheld => WITHHELD,
        };
        let begins = if start.is_function_start { FUNCTION_START } else { 0 };
        write_number(u64::from(distance) << START_BITS | begins | kind, body);
        last = start.offset;
    }
    Ok(())
}

/// Appends a number in LEB128 form.
pub(super) fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
