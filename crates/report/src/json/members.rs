//! Typed members. A value of another type is skipped, recorded as a warning, and treated as absent.

use super::scanner::{JsonMember, JsonScanner, PassedObject, Stop};
use crate::{Number, Text, WarningKind};
use unslide_model::{CpuType, DebugId};

/// The members of one object that are read, with those that were already seen.
pub(crate) struct MemberSlots {
    place: &'static str,
    seen: u64,
}

/// The location of one value that is read.
#[derive(Clone, Copy)]
pub(crate) struct MemberSlot {
    pub(crate) place: &'static str,
    pub(crate) field: &'static str,
    duplicate: bool,
}

impl MemberSlots {
    pub(crate) fn new(place: &'static str) -> MemberSlots {
        MemberSlots { place, seen: 0 }
    }

    /// Returns the slot of the member `field`. The member has the bit `bit` (under 64) of the object.
    #[inline(always)]
    pub(crate) fn slot_for(&mut self, bit: u32, field: &'static str) -> MemberSlot {
        let duplicate = self.seen >> bit & 1 == 1;
        self.seen |= 1 << bit;
        MemberSlot { place: self.place, field, duplicate }
    }
}

/// An array of objects that is read one object at a time.
pub(crate) struct OpenObjects {
    slot: MemberSlot,
    first: bool,
    /// The number of other values in it.
    pub(crate) invalid: u64,
}

impl<'a> JsonScanner<'a> {
    /// Enters an array, for [`JsonScanner::next_object`]. Returns `None` for other values. Does not count as a level.
    pub(crate) fn open_objects(&mut self, slot: MemberSlot) -> Result<Option<OpenObjects>, Stop> {
        if !self.check_type(slot, |b| b == b'[')? {
            return Ok(None);
        }
        self.pass_byte();
        Ok(Some(OpenObjects { slot, first: true, invalid: 0 }))
    }

    /// Advances to the next object of an array. Returns false after the end. Warns about other values and skips them.
    pub(crate) fn next_object(&mut self, objects: &mut OpenObjects) -> Result<bool, Stop> {
        loop {
            self.skip_whitespace();
            match self.peek_byte() {
                Some(b']') => {
                    self.pass_byte();
                    return Ok(false);
                }
                Some(b',') if !objects.first => {
                    self.pass_byte();
                    self.skip_whitespace();
                }
                _ if !objects.first => return self.fail_at(self.pos(), "',' or ']'"),
                _ => {}
            }
            objects.first = false;
            if self.peek_byte() == Some(b'{') {
                return Ok(true);
            }
            let offset = self.pos();
            self.skip_value()?;
            objects.invalid += 1;
            self.record_warning(WarningKind::NotAnObject, objects.slot.place, objects.slot.field, offset);
        }
    }

    /// Enters the object at the current position, for [`JsonScanner::next_member`]. Does not count as a level.
    pub(crate) fn open_object(&mut self) {
        self.pass_byte();
    }

    /// Leaves the object that closes at the current position. Returns the offset of the closing brace.
    pub(crate) fn close_object(&mut self) -> usize {
        let close = self.pos();
        self.pass_byte();
        close
    }

    /// Warns about a duplicate. Returns true if the value matches `first`. Skips any other value,
    /// with a warning unless it is null.
    #[inline(always)]
    fn check_type(&mut self, slot: MemberSlot, first: impl Fn(u8) -> bool) -> Result<bool, Stop> {
        if slot.duplicate {
            self.record_warning(WarningKind::DuplicateKey, slot.place, slot.field, self.pos());
        }
        match self.peek_byte() {
            Some(byte) if first(byte) => return Ok(true),
            Some(b'n') => {}
            _ => self.warn_wrong_type(slot, self.pos()),
        }
        self.skip_value()?;
        Ok(false)
    }

    fn warn_wrong_type(&mut self, slot: MemberSlot, offset: usize) {
        self.record_warning(WarningKind::WrongType, slot.place, slot.field, offset);
    }

    #[inline(always)]
    pub(crate) fn read_text(&mut self, slot: MemberSlot) -> Result<Option<Text<'a>>, Stop> {
        if !self.check_type(slot, |b| b == b'"')? {
            return Ok(None);
        }
        Ok(Some(Text(self.read_string()?.0)))
    }

    /// Reads a number into `into`. The number is too large to return in registers, and there are
    /// many numbers.
    #[inline(always)]
    pub(crate) fn read_number_into(
        &mut self,
        slot: MemberSlot,
        into: &mut Option<Number>,
    ) -> Result<(), Stop> {
        // Each branch writes its result itself. A common write would go through memory, and each number would wait for
        // that store.
        if let Some(magnitude) = self.plain_integer(slot) {
            *into = Some(Number::Int { magnitude, negative: false });
        } else if self.check_type(slot, |b| b == b'-' || b.is_ascii_digit())? {
            *into = Some(self.read_number()?.to_number());
        } else {
            *into = None;
        }
        Ok(())
    }

    /// Reads an integer above 0 with at most nineteen digits, as nearly all numbers are. Leaves other values in place.
    #[inline(always)]
    fn plain_integer(&mut self, slot: MemberSlot) -> Option<u64> {
        if slot.duplicate { None } else { self.plain_digits() }
    }

    /// Reads a number and converts it with `fit`.
    #[inline(always)]
    fn read_converted<T>(
        &mut self,
        slot: MemberSlot,
        fit: impl Fn(Number) -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let offset = self.pos();
        let number = match self.plain_integer(slot) {
            Some(magnitude) => Number::Int { magnitude, negative: false },
            None if self.check_type(slot, |b| b == b'-' || b.is_ascii_digit())? => {
                self.read_number()?.to_number()
            }
            None => return Ok(None),
        };
        let fitting = fit(number);
        if fitting.is_none() {
            self.warn_wrong_type(slot, offset);
        }
        Ok(fitting)
    }

    #[inline(always)]
    pub(crate) fn read_unsigned(&mut self, slot: MemberSlot) -> Result<Option<u64>, Stop> {
        self.read_converted(slot, Number::to_unsigned)
    }

    pub(crate) fn read_signed(&mut self, slot: MemberSlot) -> Result<Option<i64>, Stop> {
        self.read_converted(slot, Number::to_i64)
    }

    /// Reads a field of a Mach-O header: 32 bits, signed or unsigned.
    #[inline(always)]
    pub(crate) fn header_field(&mut self, slot: MemberSlot) -> Result<Option<u32>, Stop> {
        self.read_converted(slot, |n| {
            let value = n.to_i64()?;
            u32::try_from(value).ok().or_else(|| i32::try_from(value).ok().map(i32::cast_unsigned))
        })
    }

    pub(crate) fn read_boolean(&mut self, slot: MemberSlot) -> Result<Option<bool>, Stop> {
        if !self.check_type(slot, |b| b == b't' || b == b'f')? {
            return Ok(None);
        }
        let value = self.peek_byte() == Some(b't');
        self.skip_value()?;
        Ok(Some(value))
    }

    #[inline(always)]
    pub(crate) fn read_uuid(&mut self, slot: MemberSlot) -> Result<Option<[u8; 16]>, Stop> {
        let offset = self.pos();
        let Some(text) = self.read_text(slot)? else { return Ok(None) };
        let uuid = parse_uuid(text);
        if uuid.is_none() {
            self.warn_wrong_type(slot, offset);
        }
        Ok(uuid)
    }

    /// Reads an object as [`JsonScanner::read_members`] does. Returns `None` for any other value.
    #[inline]
    pub(crate) fn read_object(
        &mut self,
        slot: MemberSlot,
        each: impl FnMut(&mut JsonScanner<'a>, JsonMember<'a>) -> Result<(), Stop>,
    ) -> Result<Option<PassedObject>, Stop> {
        self.object_with(slot, |s| s.read_members(each))
    }

    /// Works as [`JsonScanner::read_object`], for an object that re-encoded reports write as `[]` if it is empty.
    pub(crate) fn object_or_empty(
        &mut self,
        slot: MemberSlot,
        each: impl FnMut(&mut JsonScanner<'a>, JsonMember<'a>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.peek_byte() != Some(b'[') {
            return self.read_object(slot, each).map(drop);
        }
        if slot.duplicate {
            self.record_warning(WarningKind::DuplicateKey, slot.place, slot.field, self.pos());
        }
        let (offset, mut empty) = (self.pos(), true);
        self.read_elements(|s, _| {
            empty = false;
            s.skip_value()
        })?;
        if !empty {
            self.warn_wrong_type(slot, offset);
        }
        Ok(())
    }

    /// Reads an object with `read`, which begins at its brace. Returns `None` for any other value.
    #[inline]
    pub(crate) fn object_with<T>(
        &mut self,
        slot: MemberSlot,
        read: impl FnOnce(&mut JsonScanner<'a>) -> Result<T, Stop>,
    ) -> Result<Option<T>, Stop> {
        if !self.check_type(slot, |b| b == b'{')? {
            return Ok(None);
        }
        read(self).map(Some)
    }

    /// Reads an array and calls `each` with the index at each object in it. Returns the number of other values,
    /// which are skipped with a warning.
    #[inline]
    pub(crate) fn read_objects(
        &mut self,
        slot: MemberSlot,
        mut each: impl FnMut(&mut JsonScanner<'a>, usize) -> Result<(), Stop>,
    ) -> Result<Option<u64>, Stop> {
        if !self.check_type(slot, |b| b == b'[')? {
            return Ok(None);
        }
        let mut invalid = 0;
        self.read_elements(|s, index| {
            if s.peek_byte() == Some(b'{') {
                return each(s, index);
            }
            let offset = s.pos();
            s.skip_value()?;
            invalid += 1;
            s.record_warning(WarningKind::NotAnObject, slot.place, slot.field, offset);
            Ok(())
        })?;
        Ok(Some(invalid))
    }
}

impl Number {
    /// Returns the integer if the number is one and fits, also if it has a fraction of zero.
    pub(crate) fn to_i64(self) -> Option<i64> {
        match self {
            Number::Int { magnitude, negative: false } => i64::try_from(magnitude).ok(),
            Number::Int { magnitude, negative: true } => 0_i64.checked_sub_unsigned(magnitude),
            Number::Float(float) if float < 0.0 => {
                let magnitude = Number::Float(-float).to_unsigned()?;
                0_i64.checked_sub_unsigned(magnitude)
            }
            Number::Float(_) => i64::try_from(self.to_unsigned()?).ok(),
        }
    }
}

/// Parses a UUID with or without dashes, in any case.
pub(crate) fn parse_uuid(text: Text<'_>) -> Option<[u8; 16]> {
    match text.0 {
        a if a.len() == 36 && a[8] == b'-' && a[13] == b'-' && a[18] == b'-' && a[23] == b'-' => {
            let mut digits = [0; 32];
            digits[..8].copy_from_slice(&a[..8]);
            digits[8..12].copy_from_slice(&a[9..13]);
            digits[12..16].copy_from_slice(&a[14..18]);
            digits[16..20].copy_from_slice(&a[19..23]);
            digits[20..].copy_from_slice(&a[24..]);
            decode_hex16(&digits)
        }
        _ => text.decode().parse::<DebugId>().ok().map(|id| id.0),
    }
}

/// Returns a UUID as a debug id. Returns `None` for zeros: no symbols can be found by them.
pub(crate) fn debug_id(uuid: [u8; 16]) -> Option<DebugId> {
    (uuid != [0; 16]).then_some(DebugId(uuid))
}

/// Decodes sixteen bytes of hexadecimal. Has no branches, so that the compiler uses vector instructions.
fn decode_hex16(digits: &[u8; 32]) -> Option<[u8; 16]> {
    let mut nibbles = [0; 32];
    let mut good = true;
    for (nibble, digit) in nibbles.iter_mut().zip(digits) {
        *nibble = (digit & 0x0F) + 9 * (digit >> 6);
        good &= digit.is_ascii_hexdigit();
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(nibbles.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    good.then_some(bytes)
}

/// Returns the CPU of a pair of header fields, or `None` without a type.
pub(crate) fn cpu_from_header(cpu_type: Option<u32>, cpu_subtype: Option<u32>) -> Option<CpuType> {
    cpu_type.map(|t| CpuType::new(t, cpu_subtype.unwrap_or(0)))
}
