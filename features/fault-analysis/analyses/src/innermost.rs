//! The innermost frame of a crash: its registers, the variables of its code and its instructions.

use crate::text::APP_TEXT;
use crate::variables::table::VARIABLES_TABLE;
use unslide_fault_analysis_variables::subject::{
    FaultState, FaultSubject, ImageText, SubjectAbstention, find_subject,
};
use unslide_fault_analysis_variables::{ReportState, VariableTable, VariableValue};
use unslide_model::DebugId;
use unslide_report::CrashState;
use unslide_symbolicate::{CrashFrame, SymbolicatedCrash};

/// Registers with the address of the fault.
const FAULT_ADDRESSES: [&str; 2] = ["far", "faultvaddr"];

/// The innermost frame with the derived objects of its image.
pub struct InnermostCode<'c> {
    pub debug_id: DebugId,
    /// The address of the instruction, relative to its image.
    address: u64,
    pub table: VariableTable<'c>,
    text: Option<ImageText<'c>>,
}

impl<'c> InnermostCode<'c> {
    /// Finds the code at the program counter. Registers belong to the innermost frame only, so it has to be there.
    ///
    /// # Errors
    /// The frame is elsewhere, or the variables of its image are not known.
    pub fn find(
        crash: &'c SymbolicatedCrash<'c, '_>,
        frame: &CrashFrame,
        state: &CrashState<'_>,
    ) -> Result<InnermostCode<'c>, SubjectAbstention> {
        let pc = ["pc", "rip"].into_iter().find_map(|name| state.register(name));
        if pc != Some(frame.address) {
            return Err(SubjectAbstention::OtherFrame);
        }
        let (Some(debug_id), Some(address)) = (frame.debug_id, frame.image_offset) else {
            return Err(SubjectAbstention::NoDebugInformation);
        };
        let table = crash.derived_object(debug_id, VARIABLES_TABLE.name);
        let table = table.ok_or(SubjectAbstention::NoDebugInformation)?;
        let table = VariableTable::parse(table).map_err(|_| SubjectAbstention::DamagedTable)?;
        // Without instructions the values of variables decide.
        let text = crash.derived_object(debug_id, APP_TEXT.name);
        let text = text.and_then(|stored| ImageText::parse(stored).ok());
        Ok(InnermostCode { debug_id, address, table, text })
    }

    /// Returns true if the instructions of the image are known.
    pub fn has_instructions(&self) -> bool {
        self.text.is_some()
    }

    /// Names the expression with the bad value. `address` is the one that the processor reported.
    pub fn find_subject(
        &self,
        state: &CrashState<'_>,
        address: Option<u64>,
    ) -> Result<FaultSubject, SubjectAbstention> {
        let text = self.text.as_ref();
        with_report_state(state, |report| {
            find_subject(&self.table, self.address, &FaultState { report, address }, text)
        })
    }

    /// Returns the variables at the instruction; none if the table is damaged.
    pub fn read_variables(&self, state: &CrashState<'_>) -> Vec<VariableValue> {
        with_report_state(state, |report| self.table.read_values(self.address, &report).unwrap_or_default())
    }
}

fn with_report_state<T>(state: &CrashState<'_>, read: impl FnOnce(ReportState<'_>) -> T) -> T {
    let register = |name: &str| {
        // Some reporters print the frame pointer of arm64 by its number.
        let alias = (name == "fp").then(|| state.register("x29")).flatten();
        state.register(name).or(alias)
    };
    let (stack_start, stack) =
        state.stack.as_ref().map_or((0, &[][..]), |window| (window.start, &window.bytes[..]));
    read(ReportState { register: &register, stack_start, stack })
}

/// Returns the words of a report that may be pointers: those of the registers and of the bytes around the stack pointer. The
/// address of the fault is none of them, because it follows from the bad value.
pub fn list_words(state: &CrashState<'_>) -> Vec<u64> {
    let registers = state.registers.iter().filter(|(name, _)| !FAULT_ADDRESSES.contains(&name.as_str()));
    let stack = state.stack.iter().flat_map(|window| window.bytes.as_chunks::<8>().0);
    let stack = stack.map(|word| u64::from_le_bytes(*word));
    registers.map(|(_, bits)| *bits).chain(stack).collect()
}
