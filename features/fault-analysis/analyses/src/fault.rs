//! The member `fault` of our key.

use crate::decode::AccessKind;
use crate::named_subject::NamedSubject;
use serde::{Serialize, Serializer};
use unslide_fault_analysis_variables::subject::SubjectAbstention;

/// The most characters of the words of a log.
const LOG_WORDS_CHARS: usize = 200;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultVerdict {
    Abort,
    Trap,
    DivideByZero,
    Misaligned,
    CodeSigning,
    PageNotReadable,
    MemoryTag,
    NullCall,
    ExecuteData,
    StackOverflow,
    WriteToReadOnly,
    NullPointer,
    SmallAddress,
    FreedMemory,
    UninitialisedMemory,
    PointerAuthentication,
    InvalidPointer,
    Unknown,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultConfidence {
    /// The verdict follows from the evidence.
    Certain,
    /// The evidence has other, less frequent causes. The sentence says "probably".
    Likely,
}

/// A fact that proves nothing about one crash, and much if several groups of a device have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultHint {
    /// One bit of the subject differs from a pointer that is near another one.
    OneBitFrom,
}

/// The memory access that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultAccess {
    pub kind: AccessKind,
    /// The address as the processor reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
}

/// A fact that a verdict rests on. Registers are stated only if they are 0: other values are data of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FaultEvidence {
    Exception { exception: u64 },
    Signal { signal: u64 },
    KernelCode { kernel_code: u64 },
    Termination { termination_namespace: u64 },
    LogWords { log_says: String },
    LeftOutFrames { left_out_frames: u64 },
    Syndrome { esr: u64 },
    FaultAddress { far: u64 },
    Trap { trapno: u64, err: u64 },
    PageFaultAddress { faultvaddr: u64 },
    Immediate { brk: u16 },
    Function { function: String },
    Register { register: &'static str, value: u64 },
    FreedObject { register: &'static str, freed_object: bool },
    StackDistance { bytes_from_stack_pointer: u64 },
    StackError { stack_error: bool },
    Recursion { recursion: usize, function: String },
    Image { image: String },
    PointerBits { bits_54_53: u64 },
    Variable(VariableEvidence),
    Instruction { code: String, relative_address: u64 },
}

impl FaultEvidence {
    /// Returns the words of a log, cut after a line's length.
    pub fn from_log_words(words: &str) -> FaultEvidence {
        FaultEvidence::LogWords { log_says: words.chars().take(LOG_WORDS_CHARS).collect() }
    }
}

/// A variable that a subject begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VariableEvidence {
    pub variable: String,
    pub call: u32,
    pub debug_id: String,
    /// The offset of the variable's entry in `.debug_info`.
    pub die: u64,
    /// The place of the variable as DWARF tools print it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// A statement that the analysis does not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Abstention {
    pub what: AbstainedStatement,
    pub reason: AbstentionReason,
    /// The reason in words, with what can be done.
    pub text: String,
}

/// The subject is the expression with the bad value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AbstainedStatement {
    Access,
    Subject,
}

/// The closed list of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstentionReason {
    /// x86_64 reports no address after a general protection fault.
    GeneralProtection,
    /// The code at the fault belongs to the operating system.
    FrameInSystem,
    /// The evidence fits no expression, or more than one.
    Subject(SubjectAbstention),
}

impl AbstentionReason {
    /// Returns the reason as sentences for people. `image` names the code at the fault, and `has_instructions` is true if its
    /// binary is known.
    pub fn explain(self, image: &str, has_instructions: bool) -> String {
        match self {
            AbstentionReason::GeneralProtection => {
                "The address is not stated: x86_64 does not report it after a general protection fault."
                    .to_owned()
            }
            AbstentionReason::FrameInSystem => format!(
                "The expression with the bad value is not named: {image} belongs to the operating system, which has no dSYMs."
            ),
            AbstentionReason::Subject(reason) => reason.explain(image, has_instructions),
        }
    }
}

impl Serialize for AbstentionReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            AbstentionReason::GeneralProtection => "general_protection",
            AbstentionReason::FrameInSystem => "frame_in_system",
            AbstentionReason::Subject(reason) => reason.as_str(),
        })
    }
}

/// The fault of a crash, in the order of the members of our key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashFault {
    pub verdict: FaultVerdict,
    pub confidence: FaultConfidence,
    /// The frame that the fault is in, 0 the innermost.
    pub frame: u32,
    /// The call of the frame, 0 the innermost inlined one.
    pub call: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<FaultAccess>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<NamedSubject>,
    /// The reason of a trap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<FaultHint>,
    /// The number of the bit that `hint` is about, 0 the lowest. No value of a pointer is stated: it is data of users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit: Option<u32>,
    pub sentence: String,
    pub evidence: Vec<FaultEvidence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abstained: Vec<Abstention>,
}
