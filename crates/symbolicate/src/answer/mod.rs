//! From a frame's address in an image to code: the second half of symbolication.

mod device_names;

use crate::json::dashed;
use crate::plan::{ImagePlace, Join, Plan, PlannedFrame, PlannedImage};
use crate::rules::{Choice, is_sigtramp};
use crate::status::{FrameStatus, ImageStatus};
use crate::symbols::ImageSymbols;
use crate::symcache::{CodeAnswer, CodeLookup, SymCache};
pub(crate) use device_names::DeviceNames;
use unslide_model::{DebugId, Quality, RelativeAddress};
use unslide_report::{Frame, Text, device_name};

/// The symbols of an image, judged.
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
    /// True where the symbols are of a stripped binary: they have exported names at most.
    pub(crate) fn are_stripped(&self) -> bool {
        self.symbols.is_some_and(|symbols| symbols.quality() < Quality::Symtab)
    }
}

/// Looks the symbols of an image up and checks that they are the image's.
pub(crate) fn judge<'s>(
    image: &PlannedImage<'_>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Judged<'s> {
    let text = image.debug_id.as_ref().map(dashed);
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

/// What is said of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameAnswer<'s, 'a> {
    pub(crate) status: FrameStatus,
    pub(crate) choice: Choice,
    pub(crate) place: Option<ImagePlace>,
    /// The image that the frame names for an address outside of all images, where better symbols could confirm it.
    pub(crate) waits_for: Option<u32>,
    /// The cleaned address's distance from the image's start, not decremented.
    pub(crate) relative: u64,
    pub(crate) approximate: bool,
    pub(crate) pac_stripped: bool,
    pub(crate) name: Name<'s, 'a>,
}

/// Who names the code of a frame.
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
    /// The address's distance from the symbol; `None` where the device does not say.
    pub(crate) offset: Option<u64>,
    pub(crate) approximate: bool,
}

/// The choice and place of a frame once the frame before it is named.
pub(crate) fn settle(planned: &PlannedFrame, after_sigtramp: bool) -> (Choice, Option<ImagePlace>) {
    if !after_sigtramp || planned.choice.rule != crate::rules::Rule::Caller {
        return (planned.choice, planned.place);
    }
    let exact = Choice { adjusted: false, ..planned.choice };
    (exact, planned.exact_place.unwrap_or(planned.place))
}

/// Answers for one frame. `images` are the judged images of the plan.
pub(crate) fn answer<'s, 'a>(
    plan: &Plan<'_, 'a>,
    images: &[Judged<'s>],
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    after_sigtramp: bool,
) -> FrameAnswer<'s, 'a> {
    let (choice, place) = settle(planned, after_sigtramp);
    let mut answer = FrameAnswer {
        status: FrameStatus::InvalidAddress,
        choice,
        place: None,
        waits_for: None,
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
    answer.relative = planned.address.wrapping_sub(image.start);
    let lookup = choice.looked_up(RelativeAddress(answer.relative));
    if place.join == Join::OutsideSize && !confirmed(judged, lookup) {
        answer.status = FrameStatus::UnknownImage;
        answer.place = None;
        answer.approximate = choice.approximate || planned.imprecise;
        let may_come = judged.status != ImageStatus::Found || answer.lacks_dsym(image, judged);
        answer.waits_for = may_come.then_some(place.image);
        return answer;
    }
    name(&mut answer, frame, planned, (image, judged), lookup);
    answer
}

/// Who names the code at an address of an image.
fn name<'s, 'a>(
    answer: &mut FrameAnswer<'s, 'a>,
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    (image, judged): (&PlannedImage<'a>, &Judged<'s>),
    address: RelativeAddress,
) {
    match judged.symbols.map(|s| (s, s.lookup(address))) {
        Some((_, CodeLookup::Found(found))) => {
            answer.status = FrameStatus::Symbolicated;
            answer.approximate |= found.approximate || found.is_folded();
            answer.name = Name::Symbols(found);
        }
        // An object without any names says nothing about functions, not even that there is none.
        Some((symbols, _)) if symbols.quality() != Quality::None => {
            answer.status = FrameStatus::MissingSymbol;
        }
        other => {
            if let Some(device) = named_by_the_device(frame, planned, image) {
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

/// True where the symbols name code with a known extent at an address.
fn confirmed(judged: &Judged<'_>, address: RelativeAddress) -> bool {
    let found = judged.symbols.and_then(|symbols| symbols.lookup(address).found());
    found.is_some_and(|found| !found.approximate)
}

/// The device's name, unless it is none or too far off to be believed.
fn named_by_the_device<'a>(
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    image: &PlannedImage<'_>,
) -> Option<DeviceName<'a>> {
    let name = frame.symbol_name.filter(|name| device_name::is_a_name(*name))?;
    let Some(start) = planned.symbol_start else {
        return Some(DeviceName { name, offset: None, approximate: true });
    };
    let offset = device_name::offset(planned.address, start, image.start)?;
    Some(DeviceName { name, offset: Some(offset), approximate: offset > device_name::NEAR })
}

impl FrameAnswer<'_, '_> {
    /// The index of the image that the frame refers to.
    pub(crate) fn image(&self) -> Option<usize> {
        Some(self.place.map(|place| place.image).or(self.waits_for)? as usize)
    }

    /// True where the frame lies in an image of the app that has a stripped binary's symbols, and they do not name
    /// its function: the image's dSYM would.
    pub(crate) fn lacks_dsym(&self, image: &PlannedImage<'_>, judged: &Judged<'_>) -> bool {
        self.status != FrameStatus::Symbolicated && !image.system && judged.are_stripped()
    }

    /// True where the frame is the one that calls a signal handler, so that the frame after it holds
    /// the address that the signal interrupted.
    pub(crate) fn is_sigtramp(&self, frame: &Frame<'_>) -> bool {
        match self.name {
            Name::Symbols(answer) => answer.symbol.is_some_and(|symbol| is_sigtramp(symbol.raw())),
            Name::Device(device) => is_sigtramp(device.name.raw()),
            // Without an image the device's word is all there is.
            Name::Nobody => {
                self.status == FrameStatus::UnknownImage
                    && frame.symbol_name.is_some_and(|name| is_sigtramp(name.raw()))
            }
        }
    }
}
