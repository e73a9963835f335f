//! The fault that the processor reported, from its registers.
//!
//! Sources: `ESR_EL1` of the Arm Architecture Reference Manual, and the error code of a page fault in Intel's manual.

use serde::Serialize;
use unslide_report::CrashState;

/// Numbers of Mach exceptions that a rule distinguishes, from `<mach/exception_types.h>`.
pub mod exceptions {
    pub const BAD_ACCESS: u64 = 1;
    pub const ARITHMETIC: u64 = 3;
    pub const BREAKPOINT: u64 = 6;
    pub const CRASH: u64 = 10;
}

/// Traps of x86_64, from `<mach/i386/exception.h>`.
mod traps {
    pub const DIVIDE_ERROR: u64 = 0;
    pub const INVALID_OPCODE: u64 = 6;
    pub const GENERAL_PROTECTION: u64 = 13;
    pub const PAGE_FAULT: u64 = 14;
}

/// Exception classes of arm64 that a rule distinguishes.
mod classes {
    pub const INSTRUCTION_ABORT: u64 = 0x20;
    pub const DATA_ABORT: u64 = 0x24;
    pub const BREAKPOINT: u64 = 0x3c;
}

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    Read,
    Write,
    Execute,
}

impl AccessKind {
    /// Returns the verb of a sentence about the access.
    pub fn as_verb(self) -> &'static str {
        match self {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
            AccessKind::Execute => "executes",
        }
    }
}

/// The reason why the processor refused an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFailure {
    /// Nothing is mapped at the address.
    Unmapped,
    /// The address is mapped, and the access is not permitted.
    Permission,
    /// The address is not a multiple of the access's size.
    Alignment,
    /// The tag of the pointer is not that of the memory.
    MemoryTag,
    /// Another reason, or an unknown status.
    Other,
}

/// A memory access that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAccess {
    pub kind: AccessKind,
    /// The address as the processor reported it; `None` if it reported none.
    pub address: Option<u64>,
    pub failure: AccessFailure,
}

/// The fault of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedFault {
    Access(FailedAccess),
    /// A pointer that is not canonical. x86_64 reports neither its value nor the kind of the access.
    GeneralProtection,
    /// A trap instruction; with its immediate on arm64.
    Trap(Option<u16>),
    Division,
    /// Any other fault, or a report without exception registers.
    Unknown,
}

/// Bits of the exception syndrome that say how an access failed.
const FAULT_STATUS: u64 = 0x3f;
const IS_WRITE: u64 = 1 << 6;
const IS_CACHE_MAINTENANCE: u64 = 1 << 8;
const HAS_NO_ADDRESS: u64 = 1 << 10;

impl DecodedFault {
    /// Returns the memory access that failed, if the fault is one.
    pub fn access(self) -> Option<FailedAccess> {
        match self {
            DecodedFault::Access(access) => Some(access),
            _ => None,
        }
    }

    /// Decodes the fault of a crash.
    pub fn from_state(state: &CrashState<'_>) -> DecodedFault {
        if let Some(esr) = state.register("esr") {
            return from_syndrome(esr, state.register("far"));
        }
        match state.register("trapno") {
            Some(traps::PAGE_FAULT) => from_page_fault(state),
            Some(traps::GENERAL_PROTECTION) => DecodedFault::GeneralProtection,
            Some(traps::INVALID_OPCODE) => DecodedFault::Trap(None),
            // A report that another writer made may have zeros in place of exception registers.
            Some(traps::DIVIDE_ERROR) if state.exception == Some(exceptions::ARITHMETIC) => {
                DecodedFault::Division
            }
            _ => DecodedFault::Unknown,
        }
    }
}

fn from_syndrome(esr: u64, far: Option<u64>) -> DecodedFault {
    let kind = match esr >> 26 & 0x3f {
        classes::INSTRUCTION_ABORT => AccessKind::Execute,
        classes::DATA_ABORT if esr & IS_WRITE != 0 && esr & IS_CACHE_MAINTENANCE == 0 => AccessKind::Write,
        classes::DATA_ABORT => AccessKind::Read,
        classes::BREAKPOINT => return DecodedFault::Trap(u16::try_from(esr & 0xffff).ok()),
        _ => return DecodedFault::Unknown,
    };
    let failure = match esr & FAULT_STATUS {
        0x04..=0x07 => AccessFailure::Unmapped,
        0x0d..=0x0f => AccessFailure::Permission,
        0x11 => AccessFailure::MemoryTag,
        0x21 => AccessFailure::Alignment,
        _ => AccessFailure::Other,
    };
    let address = far.filter(|_| esr & HAS_NO_ADDRESS == 0);
    DecodedFault::Access(FailedAccess { kind, address, failure })
}

fn from_page_fault(state: &CrashState<'_>) -> DecodedFault {
    let Some(error) = state.register("err") else { return DecodedFault::Unknown };
    let kind = match error {
        error if error & 1 << 4 != 0 => AccessKind::Execute,
        error if error & 1 << 1 != 0 => AccessKind::Write,
        _ => AccessKind::Read,
    };
    let failure = if error & 1 != 0 { AccessFailure::Permission } else { AccessFailure::Unmapped };
    DecodedFault::Access(FailedAccess { kind, address: state.register("faultvaddr"), failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(exception: u64, registers: &[(&str, u64)]) -> DecodedFault {
        let mut state = CrashState::default();
        state.exception = Some(exception);
        state.registers = registers.iter().map(|(name, bits)| ((*name).to_owned(), *bits)).collect();
        DecodedFault::from_state(&state)
    }

    fn access(kind: AccessKind, address: Option<u64>, failure: AccessFailure) -> DecodedFault {
        DecodedFault::Access(FailedAccess { kind, address, failure })
    }

    #[test]
    fn the_syndrome_of_arm64_is_decoded() {
        use AccessFailure::{Alignment, Other, Permission, Unmapped};
        use AccessKind::{Execute, Read, Write};
        for (esr, expected) in [
            (0x9200_0006, access(Read, Some(40), Unmapped)),
            (0x9200_0046, access(Write, Some(40), Unmapped)),
            (0x9200_0146, access(Read, Some(40), Unmapped)),
            (0x9200_004f, access(Write, Some(40), Permission)),
            (0x9200_0021, access(Read, Some(40), Alignment)),
            (0x9200_0011, access(Read, Some(40), AccessFailure::MemoryTag)),
            (0x9200_0009, access(Read, Some(40), Other)),
            (0x9200_0410, access(Read, None, Other)),
            (0x8200_000f, access(Execute, Some(40), Permission)),
            (0xf200_5512, DecodedFault::Trap(Some(0x5512))),
            (0x5600_0080, DecodedFault::Unknown),
            (0x0200_0000, DecodedFault::Unknown),
            (0x8a00_0000, DecodedFault::Unknown),
        ] {
            let found = decoded(exceptions::BAD_ACCESS, &[("esr", esr), ("far", 40)]);
            assert_eq!(found, expected, "{esr:#x}");
        }
    }

    #[test]
    fn the_traps_of_x86_64_are_decoded() {
        use AccessFailure::{Permission, Unmapped};
        use AccessKind::{Execute, Read, Write};
        for (trap, error, expected) in [
            (14, 4, access(Read, Some(40), Unmapped)),
            (14, 6, access(Write, Some(40), Unmapped)),
            (14, 7, access(Write, Some(40), Permission)),
            (14, 0x15, access(Execute, Some(40), Permission)),
            (13, 0, DecodedFault::GeneralProtection),
            (6, 0, DecodedFault::Trap(None)),
            (0, 0, DecodedFault::Unknown),
            (3, 0, DecodedFault::Unknown),
        ] {
            let registers = [("trapno", trap), ("err", error), ("faultvaddr", 40)];
            assert_eq!(decoded(exceptions::BAD_ACCESS, &registers), expected, "{trap} {error}");
        }
        assert_eq!(decoded(exceptions::ARITHMETIC, &[("trapno", 0)]), DecodedFault::Division);
    }

    #[test]
    fn a_report_without_exception_registers_has_no_known_fault() {
        assert_eq!(decoded(exceptions::BAD_ACCESS, &[("x0", 0)]), DecodedFault::Unknown);
    }
}
