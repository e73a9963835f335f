//! The symbols that a run lacked, for people.

use crate::output::note;
use std::collections::BTreeMap;
use unslide_symbolicate::ImageOutcome;

/// Images that are named; the others are counted.
const MOST_NAMED: usize = 50;

/// The images without symbols that answered, over all reports.
#[derive(Default)]
pub struct Lacking {
    /// Frames by name, debug id and what is wrong with the symbols.
    app: BTreeMap<(String, String, &'static str), u64>,
    system_frames: u64,
}

impl Lacking {
    pub fn add(&mut self, images: Vec<ImageOutcome>) {
        for image in images {
            if image.system {
                self.system_frames += image.frames;
                continue;
            }
            let id = image.debug_id.map_or_else(|| "without a UUID".to_owned(), |id| id.to_string());
            let why = if image.stripped { "stripped" } else { image.status.as_str() };
            *self.app.entry((image.name, id, why)).or_default() += image.frames;
        }
    }

    /// True where nothing of an app is lacking. The system's own symbols few have: the device names its
    /// functions.
    pub fn is_empty(&self) -> bool {
        self.app.is_empty()
    }

    /// Says how many frames lack symbols, and which.
    pub fn tell(&self) {
        if !self.app.is_empty() {
            let frames: u64 = self.app.values().sum();
            note!(
                "{frames} frames of the app lack symbols; --symbols takes the dSYMs or source maps with these ids:"
            );
            for ((name, id, status), frames) in self.app.iter().take(MOST_NAMED) {
                let name = if name.is_empty() { "an image without a name" } else { name };
                note!("  {name} {id}: {frames} frames ({status})");
            }
            if self.app.len() > MOST_NAMED {
                note!("  and {} more images", self.app.len() - MOST_NAMED);
            }
        }
        if self.system_frames > 0 {
            note!(
                "{} frames in images of the operating system have the device's names at best",
                self.system_frames
            );
        }
    }
}
