//! The processor's state and the kernel's codes of a crash.

use crate::Number;
use crate::json::Value;
use crate::report::crash_error::ExitReason;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};

/// The maximum number of registers that are read. No CPU has more.
const MOST_REGISTERS: usize = 256;
/// The maximum number of sentences of a log on its exception.
const MOST_WORDS: usize = 8;
/// The maximum number of bytes of the stack that are read. KSCrash writes 240.
const MOST_STACK_BYTES: usize = 4096;

/// No kernel's code of a bad access is higher.
const HIGHEST_KERNEL_CODE: u64 = 0xfff;

/// Numbers of Mach exceptions, from `<mach/exception_types.h>`.
const EXCEPTIONS: [(&str, u64); 6] = [
    ("EXC_BAD_ACCESS", 1),
    ("EXC_BAD_INSTRUCTION", 2),
    ("EXC_ARITHMETIC", 3),
    ("EXC_BREAKPOINT", 6),
    ("EXC_CRASH", 10),
    ("EXC_GUARD", 12),
];

/// The state of the thread of a Mach exception or a signal. Numbers are patterns of 64 bits.
#[derive(Clone, Debug, Default)]
pub struct CrashState<'a> {
    /// The number of the Mach exception, by its number or else by its name.
    pub exception: Option<u64>,
    /// The first number of the Mach exception's code: for a bad access the kernel's return code. 0 is left out, because
    /// writers that do not know it write 0. So is a repetition of the address or of its low half,
    /// as early sentry-cocoa wrote it.
    pub code: Option<u64>,
    /// The address that the kernel states: of a bad access the one that it could not serve.
    pub address: Option<u64>,
    /// The number of the signal.
    pub signal: Option<u64>,
    /// Words that a log has behind the signal: `Code Signature Invalid`.
    pub signal_note: Option<String>,
    /// What a log says of the exception and its address, in sentences of the system.
    pub words: Vec<String>,
    /// The kernel's notes on what failed, such as `protection class does not allow pagein`.
    pub kernel_notes: Vec<String>,
    /// `exit_reason`: the part of the system that ended the process, and its code.
    pub exit: ExitReason,
    /// The number of frames of a recursion that a log leaves out of the crashed thread.
    pub left_out_frames: u64,
    /// `registers.basic` and `registers.exception`, in the order of the report.
    pub registers: Vec<(String, u64)>,
    /// The bytes around the stack pointer, if the device could read all of them.
    pub stack: Option<StackWindow>,
    /// True if the device could not read the bytes around the stack pointer.
    pub has_stack_error: bool,
    notable: Option<Value<'a>>,
}

/// Bytes of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackWindow {
    /// The address of the first byte.
    pub start: u64,
    /// The bytes in the order of their addresses.
    pub bytes: Vec<u8>,
}

/// The device's description of the value of a register that looks like a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotableAddress {
    /// `string`, `objc_object`, `unknown` or another kind.
    pub kind: String,
    /// True if an Objective-C object was freed at this address.
    pub has_freed_object: bool,
}

impl<'a> CrashState<'a> {
    /// Returns the value of a register.
    #[must_use]
    pub fn register(&self, name: &str) -> Option<u64> {
        self.registers.iter().find(|(own, _)| own == name).map(|(_, bits)| *bits)
    }

    /// Returns the description of a register's value.
    #[must_use]
    pub fn notable_address(&self, register: &str) -> Option<NotableAddress> {
        let [kind, freed] = self.notable?.get(register)?.find_members(["type", "last_deallocated_obj"]);
        Some(NotableAddress {
            kind: kind.and_then(Value::decode_string).unwrap_or_default(),
            has_freed_object: freed.and_then(Value::as_text).is_some_and(|class| !class.is_empty()),
        })
    }

    fn read_thread(&mut self, thread: Value<'a>) {
        let [registers, stack, notable] = thread.find_members(["registers", "stack", "notable_addresses"]);
        let sections =
            registers.map_or([None; 2], |registers| registers.find_members(["basic", "exception"]));
        for section in sections.into_iter().flatten() {
            section.each_member(|name, value| {
                let bits = value.as_number().and_then(Number::to_bits);
                if let Some(bits) = bits.filter(|_| self.registers.len() < MOST_REGISTERS) {
                    self.registers.push((String::from_utf8_lossy(name).into_owned(), bits));
                }
            });
        }
        self.left_out_frames = left_out_frames(thread);
        self.notable = notable;
        let [error, start, contents] =
            stack.map_or([None; 3], |stack| stack.find_members(["error", "dump_start", "contents"]));
        self.has_stack_error = error.is_some_and(|error| !error.is_null());
        let start = start.and_then(Value::as_number).and_then(Number::to_bits);
        let bytes = contents.and_then(Value::as_text).and_then(|text| stack_bytes(text.raw()));
        self.stack = start.zip(bytes).map(|(start, bytes)| StackWindow { start, bytes });
    }
}

impl StackWindow {
    /// Returns the 64-bit word at an address, if all its bytes are in the window.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Returns the number of frames of a recursion that a log leaves out of a thread.
fn left_out_frames(thread: Value<'_>) -> u64 {
    thread.get("left_out_frames").and_then(Value::as_unsigned).unwrap_or(0)
}

fn stack_bytes(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.len() > 2 * MOST_STACK_BYTES || !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(nibble(high)? << 4 | nibble(low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

impl<'a> Report<'a> {
    /// Returns the number of frames of a recursion that a log leaves out of the crashed thread.
    #[must_use]
    pub fn left_out_frames(&self) -> u64 {
        let facts = PartFacts::for_part(self, self.main_part());
        facts.crashed_thread().map_or(0, left_out_frames)
    }

    /// Returns the state of the crashed thread, or `None` if the main crash is neither a Mach exception nor a signal.
    #[must_use]
    pub fn crash_state(&self) -> Option<CrashState<'a>> {
        let facts = PartFacts::for_part(self, self.main_part());
        let kind = facts.part()?.error_kind();
        if !matches!(kind, ErrorKind::Mach | ErrorKind::Signal) || self.memory_event().is_some() {
            return None;
        }
        let bits = |value: Option<Value<'_>>| value?.as_number()?.to_bits();
        let [mach, signal, address] = facts.error_members(["mach", "signal", "address"]);
        let [number, name, code, words, notes] = mach.map_or([None; 5], |mach| {
            mach.find_members(["exception", "exception_name", "code", "words", "kernel_notes"])
        });
        let sentences = |list: Option<Value<'_>>| -> Vec<String> {
            let items = list.map(Value::items).unwrap_or_default();
            items.into_iter().filter_map(Value::decode_string).take(MOST_WORDS).collect()
        };
        let named = name
            .and_then(Value::as_text)
            .and_then(|name| EXCEPTIONS.iter().find(|(known, _)| name.is(known)).map(|(_, number)| *number));
        let mut state = CrashState {
            exception: bits(number).filter(|number| *number != 0).or(named),
            code: bits(code).filter(|code| *code != 0 && !repeats_address(*code, bits(address))),
            address: bits(address),
            signal: bits(signal.and_then(|signal| signal.get("signal"))),
            signal_note: signal.and_then(|signal| signal.get("note")).and_then(Value::decode_string),
            words: sentences(words),
            kernel_notes: sentences(notes),
            exit: self.crash_error().exit,
            ..CrashState::default()
        };
        if let Some(thread) = facts.crashed_thread() {
            state.read_thread(thread);
        }
        Some(state)
    }
}

/// True if a code is no code of the kernel but the address, or its low half.
fn repeats_address(code: u64, address: Option<u64>) -> bool {
    address
        .is_some_and(|address| code > HIGHEST_KERNEL_CODE && [address, address & 0xffff_ffff].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadLimits;

    fn report(error: &str, thread: &str) -> String {
        format!(
            r#"{{"crash":{{"error":{error},"threads":[{{"crashed":true,"backtrace":{{"contents":[]}},{thread}}}]}}}}"#
        )
    }

    #[test]
    fn registers_and_stack_bytes_are_read() {
        let text = report(
            r#"{"type":"mach","mach":{"exception":1},"signal":{"signal":11}}"#,
            r#""registers":{"basic":{"x0":-1,"sp":4096},"exception":{"far":40}},
               "stack":{"dump_start":4080,"contents":"0102030405060708FFff"},
               "notable_addresses":{"x0":{"type":"unknown","last_deallocated_obj":"Cart"}}"#,
        );
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        let state = report.crash_state().unwrap();
        assert_eq!((state.exception, state.signal), (Some(1), Some(11)));
        let registers = ["x0", "sp", "far", "x9"].map(|name| state.register(name));
        assert_eq!(registers, [Some(u64::MAX), Some(4096), Some(40), None]);
        let stack = state.stack.as_ref().unwrap();
        assert_eq!(stack.word(4080), Some(0x0807_0605_0403_0201));
        assert_eq!([stack.word(4079), stack.word(4083), stack.word(u64::MAX)], [None; 3]);
        let notable = state.notable_address("x0").unwrap();
        assert!(
            notable.has_freed_object && notable.kind == "unknown" && state.notable_address("x1").is_none()
        );
    }

    /// Proves: bounded-input
    #[test]
    fn malformed_stack_bytes_are_left_out() {
        for contents in ["0", "0x", "é", &"00".repeat(MOST_STACK_BYTES + 1)] {
            let stack = format!(r#""stack":{{"dump_start":1,"contents":"{contents}","error":null}}"#);
            let text = report(r#"{"type":"mach"}"#, &stack);
            let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
            let state = report.crash_state().unwrap();
            assert!(state.stack.is_none() && !state.has_stack_error, "{contents}");
        }
    }

    #[test]
    fn an_address_in_place_of_the_code_is_no_code() {
        let code = |error: &str| {
            let text = report(&format!(r#"{{"type":"mach",{error}}}"#), r#""a":1"#);
            let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
            report.crash_state().unwrap().code
        };
        assert_eq!(code(r#""address":4339924992,"mach":{"exception":1,"code":44957696}"#), None);
        assert_eq!(code(r#""address":4339924992,"mach":{"exception":1,"code":4339924992}"#), None);
        assert_eq!(code(r#""address":1,"mach":{"exception":1,"code":1}"#), Some(1));
        assert_eq!(code(r#""address":4339924992,"mach":{"exception":1,"code":44957697}"#), Some(44_957_697));
    }

    #[test]
    fn the_name_of_an_exception_replaces_a_missing_number() {
        let exception = |mach: &str| {
            let text = report(&format!(r#"{{"type":"mach","mach":{mach}}}"#), r#""a":1"#);
            let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
            report.crash_state().unwrap().exception
        };
        assert_eq!(exception(r#"{"exception_name":"EXC_BREAKPOINT"}"#), Some(6));
        assert_eq!(exception(r#"{"exception":0,"exception_name":"EXC_CRASH"}"#), Some(10));
        assert_eq!(exception(r#"{"exception":3}"#), Some(3));
    }

    #[test]
    fn other_kinds_of_reports_have_no_state() {
        for kind in ["nsexception", "user", "hang"] {
            let text = report(&format!(r#"{{"type":"{kind}","mach":{{"exception":1}}}}"#), r#""a":1"#);
            assert!(Report::read(text.as_bytes(), &ReadLimits::default()).unwrap().crash_state().is_none());
        }
    }
}
