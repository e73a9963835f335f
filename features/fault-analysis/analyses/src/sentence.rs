//! The sentences of faults. A sentence about something likely says "probably".

use crate::decode::AccessKind;
use unslide_fault_analysis_variables::subject::SubjectVerdict;
use unslide_symbolicate::{AnalysisPhrases, HintPhrase, VerdictPhrase};

pub const ABORT: &str = "The process ended itself with abort().";
pub const DIVISION: &str = "An integer division failed: the divisor is zero, or the result is too large.";
pub const GENERAL_PROTECTION: &str =
    "The crash probably used a pointer that is no valid address. x86_64 does not report its value.";
pub const CODE_SIGNING: &str = "The system ended the process because of its code signature.";
pub const CODE_SIGNING_LIKELY: &str = "The system probably ended the process because of its code signature.";

/// The words about the reports of a group.
pub const GROUP_PHRASES: AnalysisPhrases = AnalysisPhrases {
    verdicts: &[
        VerdictPhrase { verdict: "null_pointer", predicate: SubjectVerdict::NullPointer.predicate() },
        VerdictPhrase { verdict: "small_address", predicate: SubjectVerdict::SmallAddress.predicate() },
        VerdictPhrase { verdict: "freed_memory", predicate: SubjectVerdict::FreedMemory.predicate() },
        VerdictPhrase {
            verdict: "uninitialised_memory",
            predicate: SubjectVerdict::UninitialisedMemory.predicate(),
        },
        VerdictPhrase { verdict: "invalid_pointer", predicate: "leads to an invalid address" },
    ],
    hints: &[HintPhrase {
        hint: "one_bit_from",
        clause: "its pointers are off by one bit",
        advice: "look at its memory",
    }],
};

pub fn for_trap(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("The program stopped at a trap: {reason}."),
        None => {
            "The program stopped at a trap, which compilers put where a program must not continue.".to_owned()
        }
    }
}

pub fn for_misaligned(kind: AccessKind, address: Option<u64>) -> String {
    let shown = address.map_or_else(String::new, |address| format!(" {address:#x}"));
    format!("The crash {} the misaligned address{shown}.", kind.as_verb())
}

pub fn for_null_call(address: u64, caller: Option<&str>) -> String {
    let called = match address {
        0 => "a null function pointer".to_owned(),
        _ => format!("a function at address {address:#x}, near null"),
    };
    match caller {
        Some(caller) => format!("`{caller}` calls {called}."),
        None => format!("The crash calls {called}."),
    }
}

pub fn for_execute_data(address: u64, is_certain: bool) -> String {
    let probably = if is_certain { "" } else { "probably " };
    format!("The crash executes address {address:#x}, which {probably}holds no executable code.")
}

/// Returns the sentence about a page without a valid code signature.
pub fn for_code_signing(address: u64, image: Option<&str>) -> String {
    let place = image.map_or_else(String::new, |image| format!(" in {image}"));
    format!("The page of address {address:#x}{place} has no valid code signature.")
}

/// Returns the sentence about a page that the system could not read. `note` is what the kernel says of it.
pub fn for_page_not_readable(address: Option<u64>, image: Option<&str>, note: Option<&str>) -> String {
    let page =
        address.map_or_else(|| "a page".to_owned(), |address| format!("the page of address {address:#x}"));
    let place = image.map_or_else(String::new, |image| format!(" in {image}"));
    let note = note.map_or_else(String::new, |note| format!(": {note}"));
    format!("The system could not read {page}{place}{note}.")
}

pub fn for_memory_tag(address: Option<u64>) -> String {
    let place = address.map_or_else(String::new, |address| format!(" at address {address:#x}"));
    format!(
        "The memory{place} has another tag than the pointer to it: the memory was freed or belongs to another object, or \
         the pointer is damaged."
    )
}

pub fn for_failed_authentication(is_certain: bool) -> String {
    let probably = if is_certain { "" } else { "probably " };
    format!("A signed pointer {probably}failed its authentication.")
}

pub fn for_stack_overflow(function: Option<&str>) -> String {
    match function {
        Some(function) => format!("The stack is full: `{function}` has no space for its variables."),
        None => "The stack is full.".to_owned(),
    }
}

pub fn for_write_to_read_only(address: u64, image: Option<&str>, is_certain: bool) -> String {
    let place = image.map_or_else(String::new, |image| format!(" in {image}"));
    let probably = if is_certain { "" } else { "probably " };
    format!("The crash writes address {address:#x}{place}, which is {probably}read-only.")
}

pub fn for_null_pointer(kind: AccessKind, address: u64) -> String {
    format!("A pointer is probably null: the crash {} address {address:#x}.", kind.as_verb())
}

pub fn for_page_zero(kind: AccessKind, address: u64) -> String {
    format!(
        "The crash {} address {address:#x}: probably a null pointer with a large offset, a truncated pointer or an \
         integer.",
        kind.as_verb()
    )
}

pub fn for_freed_receiver(kind: AccessKind, address: u64, function: &str) -> String {
    format!(
        "The receiver of `{function}` is a freed object; the crash {} address {address:#x}.",
        kind.as_verb()
    )
}

pub fn for_pointer_authentication(kind: AccessKind, address: u64) -> String {
    format!(
        "A signed pointer probably failed its authentication: the crash {} address {address:#x}.",
        kind.as_verb()
    )
}

pub fn for_invalid_pointer(kind: AccessKind, address: u64, is_mapped: bool) -> String {
    let problem = if is_mapped { "which it may not access" } else { "which is not mapped" };
    format!("A pointer is probably invalid: the crash {} address {address:#x}, {problem}.", kind.as_verb())
}

pub fn for_flipped_bit(expression: &str, bit: u32) -> String {
    format!("With bit {bit} flipped, `{expression}` would point near another pointer of the report.")
}
