//! Registers of DWARF and their names in reports.

use unslide_model::CpuFamily;

/// The size of an address of either processor.
pub const ADDRESS_BYTES: u8 = 8;
/// The first and the last number of the vector registers of arm64.
const ARM64_VECTORS: std::ops::RangeInclusive<u16> = 64..=95;
/// The first and the last number of the vector registers of x86_64.
const X86_64_VECTORS: std::ops::RangeInclusive<u16> = 17..=32;
const ARM64_NAMES: [&str; 32] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "fp", "lr",
    "sp",
];
const X86_64_NAMES: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip",
];

/// The registers of a processor, by their numbers in DWARF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterSet {
    Arm64,
    X86_64,
}

impl RegisterSet {
    /// Returns the registers of a processor with tables of variables.
    #[must_use]
    pub fn for_cpu(cpu: CpuFamily) -> Option<RegisterSet> {
        match cpu {
            CpuFamily::Arm64 => Some(RegisterSet::Arm64),
            CpuFamily::X86_64 => Some(RegisterSet::X86_64),
            _ => None,
        }
    }

    /// Returns the name of a register in reports.
    #[must_use]
    pub fn name(self, number: u16) -> Option<&'static str> {
        let names: &[&str] = match self {
            RegisterSet::Arm64 => &ARM64_NAMES,
            RegisterSet::X86_64 => &X86_64_NAMES,
        };
        names.get(usize::from(number)).copied()
    }

    /// Returns true for a vector register, which no report has.
    #[must_use]
    pub fn is_vector(self, number: u16) -> bool {
        match self {
            RegisterSet::Arm64 => ARM64_VECTORS.contains(&number),
            RegisterSet::X86_64 => X86_64_VECTORS.contains(&number),
        }
    }

    pub(crate) fn code(self) -> u64 {
        match self {
            RegisterSet::Arm64 => 1,
            RegisterSet::X86_64 => 2,
        }
    }

    pub(crate) fn from_code(code: u64) -> Option<RegisterSet> {
        [RegisterSet::Arm64, RegisterSet::X86_64].into_iter().find(|set| set.code() == code)
    }
}
