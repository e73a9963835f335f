//! The binaries of a profile, and which of them an address lies in.

use super::{MOST_IMAGES, Profile};
use std::collections::HashMap;
use unslide_calltree::FrameOrigin;
use unslide_model::DebugId;
use unslide_symbolicate::{is_system_path, lies_in_shared_cache};

/// A binary that addresses lie in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileImage {
    /// Its file name, or its bundle identifier if no path is known.
    pub name: String,
    /// Its path; empty if it is not known.
    pub path: String,
    /// Its debug id.
    pub debug_id: Option<DebugId>,
    /// Its load address.
    pub start: u64,
    /// The first address after it. `None` if it is not known.
    pub end: Option<u64>,
    /// True for the kernel and the images that it has loaded.
    pub kernel: bool,
}

impl ProfileImage {
    /// Returns true for an image of the operating system. Its path decides, or else its address.
    #[must_use]
    pub fn is_system(&self) -> bool {
        match self.path.as_str() {
            "" => lies_in_shared_cache(&self.name, self.start),
            path => is_system_path(path),
        }
    }

    /// Returns the origin of its code, if only the image tells it.
    pub(crate) fn origin(&self) -> FrameOrigin {
        if self.is_system() { FrameOrigin::System } else { FrameOrigin::App }
    }
}

/// Images by address.
pub(crate) struct ImageRanges {
    /// Start, first address after, position; by start.
    ranges: Vec<(u64, u64, u32)>,
}

impl ImageRanges {
    /// Returns the ranges of the images from position `first` on. One without an end reaches to the next.
    pub(crate) fn from_images(images: &[ProfileImage], first: usize) -> ImageRanges {
        let from = u32::try_from(first).unwrap_or(u32::MAX);
        let mut starts: Vec<(u64, Option<u64>, u32)> = (from..)
            .zip(&images[first..])
            .map(|(position, image)| (image.start, image.end, position))
            .collect();
        starts.sort_unstable();
        let next = |at: usize| starts.get(at + 1).map_or(u64::MAX, |(start, ..)| *start);
        let range = |(at, (start, end, position)): (usize, &(u64, Option<u64>, u32))| {
            (*start, end.unwrap_or_else(|| next(at)), *position)
        };
        ImageRanges { ranges: starts.iter().enumerate().map(range).collect() }
    }

    /// Returns the image that contains an address.
    pub(crate) fn find_image(&self, address: u64) -> Option<u32> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (_, end, position) = self.ranges.get(after.checked_sub(1)?)?;
        (address < *end).then_some(*position)
    }
}

impl Profile {
    /// Assigns the frames from `first_frame` on their images among those from `first_image` on. `bases` has
    /// the load addresses that frames themselves state, by position of the frame.
    pub(super) fn assign_images(&mut self, first_frame: usize, first_image: usize, bases: &[(u32, u64)]) {
        let ranges = ImageRanges::from_images(&self.images, first_image);
        for frame in self.frames.iter_mut().skip(first_frame) {
            // A return address may be the first one after its image.
            let called = |address: &u64| address.saturating_sub(u64::from(!frame.exact));
            frame.image = frame.addresses.first().map(called).and_then(|address| ranges.find_image(address));
        }
        let mut unlisted = HashMap::new();
        for (position, base) in bases {
            let Some(frame) = self.frames.get_mut(*position as usize) else { continue };
            if frame.image.is_some() || frame.image_name.is_empty() {
                continue;
            }
            let key = (frame.image_name.clone(), *base);
            frame.image = unlisted.get(&key).copied().or_else(|| {
                let image = ProfileImage {
                    name: frame.image_name.clone(),
                    // Spindump has the UUID of an image if it does not know the name.
                    debug_id: frame.image_name.trim_matches(['<', '>']).parse().ok(),
                    start: *base,
                    kernel: frame.kernel,
                    ..ProfileImage::default()
                };
                push_image(&mut self.images, image)
            });
            unlisted.extend(frame.image.map(|image| (key, image)));
        }
    }
}

fn push_image(images: &mut Vec<ProfileImage>, image: ProfileImage) -> Option<u32> {
    if images.len() >= MOST_IMAGES {
        return None;
    }
    images.push(image);
    u32::try_from(images.len() - 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(start: u64, end: Option<u64>) -> ProfileImage {
        ProfileImage { start, end, ..ProfileImage::default() }
    }

    #[test]
    fn an_image_without_an_end_reaches_to_the_next() {
        let images = [image(0x3000, None), image(0x1000, Some(0x1800)), image(0x2000, None)];
        let ranges = ImageRanges::from_images(&images, 0);
        let found =
            [0xfff, 0x1000, 0x17ff, 0x1800, 0x2fff, 0x3000, u64::MAX - 1].map(|at| ranges.find_image(at));
        assert_eq!(found, [None, Some(1), Some(1), None, Some(2), Some(0), Some(0)]);
    }

    #[test]
    fn images_without_a_path_are_the_systems_where_its_cache_lies() {
        let named = |name: &str, start| ProfileImage { name: name.to_owned(), ..image(start, None) };
        assert!(named("UIKitCore", 0x1_9000_0000).is_system() && named("dyld", 0x1_0000_0000).is_system());
        assert!(!named("Shop", 0x1_0000_0000).is_system());
    }
}
