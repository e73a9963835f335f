//! The images of a text: those of its list, and those that only its frames name.

use super::frame_line::TextFrame;
use super::image_line::TextImage;
use super::sections::TextLog;
use std::collections::{HashMap, HashSet};

/// The images before an address that are searched: ranges may overlap.
const OVERLAPPING_IMAGES: usize = 8;
/// The size of the smallest page. Images begin at a page.
const PAGE_BYTES: u64 = 4096;
/// The name of no image.
const NO_IMAGE: &str = "???";

/// The images of a text, and the image of each frame.
#[derive(Debug)]
pub struct TextImages<'l> {
    /// The images of the list, then those that only frames name.
    pub images: Vec<TextImage>,
    /// Positions of images, by their load address.
    by_start: Vec<(u64, usize)>,
    /// Positions of images without an end, by their names. `None` if several have a name.
    by_name: HashMap<String, Option<usize>>,
    log: &'l TextLog,
}

impl<'l> TextImages<'l> {
    /// Finds the images of a text. An image that the list lacks has the load address that its frames print. If they print
    /// none, it begins at the page of its lowest function, and is a guess.
    pub fn from_log(log: &'l TextLog) -> TextImages<'l> {
        let mut images =
            TextImages { images: log.images.clone(), by_start: Vec::new(), by_name: HashMap::new(), log };
        images.index();
        images.add_printed();
        images.index();
        images.add_guessed();
        images.index();
        images
    }

    fn index(&mut self) {
        self.by_start = self.images.iter().enumerate().map(|(at, image)| (image.start, at)).collect();
        self.by_start.sort_unstable();
        self.by_name.clear();
        let without_end = |(_, image): &(usize, &TextImage)| image.size == 0 && image.start > 0;
        for (at, image) in self.images.iter().enumerate().filter(without_end) {
            self.by_name.entry(image.name.clone()).and_modify(|known| *known = None).or_insert(Some(at));
        }
    }

    fn frames(&self) -> impl Iterator<Item = &'l TextFrame> {
        let threads = self.log.threads.iter().flat_map(|thread| &thread.frames);
        threads.chain(&self.log.last_exception).chain(&self.log.app_backtrace)
    }

    /// Adds the images at load addresses that frames print and the list lacks.
    fn add_printed(&mut self) {
        let is_listed = |start: u64| self.at_start(start).is_some();
        let printed = self.frames().filter_map(|frame| Some((frame.base?, frame)));
        let unlisted = printed.filter(|(base, frame)| {
            !is_listed(*base) && frame.is_in_image() && self.holder_of(frame.address).is_none()
        });
        let mut added: HashMap<u64, TextImage> = HashMap::new();
        for (base, frame) in unlisted {
            added.entry(base).or_insert_with(|| TextImage {
                start: base,
                name: frame.image.clone(),
                uuid: self.log.own_uuid_of(&frame.image),
                ..TextImage::default()
            });
        }
        self.extend_images(added);
    }

    /// Adds the images that frames name without a load address.
    fn add_guessed(&mut self) {
        let named: HashSet<&str> = self.images.iter().flat_map(TextImage::names).collect();
        let mut starts: HashMap<&str, u64> = HashMap::new();
        for frame in self.frames() {
            if !frame.is_in_image()
                || self.image_of_frame(frame).is_some()
                || named.contains(frame.image.as_str())
            {
                continue;
            }
            let function = frame.address.saturating_sub(frame.symbol_offset.unwrap_or(0));
            let start = starts.entry(&frame.image).or_insert(function);
            *start = function.min(*start);
        }
        let image = |(name, start): (&str, u64)| {
            let start = start - start % PAGE_BYTES;
            (start, TextImage { start, name: name.to_owned(), is_guess: true, ..TextImage::default() })
        };
        let added: HashMap<u64, TextImage> =
            starts.into_iter().map(image).filter(|(start, _)| *start > 0).collect();
        self.extend_images(added);
    }

    fn extend_images(&mut self, added: HashMap<u64, TextImage>) {
        let mut added: Vec<TextImage> = added.into_values().collect();
        added.sort_by_key(|image| image.start);
        self.images.extend(added);
    }

    /// Returns the position of a frame's image: the one at the load address that the frame prints, or the one that holds the
    /// address, or the only one of that name without a range.
    pub fn image_of_frame(&self, frame: &TextFrame) -> Option<usize> {
        frame
            .base
            .and_then(|base| self.at_start(base))
            .or_else(|| self.holder_of(frame.address))
            .or_else(|| self.image_named(frame))
    }

    fn at_start(&self, start: u64) -> Option<usize> {
        let at = self.by_start.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        self.by_start.get(at).map(|(_, position)| *position)
    }

    /// Returns the image that holds an address. A return address may be the first one after its image.
    fn holder_of(&self, address: u64) -> Option<usize> {
        self.image_that_holds(address).or_else(|| self.image_that_holds(address.checked_sub(1)?))
    }

    fn image_that_holds(&self, address: u64) -> Option<usize> {
        let end = self.by_start.partition_point(|(start, _)| *start <= address);
        let holds =
            |position: usize| self.images.get(position).is_some_and(|image| image.holds_address(address));
        let before = self.by_start.get(..end)?.iter().rev().take(OVERLAPPING_IMAGES);
        before.map(|(_, position)| *position).find(|position| holds(*position))
    }

    fn image_named(&self, frame: &TextFrame) -> Option<usize> {
        let position = self.by_name.get(frame.image.as_str()).copied().flatten()?;
        let image = self.images.get(position)?;
        (image.start <= frame.address).then_some(position)
    }
}

impl TextFrame {
    /// Returns true if the line names an image.
    fn is_in_image(&self) -> bool {
        !self.image.is_empty() && self.image != NO_IMAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::ReadLimits;

    fn read(text: &str) -> Vec<(String, u64, bool)> {
        let log = TextLog::read_text(text, 1, &ReadLimits::default()).unwrap();
        let images = TextImages::from_log(&log);
        images.images.into_iter().map(|image| (image.name, image.start, image.is_guess)).collect()
    }

    #[test]
    fn images_that_the_list_lacks_are_those_of_their_frames() {
        let thread = "Thread 0:\n0 Shop 0x0000000100002000 0x100000000 + 8192\n1 Shop 0x0000000100002010 main + 16\n\
                      2 Cart.framework 0x0000000180001010 add + 16\n3 Cart.framework 0x0000000180000fff add + 8\n\
                      4 ??? 0x000007ffe94a28f4 0x0 + 8795712006388\n5 ??? 0x0000000000000007 ???\n";
        let shop = ("Shop".to_owned(), 0x1_0000_0000, false);
        let cart = ("Cart.framework".to_owned(), 0x1_8000_0000, true);
        assert_eq!(read(thread), [shop.clone(), cart]);
        let listed =
            format!("{thread}\nBinary Images:\n0x180000000 - 0x18000ffff Cart.framework arm64 <> /Cart\n");
        let cart = ("Cart.framework".to_owned(), 0x1_8000_0000, false);
        assert_eq!(read(&listed), [cart, shop]);
    }

    #[test]
    fn a_frame_outside_of_the_image_that_it_names_has_none() {
        let text = "Thread 0:\n0 Shop 0x0000000200002000 main + 16\n\n\
                    Binary Images:\n0x100000000 - 0x10000ffff Shop arm64 <> /Shop\n";
        assert_eq!(read(text), [("Shop".to_owned(), 0x1_0000_0000, false)]);
    }
}
