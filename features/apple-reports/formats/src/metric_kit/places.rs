//! Places of frames: each image's load address, by the frames in it.

use crate::json::JsonBuilder;
use std::collections::HashMap;
use unslide_report::load_address;

/// The first load address that is made up for an image without one, and the distance between two.
const MADE_UP_BASE: u64 = 1 << 40;
const MADE_UP_DISTANCE: u64 = 1 << 34;

/// A frame of a diagnostic, as far as its place depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FramePlace {
    /// The debug id as text, in lower case.
    pub uuid: Option<String>,
    pub name: Option<String>,
    pub address: Option<u64>,
    /// `offsetIntoBinaryTextSegment`: an offset, or a load address.
    pub field: Option<u64>,
}

/// An image that frames lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedImage {
    pub uuid: String,
    pub name: Option<String>,
    pub base: u64,
    /// True if no frame tells the load address, so that `base` is none of the device's.
    pub is_made_up: bool,
}

/// The images of a diagnostic.
#[derive(Debug, Default)]
pub struct PlacedImages {
    pub images: Vec<PlacedImage>,
    by_uuid: HashMap<String, usize>,
}

/// The address of a frame, and the load address of its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameAddress {
    pub address: Option<u64>,
    pub base: Option<u64>,
    /// True if the address is none of the device's: only its offset in the image is known.
    pub is_made_up: bool,
}

impl PlacedImages {
    /// Finds the images of frames. The load address of an image is the one on which most of its frames agree.
    pub fn from_frames(frames: &[FramePlace]) -> PlacedImages {
        let mut votes: HashMap<&str, HashMap<u64, usize>> = HashMap::new();
        let mut found = PlacedImages::default();
        for frame in frames {
            let Some(uuid) = frame.uuid.as_deref() else { continue };
            if !found.by_uuid.contains_key(uuid) {
                found.by_uuid.insert(uuid.to_owned(), found.images.len());
                found.images.push(PlacedImage {
                    uuid: uuid.to_owned(),
                    name: None,
                    base: 0,
                    is_made_up: false,
                });
            }
            if let Some(image) = found.by_uuid.get(uuid).and_then(|at| found.images.get_mut(*at)) {
                image.name = image.name.take().or_else(|| frame.name.clone());
            }
            if let Some(base) =
                frame.address.zip(frame.field).and_then(|(address, field)| load_address(address, field))
            {
                *votes.entry(uuid).or_default().entry(base).or_default() += 1;
            }
        }
        for (at, image) in found.images.iter_mut().enumerate() {
            let votes = votes.get(image.uuid.as_str());
            let best = votes.and_then(|votes| {
                votes.iter().max_by_key(|(base, count)| (**count, std::cmp::Reverse(**base)))
            });
            image.is_made_up = best.is_none();
            image.base = best.map_or(MADE_UP_BASE + at as u64 * MADE_UP_DISTANCE, |(base, _)| *base);
        }
        found
    }

    /// Returns the address of a frame. A frame without an address has the one that its offset gives.
    pub fn locate_frame(&self, frame: &FramePlace) -> FrameAddress {
        let image = frame.uuid.as_deref().and_then(|uuid| self.images.get(*self.by_uuid.get(uuid)?));
        let base = image.map(|image| image.base);
        let is_made_up = image.is_some_and(|image| image.is_made_up) && frame.address.is_none();
        match (frame.address, frame.field, base) {
            // An address below its image has none.
            (Some(address), _, Some(base)) if address < base => {
                FrameAddress { address: Some(address), base: None, is_made_up }
            }
            (Some(address), ..) => FrameAddress { address: Some(address), base, is_made_up },
            (None, Some(field), Some(base)) => {
                FrameAddress { address: base.checked_add(field), base: Some(base), is_made_up }
            }
            (None, ..) => FrameAddress::default(),
        }
    }
}

impl PlacedImages {
    /// Writes the member `binary_images`.
    pub fn write_images(&self, json: &mut JsonBuilder) {
        json.array("binary_images", |json| {
            for image in &self.images {
                json.item(|json| {
                    json.number("image_addr", image.base);
                    json.string("uuid", &image.uuid);
                    json.some_string("name", image.name.as_deref());
                });
            }
        });
    }

    /// Writes a frame of a backtrace, with the answer of an earlier enrichment.
    pub fn write_frame(&self, place: &FramePlace, answer: Option<&[u8]>, json: &mut JsonBuilder) {
        let found = self.locate_frame(place);
        json.item(|json| {
            found.write_address("instruction_addr", json);
            if let Some(base) = found.base {
                json.number("object_addr", base);
                json.some_string("object_uuid", place.uuid.as_deref());
            }
            json.some_string("object_name", place.name.as_deref());
            if let Some(answer) = answer {
                json.value("symbolication", answer);
            }
        });
    }
}

impl FrameAddress {
    /// Writes the address. The answer to one that is made up is marked as approximate.
    pub fn write_address(&self, key: &str, json: &mut JsonBuilder) {
        match self.address {
            Some(address) if self.is_made_up => json.imprecise_number(key, address),
            Some(address) => json.number(key, address),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(address: Option<u64>, field: u64) -> FramePlace {
        FramePlace { uuid: Some("a".to_owned()), name: None, address, field: Some(field) }
    }

    #[test]
    fn the_field_is_an_offset_or_the_load_address() {
        let base = 0x1_0000_0000;
        for frames in [
            [frame(Some(base + 500), 500), frame(Some(base + 8192), 8192)],
            [frame(Some(base + 500), base), frame(Some(base + 8192), base)],
        ] {
            let images = PlacedImages::from_frames(&frames);
            assert_eq!(images.images[0].base, base);
            assert_eq!(
                images.locate_frame(&frames[1]),
                FrameAddress { address: Some(base + 8192), base: Some(base), is_made_up: false }
            );
        }
    }

    #[test]
    fn a_frame_without_an_address_keeps_its_offset() {
        let frames = [frame(None, 500)];
        let images = PlacedImages::from_frames(&frames);
        let place = images.locate_frame(&frames[0]);
        assert_eq!(place.address.unwrap() - place.base.unwrap(), 500);
        assert!(place.is_made_up);
        // Another frame tells where the image is.
        let frames = [frame(None, 500), frame(Some(0x1_0000_0800), 0x800)];
        let place = PlacedImages::from_frames(&frames).locate_frame(&frames[0]);
        assert_eq!((place.address, place.is_made_up), (Some(0x1_0000_01f4), false));
        assert_eq!(images.locate_frame(&FramePlace::default()), FrameAddress::default());
    }
}
