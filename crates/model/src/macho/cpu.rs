//! Mach-O CPU types (`<mach/machine.h>`).

use serde::{Deserialize, Serialize};

const ABI64: u32 = 0x0100_0000;
const ABI64_32: u32 = 0x0200_0000;

/// A Mach-O `cpu_type`/`cpu_subtype` pair. The subtype is for display and is kept without its
/// capability bits (masked with `0x00FF_FFFF`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuType {
    /// The `cputype` field of the Mach-O header, as an unsigned number.
    pub cpu_type: u32,
    /// The `cpusubtype` field without capability bits.
    pub cpu_subtype: u32,
}

/// Properties of a CPU that decide how to read an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuFamily {
    /// arm64 and arm64e: 64-bit addresses, four-byte instructions, perhaps signed pointers.
    Arm64,
    /// arm64_32 (watchOS): 32-bit addresses, four-byte instructions, no signed pointers.
    Arm64_32,
    /// 32-bit ARM: the lowest bit of a code address selects Thumb.
    Arm,
    /// 64-bit Intel.
    X86_64,
    /// 32-bit Intel.
    X86,
    /// Any other CPU type.
    Other,
}

impl CpuFamily {
    /// Returns true if addresses have 32 bits.
    #[must_use]
    pub fn is_32_bit(self) -> bool {
        matches!(self, CpuFamily::Arm64_32 | CpuFamily::Arm | CpuFamily::X86)
    }
}

impl CpuType {
    /// The CPU type of JavaScript code. Its objects are source maps.
    pub const JAVASCRIPT: CpuType = CpuType { cpu_type: 0x4A53, cpu_subtype: 0 };

    /// Creates a CPU type from the header's two fields. Masks the subtype.
    #[must_use]
    pub fn new(cpu_type: u32, cpu_subtype: u32) -> CpuType {
        CpuType { cpu_type, cpu_subtype: cpu_subtype & 0x00FF_FFFF }
    }

    /// Returns the family of this CPU type.
    #[must_use]
    pub fn family(self) -> CpuFamily {
        match self.cpu_type {
            t if t == 12 | ABI64 => CpuFamily::Arm64,
            t if t == 12 | ABI64_32 => CpuFamily::Arm64_32,
            12 => CpuFamily::Arm,
            t if t == 7 | ABI64 => CpuFamily::X86_64,
            7 => CpuFamily::X86,
            _ => CpuFamily::Other,
        }
    }

    /// Returns the name that Apple's tools use, such as `arm64e`, or `unknown` for a pair without a name.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self == CpuType::JAVASCRIPT {
            return "javascript";
        }
        match (self.family(), self.cpu_subtype) {
            (CpuFamily::Arm64, 2) => "arm64e",
            (CpuFamily::Arm64, _) => "arm64",
            (CpuFamily::Arm64_32, _) => "arm64_32",
            (CpuFamily::Arm, 6) => "armv6",
            (CpuFamily::Arm, 9) => "armv7",
            (CpuFamily::Arm, 10) => "armv7f",
            (CpuFamily::Arm, 11) => "armv7s",
            (CpuFamily::Arm, 12) => "armv7k",
            (CpuFamily::Arm, _) => "arm",
            (CpuFamily::X86_64, 8) => "x86_64h",
            (CpuFamily::X86_64, _) => "x86_64",
            (CpuFamily::X86, _) => "i386",
            (CpuFamily::Other, _) => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_families() {
        let arm64e = CpuType::new(16_777_228, (-2_147_483_646_i32).cast_unsigned());
        assert_eq!((arm64e.name(), arm64e.family()), ("arm64e", CpuFamily::Arm64));
        assert_eq!(CpuType::new(33_554_444, 1).name(), "arm64_32");
        assert!(CpuType::new(33_554_444, 1).family().is_32_bit());
        assert_eq!(CpuType::new(12, 9).name(), "armv7");
        assert_eq!(CpuType::new(16_777_223, 3).name(), "x86_64");
        assert_eq!(CpuType::new(7, 3).name(), "i386");
        assert_eq!(CpuType::new(0, 0).name(), "unknown");
        assert_eq!(CpuType::JAVASCRIPT.name(), "javascript");
    }
}
