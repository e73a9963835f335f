//! Sampled stacks of one process in a text: the column of a count shows the depth of its frame.

use crate::crash_text::{TextImage, parse_hex};
use unslide_report::{ReadError, ReadLimits};

/// Beginnings of lines that begin the section of a process.
const PROCESS_HEADS: [&str; 2] = ["Process:", "Powerstats for:"];

/// The images before an address that are searched: ranges may overlap.
const OVERLAPPING_IMAGES: usize = 8;

/// A frame and all that it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// The line in the text, from 1.
    pub line: u32,
    /// The position of its caller.
    pub caller: Option<usize>,
    /// The samples of the frame and all below it.
    pub count: u64,
    pub address: Option<u64>,
    /// The name of the image in the text.
    pub image: String,
    /// The load address of the image, by the offset in the text.
    base: Option<u64>,
}

/// The stacks and the images of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessStacks {
    pub frames: Vec<StackFrame>,
    /// The images, in the order of their load addresses.
    images: Vec<TextImage>,
}

/// Reads the section of one process.
struct StackReader<'p> {
    process: Option<&'p str>,
    stacks: ProcessStacks,
    /// True in the section of the process.
    is_wanted: bool,
    in_stacks: bool,
    in_images: bool,
    has_threads: bool,
    uuid: Option<String>,
    /// The column and the position of each open frame. Frames of the kernel have no position of their own.
    open: Vec<(usize, Option<usize>)>,
}

impl ProcessStacks {
    /// Reads the stacks of the process with this name, or else of the first one. `first_line` is the number of the first line.
    ///
    /// # Errors
    /// Returns [`ReadError::TooManyItems`] if there are too many frames and images.
    pub fn read_text(
        text: &str,
        process: Option<&str>,
        first_line: u32,
        limits: &ReadLimits,
    ) -> Result<ProcessStacks, ReadError> {
        let mut reader = StackReader {
            process,
            stacks: ProcessStacks::default(),
            is_wanted: false,
            in_stacks: false,
            in_images: false,
            has_threads: false,
            uuid: None,
            open: Vec::new(),
        };
        let mut offset = 0;
        for (number, line) in (first_line..).zip(text.split('\n')) {
            reader.read_line(line.trim_end(), number);
            if reader.stacks.frames.len() + reader.stacks.images.len() > limits.max_items {
                return Err(ReadError::TooManyItems { offset, limit: limits.max_items });
            }
            offset += line.len() + 1;
        }
        Ok(reader.finish())
    }

    /// Returns the image of a frame: the one at the load address that its offset gives, or else the one that holds it.
    pub fn image_of_frame(&self, frame: &StackFrame) -> Option<&TextImage> {
        let address = frame.address?;
        let at_start = |start: u64| {
            let at = self.images.binary_search_by_key(&start, |image| image.start).ok()?;
            self.images.get(at)
        };
        let end = self.images.partition_point(|image| image.start <= address);
        let nearest = self.images.get(..end).unwrap_or_default().iter().rev().take(OVERLAPPING_IMAGES);
        frame
            .base
            .and_then(at_start)
            .or_else(|| nearest.into_iter().find(|image| image.holds_address(address)))
    }
}

impl StackReader<'_> {
    fn read_line(&mut self, line: &str, number: u32) {
        if let Some(name) = process_name(line) {
            let is_first = self.stacks.frames.is_empty() && !self.is_wanted;
            self.is_wanted = self.process.map_or(is_first, |process| process == name);
            self.in_stacks = line.starts_with("Powerstats");
            (self.in_images, self.has_threads) = (false, false);
            self.open.clear();
            return;
        }
        if !self.is_wanted {
            return;
        }
        let trimmed = line.trim_start();
        let is_indented = trimmed.len() < line.len();
        if trimmed.starts_with("Binary Images") {
            (self.in_images, self.in_stacks) = (true, false);
        } else if let Some(uuid) = line.strip_prefix("UUID:") {
            self.uuid = Some(uuid.trim().to_owned());
        } else if is_indented && trimmed.starts_with("Thread 0x") {
            (self.in_stacks, self.in_images, self.has_threads) = (true, false, true);
            self.open.clear();
        } else if self.in_images {
            self.stacks.images.extend(TextImage::parse_line(trimmed.trim_start_matches('*')));
        } else if self.in_stacks && is_indented {
            self.read_frame(line, number);
        } else if trimmed.is_empty() {
            // A thread ends with a blank line; without threads, only the next section ends the frames.
            self.in_stacks &= !self.has_threads;
        }
    }

    fn read_frame(&mut self, line: &str, number: u32) {
        let text = line.trim_start();
        let (is_kernel, text) = text.strip_prefix('*').map_or((false, text), |rest| (true, rest));
        let column = line.len() - text.len();
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let count = text.strip_suffix(rest).and_then(|count| count.parse().ok());
        let Some(count) = count.filter(|_| rest.starts_with([' ', '\t'])) else { return };
        while self.open.last().is_some_and(|(open, _)| *open >= column) {
            self.open.pop();
        }
        let caller = self.open.iter().rev().find_map(|(_, position)| *position);
        if is_kernel {
            // Samples of the kernel's code are those of the frame that called it.
            self.open.push((column, None));
            return;
        }
        self.open.push((column, Some(self.stacks.frames.len())));
        let frame = StackFrame { line: number, caller, count, ..StackFrame::default() };
        self.stacks.frames.push(with_place(frame, rest.trim()));
    }

    /// Adds the process's own binary if the list of images lacks it and a frame has its load address.
    fn finish(mut self) -> ProcessStacks {
        let digits = |uuid: &str| uuid.replace('-', "").to_ascii_lowercase();
        let own = self.uuid.as_deref().map(digits).filter(|uuid| uuid.len() == 32);
        let is_listed = |uuid: &str| {
            self.stacks.images.iter().any(|image| image.uuid.as_deref().map(digits).as_deref() == Some(uuid))
        };
        if let Some(uuid) = own.filter(|uuid| !is_listed(uuid)) {
            let frames = self.stacks.frames.iter();
            let start = frames
                .filter(|frame| Some(frame.image.as_str()) == self.process)
                .find_map(|frame| frame.base);
            if let Some(start) = start {
                let name = self.process.unwrap_or_default().to_owned();
                self.stacks.images.push(TextImage { start, name, uuid: Some(uuid), ..TextImage::default() });
            }
        }
        self.stacks.images.sort_by_key(|image| image.start);
        self.stacks
    }
}

/// Returns the name in the first line of a process's section: `Process: Shop [451]`.
fn process_name(line: &str) -> Option<&str> {
    let rest = PROCESS_HEADS.iter().find_map(|head| line.strip_prefix(head))?;
    let name = rest.starts_with([' ', '\t']).then(|| rest.trim())?;
    Some(name.split_once(" [").map_or(name, |(name, _)| name))
}

/// Reads `symbol + offset (file:line,column in image + offset) [address] ranges`, of which all but the symbol may be missing.
fn with_place(frame: StackFrame, text: &str) -> StackFrame {
    let Some((named, listed)) = text.rsplit_once(" [0x") else { return frame };
    let digits = listed.split([']', ',']).next().unwrap_or_default();
    let address = parse_hex(&format!("0x{digits}"));
    let inside = named.trim_end().strip_suffix(')').and_then(|named| Some(named.rsplit_once(" (")?.1));
    let image = inside.map(|inside| inside.rsplit_once(" in ").map_or(inside, |(_, image)| image));
    let (image, offset) = match image.and_then(|image| image.rsplit_once(" + ")) {
        Some((image, offset)) => (image, offset.trim().parse::<u64>().ok()),
        None => (image.unwrap_or_default(), None),
    };
    let base = address.zip(offset).and_then(|(address, offset)| address.checked_sub(offset));
    StackFrame { address, image: image.to_owned(), base, ..frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_every_form() {
        let read = |text: &str| {
            let frame = with_place(StackFrame::default(), text);
            (frame.image, frame.address, frame.base)
        };
        let found = |image: &str, address, base| (image.to_owned(), Some(address), base);
        assert_eq!(
            read("main + 40 (Shop + 16424) [0x104a04028] 1-8"),
            found("Shop", 0x1_04a0_4028, Some(0x1_04a0_0000))
        );
        assert_eq!(
            read("main + 40 (main.cpp:12,3 in Shop + 16424) [0x104a04028]"),
            found("Shop", 0x1_04a0_4028, Some(0x1_04a0_0000))
        );
        assert_eq!(read("??? (libA (B).dylib + 8) [0x18a40e9a0]").1, Some(0x1_8a40_e9a0));
        assert_eq!(read("??? [0x7]"), found("", 7, None));
        assert_eq!(read("no address"), (String::new(), None, None));
    }

    #[test]
    fn frames_of_powerstats_stand_below_the_process() {
        let text = "Powerstats for:   Shop [49]\nUUID:             A1B2C3D4-0000-3111-8222-0123456789AB\n\n  \
                    39  ??? (libsystem_pthread.dylib + 12) [0x18a44ad34]\n    39  ??? (Shop + 20992) [0x104a05200]\n";
        let stacks = ProcessStacks::read_text(text, Some("Shop"), 1, &ReadLimits::default()).unwrap();
        let callers: Vec<Option<usize>> = stacks.frames.iter().map(|frame| frame.caller).collect();
        assert_eq!(callers, [None, Some(0)]);
        let own = stacks.image_of_frame(&stacks.frames[1]).unwrap();
        assert!(own.start == 0x1_04a0_0000 && own.uuid.is_some(), "{own:?}");
    }
}
