//! Facts about a failed access to data.

use crate::decode::FailedAccess;
use crate::fault::FaultEvidence;
use crate::log_words::find_words;
use unslide_model::{CpuFamily, CpuType};
use unslide_report::{CrashState, Number, Report};
use unslide_symbolicate::{CrashFrame, SymbolicatedCrash};

/// The fewest frames of one function in a row that are an endless recursion.
const RECURSION_FRAMES: usize = 101;
/// The most frames that are searched for a recursion.
const MOST_FRAMES: usize = 512;
/// Words of a log about a full stack.
const STACK_WORDS: &[&str] = &["stack size exceeded", "excessive recursion"];
/// The byte of an address that data accesses of arm64 ignore.
const TOP_BYTE: u64 = 0xff << 56;
/// The CPU subtype of arm64e, from `<mach/machine.h>`.
const ARM64E: u32 = 2;
/// Functions of the Objective-C runtime with the receiver as first argument.
const RECEIVER_FUNCTIONS: [&str; 10] = [
    "objc_msgSend",
    "objc_retain",
    "objc_release",
    "objc_autorelease",
    "objc_retainAutorelease",
    "objc_retainAutoreleaseReturnValue",
    "objc_opt_class",
    "objc_opt_isKindOfClass",
    "objc_opt_respondsToSelector",
    "objc_opt_self",
];

/// The registers of a failed access to data, read for the rules.
pub struct MemoryFacts<'f, 'a> {
    state: &'f CrashState<'a>,
    frame: &'f CrashFrame,
    /// The address that the processor looked up: on arm64 without the top byte.
    pub address: Option<u64>,
    pub is_64_bit: bool,
    pub is_arm64e: bool,
}

impl<'f, 'a> MemoryFacts<'f, 'a> {
    pub fn new(
        state: &'f CrashState<'a>,
        frame: &'f CrashFrame,
        access: FailedAccess,
    ) -> MemoryFacts<'f, 'a> {
        let ignored = if state.register("esr").is_some() { TOP_BYTE } else { 0 };
        let has_narrow_registers = state.register("eip").is_some();
        MemoryFacts {
            state,
            frame,
            address: access.address.map(|address| address & !ignored),
            is_64_bit: !has_narrow_registers && frame.cpu.is_none_or(|cpu| !cpu.family().is_32_bit()),
            is_arm64e: frame.cpu.is_some_and(is_arm64e),
        }
    }

    /// Returns the evidence for a stack overflow: the access is near the stack pointer, and the device could not read
    /// the stack or one function fills it.
    pub fn find_stack_overflow(
        &self,
        crash: &SymbolicatedCrash<'_, '_>,
        reach: u64,
    ) -> Option<Vec<FaultEvidence>> {
        let left_out_frames = self.state.left_out_frames;
        let left_out = (left_out_frames > 0).then_some(FaultEvidence::LeftOutFrames { left_out_frames });
        if let Some(words) = find_words(self.state, STACK_WORDS) {
            let said = FaultEvidence::from_log_words(words);
            return Some([Some(said), left_out].into_iter().flatten().collect());
        }
        let sp = ["sp", "rsp", "esp"].into_iter().find_map(|name| self.state.register(name))?;
        let distance = self.address?.abs_diff(sp);
        if distance > reach {
            return None;
        }
        let cause = if self.state.has_stack_error {
            FaultEvidence::StackError { stack_error: true }
        } else if let Some(words) = find_words(self.state, &["stack guard"]) {
            FaultEvidence::from_log_words(words)
        } else {
            let left_out = usize::try_from(left_out_frames).unwrap_or(usize::MAX);
            let (recursion, function) = longest_recursion(crash, left_out)?;
            FaultEvidence::Recursion { recursion, function }
        };
        let distance = FaultEvidence::StackDistance { bytes_from_stack_pointer: distance };
        Some([Some(distance), Some(cause), left_out].into_iter().flatten().collect())
    }

    /// Returns the file name of the image that contains the address.
    pub fn image_name(&self, report: &Report<'_>) -> Option<String> {
        find_image(report, self.address?)
    }

    /// Returns the function of the Objective-C runtime that the fault is in, and the register with its receiver, if
    /// the device says of the receiver that it was freed and that nothing else is known of it.
    pub fn freed_receiver(&self) -> Option<(&'static str, &'static str)> {
        let symbol = self.frame.symbol.as_deref()?;
        let function = RECEIVER_FUNCTIONS.into_iter().find(|known| *known == symbol)?;
        let register = if self.state.register("x0").is_some() { "x0" } else { "rdi" };
        let notable = self.state.notable_address(register)?;
        (notable.has_freed_object && notable.kind == "unknown").then_some((function, register))
    }
}

/// Returns the file name of the image that contains an address.
pub fn find_image(report: &Report<'_>, address: u64) -> Option<String> {
    let part = report.parts.get(report.main_part())?;
    let images = &report.parts.get(part.image_source?)?.images;
    let image = images.iter().find(|image| {
        let start = image.addr.and_then(Number::to_bits);
        start.is_some_and(|start| address.checked_sub(start).is_some_and(|offset| offset < image.size))
    })?;
    let path = image.name?.decode().into_owned();
    path.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

fn is_arm64e(cpu: CpuType) -> bool {
    cpu.family() == CpuFamily::Arm64 && cpu.cpu_subtype == ARM64E
}

/// Returns the longest run of frames of one function, and its name, if the run is an endless recursion together with the
/// frames that a log has left out.
fn longest_recursion(crash: &SymbolicatedCrash<'_, '_>, left_out: usize) -> Option<(usize, String)> {
    let mut longest = (0_usize, String::new());
    let mut current = (0_usize, String::new());
    for index in 0..crash.frames().min(MOST_FRAMES) {
        let frame = crash.frame(index).unwrap_or_default();
        let function =
            frame.functions.into_iter().next_back().filter(|name| !name.is_empty()).or(frame.symbol);
        match function {
            Some(function) if function == current.1 => current.0 += 1,
            Some(function) => current = (1, function),
            None => current = (0, String::new()),
        }
        if current.0 > longest.0 {
            longest.clone_from(&current);
        }
    }
    (longest.0.saturating_add(left_out) >= RECURSION_FRAMES).then_some(longest)
}
