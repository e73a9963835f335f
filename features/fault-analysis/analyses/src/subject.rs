//! The subject of a fault: the expression with the bad value, as the member `fault` has it.

use crate::fault::{CrashFault, FaultConfidence, FaultEvidence, FaultHint, FaultVerdict, VariableEvidence};
use crate::innermost::list_words;
use crate::named_subject::NamedSubject;
use crate::sentence;
use unslide_fault_analysis_variables::subject::{FaultSubject, SubjectEvidence, SubjectVerdict};
use unslide_model::DebugId;
use unslide_report::CrashState;

/// Adds a subject to a fault that the registers alone have explained. `verb` is that of the access.
pub fn add_subject(
    fault: CrashFault,
    subject: &FaultSubject,
    debug_id: DebugId,
    verb: &str,
    state: &CrashState<'_>,
) -> CrashFault {
    let named = NamedSubject::from_subject(subject);
    let (verdict, confidence) = judge_subject(&fault, subject);
    let sentence = match fault.verdict {
        // The registers say more than the value of the subject.
        FaultVerdict::Misaligned
        | FaultVerdict::WriteToReadOnly
        | FaultVerdict::FreedMemory
        | FaultVerdict::PointerAuthentication => {
            let path = subject.path.as_ref().unwrap_or(&subject.expression);
            format!("{} The access is to `{path}`.", fault.sentence)
        }
        _ => subject.sentence(verb),
    };
    // The distance of the access is known: an index, which may be wrong as well, has no part in the address.
    let may_be_flipped = verdict == FaultVerdict::InvalidPointer && subject.value.offset.is_some();
    let bit = if may_be_flipped { subject.find_flipped_bit(&list_words(state)) } else { None };
    let hint = bit.map(|_| FaultHint::OneBitFrom);
    let sentence = match bit {
        Some(bit) => format!("{sentence} {}", sentence::for_flipped_bit(&subject.expression, bit)),
        None => sentence,
    };
    let call = u32::try_from(subject.call).unwrap_or(0);
    let mut evidence = fault.evidence;
    evidence.extend(subject.evidence.iter().filter_map(|fact| convert_evidence(fact, debug_id)));
    CrashFault { verdict, confidence, call, subject: Some(named), hint, bit, sentence, evidence, ..fault }
}

/// Returns the verdict of a fault with its subject. Verdicts of rules that come before those about the subject stay.
fn judge_subject(fault: &CrashFault, subject: &FaultSubject) -> (FaultVerdict, FaultConfidence) {
    let unchanged = (fault.verdict, fault.confidence);
    match fault.verdict {
        FaultVerdict::NullPointer | FaultVerdict::Unknown | FaultVerdict::InvalidPointer => {}
        _ => return unchanged,
    }
    let judged = subject.judge();
    let verdict = match judged {
        Some(SubjectVerdict::NullPointer) => FaultVerdict::NullPointer,
        Some(SubjectVerdict::SmallAddress) => FaultVerdict::SmallAddress,
        // The registers said null, so the address is near 0: the subject is an integer such as -1.
        _ if fault.verdict == FaultVerdict::NullPointer => {
            return (FaultVerdict::SmallAddress, FaultConfidence::Certain);
        }
        Some(SubjectVerdict::FreedMemory) => FaultVerdict::FreedMemory,
        Some(SubjectVerdict::UninitialisedMemory) => FaultVerdict::UninitialisedMemory,
        None => FaultVerdict::InvalidPointer,
    };
    let is_certain = judged.is_none_or(SubjectVerdict::is_certain);
    (verdict, if is_certain { FaultConfidence::Certain } else { FaultConfidence::Likely })
}

fn convert_evidence(fact: &SubjectEvidence, debug_id: DebugId) -> Option<FaultEvidence> {
    match fact {
        SubjectEvidence::Variable { call, name, die, location } => {
            Some(FaultEvidence::Variable(VariableEvidence {
                variable: name.clone(),
                call: u32::try_from(*call).ok()?,
                debug_id: debug_id.to_string(),
                die: *die,
                location: location.clone(),
            }))
        }
        SubjectEvidence::Register { register, value: 0 } => {
            Some(FaultEvidence::Register { register, value: 0 })
        }
        SubjectEvidence::Register { .. } => None,
        SubjectEvidence::Instruction { code, relative_address } => Some(FaultEvidence::Instruction {
            code: code.iter().map(|byte| format!("{byte:02x}")).collect(),
            relative_address: *relative_address,
        }),
    }
}
