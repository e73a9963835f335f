//! The threads of a log, and the backtrace of its exception.

use super::document::LogMembers;
use super::error;
use super::images::UsedImages;
use super::own_value;
use crate::json::JsonBuilder;
use unslide_report::MemberPlace;
use unslide_report::{JsonValue, ReadError, ReadLimits, Text};

/// One item of a list of frames.
#[derive(Clone, Copy, Debug)]
struct IpsFrame<'a> {
    object: JsonValue<'a>,
    image: Option<u64>,
    offset: Option<u64>,
    symbol: Option<Text<'a>>,
    symbol_location: Option<u64>,
    inline: Option<bool>,
}

/// Writes frames and remembers their places.
#[derive(Debug)]
pub struct FrameWriter<'i, 'a> {
    images: &'i UsedImages<'a>,
    is_enriched: bool,
    limit: usize,
    items: usize,
    /// The place of each frame that was written.
    pub places: Vec<Option<MemberPlace>>,
}

impl<'a> IpsFrame<'a> {
    fn read(object: JsonValue<'a>) -> IpsFrame<'a> {
        let [image, offset, symbol, location, inline] =
            object.find_members(["imageIndex", "imageOffset", "symbol", "symbolLocation", "inline"]);
        IpsFrame {
            object,
            image: image.and_then(JsonValue::as_unsigned),
            offset: offset.and_then(JsonValue::as_unsigned),
            symbol: symbol.and_then(JsonValue::as_text),
            symbol_location: location.and_then(JsonValue::as_unsigned),
            inline: inline.and_then(JsonValue::as_boolean),
        }
    }

    /// Returns true if this item and the next one are calls of the same machine frame, of which `first` is the innermost.
    /// Equal items are a recursion, or a stale link register.
    fn is_inlined_into(&self, next: &IpsFrame<'a>, first: &IpsFrame<'a>) -> bool {
        if (self.image, self.offset) != (next.image, next.offset) || self.offset.is_none() {
            return false;
        }
        match (self.inline, next.inline) {
            (Some(inline), _) => inline,
            (None, Some(_)) => false,
            (None, None) => self.differs(next) && first.differs(next),
        }
    }

    fn differs(&self, other: &IpsFrame<'a>) -> bool {
        (self.symbol, self.symbol_location) != (other.symbol, other.symbol_location)
    }
}

impl<'i, 'a> FrameWriter<'i, 'a> {
    /// Creates a writer for the frames of a log with these images.
    pub fn new(images: &'i UsedImages<'a>, is_enriched: bool, limits: &ReadLimits) -> FrameWriter<'i, 'a> {
        FrameWriter { images, is_enriched, limit: limits.max_items, items: 0, places: Vec::new() }
    }

    /// Writes the threads and the backtrace of the exception as members of `crash`.
    ///
    /// # Errors
    /// Returns [`ReadError::TooManyItems`] if there are too many threads and frames.
    pub fn crash(&mut self, body: &LogMembers<'a>, json: &mut JsonBuilder) -> Result<(), ReadError> {
        let threads = body.items("threads");
        let crashed = crashed_thread(&threads, body.get("faultingThread").and_then(JsonValue::as_unsigned));
        let mut outcome = Ok(());
        json.array("threads", |json| {
            for (index, thread) in threads.into_iter().enumerate() {
                if outcome.is_ok() {
                    outcome = self.thread(thread, index, crashed == Some(index), json);
                }
            }
        });
        outcome?;
        let mut outcome = Ok(());
        let frames = body.items("lastExceptionBacktrace");
        let printed = if frames.is_empty() { error::printed_backtrace(body) } else { Vec::new() };
        if frames.is_empty() && printed.is_empty() {
            return Ok(());
        }
        json.object("last_exception_backtrace", |json| {
            outcome = self.contents(frames, json);
            // Names in a printed backtrace are those of the next function if a call does not return.
            if !printed.is_empty() && outcome.is_ok() {
                json.array("contents", |json| {
                    for address in printed {
                        json.item(|json| json.number("instruction_addr", address));
                        self.places.push(None);
                    }
                });
            }
        });
        outcome
    }

    fn count(&mut self, at: JsonValue<'a>) -> Result<(), ReadError> {
        self.items += 1;
        if self.items > self.limit {
            return Err(ReadError::TooManyItems { offset: at.offset(), limit: self.limit });
        }
        Ok(())
    }

    fn thread(
        &mut self,
        thread: JsonValue<'a>,
        index: usize,
        is_crashed: bool,
        json: &mut JsonBuilder,
    ) -> Result<(), ReadError> {
        self.count(thread)?;
        let [name, queue, state, frames, recursions] =
            thread.find_members(["name", "queue", "threadState", "frames", "recursionInfoArray"]);
        let depths = recursions.map(JsonValue::items).unwrap_or_default().into_iter();
        let depths = depths.filter_map(|recursion| recursion.get("depth").and_then(JsonValue::as_unsigned));
        let left_out = depths.fold(0_u64, u64::saturating_add);
        let frames = frames.map(JsonValue::items).unwrap_or_default();
        let first = frames.first().and_then(|frame| self.address(&IpsFrame::read(*frame)));
        let text =
            |value: Option<JsonValue<'a>>| value.and_then(JsonValue::as_text).filter(|text| !text.is_empty());
        let mut outcome = Ok(());
        json.item(|json| {
            json.number("index", index as u64);
            json.text("name", text(name));
            json.text("dispatch_queue", text(queue));
            json.flag("crashed", is_crashed);
            json.flag("current_thread", false);
            if is_crashed {
                registers(state, first, json);
            }
            if left_out > 0 {
                json.number("left_out_frames", left_out);
            }
            json.object("backtrace", |json| outcome = self.contents(frames, json));
        });
        outcome
    }

    /// Writes a list of frames. Calls that were inlined into a frame belong to it.
    fn contents(&mut self, frames: Vec<JsonValue<'a>>, json: &mut JsonBuilder) -> Result<(), ReadError> {
        if frames.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        json.array("contents", |json| {
            let mut frames = frames.into_iter().filter(|frame| frame.is_object()).peekable();
            while let Some(object) = frames.next() {
                let first = IpsFrame::read(object);
                let mut last = first;
                outcome = self.count(object);
                while outcome.is_ok()
                    && let Some(next) =
                        frames.next_if(|next| last.is_inlined_into(&IpsFrame::read(*next), &first))
                {
                    outcome = self.count(next);
                    last = IpsFrame::read(next);
                }
                if outcome.is_err() {
                    return;
                }
                self.frame(&first, &last, json);
            }
        });
        outcome
    }

    /// Writes a frame. `first` is the innermost call in it, which takes the answer, and `last` the function itself.
    fn frame(&mut self, first: &IpsFrame<'a>, last: &IpsFrame<'a>, json: &mut JsonBuilder) {
        let place = first.object.frame_place(self.is_enriched);
        let address = self.address(first);
        json.item(|json| {
            if let Some(address) = address {
                json.number("instruction_addr", address);
            }
            if let Some(image) = first.image.and_then(|index| self.images.get(index)) {
                json.number("object_addr", image.base);
                json.text("object_uuid", image.uuid);
            }
            json.text("symbol_name", last.symbol);
            if let (Some(location), Some(_)) = (last.symbol_location, last.symbol)
                && let Some(start) = address.and_then(|address| address.checked_sub(location))
            {
                json.number("symbol_addr", start);
            }
            if let Some(own) = own_value(first.object).filter(|_| self.is_enriched) {
                json.value("symbolication", own);
            }
        });
        self.places.push(place);
    }

    /// Returns the address of a frame. If it is in no image, its offset is the address.
    fn address(&self, frame: &IpsFrame<'a>) -> Option<u64> {
        let offset = frame.offset?;
        match frame.image {
            Some(index) if self.images.is_absent(index) => Some(offset),
            Some(index) => Some(self.images.get(index)?.base.wrapping_add(offset)),
            None => Some(offset),
        }
    }
}

/// Returns the position of the crashed thread: `faultingThread`, or else the first that is `triggered`.
fn crashed_thread(threads: &[JsonValue<'_>], faulting: Option<u64>) -> Option<usize> {
    let named = faulting.and_then(|index| usize::try_from(index).ok()).filter(|index| *index < threads.len());
    let is_triggered =
        |thread: &JsonValue<'_>| thread.get("triggered").and_then(JsonValue::as_boolean) == Some(true);
    named.or_else(|| threads.iter().position(is_triggered))
}

/// Writes the registers of the crashed thread. Its innermost frame is at `first`, and is always the program counter. A
/// state with another one is of another moment, so only the program counter of the frame is kept.
fn registers(state: Option<JsonValue<'_>>, first: Option<u64>, json: &mut JsonBuilder) {
    let register = |value: JsonValue<'_>| value.get("value").and_then(JsonValue::as_unsigned);
    let counter = state.and_then(|state| {
        let [pc, rip, eip] = state.find_members(["pc", "rip", "eip"]);
        register(pc.or(rip).or(eip)?)
    });
    if counter.is_none() && first.is_none() {
        return;
    }
    let state = state.filter(|_| counter.is_some() && (first.is_none() || counter == first));
    let mut faults = Vec::new();
    json.object("registers", |json| {
        json.object("basic", |json| {
            let Some(state) = state else {
                json.number("pc", first.unwrap_or_default());
                return;
            };
            state.each_member(|key, value| {
                let Ok(key) = std::str::from_utf8(key) else { return };
                if key == "x" {
                    for (number, value) in value.items().into_iter().take(29).enumerate() {
                        if let Some(value) = register(value) {
                            json.number(&format!("x{number}"), value);
                        }
                    }
                }
                let Some(number) = register(value).filter(|_| is_register(key)) else { return };
                match key {
                    "far" | "esr" => faults.push((key.to_owned(), number)),
                    "cr2" => faults.push(("faultvaddr".to_owned(), number)),
                    "err" | "trap" => faults.push((key.to_owned(), number)),
                    key => json.number(key, number),
                }
            });
        });
        if !faults.is_empty() {
            json.object("exception", |json| {
                for (key, value) in &faults {
                    json.number(key, *value);
                }
            });
        }
    });
}

/// Returns true if a key is the name of a register. Others could be any text.
fn is_register(key: &str) -> bool {
    key.len() <= 8 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
