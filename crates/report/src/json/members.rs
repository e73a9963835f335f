//! Members of a type: a value of another type is passed, noted and counts as absent.

use super::scanner::{JsonMember, JsonScanner, PassedObject, Stop};
use crate::{Number, Text, WarningKind};
use unslide_model::{CpuType, DebugId};

/// The members of one object that are read: which of them were met already.
pub(crate) struct MemberSlots {
    place: &'static str,
    seen: u64,
}

/// The place of one value that is read.
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

    /// The place of the member `field`, which has the bit `bit` (under 64) among the object's.
    #[inline(always)]
    pub(crate) fn at(&mut self, bit: u32, field: &'static str) -> MemberSlot {
        let duplicate = self.seen >> bit & 1 == 1;
        self.seen |= 1 << bit;
        MemberSlot { place: self.place, field, duplicate }
    }
}

/// An array of objects that is passed one by one.
pub(crate) struct OpenObjects {
    slot: MemberSlot,
    first: bool,
    /// Other things in it.
    pub(crate) invalid: u64,
}

impl<'a> JsonScanner<'a> {
    /// Goes into an array, for [`JsonScanner::next_object`]; `None` where the value is none. It counts for no level.
    pub(crate) fn open_objects(&mut self, slot: MemberSlot) -> Result<Option<OpenObjects>, Stop> {
        if !self.begins(slot, |b| b == b'[')? {
            return Ok(None);
        }
        self.pass_byte();
        Ok(Some(OpenObjects { slot, first: true, invalid: 0 }))
    }

    /// Goes to the next object of an array; false once its end was passed. Other things are noted and left alone.
    pub(crate) fn next_object(&mut self, objects: &mut OpenObjects) -> Result<bool, Stop> {
        loop {
            self.white();
            match self.byte() {
                Some(b']') => {
                    self.pass_byte();
                    return Ok(false);
                }
                Some(b',') if !objects.first => {
                    self.pass_byte();
                    self.white();
                }
                _ if !objects.first => return self.fail(self.pos(), "',' or ']'"),
                _ => {}
            }
            objects.first = false;
            if self.byte() == Some(b'{') {
                return Ok(true);
            }
            let offset = self.pos();
            self.skip()?;
            objects.invalid += 1;
            self.warn(WarningKind::NotAnObject, objects.slot.place, objects.slot.field, offset);
        }
    }

    /// Goes into the object at the current position, for [`JsonScanner::next_member`]. It counts for no level.
    pub(crate) fn open_object(&mut self) {
        self.pass_byte();
    }

    /// Leaves the object that closes at the current position; returns the offset of the closing brace.
    pub(crate) fn close_object(&mut self) -> usize {
        let close = self.pos();
        self.pass_byte();
        close
    }

    /// Notes a duplicate; true where the value begins with `first`. Anything else is passed here,
    /// noted unless it is null.
    #[inline(always)]
    fn begins(&mut self, slot: MemberSlot, first: impl Fn(u8) -> bool) -> Result<bool, Stop> {
        if slot.duplicate {
            self.warn(WarningKind::DuplicateKey, slot.place, slot.field, self.pos());
        }
        match self.byte() {
            Some(byte) if first(byte) => return Ok(true),
            Some(b'n') => {}
            _ => self.wrong(slot, self.pos()),
        }
        self.skip()?;
        Ok(false)
    }

    fn wrong(&mut self, slot: MemberSlot, offset: usize) {
        self.warn(WarningKind::WrongType, slot.place, slot.field, offset);
    }

    #[inline(always)]
    pub(crate) fn text(&mut self, slot: MemberSlot) -> Result<Option<Text<'a>>, Stop> {
        if !self.begins(slot, |b| b == b'"')? {
            return Ok(None);
        }
        Ok(Some(Text(self.string()?.0)))
    }

    /// A number, put where it belongs: it has too many bytes to come back in registers, and they are
    /// many.
    #[inline(always)]
    pub(crate) fn numeric(&mut self, slot: MemberSlot, into: &mut Option<Number>) -> Result<(), Stop> {
        // Written here and not where the ways meet: they would meet in memory, and each number would wait for its
        // own store.
        if let Some(magnitude) = self.plain_integer(slot) {
            *into = Some(Number::Int { magnitude, negative: false });
        } else if self.begins(slot, |b| b == b'-' || b.is_ascii_digit())? {
            *into = Some(self.number()?.value());
        } else {
            *into = None;
        }
        Ok(())
    }

    /// Passes an integer above 0 with at most nineteen digits, as nearly all numbers are; leaves anything else.
    #[inline(always)]
    fn plain_integer(&mut self, slot: MemberSlot) -> Option<u64> {
        if slot.duplicate { None } else { self.plain_digits() }
    }

    /// A number that `fit` turns into what is wanted.
    #[inline(always)]
    fn fitting<T>(&mut self, slot: MemberSlot, fit: impl Fn(Number) -> Option<T>) -> Result<Option<T>, Stop> {
        let offset = self.pos();
        let number = match self.plain_integer(slot) {
            Some(magnitude) => Number::Int { magnitude, negative: false },
            None if self.begins(slot, |b| b == b'-' || b.is_ascii_digit())? => self.number()?.value(),
            None => return Ok(None),
        };
        let fitting = fit(number);
        if fitting.is_none() {
            self.wrong(slot, offset);
        }
        Ok(fitting)
    }

    #[inline(always)]
    pub(crate) fn unsigned(&mut self, slot: MemberSlot) -> Result<Option<u64>, Stop> {
        self.fitting(slot, |n| match n {
            Number::Int { magnitude, negative: false } => Some(magnitude),
            _ => None,
        })
    }

    pub(crate) fn signed(&mut self, slot: MemberSlot) -> Result<Option<i64>, Stop> {
        self.fitting(slot, Number::to_i64)
    }

    /// A field of a Mach-O header: 32 bits, signed or not.
    #[inline(always)]
    pub(crate) fn header_field(&mut self, slot: MemberSlot) -> Result<Option<u32>, Stop> {
        self.fitting(slot, |n| {
            let value = n.to_i64()?;
            u32::try_from(value).ok().or_else(|| i32::try_from(value).ok().map(i32::cast_unsigned))
        })
    }

    pub(crate) fn boolean(&mut self, slot: MemberSlot) -> Result<Option<bool>, Stop> {
        if !self.begins(slot, |b| b == b't' || b == b'f')? {
            return Ok(None);
        }
        let value = self.byte() == Some(b't');
        self.skip()?;
        Ok(Some(value))
    }

    #[inline(always)]
    pub(crate) fn uuid(&mut self, slot: MemberSlot) -> Result<Option<[u8; 16]>, Stop> {
        let offset = self.pos();
        let Some(text) = self.text(slot)? else { return Ok(None) };
        let uuid = uuid(text);
        if uuid.is_none() {
            self.wrong(slot, offset);
        }
        Ok(uuid)
    }

    /// Passes an object as [`JsonScanner::members`] does; `None` where the value is none.
    #[inline]
    pub(crate) fn object(
        &mut self,
        slot: MemberSlot,
        each: impl FnMut(&mut JsonScanner<'a>, JsonMember<'a>) -> Result<(), Stop>,
    ) -> Result<Option<PassedObject>, Stop> {
        self.object_with(slot, |s| s.members(each))
    }

    /// As [`JsonScanner::object`], of an object that re-encoded reports have as `[]` where it is empty.
    pub(crate) fn object_or_empty(
        &mut self,
        slot: MemberSlot,
        each: impl FnMut(&mut JsonScanner<'a>, JsonMember<'a>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.byte() != Some(b'[') {
            return self.object(slot, each).map(drop);
        }
        if slot.duplicate {
            self.warn(WarningKind::DuplicateKey, slot.place, slot.field, self.pos());
        }
        let (offset, mut empty) = (self.pos(), true);
        self.elements(|s, _| {
            empty = false;
            s.skip()
        })?;
        if !empty {
            self.wrong(slot, offset);
        }
        Ok(())
    }

    /// Passes an object with `read`, which begins at its brace; `None` where the value is none.
    #[inline]
    pub(crate) fn object_with<T>(
        &mut self,
        slot: MemberSlot,
        read: impl FnOnce(&mut JsonScanner<'a>) -> Result<T, Stop>,
    ) -> Result<Option<T>, Stop> {
        if !self.begins(slot, |b| b == b'{')? {
            return Ok(None);
        }
        read(self).map(Some)
    }

    /// Passes an array, calling `each` with the index at each object in it; gives the number of
    /// other things in it, which are noted and left alone.
    #[inline]
    pub(crate) fn objects(
        &mut self,
        slot: MemberSlot,
        mut each: impl FnMut(&mut JsonScanner<'a>, usize) -> Result<(), Stop>,
    ) -> Result<Option<u64>, Stop> {
        if !self.begins(slot, |b| b == b'[')? {
            return Ok(None);
        }
        let mut invalid = 0;
        self.elements(|s, index| {
            if s.byte() == Some(b'{') {
                return each(s, index);
            }
            let offset = s.pos();
            s.skip()?;
            invalid += 1;
            s.warn(WarningKind::NotAnObject, slot.place, slot.field, offset);
            Ok(())
        })?;
        Ok(Some(invalid))
    }
}

impl Number {
    /// The integer, where it is one that fits.
    pub(crate) fn to_i64(self) -> Option<i64> {
        match self {
            Number::Int { magnitude, negative: false } => i64::try_from(magnitude).ok(),
            Number::Int { magnitude, negative: true } => 0_i64.checked_sub_unsigned(magnitude),
            Number::Float(_) => None,
        }
    }
}

/// A UUID with or without dashes in any case.
pub(crate) fn uuid(text: Text<'_>) -> Option<[u8; 16]> {
    match text.0 {
        a if a.len() == 36 && a[8] == b'-' && a[13] == b'-' && a[18] == b'-' && a[23] == b'-' => {
            let mut digits = [0; 32];
            digits[..8].copy_from_slice(&a[..8]);
            digits[8..12].copy_from_slice(&a[9..13]);
            digits[12..16].copy_from_slice(&a[14..18]);
            digits[16..20].copy_from_slice(&a[19..23]);
            digits[20..].copy_from_slice(&a[24..]);
            hex16(&digits)
        }
        _ => text.decode().parse::<DebugId>().ok().map(|id| id.0),
    }
}

/// A UUID as a debug id. One of zeros is none: no symbols can ever be found by it.
pub(crate) fn debug_id(uuid: [u8; 16]) -> Option<DebugId> {
    (uuid != [0; 16]).then_some(DebugId(uuid))
}

/// Sixteen bytes from their hexadecimal digits. Without branches, so that it is done in vectors.
fn hex16(digits: &[u8; 32]) -> Option<[u8; 16]> {
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

/// The CPU of a pair of header fields; `None` without a type.
pub(crate) fn cpu(cpu_type: Option<u32>, cpu_subtype: Option<u32>) -> Option<CpuType> {
    cpu_type.map(|t| CpuType::new(t, cpu_subtype.unwrap_or(0)))
}
