//! Which image a frame's address belongs to.
//!
//! The address decides. What the frame itself says of its image is believed only where the address
//! does not contradict it, since writers name the wrong image now and then.

use crate::space::Space;
use crate::system::names_image;
use unslide_model::DebugId;
use unslide_report::{Frame, Part, Text};

/// How an image was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Join {
    /// It is listed with the frame's own `object_uuid` and `object_addr`.
    Uuid,
    /// It contains the address.
    Address,
    /// Its size is not known, and it starts at the frame's `object_addr`.
    ObjectAddress,
    /// The part has no image list; the frame's own `object_uuid` and `object_addr` are all there is.
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
    /// True where the frame names another image.
    pub(crate) reattributed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributed<'a> {
    /// At this position in the image list.
    Listed(u32),
    /// In no list.
    Unlisted { debug_id: DebugId, start: u64, name: Option<Text<'a>> },
}

/// The image of `address`, which is the one that is looked up. `None` is `unknown_image`.
pub(crate) fn attribute<'a>(
    frame: &Frame<'a>,
    address: u64,
    space: &Space<'_, 'a>,
    part: &Part<'a>,
) -> Option<Attribution<'a>> {
    // 0 is what writers put where they found no image.
    let object_addr = frame
        .object_addr
        .filter(|number| !number.is_imprecise())
        .and_then(|number| space.unsigned(number))
        .filter(|address| *address != 0);

    if part.image_source.is_none() {
        return without_list(frame, address, object_addr, part);
    }
    let (image, join) = listed(frame, address, object_addr, space)?;
    let attribution = Attribution {
        image: Attributed::Listed(image),
        join,
        reattributed: disagrees(frame, object_addr, image, space),
    };
    Some(attribution)
}

fn listed(
    frame: &Frame<'_>,
    address: u64,
    object_addr: Option<u64>,
    space: &Space<'_, '_>,
) -> Option<(u32, Join)> {
    let by_uuid = || space.listed_as(frame.object_uuid?, object_addr?, address);
    let by_start = || space.index.containing_from(object_addr?, address);
    let by_start_alone = || {
        let start = object_addr.filter(|start| *start <= address)?;
        let image = space.index.unsized_from(start)?;
        let listed = space.images.get(image as usize)?;
        let another =
            frame.object_uuid.is_some() && listed.uuid.is_some() && frame.object_uuid != listed.uuid;
        (!another).then_some(image)
    };
    by_uuid()
        .map(|image| (image, Join::Uuid))
        .or_else(|| Some((by_start().or_else(|| space.index.at(address))?, Join::Address)))
        .or_else(|| Some((by_start_alone()?, Join::ObjectAddress)))
}

fn without_list<'a>(
    frame: &Frame<'a>,
    address: u64,
    object_addr: Option<u64>,
    part: &Part<'a>,
) -> Option<Attribution<'a>> {
    let start = object_addr.filter(|start| *start <= address)?;
    let name = frame.object_name;
    let (debug_id, join) = if let Some(own) = frame.object_uuid {
        (own, Join::Unlisted)
    } else {
        let executable = part.executable.or(part.executable_path)?;
        names_image(name?, executable).then_some(())?;
        (part.app_uuid?, Join::AppUuid)
    };
    let image = Attributed::Unlisted { debug_id, start, name };
    Some(Attribution { image, join, reattributed: false })
}

/// True where what the frame says of its image is not true of `image`.
fn disagrees(frame: &Frame<'_>, object_addr: Option<u64>, image: u32, space: &Space<'_, '_>) -> bool {
    let (Some(listed), Some(placed)) = (space.images.get(image as usize), space.placed.get(image as usize))
    else {
        return false;
    };
    let other_start = object_addr.is_some_and(|a| !placed.imprecise && placed.start != Some(a));
    let other_uuid = frame.object_uuid.is_some_and(|own| listed.uuid.is_some_and(|uuid| uuid != own));
    let other_name = || frame.object_name.zip(listed.name).is_some_and(|(own, path)| !names_image(own, path));
    other_start || other_uuid || other_name()
}
