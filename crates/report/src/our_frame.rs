//! The `symbolication` object of a frame, read back.

use crate::cursor::Value;
use crate::report::{Frame, Report};
use unslide_model::DebugId;

/// What we say of one frame. Members that are absent or of another type are `None`, false or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurFrame {
    /// `symbolicated`, `device`, `missing_symbol`, …
    pub status: String,
    /// `dwarf`, `symtab` or `device`.
    pub source: Option<String>,
    /// The image that the frame's address lies in.
    pub debug_id: Option<DebugId>,
    /// The cleaned address as bytes from the image's start.
    pub relative_address: Option<u64>,
    /// True where the look-up was one lower.
    pub adjusted: bool,
    /// True where the answer is a guess.
    pub approximate: bool,
    /// The name of the symbol that owns the machine code, as the linker knows it.
    pub symbol: Option<String>,
    /// The cleaned address as bytes from the symbol's start.
    pub symbol_offset: Option<u64>,
    /// From the innermost inlined function outwards; the last owns the machine code.
    pub calls: Vec<OurCall>,
}

/// One function of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurCall {
    /// The function's name, demangled.
    pub function: String,
    /// The path of the source file.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// True for a function that was inlined into the next.
    pub inlined: bool,
}

impl<'a> Report<'a> {
    /// Our member of a frame.
    pub(crate) fn our_value(&self, frame: &Frame<'a>) -> Option<Value<'a>> {
        let member = frame.own_member.clone()?;
        // Between the member's comma and its value there is no brace.
        let brace = memchr::memchr(b'{', self.input.get(member.clone())?)?;
        Some(Value::at(self.input, member.start + brace))
    }

    /// What we said of a frame of this report when it was enriched; `None` where it was not.
    #[must_use]
    pub fn our_frame(&self, frame: &Frame<'a>) -> Option<OurFrame> {
        let mut ours = OurFrame::default();
        self.our_value(frame)?.each(|key, value| match key {
            b"status" => ours.status = value.string().unwrap_or_default(),
            b"source" => ours.source = value.string(),
            b"debug_id" => ours.debug_id = value.uuid().map(DebugId),
            b"relative_address" => ours.relative_address = value.unsigned(),
            b"adjusted" => ours.adjusted = value.unsigned() == Some(1),
            b"approximate" => ours.approximate = value.boolean() == Some(true),
            b"symbol" => ours.symbol = value.string(),
            b"symbol_offset" => ours.symbol_offset = value.unsigned(),
            b"calls" => ours.calls = value.items().into_iter().map(call).collect(),
            _ => {}
        });
        Some(ours)
    }
}

fn call(value: Value<'_>) -> OurCall {
    let mut call = OurCall::default();
    let small = |value: Value<'_>| value.unsigned().and_then(|n| u32::try_from(n).ok());
    value.each(|key, value| match key {
        b"function" => call.function = value.string().unwrap_or_default(),
        b"file" => call.file = value.string(),
        b"line" => call.line = small(value),
        b"column" => call.column = small(value),
        b"inlined" => call.inlined = value.boolean() == Some(true),
        _ => {}
    });
    call
}
