//! The second half of symbolication: from a frame's address in an image to code.

mod device_names;

use crate::compiler_made::is_compiler_made_symbol;
use crate::json::format_dashed;
use crate::plan::{ImagePlace, Join, Plan, PlannedFrame, PlannedImage};
use crate::rules::{Choice, is_sigtramp};
use crate::status::{FrameStatus, ImageStatus};
use crate::symbols::ImageSymbols;
use crate::symcache::{CodeAnswer, CodeLookup, SymCache};
pub(crate) use device_names::DeviceNames;
use unslide_model::{DebugId, Quality, RelativeAddress, is_hidden_symbol};
use unslide_report::{Frame, Text, device_name};

/// The symbols of an image, after checks.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'s> {
    pub(crate) status: ImageStatus,
    /// `None` unless the status is `found`.
    pub(crate) symbols: Option<&'s SymCache>,
    pub(crate) generation: Option<u64>,
    /// The text of the image's debug id.
    pub(crate) debug_id: Option<[u8; 36]>,
}

impl Judged<'_> {
    /// True if the image is the app's and has the symbols of a stripped binary: at most the names that other
    /// images may call. They do not replace a dSYM even if they name a function, because its inlined functions
    /// are unknown.
    pub(crate) fn lacks_dsym(&self, image: &PlannedImage<'_>) -> bool {
        !image.system && self.symbols.is_some_and(|symbols| symbols.quality() < Quality::Symtab)
    }
}

/// Fetches the symbols of an image and checks that they belong to it.
pub(crate) fn check_symbols<'s>(
    image: &PlannedImage<'_>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Judged<'s> {
    let text = image.debug_id.as_ref().map(format_dashed);
    let without = |status| Judged { status, symbols: None, generation: None, debug_id: text };
    let Some(debug_id) = image.debug_id else { return without(ImageStatus::Missing) };
    match symbols(&debug_id) {
        None | Some(ImageSymbols::Missing) => without(ImageStatus::Missing),
        Some(ImageSymbols::Malformed) => without(ImageStatus::Malformed),
        Some(ImageSymbols::Unsupported) => without(ImageStatus::Unsupported),
        Some(ImageSymbols::FetchingFailed) => without(ImageStatus::FetchingFailed),
        Some(ImageSymbols::Found { symcache, generation, .. }) => {
            let another_cpu = image.cpu.is_some_and(|cpu| cpu.cpu_type != symcache.cpu().cpu_type);
            if another_cpu || symcache.debug_id() != debug_id {
                return without(ImageStatus::Malformed);
            }
            Judged { symbols: Some(symcache), generation: *generation, ..without(ImageStatus::Found) }
        }
    }
}

/// The answer for one frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameAnswer<'s, 'a> {
    pub(crate) status: FrameStatus,
    pub(crate) choice: Choice,
    pub(crate) place: Option<ImagePlace>,
    /// The image that the frame names for an address outside all images, if better symbols could confirm it.
    pub(crate) waits_for: Option<u32>,
    /// The cleaned address, not decremented.
    pub(crate) address: u64,
    /// Its offset from the image's start.
    pub(crate) relative: u64,
    pub(crate) approximate: bool,
    pub(crate) pac_stripped: bool,
    pub(crate) name: Name<'s, 'a>,
}

/// Source of the name for a frame's code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'s, 'a> {
    Nobody,
    Symbols(CodeAnswer<'s>),
    Device(DeviceName<'a>),
}

/// The device's name for an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceName<'a> {
    pub(crate) name: Text<'a>,
    /// The address's offset from the symbol; `None` if the device does not say.
    pub(crate) offset: Option<u64>,
    pub(crate) approximate: bool,
}

/// The look-up of a frame, once the frame before it is named.
pub(crate) struct SettledFrame {
    pub(crate) choice: Choice,
    pub(crate) place: Option<ImagePlace>,
    /// The cleaned address, not decremented.
    pub(crate) address: u64,
}

/// Decides whether a planned frame is a return address or the instruction that a signal interrupted.
pub(crate) fn settle_address(planned: &PlannedFrame, after_sigtramp: bool) -> SettledFrame {
    let PlannedFrame { choice, place, address, .. } = *planned;
    if !after_sigtramp || choice.rule != crate::rules::Rule::Caller {
        return SettledFrame { choice, place, address };
    }
    SettledFrame {
        choice: Choice { adjusted: false, ..choice },
        place: planned.exact_place.unwrap_or(place),
        address: address & !u64::from(planned.low_bits),
    }
}

/// Answers one frame. `images` are the checked images of the plan.
pub(crate) fn answer_frame<'s, 'a>(
    plan: &Plan<'_, 'a>,
    images: &[Judged<'s>],
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    after_sigtramp: bool,
) -> FrameAnswer<'s, 'a> {
    let SettledFrame { choice, place, address } = settle_address(planned, after_sigtramp);
    let mut answer = FrameAnswer {
        status: FrameStatus::InvalidAddress,
        choice,
        place: None,
        waits_for: None,
        address,
        relative: 0,
        approximate: false,
        pac_stripped: planned.pac_stripped,
        name: Name::Nobody,
    };
    if !planned.valid {
        return answer;
    }
    answer.approximate = choice.approximate || planned.imprecise;
    let known =
        place.and_then(|p| Some((p, plan.images.get(p.image as usize)?, images.get(p.image as usize)?)));
    let Some((place, image, judged)) = known else {
        answer.status = FrameStatus::UnknownImage;
        return answer;
    };
    answer.place = Some(place);
    answer.approximate |= image.approximate;
    answer.relative = address.wrapping_sub(image.start);
    let lookup = choice.looked_up(RelativeAddress(answer.relative));
    if place.join == Join::OutsideSize && !is_confirmed(judged, lookup) {
        answer.status = FrameStatus::UnknownImage;
        answer.place = None;
        answer.approximate = choice.approximate || planned.imprecise;
        let may_come = judged.status != ImageStatus::Found || judged.lacks_dsym(image);
        answer.waits_for = may_come.then_some(place.image);
        return answer;
    }
    name_code(&mut answer, frame, planned, image, judged, lookup);
    answer
}

/// Names the code at an address of an image.
fn name_code<'s, 'a>(
    answer: &mut FrameAnswer<'s, 'a>,
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    image: &PlannedImage<'a>,
    judged: &Judged<'s>,
    address: RelativeAddress,
) {
    match judged.symbols.map(|s| (s, s.lookup(address))) {
        Some((_, CodeLookup::Found(found))) => {
            answer.status = FrameStatus::Symbolicated;
            answer.approximate |= found.approximate || found.is_folded();
            answer.name = Name::Symbols(found);
        }
        // An object without any names says nothing about functions, not even that an address has none.
        Some((symbols, _)) if symbols.quality() != Quality::None => {
            answer.status = FrameStatus::MissingSymbol;
        }
        other => {
            if let Some(device) = named_by_the_device(frame, planned, answer.address, image) {
                answer.status = FrameStatus::Device;
                answer.approximate |= device.approximate;
                answer.name = Name::Device(device);
            } else {
                answer.status = match judged.status {
                    ImageStatus::Malformed => FrameStatus::Malformed,
                    ImageStatus::Unsupported => FrameStatus::Unsupported,
                    ImageStatus::FetchingFailed => FrameStatus::FetchingFailed,
                    ImageStatus::Found if other.is_some() => FrameStatus::MissingSymbol,
                    ImageStatus::Found | ImageStatus::Missing => FrameStatus::Missing,
                };
            }
        }
    }
}

/// True if the symbols name code with a known extent at an address.
fn is_confirmed(judged: &Judged<'_>, address: RelativeAddress) -> bool {
    let found = judged.symbols.and_then(|symbols| symbols.lookup(address).into_answer());
    found.is_some_and(|found| !found.approximate)
}

/// Returns the device's name, unless there is none or it is too far from the address.
fn named_by_the_device<'a>(
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    address: u64,
    image: &PlannedImage<'_>,
) -> Option<DeviceName<'a>> {
    let name = frame.symbol_name.filter(|name| device_name::is_a_name(*name))?;
    let Some(start) = planned.symbol_start else {
        return Some(DeviceName { name, offset: None, approximate: true });
    };
    let offset = device_name::offset_from_symbol(address, start, image.start)?;
    // Compiler-made functions lie everywhere: in a stripped image one of them is the nearest to any address.
    let is_helper = is_hidden_symbol(name.raw()) || is_compiler_made_symbol(&name.decode());
    Some(DeviceName {
        name,
        offset: Some(offset),
        approximate: is_helper || offset > device_name::GUESS_DISTANCE_BYTES,
    })
}

impl FrameAnswer<'_, '_> {
    /// The index of the image that the frame refers to.
    pub(crate) fn image_index(&self) -> Option<usize> {
        Some(self.place.map(|place| place.image).or(self.waits_for)? as usize)
    }

    /// True if the image's dSYM would say more about the frame: the image has the symbols of a stripped binary,
    /// or a hidden name replaces the function's own.
    pub(crate) fn lacks_dsym(&self, image: &PlannedImage<'_>, judged: &Judged<'_>) -> bool {
        judged.lacks_dsym(image) || !image.system && self.is_hidden()
    }

    /// True if a hidden name replaces the function's own in the symbols.
    pub(crate) fn is_hidden(&self) -> bool {
        match self.name {
            Name::Symbols(found) => found.symbol.is_some_and(|symbol| is_hidden_symbol(symbol.raw())),
            Name::Device(_) | Name::Nobody => false,
        }
    }

    /// True if the frame calls a signal handler. The frame after it then holds the address that the signal
    /// interrupted.
    pub(crate) fn is_sigtramp(&self, frame: &Frame<'_>) -> bool {
        match self.name {
            Name::Symbols(answer) => answer.symbol.is_some_and(|symbol| is_sigtramp(symbol.raw())),
            Name::Device(device) => is_sigtramp(device.name.raw()),
            // Without an image, only the device's name is available.
            Name::Nobody => {
                self.status == FrameStatus::UnknownImage
                    && frame.symbol_name.is_some_and(|name| is_sigtramp(name.raw()))
            }
        }
    }
}
