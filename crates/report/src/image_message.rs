//! What an image says of the end of its process: the text of its `__crash_info` section. Libraries write it before they
//! stop the process: Swift's fatal errors, failed assertions of C.

use crate::{Text, is_system_path};

/// Bytes of a message as the report has it: the writer reads 4,096, of which an escape makes six each.
const MOST_BYTES: usize = 6 * 4_096;
/// Libraries that say why the process stopped, in the order in which they are believed. The app's own images go before
/// them, all others after them.
const LIBRARIES: [&str; 4] =
    ["libswiftCore.dylib", "libsystem_c.dylib", "libsystem_pthread.dylib", "CoreFoundation"];
/// The beginning of a simulator's message, which describes the device and not why the process ended.
const SIMULATOR: &[u8] = b"CoreSimulator ";

/// The message of one image of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageMessage<'a> {
    rank: usize,
    pub(crate) text: Text<'a>,
}

impl<'a> ImageMessage<'a> {
    /// The message of the image with this name: the first of these texts that says something.
    pub(crate) fn of(name: Option<Text<'a>>, texts: [Option<Text<'a>>; 2]) -> Option<ImageMessage<'a>> {
        let says_something = |text: &Text<'a>| {
            let raw = text.raw();
            raw.len() <= MOST_BYTES && !raw.starts_with(SIMULATOR) && !text.decode().trim().is_empty()
        };
        let text = texts.into_iter().flatten().find(says_something)?;
        Some(ImageMessage { rank: rank(&name.map(Text::decode).unwrap_or_default()), text })
    }

    /// The one that is believed, of two the first in the list.
    pub(crate) fn believed(self, other: Option<ImageMessage<'a>>) -> ImageMessage<'a> {
        other.filter(|other| other.rank <= self.rank).unwrap_or(self)
    }
}

fn rank(path: &str) -> usize {
    let name = path.rsplit('/').next().unwrap_or_default();
    match LIBRARIES.iter().position(|library| *library == name) {
        Some(position) => position + 1,
        None if name.is_empty() || is_system_path(path) => LIBRARIES.len() + 1,
        None => 0,
    }
}
