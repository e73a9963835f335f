//! The JSON scanner: one pass, no recursion, no copies.
//!
//! It checks the grammar of RFC 8259 and leaves the values in place. It accepts some violations that
//! reports contain, with a warning: bytes inside strings that are not UTF-8, halves of surrogate
//! pairs, numbers that no double can hold, a byte order mark, and white space and NULs after the
//! end.

use crate::error::MOST_TREE_DEPTH;
use crate::{ReadError, ReadLimits, Text, Warning, WarningKind};
use prefixes::Prefixes;
use std::borrow::Cow;

mod plain;
mod prefixes;
mod tokens;

/// The capacity of the stack of open containers. Each frame of a call stack tree takes two levels.
const MOST_LEVELS: usize = 2 * MOST_TREE_DEPTH + 320;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const SPACES: u64 = LOW_BITS * b' ' as u64;

/// One member of an object. The scanner is at its value.
pub(crate) struct JsonMember<'a> {
    /// The decoded key. It is bytes, because it need not be UTF-8.
    pub(crate) key: Cow<'a, [u8]>,
    /// The offset of the comma before the member, or of the key's quote for the first member.
    pub(crate) separator: usize,
}

impl JsonMember<'_> {
    /// Returns true if the key is `key`. A pattern would compare byte by byte, too slow for the many frames and images.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &str) -> bool {
        *self.key == *key.as_bytes()
    }
}

/// An object that was read.
#[derive(Clone, Copy)]
pub(crate) struct PassedObject {
    /// The offset of its closing brace.
    pub(crate) close: usize,
    /// The number of its members.
    pub(crate) count: usize,
}

/// The error that stopped the scanner. It is boxed, so that the usual success returns in registers.
pub(crate) struct Stop(Box<ReadError>);

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        Stop(Box::new(error))
    }
}

impl From<Stop> for ReadError {
    fn from(stop: Stop) -> ReadError {
        *stop.0
    }
}

pub(crate) struct JsonScanner<'a> {
    input: &'a [u8],
    pos: usize,
    depth: usize,
    max_depth: usize,
    max_items: usize,
    items: usize,
    prefixes: Prefixes,
    /// The part that is read, for warnings.
    pub(crate) part: usize,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> JsonScanner<'a> {
    /// Creates a scanner at the beginning of `input`.
    ///
    /// # Errors
    /// Returns [`ReadError::TooLarge`] if `input` has too many bytes.
    pub(crate) fn new(input: &'a [u8], limits: &ReadLimits) -> Result<JsonScanner<'a>, ReadError> {
        if input.len() > limits.max_bytes {
            return Err(ReadError::TooLarge { bytes: input.len(), limit: limits.max_bytes });
        }
        let scanner = JsonScanner::from_position(input, 0, limits.max_depth);
        Ok(JsonScanner { max_items: limits.max_items, prefixes: Prefixes::with_capacity(), ..scanner })
    }

    /// Creates a scanner in the middle of `input`.
    pub(crate) fn from_position(input: &'a [u8], pos: usize, max_depth: usize) -> JsonScanner<'a> {
        let max_depth = max_depth.min(MOST_LEVELS);
        JsonScanner {
            input,
            pos,
            depth: 0,
            max_depth,
            max_items: usize::MAX,
            items: 0,
            prefixes: Prefixes::default(),
            part: 0,
            warnings: Vec::new(),
        }
    }

    /// Counts a thread, frame or image that is kept in memory.
    #[inline(always)]
    pub(crate) fn count_item(&mut self) -> Result<(), Stop> {
        self.items += 1;
        if self.items > self.max_items {
            return Err(ReadError::TooManyItems { offset: self.pos, limit: self.max_items }.into());
        }
        Ok(())
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    /// Returns the whole input.
    pub(crate) fn input(&self) -> &'a [u8] {
        self.input
    }

    /// Returns the byte at the current position, or `None` at the end.
    #[inline(always)]
    pub(crate) fn peek_byte(&self) -> Option<u8> {
        self.input.get(self.pos).copied()
    }

    pub(crate) fn record_warning(
        &mut self,
        kind: WarningKind,
        place: &'static str,
        field: &'static str,
        offset: usize,
    ) {
        let part = self.part;
        let known = self
            .warnings
            .iter_mut()
            .find(|w| w.kind == kind && w.part == part && w.place == place && w.field == field);
        match known {
            Some(warning) => warning.count += 1,
            None => self.warnings.push(Warning { kind, part, place, field, count: 1, offset }),
        }
    }

    /// Returns the error for an unexpected byte. The record is truncated if only white space and NULs follow,
    /// as in a file that was allocated before it was filled.
    #[cold]
    pub(crate) fn fail_at<T>(&self, offset: usize, expected: &'static str) -> Result<T, Stop> {
        let rest = self.input.get(offset..).unwrap_or_default();
        if rest.iter().all(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t' | 0)) {
            Err(ReadError::Truncated { offset, expected }.into())
        } else {
            Err(ReadError::NotJson { offset, expected }.into())
        }
    }

    /// Skips a byte order mark and the white space before the first value.
    pub(crate) fn skip_preamble(&mut self) -> Result<(), Stop> {
        const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
        if self.input.starts_with(BYTE_ORDER_MARK) {
            self.pos = BYTE_ORDER_MARK.len();
            self.record_warning(WarningKind::ByteOrderMark, "", "", 0);
        } else if !self.input.is_empty() && BYTE_ORDER_MARK.starts_with(self.input) {
            return self.fail_at(self.input.len(), "a value");
        }
        self.skip_whitespace();
        Ok(())
    }

    /// Skips the white space and NULs that are allowed after the last value.
    pub(crate) fn expect_end(&mut self) -> Result<(), Stop> {
        let from = self.pos;
        while matches!(self.peek_byte(), Some(b' ' | b'\n' | b'\r' | b'\t' | 0)) {
            self.pos += 1;
        }
        if self.pos < self.input.len() {
            return self.fail_at(self.pos, "the end of the record");
        }
        if self.pos > from {
            self.record_warning(WarningKind::TrailingBytes, "", "", from);
        }
        Ok(())
    }

    /// Skips white space.
    #[inline(always)]
    pub(crate) fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek_byte() {
            self.pos += 1;
            // A third of a pretty-printed report is indentation.
            while let Some(word) = self.read_word(self.pos)
                && word == SPACES
            {
                self.pos += 8;
            }
        }
    }

    /// Returns the eight bytes at `pos`, the first one lowest, or `None` near the end.
    #[inline(always)]
    fn read_word(&self, pos: usize) -> Option<u64> {
        let chunk = self.input.get(pos..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*chunk))
    }

    /// Skips a byte of the grammar.
    pub(super) fn pass_byte(&mut self) {
        self.pos += 1;
    }

    /// Enters a container at the current position.
    #[inline(always)]
    fn enter_container(&mut self) -> Result<(), Stop> {
        if self.depth >= self.max_depth {
            return Err(ReadError::TooDeep { offset: self.pos, limit: self.max_depth }.into());
        }
        self.depth += 1;
        self.pos += 1;
        Ok(())
    }

    /// Leaves the container that closes at the current position.
    #[inline(always)]
    fn leave_container(&mut self) {
        self.depth -= 1;
        self.pos += 1;
    }

    /// Reads the members of the object at the current position. Calls `each` at each value,
    /// which must advance past it.
    #[inline]
    pub(crate) fn read_members(
        &mut self,
        mut each: impl FnMut(&mut JsonScanner<'a>, JsonMember<'a>) -> Result<(), Stop>,
    ) -> Result<PassedObject, Stop> {
        self.enter_container()?;
        let mut count = 0;
        while let Some(member) = self.next_member(count)? {
            each(self, member)?;
            count += 1;
        }
        let close = self.pos;
        self.leave_container();
        Ok(PassedObject { close, count })
    }

    /// Reads the elements of the array at the current position. Calls `each` with the index at
    /// each value, which must advance past it.
    #[inline]
    pub(crate) fn read_elements(
        &mut self,
        mut each: impl FnMut(&mut JsonScanner<'a>, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.enter_container()?;
        self.skip_whitespace();
        if self.peek_byte() != Some(b']') {
            for index in 0.. {
                each(self, index)?;
                self.skip_whitespace();
                match self.peek_byte() {
                    Some(b',') => {
                        self.pos += 1;
                        self.skip_whitespace();
                    }
                    Some(b']') => break,
                    _ => return self.fail_at(self.pos, "',' or ']'"),
                }
            }
        }
        self.leave_container();
        Ok(())
    }

    /// Advances to the value of the next member, from behind the brace or the previous value. Returns `None` at the
    /// closing brace. `ordinal` is the number of members before it.
    #[inline(always)]
    pub(crate) fn next_member(&mut self, ordinal: usize) -> Result<Option<JsonMember<'a>>, Stop> {
        if let Some((prefix, key)) = self.prefixes.find_repeated(self.input, self.pos, self.depth, ordinal) {
            let separator = self.pos + prefix.separator();
            self.pos += prefix.len();
            self.skip_whitespace();
            return Ok(Some(JsonMember { key: Cow::Borrowed(key), separator }));
        }
        self.new_member(ordinal)
    }

    /// Works as [`JsonScanner::next_member`], for a member with another prefix than the previous one in its place.
    #[inline(never)]
    fn new_member(&mut self, ordinal: usize) -> Result<Option<JsonMember<'a>>, Stop> {
        let start = self.pos;
        self.skip_whitespace();
        let separator = self.pos;
        match self.peek_byte() {
            Some(b'}') => return Ok(None),
            Some(b',') if ordinal > 0 => {
                self.pos += 1;
                self.skip_whitespace();
            }
            _ if ordinal > 0 => return self.fail_at(self.pos, "',' or '}'"),
            _ => {}
        }
        let quote = self.pos;
        let key = self.read_key()?;
        if let Cow::Borrowed(key) = key {
            self.prefixes.remember_prefix(self.depth, ordinal, start..self.pos, separator, quote, key);
        }
        Ok(Some(JsonMember { key, separator }))
    }

    /// Reads a key and its colon, up to the value.
    #[inline(always)]
    fn read_key(&mut self) -> Result<Cow<'a, [u8]>, Stop> {
        if self.peek_byte() != Some(b'"') {
            return self.fail_at(self.pos, "a key");
        }
        let (raw, escaped) = self.read_string()?;
        if self.peek_byte() != Some(b':') {
            self.skip_whitespace();
            if self.peek_byte() != Some(b':') {
                return self.fail_at(self.pos, "':'");
            }
        }
        self.pos += 1;
        self.skip_whitespace();
        Ok(if escaped {
            Cow::Owned(Text(raw).decode().into_owned().into_bytes())
        } else {
            Cow::Borrowed(raw)
        })
    }

    /// Skips `true`, `false` or `null`.
    fn skip_literal(&mut self, word: &'static [u8], expected: &'static str) -> Result<(), Stop> {
        let rest = &self.input[self.pos..];
        if rest.starts_with(word) {
            self.pos += word.len();
            return Ok(());
        }
        let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.fail_at(self.pos + same, expected)
    }

    /// Skips a value that is not a container.
    #[inline]
    fn skip_scalar(&mut self) -> Result<(), Stop> {
        match self.peek_byte() {
            Some(b'"') => self.read_string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.read_number().map(|_| ()),
            Some(b't') => self.skip_literal(b"true", "true"),
            Some(b'f') => self.skip_literal(b"false", "false"),
            Some(b'n') => self.skip_literal(b"null", "null"),
            _ => self.fail_at(self.pos, "a value"),
        }
    }

    /// Skips the value at the current position, of any type.
    #[inline]
    pub(crate) fn skip_value(&mut self) -> Result<(), Stop> {
        match self.peek_byte() {
            Some(b'{' | b'[') => self.skip_container(),
            _ => self.skip_scalar(),
        }
    }

    fn skip_container(&mut self) -> Result<(), Stop> {
        let outside = self.depth;
        // One bit per level: set if the container is an object.
        let mut objects = [0_u64; MOST_LEVELS / 64];
        loop {
            let open = self.peek_byte();
            match open {
                Some(b'{' | b'[') => {
                    self.enter_container()?;
                    self.skip_whitespace();
                    let object = open == Some(b'{');
                    let level = self.depth - 1;
                    let bit = 1 << (level % 64);
                    objects[level / 64] =
                        if object { objects[level / 64] | bit } else { objects[level / 64] & !bit };
                    match self.peek_byte() {
                        Some(b'}') if object => self.leave_container(),
                        Some(b']') if !object => self.leave_container(),
                        _ => {
                            if object {
                                self.read_key()?;
                            }
                            continue;
                        }
                    }
                }
                _ => self.skip_scalar()?,
            }
            // After a value: close the containers that end here, then go to the next member.
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                self.skip_whitespace();
                let level = self.depth - 1;
                let object = objects[level / 64] >> (level % 64) & 1 == 1;
                match self.peek_byte() {
                    Some(b',') => {
                        self.pos += 1;
                        self.skip_whitespace();
                        if object {
                            self.read_key()?;
                        }
                        break;
                    }
                    Some(b'}') if object => self.leave_container(),
                    Some(b']') if !object => self.leave_container(),
                    _ => return self.fail_at(self.pos, if object { "',' or '}'" } else { "',' or ']'" }),
                }
            }
        }
    }
}

/// Returns the type of the value that begins with `byte`, with its article.
pub(crate) fn type_name(byte: Option<u8>) -> &'static str {
    match byte {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}
