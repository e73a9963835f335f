//! Any bytes as a table of variables, as instructions, as registers and as stack bytes: the search for the subject of a fault
//! ends with an expression or a reason.
//!
//! An input is the table after its length (16 bits), the stored instructions after theirs, the address of the instruction (32
//! bits), that of the fault (64 bits), and the registers (64 bits each). All numbers are little-endian.

use unslide_fault_analysis_variables::subject::{FaultState, ImageText, find_subject};
use unslide_fault_analysis_variables::{ReportState, VariableTable};

/// The most bytes of an expression, and of the type that a sentence names beside it.
const MOST_SENTENCE_BYTES: usize = 4 << 10;

pub fn check(data: &[u8]) {
    if let Ok(Some(text)) = ImageText::read_slice(data) {
        assert!(ImageText::parse(&text.to_stored()).is_ok_and(|read| read.bytes == text.bytes));
    }
    let _ = search_subject(data);
}

fn search_subject(data: &[u8]) -> Option<()> {
    let (table, rest) = split_sized(data)?;
    let (text, rest) = split_sized(rest)?;
    let (address, rest) = rest.split_first_chunk()?;
    let (fault, rest) = rest.split_first_chunk()?;
    let (address, fault) = (u64::from(u32::from_le_bytes(*address)), u64::from_le_bytes(*fault));
    let (registers, _) = rest.as_chunks::<8>();
    let register = |name: &str| {
        let sum = name.bytes().map(usize::from).sum::<usize>();
        registers.get(sum.checked_rem(registers.len())?).map(|bits| u64::from_le_bytes(*bits))
    };
    let table = VariableTable::parse(table).ok()?;
    let text = ImageText::parse(text).ok();
    let stack_start = register("sp").or_else(|| register("rsp")).unwrap_or(0);
    for address_of_fault in [Some(fault), None] {
        let report = ReportState { register: &register, stack_start, stack: rest };
        let state = FaultState { report, address: address_of_fault };
        for text in [text.as_ref(), None] {
            if let Ok(subject) = find_subject(&table, address, &state, text) {
                assert!(subject.sentence("reads").len() <= MOST_SENTENCE_BYTES);
                let _ = subject.judge();
            }
        }
        let _ = table.read_values(address, &state.report);
    }
    Some(())
}

/// Splits off the bytes after their length.
fn split_sized(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}
