//! What the `symbolication` of a frame says, as far as the text shows it, without a copy.

use crate::Text;
use crate::cursor::Value;
use crate::report::{Frame, Report};
use unslide_model::DebugId;

#[derive(Default)]
pub(super) struct Answer<'a> {
    /// False where the address lies in no image, or is none.
    pub(super) in_image: bool,
    pub(super) debug_id: Option<DebugId>,
    pub(super) relative: Option<u64>,
    pub(super) symbol: Option<Text<'a>>,
    pub(super) symbol_offset: Option<u64>,
    /// A list.
    pub(super) calls: Option<Value<'a>>,
}

/// One of the calls.
#[derive(Default)]
pub(super) struct Call<'a> {
    pub(super) function: Option<Text<'a>>,
    pub(super) file: Option<Text<'a>>,
    pub(super) line: Option<u64>,
    pub(super) inlined: bool,
}

impl<'a> Answer<'a> {
    pub(super) fn of(report: &Report<'a>, frame: &Frame<'a>) -> Answer<'a> {
        let mut answer = Answer::default();
        let Some(value) = report.our_value(frame) else { return answer };
        value.each(|key, value| match key {
            b"status" => {
                let outside =
                    |status: Text<'_>| matches!(status.raw(), b"unknown_image" | b"invalid_address");
                answer.in_image = value.text().is_some_and(|status| !outside(status));
            }
            b"debug_id" => answer.debug_id = value.uuid().map(DebugId),
            b"relative_address" => answer.relative = value.unsigned(),
            b"symbol" => answer.symbol = value.text(),
            b"symbol_offset" => answer.symbol_offset = value.unsigned(),
            b"calls" => answer.calls = Some(value),
            _ => {}
        });
        answer
    }
}

impl<'a> Call<'a> {
    pub(super) fn read(value: Value<'a>) -> Call<'a> {
        let mut call = Call::default();
        value.each(|key, value| match key {
            b"function" => call.function = value.text(),
            b"file" => call.file = value.text(),
            b"line" => call.line = value.unsigned(),
            b"inlined" => call.inlined = value.boolean() == Some(true),
            _ => {}
        });
        call
    }
}
