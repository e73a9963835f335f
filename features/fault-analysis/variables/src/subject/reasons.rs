//! The closed list of reasons for which a fault has no subject.

/// The reason for which a fault has no subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectAbstention {
    /// There is no table of the variables of the image.
    NoDebugInformation,
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
            SubjectAbstention::NoDebugInformation => "no_debug_information",
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

    /// Returns the reason as a clause for people, which follows a colon.
    fn clause(self) -> &'static str {
        match self {
            SubjectAbstention::NoDebugInformation => "its variables are not known",
            SubjectAbstention::NoVariables => "its dSYM lists no variables at this instruction",
            SubjectAbstention::OtherFrame => {
                "the registers of the report do not belong to its innermost frame"
            }
            SubjectAbstention::UnknownLanguage => "only C, C++, Objective-C and Rust are supported",
            SubjectAbstention::NoAddress => "the processor did not report the address",
            SubjectAbstention::NoCandidate => "no variable with a known value leads to the address",
            SubjectAbstention::SeveralCandidates => "more than one variable fits",
            SubjectAbstention::PointerWithoutValue => "another pointer has no known value",
            SubjectAbstention::PointerToPointers => {
                "another pointer leads to pointers, and one of them may be the bad one"
            }
            SubjectAbstention::GlobalPointers => {
                "the source file has global pointers, and one of them may be the bad one"
            }
            SubjectAbstention::NoInstruction => "the binary does not have the instruction",
            SubjectAbstention::UnknownInstruction => "the instruction is of a kind that is not decoded",
            SubjectAbstention::AddressMismatch => {
                "the instruction of the binary does not lead to the reported address"
            }
            SubjectAbstention::BaseRegisterIsComputed => {
                "the instructions compute the address from several values"
            }
            SubjectAbstention::GlobalVariable => {
                "the pointer comes from a global variable, whose value is not in the report"
            }
            SubjectAbstention::OtherBlock => "the pointer was loaded before a branch or a call",
            SubjectAbstention::TooFar => "the pointer was loaded too far before the instruction",
            SubjectAbstention::NoVariableInRegister => "no variable is known in the register of the access",
            SubjectAbstention::UnknownMember => "the member that holds the pointer is not known",
            SubjectAbstention::DamagedTable => {
                "the table of variables cannot be read; this is a defect of the service"
            }
        }
    }

    /// Returns what the user can do, for code in `image`.
    fn advice(self, image: &str, has_instructions: bool) -> Option<String> {
        match self {
            SubjectAbstention::NoDebugInformation => {
                Some(format!("Upload the dSYM of {image} with `unslide upload`."))
            }
            SubjectAbstention::NoInstruction | SubjectAbstention::AddressMismatch => Some(format!(
                "Upload the binary that was built with the dSYM of {image}: `unslide upload --binaries`."
            )),
            // The instructions say which pointer was used.
            SubjectAbstention::NoAddress
            | SubjectAbstention::NoCandidate
            | SubjectAbstention::SeveralCandidates
            | SubjectAbstention::PointerWithoutValue
            | SubjectAbstention::PointerToPointers
            | SubjectAbstention::GlobalPointers
                if !has_instructions =>
            {
                Some(format!("The binary of {image} can tell: upload it with `unslide upload --binaries`."))
            }
            _ => None,
        }
    }

    /// Returns the reason as sentences for people, with what they can do. `image` names the code at the fault, and
    /// `has_instructions` is true if its binary is known.
    #[must_use]
    pub fn explain(self, image: &str, has_instructions: bool) -> String {
        let reason = format!("The expression with the bad value in {image} is not named: {}.", self.clause());
        match self.advice(image, has_instructions) {
            Some(advice) => format!("{reason} {advice}"),
            None => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_say_what_can_be_done() {
        for (reason, has_instructions, expected) in [
            (SubjectAbstention::OtherBlock, true, "the pointer was loaded before a branch or a call."),
            (
                SubjectAbstention::NoDebugInformation,
                false,
                "its variables are not known. Upload the dSYM of Shop with `unslide upload`.",
            ),
            (
                SubjectAbstention::SeveralCandidates,
                false,
                "more than one variable fits. The binary of Shop can tell: upload it with `unslide upload --binaries`.",
            ),
            (SubjectAbstention::SeveralCandidates, true, "more than one variable fits."),
        ] {
            let text = reason.explain("Shop", has_instructions);
            assert_eq!(text, format!("The expression with the bad value in Shop is not named: {expected}"));
        }
    }
}
