//! The rules of the verdict, in their order: the first that fits decides.

use crate::decode::{AccessFailure, AccessKind, DecodedFault, FailedAccess, exceptions};
use crate::fault::{
    AbstainedStatement, Abstention, AbstentionReason, CrashFault, FaultAccess, FaultConfidence,
    FaultEvidence, FaultVerdict,
};
use crate::innermost::InnermostCode;
use crate::memory::MemoryFacts;
use crate::named_cause::{KernelCause, NamedCause, names_bad_address, names_protection};
use crate::sentence;
use crate::subject::add_subject;
use crate::trap_reason;
use unslide_report::CrashState;
use unslide_symbolicate::{CrashFrame, SymbolicatedCrash};

/// The number of the signal that `abort()` raises.
const SIGABRT: u64 = 6;
/// Addresses below this one are reached from a null pointer.
const NULL_REACH: u64 = 4 << 10;
/// A call of an address below this one is a call of a null pointer: the page at 0 of arm64.
const NULL_CALL_REACH: u64 = 16 << 10;
/// The first access beyond a full stack is at most this far from the stack pointer.
const STACK_REACH: u64 = 16 << 10;
/// A program of 64 bits has nothing below this address.
const PAGE_ZERO_END: u64 = 4 << 30;
/// The bits in which a failed authentication leaves its error code, if data accesses ignore the top byte.
const AUTHENTICATION_ERROR: u64 = 0b11 << 53;
/// The most characters of an image's name in a sentence.
const IMAGE_NAME_CHARS: usize = 100;
/// The bits of an address of a process.
const USER_ADDRESS: u64 = (1 << 47) - 1;

/// Returns the fault of a crash, or `None` if its registers say nothing certain or likely.
pub fn find_fault(crash: &SymbolicatedCrash<'_, '_>) -> Option<CrashFault> {
    let state = crash.report().crash_state()?;
    let decoded = DecodedFault::from_state(&state);
    let facts = CrashFacts { crash, frame: crash.frame(0).unwrap_or_default(), state };
    let state = &facts.state;
    if state.exception == Some(exceptions::CRASH) && state.signal == Some(SIGABRT) {
        return Some(facts.judge_abort());
    }
    match KernelCause::find(crash, state, decoded) {
        KernelCause::Named(cause) => return Some(facts.report_cause(cause, decoded)),
        KernelCause::Unexplained => return None,
        KernelCause::Address => {}
    }
    match decoded {
        DecodedFault::Trap(immediate)
            if state.exception == Some(exceptions::BREAKPOINT) || immediate.is_none() =>
        {
            Some(facts.judge_trap(immediate))
        }
        _ if state.exception == Some(exceptions::BREAKPOINT) => Some(facts.judge_trap(None)),
        DecodedFault::Division => Some(facts.judge_division()),
        _ if state.exception != Some(exceptions::BAD_ACCESS) => None,
        DecodedFault::Access(access) => facts.judge_access(access),
        DecodedFault::GeneralProtection => Some(facts.judge_general_protection()),
        DecodedFault::Trap(_) | DecodedFault::Unknown => None,
    }
}

/// The crash that the rules look at.
struct CrashFacts<'c, 'a> {
    crash: &'c SymbolicatedCrash<'c, 'a>,
    state: CrashState<'a>,
    /// The innermost frame; empty if there is none.
    frame: CrashFrame,
}

impl CrashFacts<'_, '_> {
    /// Returns a fault that is certain, with the registers of the exception as evidence.
    fn certain_fault(&self, verdict: FaultVerdict, sentence: String) -> CrashFault {
        CrashFault {
            verdict,
            confidence: FaultConfidence::Certain,
            frame: 0,
            call: 0,
            access: None,
            subject: None,
            reason: None,
            hint: None,
            bit: None,
            sentence,
            evidence: exception_evidence(&self.state),
            abstained: Vec::new(),
        }
    }

    /// Returns a fault that has other, less frequent causes, such as one that rests on the address alone.
    fn likely_fault(&self, verdict: FaultVerdict, sentence: String) -> CrashFault {
        CrashFault { confidence: FaultConfidence::Likely, ..self.certain_fault(verdict, sentence) }
    }

    /// Returns the fault of a cause that the kernel or the log names.
    fn report_cause(&self, cause: NamedCause, decoded: DecodedFault) -> CrashFault {
        let access = decoded.access().filter(|_| self.state.exception == Some(exceptions::BAD_ACCESS));
        let access = access.map(|access| FaultAccess { kind: access.kind, address: access.address });
        let mut fault = self.certain_fault(cause.verdict, cause.sentence);
        fault.evidence.extend(cause.evidence);
        CrashFault { confidence: cause.confidence, access, ..fault }
    }

    fn judge_abort(&self) -> CrashFault {
        let mut fault = self.certain_fault(FaultVerdict::Abort, sentence::ABORT.to_owned());
        fault.evidence = [
            self.state.exception.map(|exception| FaultEvidence::Exception { exception }),
            self.state.signal.map(|signal| FaultEvidence::Signal { signal }),
        ]
        .into_iter()
        .flatten()
        .collect();
        fault
    }

    fn judge_trap(&self, immediate: Option<u16>) -> CrashFault {
        let function = self.frame.functions.first();
        let named = function.and_then(|function| trap_reason::from_function(function));
        let coded = immediate.and_then(trap_reason::from_immediate).map(str::to_owned);
        let evidence = match (&named, function, immediate) {
            (Some(_), Some(function), _) => Some(FaultEvidence::Function { function: function.clone() }),
            (_, _, Some(brk)) => Some(FaultEvidence::Immediate { brk }),
            _ => None,
        };
        let reason = named.or(coded);
        let mut fault = self.certain_fault(FaultVerdict::Trap, sentence::for_trap(reason.as_deref()));
        fault.evidence.extend(evidence);
        CrashFault { reason, ..fault }
    }

    fn judge_division(&self) -> CrashFault {
        self.certain_fault(FaultVerdict::DivideByZero, sentence::DIVISION.to_owned())
    }

    fn judge_general_protection(&self) -> CrashFault {
        let mut fault =
            self.likely_fault(FaultVerdict::InvalidPointer, sentence::GENERAL_PROTECTION.to_owned());
        fault.abstained.push(self.abstain(
            AbstainedStatement::Access,
            AbstentionReason::GeneralProtection,
            false,
        ));
        self.name_subject(fault, None, "uses")
    }

    fn judge_access(&self, access: FailedAccess) -> Option<CrashFault> {
        let fault = match access.kind {
            AccessKind::Execute => self.judge_call(access.address?),
            AccessKind::Read | AccessKind::Write => {
                let fault = self.judge_data_access(access)?;
                match fault.verdict {
                    FaultVerdict::StackOverflow => fault,
                    _ => self.name_subject(fault, access.address, access.kind.as_verb()),
                }
            }
        };
        Some(CrashFault { access: Some(FaultAccess { kind: access.kind, address: access.address }), ..fault })
    }

    fn judge_call(&self, address: u64) -> CrashFault {
        let pc = ["pc", "rip", "eip"].into_iter().find_map(|name| Some((name, self.state.register(name)?)));
        let Some((register, value)) = pc.filter(|(_, pc)| *pc == address && address < NULL_CALL_REACH) else {
            let is_certain = names_bad_address(&self.state);
            let sentence = sentence::for_execute_data(address, is_certain);
            return match is_certain {
                true => self.certain_fault(FaultVerdict::ExecuteData, sentence),
                false => self.likely_fault(FaultVerdict::ExecuteData, sentence),
            };
        };
        let caller = self.find_caller();
        let mut fault =
            self.certain_fault(FaultVerdict::NullCall, sentence::for_null_call(address, caller.as_deref()));
        if value == 0 {
            fault.evidence.push(FaultEvidence::Register { register, value });
        }
        fault.evidence.extend(caller.map(|function| FaultEvidence::Function { function }));
        fault
    }

    /// Returns the function that the return address belongs to: the link register, or the word at the stack pointer.
    fn find_caller(&self) -> Option<String> {
        let on_stack = || self.state.stack.as_ref()?.word(self.state.register("rsp")?);
        let address = self.state.register("lr").or_else(on_stack)? & USER_ADDRESS;
        // Some writers list the null address as frame 0, and some begin with the caller.
        let mut frames = (0..3).filter_map(|index| self.crash.frame(index));
        let caller = frames.find(|frame| frame.address & USER_ADDRESS == address)?;
        caller.functions.into_iter().find(|name| !name.is_empty())
    }

    fn judge_data_access(&self, access: FailedAccess) -> Option<CrashFault> {
        let facts = MemoryFacts::new(&self.state, &self.frame, access);
        let FailedAccess { kind, failure, .. } = access;
        if failure == AccessFailure::Alignment {
            return Some(
                self.certain_fault(FaultVerdict::Misaligned, sentence::for_misaligned(kind, access.address)),
            );
        }
        let shown = access.address?;
        let address = facts.address?;
        if let Some(evidence) = facts.find_stack_overflow(self.crash, STACK_REACH) {
            let function = self.frame.functions.last().filter(|name| !name.is_empty());
            let sentence = sentence::for_stack_overflow(function.map(String::as_str));
            let mut fault = self.certain_fault(FaultVerdict::StackOverflow, sentence);
            fault.evidence.extend(evidence);
            return Some(fault);
        }
        if failure == AccessFailure::Permission && kind == AccessKind::Write {
            let image = facts.image_name(self.crash.report());
            // The processor and the kernel have to agree.
            let is_certain = self.state.code.is_none() || names_protection(&self.state);
            let sentence = sentence::for_write_to_read_only(shown, image.as_deref(), is_certain);
            let mut fault = match is_certain {
                true => self.certain_fault(FaultVerdict::WriteToReadOnly, sentence),
                false => self.likely_fault(FaultVerdict::WriteToReadOnly, sentence),
            };
            fault.evidence.extend(image.map(|image| FaultEvidence::Image { image }));
            return Some(fault);
        }
        if address < NULL_REACH {
            let fault =
                self.certain_fault(FaultVerdict::NullPointer, sentence::for_null_pointer(kind, shown));
            return Some(CrashFault { confidence: FaultConfidence::Likely, ..fault });
        }
        if facts.is_64_bit { Some(self.judge_wild_access(access, &facts, shown, address)) } else { None }
    }

    /// Judges an access beyond the reach of null, in a program of 64 bits. `shown` is the address as the processor reported
    /// it, and `address` the one that it looked up.
    fn judge_wild_access(
        &self,
        access: FailedAccess,
        facts: &MemoryFacts<'_, '_>,
        shown: u64,
        address: u64,
    ) -> CrashFault {
        let FailedAccess { kind, failure, .. } = access;
        if let Some((function, register)) = facts.freed_receiver() {
            let mut fault = self.certain_fault(
                FaultVerdict::FreedMemory,
                sentence::for_freed_receiver(kind, shown, function),
            );
            fault.evidence.push(FaultEvidence::Function { function: function.to_owned() });
            fault.evidence.push(FaultEvidence::FreedObject { register, freed_object: true });
            return fault;
        }
        if address < PAGE_ZERO_END {
            let fault = self.certain_fault(FaultVerdict::Unknown, sentence::for_page_zero(kind, shown));
            return CrashFault { confidence: FaultConfidence::Likely, ..fault };
        }
        let error = (address & AUTHENTICATION_ERROR) >> 53;
        let rest = address & !AUTHENTICATION_ERROR;
        let is_plausible = (PAGE_ZERO_END..=USER_ADDRESS).contains(&rest);
        if facts.is_arm64e && matches!(error, 0b01 | 0b10) && is_plausible {
            let mut fault = self.certain_fault(
                FaultVerdict::PointerAuthentication,
                sentence::for_pointer_authentication(kind, shown),
            );
            fault.evidence.push(FaultEvidence::PointerBits { bits_54_53: error });
            return CrashFault { confidence: FaultConfidence::Likely, ..fault };
        }
        let is_mapped = failure == AccessFailure::Permission || names_protection(&self.state);
        self.likely_fault(FaultVerdict::InvalidPointer, sentence::for_invalid_pointer(kind, shown, is_mapped))
    }

    /// Adds the subject of a failed access, or the reason for which it is not named. `verb` is that of the access.
    fn name_subject(&self, mut fault: CrashFault, address: Option<u64>, verb: &str) -> CrashFault {
        let mut has_instructions = false;
        let reason = match InnermostCode::find(self.crash, &self.frame, &self.state) {
            _ if self.frame.system => AbstentionReason::FrameInSystem,
            Err(reason) => AbstentionReason::Subject(reason),
            Ok(code) => match code.find_subject(&self.state, address) {
                Ok(subject) => return add_subject(fault, &subject, code.debug_id, verb, &self.state),
                Err(reason) => {
                    has_instructions = code.has_instructions();
                    AbstentionReason::Subject(reason)
                }
            },
        };
        fault.abstained.push(self.abstain(AbstainedStatement::Subject, reason, has_instructions));
        fault
    }

    fn abstain(
        &self,
        what: AbstainedStatement,
        reason: AbstentionReason,
        has_instructions: bool,
    ) -> Abstention {
        let name: String = self.frame.image.chars().take(IMAGE_NAME_CHARS).collect();
        let image = if name.is_empty() { "the code" } else { name.as_str() };
        Abstention { what, reason, text: reason.explain(image, has_instructions) }
    }
}

/// Returns the registers that say which exception it was.
fn exception_evidence(state: &CrashState<'_>) -> Vec<FaultEvidence> {
    let mut evidence = Vec::new();
    if let Some(esr) = state.register("esr") {
        evidence.push(FaultEvidence::Syndrome { esr });
        let is_access = matches!(DecodedFault::from_state(state), DecodedFault::Access(_));
        let far = state.register("far").filter(|_| is_access);
        evidence.extend(far.map(|far| FaultEvidence::FaultAddress { far }));
    } else if let Some(trapno) = state.register("trapno") {
        evidence.push(FaultEvidence::Trap { trapno, err: state.register("err").unwrap_or(0) });
        let is_access = matches!(DecodedFault::from_state(state), DecodedFault::Access(_));
        let address = state.register("faultvaddr").filter(|_| is_access);
        evidence.extend(address.map(|faultvaddr| FaultEvidence::PageFaultAddress { faultvaddr }));
    }
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::{ReadLimits, Report};

    const CALLER: u64 = 0x1_0000_4008;

    fn frame(address: u64, functions: &[&str]) -> CrashFrame {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        CrashFrame { address, functions, ..CrashFrame::default() }
    }

    /// Returns the fault of a report whose frames have these functions.
    fn find(exception: u64, thread: &str, frames: &[CrashFrame]) -> CrashFault {
        let text = format!(
            r#"{{"crash":{{"error":{{"type":"mach","mach":{{"exception":{exception}}}}},
                "threads":[{{"crashed":true,"backtrace":{{"contents":[]}},{thread}}}]}}}}"#
        );
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        let look_up = |index: usize| frames.get(index).cloned();
        find_fault(&SymbolicatedCrash::new(&report, frames.len(), &look_up)).unwrap()
    }

    #[test]
    fn a_call_of_null_names_the_innermost_function_at_the_return_address() {
        let frames = [frame(0, &[]), frame(CALLER, &["on_tap", "main"])];
        // A return address may be signed.
        let link_register = CALLER | 0x55 << 47;
        let arm64 = format!(
            r#""registers":{{"basic":{{"pc":0,"lr":{link_register}}},"exception":{{"esr":2181038086,"far":0}}}}"#
        );
        let x86_64 = r#""registers":{"basic":{"rip":0,"rsp":4096},"exception":{"trapno":14,"err":20,"faultvaddr":0}},
            "stack":{"dump_start":4096,"contents":"0840000001000000"}"#;
        for thread in [arm64.as_str(), x86_64] {
            let fault = find(exceptions::BAD_ACCESS, thread, &frames);
            assert_eq!(fault.verdict, FaultVerdict::NullCall);
            assert_eq!(fault.sentence, "`on_tap` calls a null function pointer.");
            let function = FaultEvidence::Function { function: "on_tap".to_owned() };
            assert!(fault.evidence.contains(&function), "{:?}", fault.evidence);
        }
    }

    #[test]
    fn the_innermost_inlined_function_has_the_reason_of_a_trap() {
        let thread = r#""registers":{"basic":{"pc":16384},"exception":{"esr":4060086273,"far":0}}"#;
        let reason = "Swift runtime failure: Index out of range";
        let fault = find(exceptions::BREAKPOINT, thread, &[frame(16_384, &[reason, "Cart.total"])]);
        assert_eq!(fault.reason.as_deref(), Some("Index out of range"));
        assert_eq!(fault.sentence, "The program stopped at a trap: Index out of range.");
        let fault = find(exceptions::BREAKPOINT, thread, &[frame(16_384, &["Cart.total"])]);
        assert_eq!((fault.reason, fault.evidence.last()), (None, Some(&FaultEvidence::Immediate { brk: 1 })));
    }

    #[test]
    fn a_full_stack_names_the_function_without_space() {
        let thread = r#""registers":{"basic":{"sp":8589934592},"exception":{"esr":2449473607,"far":8589934500}},
            "stack":{"error":"Stack contents not accessible"}"#;
        let fault = find(exceptions::BAD_ACCESS, thread, &[frame(16_384, &["inlined", "descend"])]);
        assert_eq!(fault.verdict, FaultVerdict::StackOverflow);
        assert_eq!(fault.sentence, "The stack is full: `descend` has no space for its variables.");
        assert!(fault.abstained.is_empty());
    }
}
