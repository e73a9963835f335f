//! From addresses to functions: the frames of a profile as a call tree.

use super::images::ImageRanges;
use super::{Profile, ProfileFrame, ProfileImage};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use unslide_calltree::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex, SourcePlace};
use unslide_model::{CpuFamily, DebugId, Quality, RelativeAddress};
use unslide_report::Text;
use unslide_symbolicate::bulk::{AddressTable, CountedAddress, look_up};
use unslide_symbolicate::{ImageOutcome, ImageStatus, ImageSymbols};

/// A profile's call tree with the names of its functions.
#[derive(Clone, Debug)]
pub struct SymbolicatedTree {
    /// The tree. Its unit is samples.
    pub tree: CallTree,
    /// The images with frames that have no names because symbols are missing.
    pub lacking: Vec<ImageOutcome>,
    /// Addresses that have no names because there are too many.
    pub left_out: u64,
}

/// A function at an address.
pub(crate) struct NamedCall {
    pub(crate) frame: CallFrame,
    pub(crate) place: Option<SourcePlace>,
}

impl Profile {
    /// Returns the call tree. Names are those of the symbols, else the file's own, else offsets. A return
    /// address is looked up one lower. Functions of one name and image below the same caller are one node.
    #[must_use]
    pub fn symbolicate<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> SymbolicatedTree {
        let mut tree = CallTree::new("samples");
        let mut places: Vec<(NodeIndex, bool)> = Vec::with_capacity(self.frames.len());
        let mut names = AddressNames::from_frames(&self.images, &self.frames, symbols);
        for frame in &self.frames {
            let parent = frame.parent.and_then(|parent| places.get(parent as usize)).copied();
            let (mut at, mut is_cut) = parent.unwrap_or((CallTree::ROOT, false));
            if !is_cut {
                for call in names.find_calls(frame) {
                    let node = tree.find_or_add_child(at, &call.frame, call.place.as_ref());
                    // The samples of a cut function are among those of its caller.
                    is_cut = node == at;
                    if is_cut {
                        break;
                    }
                    tree.add_inclusive(node, Amount::from_samples(frame.count));
                    at = node;
                }
            }
            places.push((at, is_cut));
        }
        tree.raise_to_children();
        SymbolicatedTree { tree, left_out: names.table.left_out(), lacking: names.lacking.into_list() }
    }
}

/// The names of the frames of one profile. All addresses are looked up together.
struct AddressNames<'f, 's> {
    images: &'f [ProfileImage],
    /// For each image, whether its return addresses have the Thumb bit.
    thumb: Vec<bool>,
    symbols: &'f dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    table: AddressTable<'s>,
    /// Functions of the table, by the position of the image and the number of the name's string.
    functions: HashMap<(u32, u32, FrameOrigin), CallFrame>,
    /// Paths of the table, by the number of the string.
    files: HashMap<u32, Arc<str>>,
    lacking: LackingImages,
}

impl<'f, 's> AddressNames<'f, 's> {
    fn from_frames<F: Borrow<ProfileFrame>>(
        images: &'f [ProfileImage],
        frames: impl IntoIterator<Item = F>,
        symbols: &'f dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> AddressNames<'f, 's> {
        let mut addresses = Vec::new();
        let thumb: Vec<bool> = images.iter().map(|image| may_be_thumb(image, symbols)).collect();
        for frame in frames {
            let frame = frame.borrow();
            let Some((position, image)) = image_of(frame, images) else { continue };
            let is_thumb = thumb[position as usize];
            let offset = |address: &u64| lookup_offset(frame, image, is_thumb, *address);
            let offsets = frame.addresses.iter().filter_map(offset);
            let counted = |address| CountedAddress { image: position, address, count: frame.count };
            addresses.extend(offsets.map(counted));
        }
        let ids: Vec<Option<DebugId>> = images.iter().map(|image| image.debug_id).collect();
        AddressNames {
            images,
            thumb,
            symbols,
            table: look_up(&ids, addresses, symbols),
            functions: HashMap::new(),
            files: HashMap::new(),
            lacking: LackingImages::default(),
        }
    }

    /// Returns the functions of a frame, the outermost first: inlined functions follow their callers.
    fn find_calls(&mut self, frame: &ProfileFrame) -> Vec<NamedCall> {
        if frame.label {
            let name = frame.symbol.as_deref().unwrap_or_default();
            return vec![NamedCall { frame: CallFrame::for_label(name), place: None }];
        }
        let known = image_of(frame, self.images);
        let image = known.map(|(_, image)| image);
        let origin = frame_origin(frame, image);
        if let Some((position, image)) = known {
            let calls = self.shared_calls(frame, (position, image), origin);
            if !calls.is_empty() {
                return calls;
            }
            if frame.symbol.is_none() {
                let found = image.debug_id.and_then(|id| (self.symbols)(&id));
                self.lacking.add_image(image, found, origin);
            }
        }
        let name = image.map_or(frame.image_name.as_str(), |image| &image.name);
        let own = frame.symbol.clone().unwrap_or_else(|| format_unnamed(frame, image, name));
        let place = frame.place.clone();
        vec![NamedCall { frame: CallFrame::for_function(&own, name, origin), place }]
    }

    /// Returns the functions at the addresses of a frame. If these have different inlined functions, returns
    /// only the shared ones. Returns a line only if they agree on it.
    fn shared_calls(
        &mut self,
        frame: &ProfileFrame,
        image: (u32, &ProfileImage),
        origin: FrameOrigin,
    ) -> Vec<NamedCall> {
        let mut shared: Option<Vec<NamedCall>> = None;
        let is_thumb = self.thumb[image.0 as usize];
        for address in &frame.addresses {
            let Some(offset) = lookup_offset(frame, image.1, is_thumb, *address) else { return Vec::new() };
            let found = self.named_calls(image.0, image.1, offset, origin);
            if found.is_empty() {
                continue;
            }
            let Some(known) = &mut shared else {
                shared = Some(found);
                continue;
            };
            let same = known.iter().zip(&found).take_while(|(a, b)| a.frame == b.frame).count();
            known.truncate(same);
            for (known, found) in known.iter_mut().zip(&found) {
                known.place.take_if(|place| Some(&*place) != found.place.as_ref());
            }
        }
        shared.unwrap_or_default()
    }

    /// Returns the functions at an offset into an image, the outermost first. Returns none if no function is
    /// known.
    fn named_calls(
        &mut self,
        position: u32,
        image: &ProfileImage,
        offset: RelativeAddress,
        origin: FrameOrigin,
    ) -> Vec<NamedCall> {
        let AddressNames { table, functions, files, .. } = self;
        let Some(chain) = table.find_row(position, offset).and_then(|row| table.find_chain(&row)) else {
            return Vec::new();
        };
        let text = |number| table.find_string(number).map_or_else(|| "???".into(), Text::decode);
        let named = table.calls_of(chain).iter().rev().filter_map(|call| {
            let function = table.find_function(call)?;
            let is_named = table.find_string(function.name).is_some_and(|name| !name.is_empty());
            let name = if is_named { function.name } else { chain.symbol.unwrap_or(u32::MAX) };
            let frame = functions.entry((position, name, origin));
            let frame =
                frame.or_insert_with(|| CallFrame::for_function(&text(name), &image.name, origin)).clone();
            let place = function.file.zip(call.line).map(|(file, line)| {
                let file = files.entry(file).or_insert_with(|| text(file).into()).clone();
                SourcePlace { file, line }
            });
            Some(NamedCall { frame, place })
        });
        named.collect()
    }
}

/// Returns the image of a frame, with its position.
fn image_of<'i>(frame: &ProfileFrame, images: &'i [ProfileImage]) -> Option<(u32, &'i ProfileImage)> {
    let position = frame.image?;
    Some((position, images.get(position as usize)?))
}

/// Returns true for an image of 32-bit ARM code, by its symbols.
fn may_be_thumb<'s>(image: &ProfileImage, symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>) -> bool {
    match image.debug_id.and_then(|id| symbols(&id)) {
        Some(ImageSymbols::Found { symcache, .. }) => symcache.cpu().family() == CpuFamily::Arm,
        _ => false,
    }
}

/// Returns the offset that is looked up for an address of a frame, or `None` if the address lies before the image.
/// One byte before a return address is part of the call. The low bits of 64-bit ARM stay: Swift resumes an async
/// function at its first instruction and records that address plus one.
fn lookup_offset(
    frame: &ProfileFrame,
    image: &ProfileImage,
    is_thumb: bool,
    address: u64,
) -> Option<RelativeAddress> {
    let instruction = if is_thumb { address & !1 } else { address };
    let offset = RelativeAddress(instruction.checked_sub(image.start)?);
    Some(if frame.exact { offset } else { offset.previous_byte() })
}

/// The names of return addresses, with the images that they lie in.
pub(crate) struct FrameNames<'f, 's> {
    ranges: ImageRanges,
    names: AddressNames<'f, 's>,
}

impl<'f, 's> FrameNames<'f, 's> {
    /// Creates the names for these addresses.
    pub(crate) fn for_addresses(
        images: &'f [ProfileImage],
        addresses: impl IntoIterator<Item = u64>,
        symbols: &'f dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> FrameNames<'f, 's> {
        let ranges = ImageRanges::from_images(images, 0);
        let frames = addresses.into_iter().map(|address| return_address(&ranges, address));
        FrameNames { names: AddressNames::from_frames(images, frames, symbols), ranges }
    }

    /// Returns the functions at a return address, the outermost first; at least one.
    pub(crate) fn at_return_address(&mut self, address: u64) -> Vec<NamedCall> {
        self.names.find_calls(&return_address(&self.ranges, address))
    }

    /// Returns the number of addresses that have no names because there are too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.names.table.left_out()
    }

    /// Returns the images with frames that have no names.
    pub(crate) fn into_lacking(self) -> Vec<ImageOutcome> {
        self.names.lacking.into_list()
    }
}

fn return_address(ranges: &ImageRanges, address: u64) -> ProfileFrame {
    let image = ranges.find_image(address.saturating_sub(1));
    ProfileFrame { image, addresses: vec![address], ..ProfileFrame::default() }
}

fn frame_origin(frame: &ProfileFrame, image: Option<&ProfileImage>) -> FrameOrigin {
    match image {
        _ if frame.kernel => FrameOrigin::Kernel,
        Some(image) if image.kernel => FrameOrigin::Kernel,
        Some(image) if image.is_system() => FrameOrigin::System,
        Some(_) => FrameOrigin::App,
        None if frame.image_name.is_empty() => FrameOrigin::Unknown,
        None => {
            let start = frame.addresses.first().copied().unwrap_or(0);
            let name = frame.image_name.clone();
            let image = ProfileImage { name, start, ..ProfileImage::default() };
            if image.is_system() { FrameOrigin::System } else { FrameOrigin::Unknown }
        }
    }
}

/// Returns the name of a frame if only its address is known.
fn format_unnamed(frame: &ProfileFrame, image: Option<&ProfileImage>, name: &str) -> String {
    match (frame.addresses.first(), image) {
        (Some(address), Some(image)) => format!("{name} + {}", address.wrapping_sub(image.start)),
        (Some(address), None) => format!("{address:#x}"),
        (None, _) => "???".to_owned(),
    }
}

/// The images without symbols, by debug id and name.
#[derive(Default)]
pub(crate) struct LackingImages(BTreeMap<(Option<DebugId>, String), ImageOutcome>);

impl LackingImages {
    pub(crate) fn add_image(
        &mut self,
        image: &ProfileImage,
        found: Option<&ImageSymbols>,
        origin: FrameOrigin,
    ) {
        let is_app = origin == FrameOrigin::App;
        let status = match found {
            Some(ImageSymbols::Found { symcache, .. }) if is_app && symcache.quality() < Quality::Symtab => {
                ImageStatus::Found
            }
            Some(ImageSymbols::Found { .. }) => return,
            None | Some(ImageSymbols::Missing) => ImageStatus::Missing,
            Some(ImageSymbols::Malformed) => ImageStatus::Malformed,
            Some(ImageSymbols::Unsupported) => ImageStatus::Unsupported,
            Some(ImageSymbols::FetchingFailed) => ImageStatus::FetchingFailed,
        };
        let entry = self.0.entry((image.debug_id, image.name.clone())).or_insert_with(|| ImageOutcome {
            debug_id: image.debug_id,
            name: image.name.clone(),
            arch: None,
            status,
            slide: None,
            generation: None,
            frames: 0,
            system: !is_app,
            stripped: status == ImageStatus::Found,
            vmaddr_differs: false,
        });
        entry.frames += 1;
    }

    pub(crate) fn into_list(self) -> Vec<ImageOutcome> {
        self.0.into_values().collect()
    }
}
