//! The closed list of reasons for which a fault has no subject.

/// The reason for which a fault has no subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectAbstention {
    /// The debug information has no variables for the code at the fault.
    NoVariables,
    /// The registers belong to another frame than the innermost one of the report.
    OtherFrame,
    /// The compiler is not one whose descriptions of variables are known.
    UnknownLanguage,
    /// The processor reported no address.
    NoAddress,
    /// No pointer with a known value leads to the address.
    NoCandidate,
    /// More than one variable fits.
    SeveralCandidates,
    /// A pointer at the fault has no known value.
    PointerWithoutValue,
    /// Another pointer leads to pointers, one of which may have been used.
    PointerToPointers,
    /// The unit has global pointers or structures, one of which may have been used.
    GlobalPointers,
    /// The text of the binary does not contain the instruction.
    NoInstruction,
    /// The instruction accesses no memory, or is not decoded.
    UnknownInstruction,
    /// The instruction's address is not the one that the processor reported.
    AddressMismatch,
    /// The base register was computed.
    BaseRegisterIsComputed,
    /// The base register was loaded from the image's data.
    GlobalVariable,
    /// The base register was written before a branch or a call, or in another block.
    OtherBlock,
    /// The base register was written too far before the instruction, or through too many loads.
    TooFar,
    /// No variable is in the base register, and nothing in the function wrote it.
    NoVariableInRegister,
    /// The member that was loaded is not known, or more than one fits.
    UnknownMember,
    /// The table of variables is damaged.
    DamagedTable,
}

impl SubjectAbstention {
    /// Returns the reason as a word of the output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SubjectAbstention::NoVariables => "no_variables",
            SubjectAbstention::OtherFrame => "other_frame",
            SubjectAbstention::UnknownLanguage => "unknown_language",
            SubjectAbstention::NoAddress => "no_address",
            SubjectAbstention::NoCandidate => "no_candidate",
            SubjectAbstention::SeveralCandidates => "several_candidates",
            SubjectAbstention::PointerWithoutValue => "pointer_without_value",
            SubjectAbstention::PointerToPointers => "pointer_to_pointers",
            SubjectAbstention::GlobalPointers => "global_pointers",
            SubjectAbstention::NoInstruction => "no_instruction",
            SubjectAbstention::UnknownInstruction => "unknown_instruction",
            SubjectAbstention::AddressMismatch => "address_mismatch",
            SubjectAbstention::BaseRegisterIsComputed => "base_register_is_computed",
            SubjectAbstention::GlobalVariable => "global_variable",
            SubjectAbstention::OtherBlock => "other_block",
            SubjectAbstention::TooFar => "too_far",
            SubjectAbstention::NoVariableInRegister => "no_variable_in_register",
            SubjectAbstention::UnknownMember => "unknown_member",
            SubjectAbstention::DamagedTable => "damaged_table",
        }
    }
}
