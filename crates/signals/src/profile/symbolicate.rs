//! From addresses to functions: the frames of a profile as a call tree.

use super::images::ImageRanges;
use super::{Profile, ProfileFormat, ProfileFrame, ProfileImage};
use crate::calltree::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex, SourcePlace};
use std::collections::BTreeMap;
use unslide_model::{DebugId, RelativeAddress};
use unslide_report::Text;
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{ImageOutcome, ImageStatus, ImageSymbols};

/// A profile's call tree with the names of its functions.
#[derive(Clone, Debug)]
pub struct SymbolicatedTree {
    /// The tree. Its unit is samples.
    pub tree: CallTree,
    /// The images whose frames have no names for want of symbols.
    pub lacking: Vec<ImageOutcome>,
}

/// A function at an address.
pub(crate) struct NamedCall {
    pub(crate) frame: CallFrame,
    pub(crate) place: Option<SourcePlace>,
}

impl Profile {
    /// The call tree: names are those of the symbols, else the file's own, else offsets. A return address is
    /// looked up one lower. Functions of one name and image are one below the same caller.
    #[must_use]
    pub fn symbolicate<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> SymbolicatedTree {
        let mut tree = CallTree::new("samples");
        let mut places: Vec<(NodeIndex, bool)> = Vec::with_capacity(self.frames.len());
        let mut lacking = LackingImages::default();
        for frame in &self.frames {
            let parent = frame.parent.and_then(|parent| places.get(parent as usize)).copied();
            let (mut at, mut is_cut) = parent.unwrap_or((CallTree::ROOT, false));
            if !is_cut {
                for call in self.calls(frame, symbols, &mut lacking) {
                    let node = tree.child(at, &call.frame, call.place.as_ref());
                    // The samples of what is cut are among those of its caller.
                    is_cut = node == at;
                    if is_cut {
                        break;
                    }
                    tree.add_inclusive(node, Amount::samples(frame.count));
                    at = node;
                }
            }
            places.push((at, is_cut));
        }
        tree.settle();
        SymbolicatedTree { tree, lacking: lacking.into_list() }
    }

    /// The functions of a frame, the outermost first: those that were inlined follow their callers.
    fn calls<'s>(
        &self,
        frame: &ProfileFrame,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
        lacking: &mut LackingImages,
    ) -> Vec<NamedCall> {
        if frame.label {
            let name = frame.symbol.as_deref().unwrap_or_default();
            return vec![NamedCall { frame: CallFrame::label(name), place: None }];
        }
        let image = frame.image.and_then(|at| self.images.get(at as usize));
        let origin = origin(frame, image);
        let name = image.map_or(frame.image_name.as_str(), |image| &image.name);
        let found = image.and_then(|image| image.debug_id).and_then(|id| symbols(&id));
        if let (Some(image), Some(ImageSymbols::Found { symcache, .. })) = (image, found) {
            let calls = shared_calls(frame, image, symcache, origin);
            if !calls.is_empty() {
                return calls;
            }
        }
        if frame.symbol.is_none()
            && let Some(image) = image
        {
            lacking.add(image, found, origin);
        }
        let own = frame.symbol.clone().unwrap_or_else(|| unnamed(frame, image, name));
        let place = frame.place.clone();
        vec![NamedCall { frame: CallFrame::function(&own, name, origin), place }]
    }
}

/// The names of single addresses, with the images that they lie in.
pub(crate) struct FrameNames<'f, 's> {
    profile: Profile,
    ranges: ImageRanges,
    symbols: &'f dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    lacking: LackingImages,
}

impl<'f, 's> FrameNames<'f, 's> {
    pub(crate) fn new(
        images: &[ProfileImage],
        symbols: &'f dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> FrameNames<'f, 's> {
        let profile = Profile { images: images.to_vec(), ..Profile::new(ProfileFormat::Folded) };
        FrameNames { ranges: ImageRanges::of(images, 0), profile, symbols, lacking: LackingImages::default() }
    }

    /// The functions at a return address, the outermost first; at least one.
    pub(crate) fn at_return_address(&mut self, address: u64) -> Vec<NamedCall> {
        let image = self.ranges.find(address.saturating_sub(1));
        let frame = ProfileFrame { image, addresses: vec![address], ..ProfileFrame::default() };
        self.profile.calls(&frame, self.symbols, &mut self.lacking)
    }

    /// The images whose frames have no names.
    pub(crate) fn into_lacking(self) -> Vec<ImageOutcome> {
        self.lacking.into_list()
    }
}

fn origin(frame: &ProfileFrame, image: Option<&ProfileImage>) -> FrameOrigin {
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

/// The name of a frame of which nothing but its address is known.
fn unnamed(frame: &ProfileFrame, image: Option<&ProfileImage>, name: &str) -> String {
    match (frame.addresses.first(), image) {
        (Some(address), Some(image)) => format!("{name} + {}", address.wrapping_sub(image.start)),
        (Some(address), None) => format!("{address:#x}"),
        (None, _) => "???".to_owned(),
    }
}

/// The functions at the addresses of a frame. Where these have different inlined functions, only those that
/// they share; lines only where they agree.
fn shared_calls(
    frame: &ProfileFrame,
    image: &ProfileImage,
    symcache: &SymCache,
    origin: FrameOrigin,
) -> Vec<NamedCall> {
    let mut shared: Option<Vec<NamedCall>> = None;
    for address in &frame.addresses {
        let Some(offset) = address.checked_sub(image.start) else { return Vec::new() };
        let found = named_calls(symcache, offset, frame.exact, &image.name, origin);
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

/// The functions at an offset into an image, the outermost first; none where no function is known.
fn named_calls(
    symcache: &SymCache,
    offset: u64,
    exact: bool,
    image: &str,
    origin: FrameOrigin,
) -> Vec<NamedCall> {
    let offset = RelativeAddress(offset);
    let looked_up = if exact { offset } else { offset.before() };
    let Some(answer) = symcache.lookup(looked_up).found() else { return Vec::new() };
    let named = answer.calls().map(|call| {
        let name = match call.function.is_empty() {
            true => answer.symbol.map_or_else(|| "???".into(), Text::decode),
            false => call.function.decode(),
        };
        let place =
            call.file.zip(call.line).map(|(file, line)| SourcePlace { file: file.decode().into(), line });
        NamedCall { frame: CallFrame::function(&name, image, origin), place }
    });
    let mut calls: Vec<NamedCall> = named.collect();
    calls.reverse();
    calls
}

/// The images without symbols, by debug id and name.
#[derive(Default)]
struct LackingImages(BTreeMap<(Option<DebugId>, String), ImageOutcome>);

impl LackingImages {
    fn add(&mut self, image: &ProfileImage, found: Option<&ImageSymbols>, origin: FrameOrigin) {
        let status = match found {
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
            system: origin != FrameOrigin::App,
            vmaddr_differs: false,
        });
        entry.frames += 1;
    }

    fn into_list(self) -> Vec<ImageOutcome> {
        self.0.into_values().collect()
    }
}
