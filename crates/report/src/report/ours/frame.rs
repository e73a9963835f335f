//! The `symbolication` object of a frame, read back for lists and texts without a copy.

use crate::Text;
use crate::json::Value;
use crate::report::{Frame, Report};
use unslide_model::DebugId;

/// Our result for one frame. Members that are absent or of another type are `None`.
#[derive(Default)]
pub struct OurFrame<'a> {
    /// `symbolicated`, `device`, `missing_symbol`, …
    pub(crate) status: Option<Text<'a>>,
    /// `dwarf`, `symtab` or `device`.
    source: Option<Text<'a>>,
    /// The debug id of the image that contains the frame's address.
    pub(crate) debug_id: Option<DebugId>,
    /// The cleaned address as an offset in bytes from the image's start.
    pub(crate) relative_address: Option<u64>,
    /// The name of the symbol that owns the machine code, as the linker knows it.
    pub(crate) symbol: Option<Text<'a>>,
    /// The cleaned address as an offset in bytes from the symbol's start.
    pub(crate) symbol_offset: Option<u64>,
    /// True if the result depends on an assumption.
    pub(crate) approximate: bool,
    /// A list of functions for [`OurCall::from_value`], from the innermost inlined function outwards. The last owns
    /// the machine code.
    pub(crate) calls: Option<Value<'a>>,
}

/// One function of a frame.
#[derive(Default)]
pub struct OurCall<'a> {
    /// The function's name, demangled.
    pub function: Option<Text<'a>>,
    /// Its linkage name, if it differs.
    pub raw: Option<Text<'a>>,
    /// The path of the source file.
    pub file: Option<Text<'a>>,
    /// The line, from 1.
    pub(crate) line: Option<u64>,
    /// True for a function that was inlined into the next.
    pub(crate) inlined: bool,
    /// The evidence that the function never returns: `declared` or `inferred`.
    pub no_return: Option<Text<'a>>,
}

impl<'a> Report<'a> {
    /// Returns our result for a frame of this report, or `None` if the frame was not enriched.
    #[must_use]
    pub fn our_frame(&self, frame: &Frame<'a>) -> Option<OurFrame<'a>> {
        let member = frame.own_member.clone()?;
        // There is no brace between the member's comma and its value.
        let brace = memchr::memchr(b'{', self.input.get(member.clone())?)?;
        let mut ours = OurFrame::default();
        Value::from_offset(self.input, member.start + brace).each_member(|key, value| match key {
            b"status" => ours.status = value.as_text(),
            b"source" => ours.source = value.as_text(),
            b"debug_id" => ours.debug_id = value.as_uuid().map(DebugId),
            b"relative_address" => ours.relative_address = value.as_unsigned(),
            b"symbol" => ours.symbol = value.as_text(),
            b"symbol_offset" => ours.symbol_offset = value.as_unsigned(),
            b"approximate" => ours.approximate = value.as_boolean() == Some(true),
            b"calls" => ours.calls = Some(value),
            _ => {}
        });
        Some(ours)
    }
}

impl<'a> OurFrame<'a> {
    /// Returns false if the address is invalid or lies in no image.
    #[must_use]
    pub fn is_in_image(&self) -> bool {
        self.status.is_some_and(|status| !matches!(status.raw(), b"unknown_image" | b"invalid_address"))
    }

    /// Returns true if the frame has this status.
    #[must_use]
    pub fn has_status(&self, status: &str) -> bool {
        self.status.is_some_and(|own| own.is(status))
    }

    /// Returns true if a frame with functions was stored with only their names, or only its status.
    #[must_use]
    pub fn is_shortened(&self) -> bool {
        let is_named = self.has_status("symbolicated") || self.has_status("device");
        is_named && (self.relative_address.is_none() || self.calls.is_none())
    }

    /// Returns true if the functions' names come from debug information.
    #[must_use]
    pub fn is_from_debug_info(&self) -> bool {
        self.source.is_some_and(|source| source.is("dwarf"))
    }

    /// Returns the debug id of the image that contains the frame's address.
    #[must_use]
    pub fn debug_id(&self) -> Option<DebugId> {
        self.debug_id
    }

    /// Returns the cleaned address as an offset in bytes from the image's start.
    #[must_use]
    pub fn relative_address(&self) -> Option<u64> {
        self.relative_address
    }

    /// Returns the name of the symbol that owns the machine code, as the linker knows it.
    #[must_use]
    pub fn symbol(&self) -> Option<Text<'a>> {
        self.symbol
    }

    /// Returns the functions, from the innermost inlined one outwards.
    #[must_use]
    pub fn read_calls(&self) -> Vec<OurCall<'a>> {
        self.calls.map(Value::items).unwrap_or_default().into_iter().map(OurCall::from_value).collect()
    }
}

impl<'a> OurCall<'a> {
    pub(crate) fn from_value(value: Value<'a>) -> OurCall<'a> {
        let mut call = OurCall::default();
        value.each_member(|key, value| match key {
            b"function" => call.function = value.as_text(),
            b"raw" => call.raw = value.as_text(),
            b"file" => call.file = value.as_text(),
            b"line" => call.line = value.as_unsigned(),
            b"inlined" => call.inlined = value.as_boolean() == Some(true),
            b"noreturn" => call.no_return = value.as_text(),
            _ => {}
        });
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadLimits;

    #[test]
    fn our_frames_are_read_back() {
        let read = |ours: &str| {
            let frame = format!(r#"{{"instruction_addr":1,"symbolication":{ours}}}"#);
            format!(
                r#"{{"crash":{{"threads":[{{"backtrace":{{"contents":[{frame}]}}}}]}},
                "symbolication":{{"version":1,"engine":"unslide/0.1.0"}}}}"#
            )
        };
        let bytes = read(
            r#"{"status":"symbolicated","source":"dwarf","debug_id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","relative_address":37204,
            "symbol":"$s","symbol_offset":84,"calls":[{"function":"price","raw":"$p","file":"/src/Cart.swift",
            "line":12,"column":9,"inlined":true},{"function":"add","noreturn":"declared"}]}"#,
        );
        let report = Report::read(bytes.as_bytes(), &ReadLimits::default()).unwrap();
        let ours = report.our_frame(&report.backtraces[0].frames[0]).unwrap();
        assert!(ours.is_in_image() && ours.debug_id.is_some() && ours.is_from_debug_info());
        assert_eq!((ours.relative_address, ours.symbol_offset), (Some(37204), Some(84)));
        let calls: Vec<_> = ours.calls.unwrap().items().into_iter().map(OurCall::from_value).collect();
        assert!(calls[0].file.is_some_and(|file| file.is("/src/Cart.swift")));
        assert_eq!((calls[0].line, calls[0].inlined), (Some(12), true));
        assert!(calls[0].no_return.is_none() && calls[1].no_return.is_some_and(|known| known.is("declared")));
        assert!(calls[1].function.is_some_and(|function| function.is("add")) && !calls[1].inlined);
        let bytes = read(r#"{"status":"invalid_address"}"#);
        let report = Report::read(bytes.as_bytes(), &ReadLimits::default()).unwrap();
        assert!(!report.our_frame(&report.backtraces[0].frames[0]).unwrap().is_in_image());
    }
}
