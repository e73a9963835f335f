//! Which image a frame's address belongs to.
//!
//! The address decides. The frame's own image fields count only if the address does not contradict them,
//! because writers sometimes name the wrong image.

use super::index::AddressStretch;
use super::space::Space;
use super::system::{file_name, names_image};
use unslide_model::DebugId;
use unslide_report::{Frame, ReportPart, Text};

/// The lowest load address of a 64-bit process.
const FIRST_64_BIT_IMAGE: u64 = 1 << 32;

/// How an image was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Join {
    /// It is listed with the frame's own `object_uuid` and `object_addr`.
    Uuid,
    /// It contains the address.
    Address,
    /// Its size is not known, and it starts at the frame's `object_addr`.
    ObjectAddress,
    /// It is listed with the frame's own `object_uuid` and `object_addr`, its size does not cover the
    /// address, and no other image does: code outside `__TEXT`. Only symbols that name the code there
    /// confirm it.
    OutsideSize,
    /// The part has no image list. The frame's own `object_uuid` and `object_addr` are the only
    /// information.
    Unlisted,
    /// The part has no image list, and the frame names the main executable.
    AppUuid,
}

impl Join {
    /// The name in explanations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Join::Uuid => "object_uuid",
            Join::Address => "address",
            Join::ObjectAddress => "object_addr",
            Join::OutsideSize => "object_uuid_outside_image_size",
            Join::Unlisted => "object_uuid_without_list",
            Join::AppUuid => "app_uuid",
        }
    }
}

/// The image of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribution<'a> {
    pub(crate) image: Attributed<'a>,
    pub(crate) join: Join,
    /// True if the frame's `object_addr` or `object_uuid` belongs to another image.
    pub(crate) reattributed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributed<'a> {
    /// The image at this position in the image list.
    Listed(u32),
    /// An image in no list.
    Unlisted { debug_id: DebugId, start: u64, name: Option<Text<'a>> },
}

/// Returns the image of `address`, which is the look-up address. `None` means `unknown_image`. The
/// caller, who knows the image's name, checks the frame's `object_name`.
pub(crate) fn find_attribution<'a>(
    frame: &Frame<'a>,
    address: u64,
    space: &Space<'_, 'a>,
    part: &ReportPart<'a>,
    near: &mut AddressStretch,
) -> Option<Attribution<'a>> {
    // Writers put 0 if they found no image.
    let object_addr = frame
        .object_addr
        .filter(|number| !number.is_imprecise())
        .and_then(|number| space.to_unsigned(number))
        .filter(|address| *address != 0);

    if part.is_metric_kit()
        && let Some(attribution) = by_reversed_offset(frame, object_addr, space)
    {
        return Some(attribution);
    }
    if part.image_source.is_none() {
        return without_list(frame, address, object_addr, part);
    }
    let innermost = space.find_image(address, near);
    let (image, join) = find_listed(frame, address, object_addr, space, innermost)?;
    let reattributed = !starts_at(object_addr, image, space) || !has_uuid(frame, image, space);
    Some(Attribution { image: Attributed::Listed(image), join, reattributed })
}

fn find_listed(
    frame: &Frame<'_>,
    address: u64,
    object_addr: Option<u64>,
    space: &Space<'_, '_>,
    innermost: Option<u32>,
) -> Option<(u32, Join)> {
    // If the frame names the innermost image, no rule prefers another.
    if let (Some(image), Some(_)) = (innermost, object_addr)
        && starts_at(object_addr, image, space)
        && frame.object_uuid.is_none_or(|own| image_uuid(image, space) == Some(own))
    {
        return Some((image, if frame.object_uuid.is_some() { Join::Uuid } else { Join::Address }));
    }
    let by_uuid = || space.listed_as(frame.object_uuid?, object_addr?, address);
    let by_start = || space.index.containing_from(object_addr?, address);
    let by_start_alone = || {
        let start = object_addr.filter(|start| *start <= address)?;
        space.index.unsized_from(start).filter(|image| has_uuid(frame, *image, space))
    };
    by_uuid()
        .map(|image| (image, Join::Uuid))
        .or_else(|| Some((by_start().or(innermost)?, Join::Address)))
        .or_else(|| Some((by_start_alone()?, Join::ObjectAddress)))
        .or_else(|| Some((space.listed_from(frame.object_uuid?, object_addr?, address)?, Join::OutsideSize)))
}

fn without_list<'a>(
    frame: &Frame<'a>,
    address: u64,
    object_addr: Option<u64>,
    part: &ReportPart<'a>,
) -> Option<Attribution<'a>> {
    let start = object_addr.filter(|start| *start <= address)?;
    let name = frame.object_name;
    let (debug_id, join) = if let Some(own) = frame.object_uuid {
        (own, Join::Unlisted)
    } else {
        let executable = part.executable.or(part.executable_path)?;
        names_image(name?, file_name(executable), executable).then_some(())?;
        (part.app_uuid?, Join::AppUuid)
    };
    let image = Attributed::Unlisted { debug_id, start, name };
    Some(Attribution { image, join, reattributed: false })
}

/// Returns the image of a frame that KSCrash's plug-in has taken from a payload of iOS 14 or 15. These write the load
/// address where the offset belongs, and the plug-in subtracts it from the address, so its `object_addr` is the offset, and
/// its list has another image for each frame.
fn by_reversed_offset<'a>(
    frame: &Frame<'a>,
    object_addr: Option<u64>,
    space: &Space<'_, 'a>,
) -> Option<Attribution<'a>> {
    let offset = object_addr.filter(|offset| *offset < FIRST_64_BIT_IMAGE)?;
    let address = frame.instruction_addr.filter(|number| !number.is_imprecise())?;
    let address = space.to_unsigned(address).filter(|address| *address >= FIRST_64_BIT_IMAGE)?;
    let image = Attributed::Unlisted {
        debug_id: frame.object_uuid?,
        start: address - offset,
        name: frame.object_name,
    };
    Some(Attribution { image, join: Join::Unlisted, reattributed: false })
}

fn image_uuid(image: u32, space: &Space<'_, '_>) -> Option<DebugId> {
    space.images.get(image as usize)?.uuid
}

/// False if the frame's debug id differs from the image's.
fn has_uuid(frame: &Frame<'_>, image: u32, space: &Space<'_, '_>) -> bool {
    frame.object_uuid.is_none_or(|own| image_uuid(image, space).is_none_or(|uuid| uuid == own))
}

/// False if the frame's `object_addr` is not the image's start.
fn starts_at(object_addr: Option<u64>, image: u32, space: &Space<'_, '_>) -> bool {
    let Some(placed) = space.placed.get(image as usize) else { return false };
    placed.imprecise || object_addr.is_none_or(|start| placed.start == Some(start))
}
