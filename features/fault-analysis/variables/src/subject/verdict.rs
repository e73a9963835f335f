//! The verdict that follows from the value of a subject, and its sentence.

use crate::subject::facts::FaultSubject;

/// Addresses below this one are reached from a null pointer.
const NULL_REACH: u64 = 4 << 10;
/// The bytes that the debugging options of malloc write into freed and into new memory.
const FREED_FILL: u64 = 0x5555_5555_5555_5555;
const NEW_FILL: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// The pointers of a process of 64 bits.
const POINTERS: std::ops::RangeInclusive<u64> = 4 << 30..=(1 << 47) - 1;
/// Another pointer is near if it is in the same page of 4 KiB or next to it.
const NEARNESS: u64 = 4 << 10;
/// The bits that arm64 sets in a signed pointer whose authentication failed: one of them says nothing about memory.
const AUTHENTICATION_ERROR_BITS: std::ops::RangeInclusive<u32> = 53..=54;

/// The verdict that follows from the value of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectVerdict {
    NullPointer,
    /// An integer that was used as a pointer, or null plus an index.
    SmallAddress,
    /// Probably, as far as the fill of freed memory is used.
    FreedMemory,
    /// Probably, as far as the fill of new memory is used.
    UninitialisedMemory,
}

impl SubjectVerdict {
    /// Returns true if the value proves the verdict.
    #[must_use]
    pub fn is_certain(self) -> bool {
        matches!(self, SubjectVerdict::NullPointer | SubjectVerdict::SmallAddress)
    }

    /// Returns what the verdict says of the subject: the rest of a sentence that begins with its expression.
    #[must_use]
    pub const fn predicate(self) -> &'static str {
        match self {
            SubjectVerdict::NullPointer => "is null",
            SubjectVerdict::SmallAddress => "holds a small number instead of an address",
            SubjectVerdict::FreedMemory => "was probably read from freed memory",
            SubjectVerdict::UninitialisedMemory => "was probably read from uninitialised memory",
        }
    }
}

impl FaultSubject {
    /// Returns the verdict that follows from the subject's value; `None` if the value says nothing more.
    #[must_use]
    pub fn judge(&self) -> Option<SubjectVerdict> {
        match self.value.value {
            0 => Some(SubjectVerdict::NullPointer),
            value if value < NULL_REACH => Some(SubjectVerdict::SmallAddress),
            FREED_FILL => Some(SubjectVerdict::FreedMemory),
            NEW_FILL => Some(SubjectVerdict::UninitialisedMemory),
            _ => None,
        }
    }

    /// Returns the bit in which the subject differs from a pointer that is near one of `others`, if there is exactly one such
    /// bit: a hint, since single bits flip in bad memory.
    #[must_use]
    pub fn find_flipped_bit(&self, others: &[u64]) -> Option<u32> {
        let value = self.value.value;
        let is_near = |fixed: u64| {
            let near =
                |other: &u64| *other != value && POINTERS.contains(other) && other.abs_diff(fixed) < NEARNESS;
            POINTERS.contains(&fixed) && others.iter().any(near)
        };
        // A pointer that is near another one already has no flipped bit, and neither has null.
        if value < NULL_REACH || is_near(value) {
            return None;
        }
        let bits =
            (NEARNESS.trailing_zeros()..u64::BITS).filter(|bit| !AUTHENTICATION_ERROR_BITS.contains(bit));
        let mut bits = bits.filter(|bit| is_near(value ^ 1 << bit));
        let only = bits.next();
        only.filter(|_| bits.next().is_none())
    }

    /// Returns the sentence about the subject. `verb` is that of the access, such as `reads`.
    #[must_use]
    pub fn sentence(&self, verb: &str) -> String {
        let FaultSubject { expression, type_name, .. } = self;
        let named = if type_name.is_empty() {
            format!("`{expression}`")
        } else {
            format!("`{expression}` ({type_name})")
        };
        let problem = match (self.judge(), self.is_reference) {
            (Some(SubjectVerdict::NullPointer), true) => format!("Reference {named} refers to address 0"),
            (Some(verdict), _) => format!("{named} {}", verdict.predicate()),
            // The index may be wrong as well.
            (None, _) if self.value.offset.is_none() => {
                format!("{named} or its index leads to an address that the access may not use")
            }
            (None, _) => format!("{named} holds an address that the access may not use"),
        };
        let offset = match self.value.offset {
            Some(offset) if offset > 0 => format!(" (offset +{offset:#x})"),
            Some(offset) if offset < 0 => format!(" (offset -{:#x})", offset.unsigned_abs()),
            _ => String::new(),
        };
        match &self.path {
            Some(path) => format!("{problem}; the crash {verb} `{path}`{offset}."),
            None => format!("{problem}; the crash {verb} memory through it{offset}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::facts::SubjectValue;
    use crate::subject::members::{AccessPath, PointerExpression, PointerTarget};

    fn subject(value: u64) -> FaultSubject {
        let pointer = PointerExpression {
            text: "p".to_owned(),
            type_name: "Player *".to_owned(),
            is_reference: false,
            target: PointerTarget::Unknown,
        };
        let access = AccessPath { path: Some("p->score".to_owned()), member: Some("score".to_owned()) };
        FaultSubject::new(pointer, SubjectValue { value, offset: Some(40) }, access, Vec::new())
    }

    #[test]
    fn the_value_of_the_subject_decides_the_verdict() {
        for (value, expected) in [
            (0, Some(SubjectVerdict::NullPointer)),
            (42, Some(SubjectVerdict::SmallAddress)),
            (0x5555_5555_5555_5555, Some(SubjectVerdict::FreedMemory)),
            (0xaaaa_aaaa_aaaa_aaaa, Some(SubjectVerdict::UninitialisedMemory)),
            (0x5555_5555_5555_5556, None),
            (0x2_8000_1000, None),
        ] {
            let subject = subject(value);
            assert_eq!(subject.judge(), expected, "{value:#x}");
            let is_certain = expected.is_none_or(SubjectVerdict::is_certain);
            assert_eq!(subject.sentence("reads").contains("probably"), !is_certain, "{value:#x}");
        }
        let sentence = "`p` (Player *) is null; the crash reads `p->score` (offset +0x28).";
        assert_eq!(subject(0).sentence("reads"), sentence);
    }

    #[test]
    fn exactly_one_flipped_bit_is_a_hint() {
        let heap = 0x2_8000_1000;
        assert_eq!(subject(heap ^ 1 << 36).find_flipped_bit(&[heap + 64]), Some(36));
        assert_eq!(subject(heap ^ 1 << 36).find_flipped_bit(&[heap, heap ^ 1 << 36 ^ 1 << 35]), None);
        assert_eq!(subject(heap ^ 0b11 << 36).find_flipped_bit(&[heap]), None);
        assert_eq!(subject(heap).find_flipped_bit(&[heap + 64]), None);
        assert_eq!(subject(0).find_flipped_bit(&[heap]), None);
        assert_eq!(subject(heap | 1 << 47).find_flipped_bit(&[heap]), Some(47));
        assert_eq!(subject(heap | 1 << 53).find_flipped_bit(&[heap]), None);
    }
}
