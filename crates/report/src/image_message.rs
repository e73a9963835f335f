//! Messages of images about the end of their process: the text of the `__crash_info` section. Libraries write it before
//! they stop the process, such as for Swift's fatal errors and failed assertions in C.

use crate::{Text, is_system_path};

/// The maximum size of a message in the report: the writer reads 4,096 bytes, and an escape makes six of each.
const MOST_BYTES: usize = 6 * 4_096;
/// Libraries that say why the process stopped, in their order of precedence. The app's own images take precedence over
/// them, and they take precedence over all other images.
const LIBRARIES: [&str; 4] =
    ["libswiftCore.dylib", "libsystem_c.dylib", "libsystem_pthread.dylib", "CoreFoundation"];
/// The beginning of a simulator's message. It describes the device, not why the process ended.
const SIMULATOR: &[u8] = b"CoreSimulator ";

/// The message of one image in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageMessage<'a> {
    rank: usize,
    pub(crate) text: Text<'a>,
}

impl<'a> ImageMessage<'a> {
    /// Returns the message of the image with this name: the first of these texts that is useful.
    pub(crate) fn from_texts(
        name: Option<Text<'a>>,
        texts: [Option<Text<'a>>; 2],
    ) -> Option<ImageMessage<'a>> {
        let says_something = |text: &Text<'a>| {
            let raw = text.raw();
            raw.len() <= MOST_BYTES && !raw.starts_with(SIMULATOR) && !text.decode().trim().is_empty()
        };
        let text = texts.into_iter().flatten().find(says_something)?;
        Some(ImageMessage { rank: rank_image(&name.map(Text::decode).unwrap_or_default()), text })
    }

    /// Returns the message with precedence. Of two equal ones, the first in the list wins.
    pub(crate) fn choose_message(self, other: Option<ImageMessage<'a>>) -> ImageMessage<'a> {
        other.filter(|other| other.rank <= self.rank).unwrap_or(self)
    }
}

fn rank_image(path: &str) -> usize {
    let name = path.rsplit('/').next().unwrap_or_default();
    match LIBRARIES.iter().position(|library| *library == name) {
        Some(position) => position + 1,
        None if name.is_empty() || is_system_path(path) => LIBRARIES.len() + 1,
        None => 0,
    }
}
