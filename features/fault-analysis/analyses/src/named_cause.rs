//! Causes that the kernel or the log names. They come before every rule about the address: an address of an image can be
//! valid, and the access fails all the same.
//!
//! Sources: `<mach/kern_return.h>`, `<mach/arm/exception.h>`, `<sys/reason.h>`, and the words of logs of iOS 15 to 26.

use crate::decode::{AccessFailure, DecodedFault, FailedAccess, exceptions};
use crate::fault::{FaultConfidence, FaultEvidence, FaultVerdict};
use crate::log_words::find_words;
use crate::memory::find_image;
use crate::sentence;
use unslide_report::CrashState;
use unslide_symbolicate::SymbolicatedCrash;

/// Codes of a bad access that rules distinguish.
mod codes {
    pub const INVALID_ADDRESS: u64 = 1;
    pub const PROTECTION_FAILURE: u64 = 2;
    /// The memory object of the page was destroyed.
    pub const MEMORY_FAILURE: u64 = 9;
    /// The memory object of the page gave no data.
    pub const MEMORY_ERROR: u64 = 10;
    /// `EXC_I386_GPFLT`.
    pub const GENERAL_PROTECTION: u64 = 13;
    pub const CODESIGN_ERROR: u64 = 50;
    /// The processor's codes of arm64: alignment, debugging, the stack pointer, swaps.
    pub const PROCESSOR: std::ops::RangeInclusive<u64> = 0x101..=0x104;
    pub const AUTHENTICATION: u64 = 0x105;
    pub const MEMORY_TAG: u64 = 0x106;
}

/// Parts of the system that end processes.
mod namespaces {
    pub const SIGNAL: u64 = 2;
    pub const CODE_SIGNING: u64 = 3;
    pub const AUTHENTICATION: u64 = 28;
}

/// The signal of processes that the system ends.
const SIGKILL: u64 = 9;

/// What the kernel and the log say of the cause.
pub enum KernelCause {
    /// A cause that is no bad pointer, or that says more than the address.
    Named(NamedCause),
    /// The kernel gives another reason than a bad address, of which no rule says more.
    Unexplained,
    /// The address decides.
    Address,
}

/// A cause, with its evidence.
pub struct NamedCause {
    pub verdict: FaultVerdict,
    pub confidence: FaultConfidence,
    pub sentence: String,
    pub evidence: Vec<FaultEvidence>,
}

impl KernelCause {
    /// Finds the cause of a crash.
    pub fn find(
        crash: &SymbolicatedCrash<'_, '_>,
        state: &CrashState<'_>,
        decoded: DecodedFault,
    ) -> KernelCause {
        let facts = CauseFacts { crash, state, access: decoded.access() };
        let is_access = state.exception == Some(exceptions::BAD_ACCESS);
        let is_killed = state.exception.is_none_or(|exception| exception == exceptions::CRASH)
            && state.signal == Some(SIGKILL);
        if (is_access || is_killed)
            && let Some(cause) = facts.find_code_signing(is_access)
        {
            return KernelCause::Named(cause);
        }
        if !is_access {
            return KernelCause::Address;
        }
        let named = facts.find_memory_tag();
        let named = named.or_else(|| facts.find_authentication()).or_else(|| facts.find_page_not_readable());
        match named {
            Some(cause) => KernelCause::Named(cause),
            None if facts.has_other_reason() => KernelCause::Unexplained,
            None => KernelCause::Address,
        }
    }
}

/// True if the kernel says that the address itself was refused: nothing is mapped there, or the access is not permitted.
pub fn names_bad_address(state: &CrashState<'_>) -> bool {
    matches!(state.code, Some(codes::INVALID_ADDRESS | codes::PROTECTION_FAILURE))
}

/// True if the kernel says that the access is not permitted: something is mapped at the address.
pub fn names_protection(state: &CrashState<'_>) -> bool {
    state.code == Some(codes::PROTECTION_FAILURE)
}

struct CauseFacts<'c, 'a> {
    crash: &'c SymbolicatedCrash<'c, 'a>,
    state: &'c CrashState<'a>,
    access: Option<FailedAccess>,
}

impl CauseFacts<'_, '_> {
    /// Returns the address that the kernel states, or else the one of the processor.
    fn find_address(&self) -> Option<u64> {
        self.state.address.or_else(|| self.access?.address)
    }

    fn image(&self) -> Option<String> {
        find_image(self.crash.report(), self.find_address()?)
    }

    fn code_evidence(&self) -> Vec<FaultEvidence> {
        self.state.code.map(|kernel_code| FaultEvidence::KernelCode { kernel_code }).into_iter().collect()
    }

    fn find_code_signing(&self, is_access: bool) -> Option<NamedCause> {
        let is_refused_page = is_access && self.state.code == Some(codes::CODESIGN_ERROR);
        let by_namespace = self.state.exit.namespace == Some(namespaces::CODE_SIGNING);
        let note = self.state.signal_note.as_deref().map(str::to_ascii_lowercase).unwrap_or_default();
        let by_note = note.contains("code sign") || note.contains("codesign");
        if !is_refused_page && !by_namespace && !by_note {
            return None;
        }
        // Another namespace contradicts the words behind the signal.
        let is_certain = is_refused_page || by_namespace || self.state.exit.namespace.is_none();
        let mut evidence = if is_refused_page { self.code_evidence() } else { Vec::new() };
        let namespace = self.state.exit.namespace.filter(|_| by_namespace);
        evidence.extend(
            namespace.map(|termination_namespace| FaultEvidence::Termination { termination_namespace }),
        );
        let words = self.state.signal_note.clone().filter(|_| by_note);
        evidence.extend(words.as_deref().map(FaultEvidence::from_log_words));
        let sentence = match self.find_address().filter(|_| is_refused_page) {
            Some(address) => sentence::for_code_signing(address, self.image().as_deref()),
            None if is_certain => sentence::CODE_SIGNING.to_owned(),
            None => sentence::CODE_SIGNING_LIKELY.to_owned(),
        };
        Some(NamedCause {
            verdict: FaultVerdict::CodeSigning,
            confidence: confidence(is_certain),
            sentence,
            evidence,
        })
    }

    fn find_memory_tag(&self) -> Option<NamedCause> {
        let by_processor = self.access.is_some_and(|access| access.failure == AccessFailure::MemoryTag);
        let by_code = self.state.code == Some(codes::MEMORY_TAG);
        let words = find_words(self.state, &["mte_tag", "tagcheck", "tag check"]);
        if !by_processor && !by_code && words.is_none() {
            return None;
        }
        let mut evidence = if by_code { self.code_evidence() } else { Vec::new() };
        evidence.extend(words.map(FaultEvidence::from_log_words));
        Some(NamedCause {
            verdict: FaultVerdict::MemoryTag,
            confidence: FaultConfidence::Certain,
            sentence: sentence::for_memory_tag(self.find_address()),
            evidence,
        })
    }

    fn find_authentication(&self) -> Option<NamedCause> {
        let by_code = self.state.code == Some(codes::AUTHENTICATION);
        let by_namespace = self.state.exit.namespace == Some(namespaces::AUTHENTICATION);
        let words = find_words(self.state, &["pointer authentication"]);
        if !by_code && !by_namespace && words.is_none() {
            return None;
        }
        let is_certain = by_code || by_namespace;
        let mut evidence = if by_code { self.code_evidence() } else { Vec::new() };
        evidence.extend(words.map(FaultEvidence::from_log_words));
        Some(NamedCause {
            verdict: FaultVerdict::PointerAuthentication,
            confidence: confidence(is_certain),
            sentence: sentence::for_failed_authentication(is_certain),
            evidence,
        })
    }

    fn find_page_not_readable(&self) -> Option<NamedCause> {
        if !matches!(self.state.code, Some(codes::MEMORY_ERROR | codes::MEMORY_FAILURE)) {
            return None;
        }
        let note = self.state.kernel_notes.first().map(|note| note.trim_end_matches('.'));
        let image = self.image();
        let mut evidence = self.code_evidence();
        evidence.extend(note.map(FaultEvidence::from_log_words));
        evidence.extend(image.clone().map(|image| FaultEvidence::Image { image }));
        Some(NamedCause {
            verdict: FaultVerdict::PageNotReadable,
            confidence: FaultConfidence::Certain,
            sentence: sentence::for_page_not_readable(self.find_address(), image.as_deref(), note),
            evidence,
        })
    }

    /// True if the kernel's code or the part of the system that ended the process is about something else than an address.
    fn has_other_reason(&self) -> bool {
        let is_of_address = |code: u64| {
            matches!(code, codes::INVALID_ADDRESS | codes::PROTECTION_FAILURE | codes::GENERAL_PROTECTION)
                || codes::PROCESSOR.contains(&code)
        };
        self.state.code.is_some_and(|code| !is_of_address(code))
            || self.state.exit.namespace.is_some_and(|namespace| namespace != namespaces::SIGNAL)
    }
}

fn confidence(is_certain: bool) -> FaultConfidence {
    if is_certain { FaultConfidence::Certain } else { FaultConfidence::Likely }
}
