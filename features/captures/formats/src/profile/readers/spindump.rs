//! The text of spindump, and of the reports of hangs, CPU use and disk writes that look like it: a section for
//! each process with its threads, their frames and the process's images.

use super::image_line::image_line;
use super::{OpenFrames, address_list, leading_count};
use crate::profile::{MOST_IMAGES, Profile, ProfileFormat, ProfileFrame, ProfileImage, parse_hex};
use unslide_calltree::SourcePlace;
use unslide_model::{DebugId, SymbolName};

/// Lines that begin the section of a process.
const PROCESS_HEADS: [&str; 2] = ["Process:", "Powerstats for:"];

/// Returns the text after the head of a process's section. `Process::run` is a function.
pub(super) fn process_head(line: &str) -> Option<&str> {
    let rest = PROCESS_HEADS.iter().find_map(|head| line.strip_prefix(head))?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

pub(super) fn read_spindump(text: &str) -> Profile {
    let mut reader = Reader::new();
    for line in text.lines() {
        reader.read_line(line);
    }
    reader.end_process();
    reader.profile
}

struct Reader {
    profile: Profile,
    /// The name, the debug id and the label of the process.
    name: String,
    debug_id: Option<DebugId>,
    label: Option<u32>,
    open: OpenFrames,
    /// True if indented counts are frames: not in the summary of the heaviest stack.
    in_stacks: bool,
    in_images: bool,
    first_frame: usize,
    first_image: usize,
    bases: Vec<(u32, u64)>,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            profile: Profile::new(ProfileFormat::Spindump),
            name: String::new(),
            debug_id: None,
            label: None,
            open: OpenFrames::default(),
            in_stacks: false,
            in_images: false,
            first_frame: 0,
            first_image: 0,
            bases: Vec::new(),
        }
    }

    fn read_line(&mut self, line: &str) {
        if let Some(name) = process_head(line) {
            self.end_process();
            return self.begin_process(name, line.starts_with("Powerstats"));
        }
        let trimmed = line.trim();
        if let Some(uuid) = line.strip_prefix("UUID:") {
            self.debug_id = uuid.trim().parse().ok();
        } else if trimmed.starts_with("Binary Images") {
            (self.in_images, self.in_stacks) = (true, false);
        } else if trimmed.starts_with("Thread 0x") && line.starts_with([' ', '\t']) {
            self.begin_thread(trimmed);
        } else if self.in_images {
            self.read_image(line);
        } else if self.in_stacks && line.starts_with([' ', '\t']) && !trimmed.is_empty() {
            self.read_frame(line);
        } else if trimmed.is_empty() {
            // A thread ends with a blank line; without threads, only the next section ends the frames.
            self.in_stacks &= self.is_without_threads();
        }
    }

    /// Returns true for a section with frames directly below the process itself.
    fn is_without_threads(&self) -> bool {
        self.profile.frames.len() <= self.first_frame + 1
    }

    fn begin_process(&mut self, name: &str, has_frames: bool) {
        name.rsplit_once(" [").map_or(name, |(name, _)| name).clone_into(&mut self.name);
        let symbol = Some(name.to_owned());
        self.label = self.profile.push(ProfileFrame { label: true, symbol, ..ProfileFrame::default() });
        self.in_stacks = has_frames;
        self.open_below(self.label, 0);
    }

    /// Begins a stack: `label` calls its outermost frames.
    fn open_below(&mut self, label: Option<u32>, column: usize) {
        self.open.clear();
        if let Some(label) = label {
            self.open.open_frame(column, label);
        }
    }

    fn begin_thread(&mut self, text: &str) {
        let mut parts = text.split("    ").map(str::trim).filter(|part| !part.is_empty());
        let mut named = Vec::new();
        let count = parts.by_ref().find_map(|part| {
            let count = sample_count(part);
            if count.is_none() {
                named.push(part);
            }
            count
        });
        let symbol = Some(named.join(" "));
        let frame = ProfileFrame {
            parent: self.label,
            count: count.unwrap_or(0),
            label: true,
            symbol,
            ..ProfileFrame::default()
        };
        let label = self.profile.push(frame);
        (self.in_stacks, self.in_images) = (true, false);
        self.open_below(label, 0);
    }

    fn read_image(&mut self, line: &str) {
        match image_line(line) {
            Some(_) if self.profile.images.len() >= MOST_IMAGES => self.profile.skipped += 1,
            Some(image) => self.profile.images.push(image),
            None if line.trim().is_empty() => self.in_images = false,
            None => self.profile.skipped += 1,
        }
    }

    fn read_frame(&mut self, line: &str) {
        let counted = line.trim_start();
        let (kernel, counted) = counted.strip_prefix('*').map_or((false, counted), |rest| (true, rest));
        let Some((count, rest)) = leading_count(counted).filter(|(_, rest)| rest.starts_with([' ', '\t']))
        else {
            self.profile.skipped += 1;
            return;
        };
        let column = line.len() - counted.len();
        let (mut frame, base) = parse_frame(rest.trim());
        (frame.parent, frame.count, frame.kernel) = (self.open.caller_at(column), count, kernel);
        if let Some(position) = self.profile.push(frame) {
            self.open.open_frame(column, position);
            self.bases.extend(base.map(|base| (position, base)));
        }
    }

    /// Assigns the frames of the process their images.
    fn end_process(&mut self) {
        self.list_own_image();
        self.profile.mark_leaves(self.first_frame);
        self.profile.assign_images(self.first_frame, self.first_image, &self.bases);
        (self.first_frame, self.first_image) = (self.profile.frames.len(), self.profile.images.len());
        self.bases.clear();
        (self.in_stacks, self.in_images, self.debug_id) = (false, false, None);
    }

    /// Adds the process's own binary if the list of images lacks it and a frame has its address.
    fn list_own_image(&mut self) {
        let Some(debug_id) = self.debug_id else { return };
        let images = &self.profile.images[self.first_image..];
        if images.iter().any(|image| image.debug_id == Some(debug_id)) {
            return;
        }
        let own = |(at, _): &&(u32, u64)| {
            self.profile.frames.get(*at as usize).is_some_and(|frame| frame.image_name == self.name)
        };
        if let Some((_, start)) = self.bases.iter().find(own) {
            self.profile.images.push(ProfileImage {
                name: self.name.clone(),
                debug_id: Some(debug_id),
                start: *start,
                ..ProfileImage::default()
            });
        }
    }
}

/// Returns the count of `N samples`, with or without a range after it.
fn sample_count(part: &str) -> Option<u64> {
    let (count, rest) = leading_count(part)?;
    rest.starts_with(" sample").then_some(count)
}

/// Reads `symbol + offset (file:line,column in image + offset) [address] ranges`, of which all but the symbol
/// may be missing. Returns the frame and the load address that it states.
fn parse_frame(text: &str) -> (ProfileFrame, Option<u64>) {
    let mut frame = ProfileFrame::default();
    let (named, listed) = match text.rsplit_once(" [0x") {
        Some((named, _)) => (named, text.get(named.len() + " [".len()..).unwrap_or_default()),
        None => (text, ""),
    };
    frame.addresses = address_list(listed.split(']').next().unwrap_or_default());
    let mut base = None;
    let named = match parenthesis_at_end(named) {
        Some((before, inside)) => {
            let (place, image) = inside.rsplit_once(" in ").unwrap_or(("", inside));
            let (image, offset) = with_offset(image);
            image.clone_into(&mut frame.image_name);
            frame.place = source_place(place);
            base =
                frame.addresses.first().zip(offset).and_then(|(address, offset)| address.checked_sub(offset));
            before
        }
        None => named,
    };
    let (symbol, _) = with_offset(named.trim());
    frame.symbol =
        Some(symbol).filter(|symbol| SymbolName::is_function(symbol.as_bytes())).map(str::to_owned);
    (frame, base)
}

/// Returns the text before the last pair of parentheses and the text in it, if the text ends with one.
fn parenthesis_at_end(text: &str) -> Option<(&str, &str)> {
    let inside = text.trim_end().strip_suffix(')')?;
    let mut depth = 1;
    for (at, c) in inside.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (before, bracket) = inside.split_at_checked(at)?;
            return Some((before, bracket.strip_prefix('(')?)).filter(|(before, _)| before.ends_with(' '));
        }
    }
    None
}

/// Splits `name + offset`.
fn with_offset(text: &str) -> (&str, Option<u64>) {
    let split = text.rsplit_once(" + ");
    let offset = split.and_then(|(name, offset)| {
        let offset = offset.trim();
        Some((name, offset.parse().ok().or_else(|| parse_hex(offset))?))
    });
    offset.map_or((text, None), |(name, offset)| (name.trim_end(), Some(offset)))
}

/// Reads `file:line`, perhaps with `,column` or `:column`.
fn source_place(text: &str) -> Option<SourcePlace> {
    let (file, position) = text.trim().split_once(':')?;
    let line = position.split([',', ':']).next()?.trim().parse().ok().filter(|line| *line > 0)?;
    (!file.is_empty()).then(|| SourcePlace { file: file.into(), line })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Date/Time:        2026-03-02 10:11:12.013 +0900
Data Source:      Stackshots
Steps:            11 (10ms sampling interval)

Heaviest stack for the target process:
  11  start + 2544 (dyld + 24144) [0x19a0ffe50]

Process:          Shop [451]
UUID:             A1B2C3D4-0000-3111-8222-0123456789AB
Path:             /Applications/Shop.app/Contents/MacOS/Shop
Num samples:      11 (1-11)

  Thread 0x3e8    DispatchQueue \"com.apple.main-thread\"(1)    11 samples (1-11)    priority 46 (base 46)    cpu time 0.010s
  11  start + 2544 (dyld + 24144) [0x19a0ffe50]
    11  main + 40 (main.cpp:12,3 in Shop + 16424) [0x104a04028]
      8  operator+(int, int) + 112 (Shop + 16752) [0x104a04170] 1-8
       *8  ipc_mqueue_receive_continue + 0 (kernel + 123) [0xffffff800020007b] (blocked by turnstile) 1-8
      3  ??? (Shop + 20992) [0x104a05200] (running) 9-11

  Thread 0x3e9    4 samples (1-4)    priority 4 (base 4)
  4  ??? [0x7]

  Binary Images:
           0x104a00000 -        0x104a0ffff  Shop (4.2.0) <A1B2C3D4-0000-3111-8222-0123456789AB>  /Applications/Shop.app/Contents/MacOS/Shop
  *0xffffff8000200000 -                ???  kernel (20.1)  <B1B2C3D4-0000-3111-8222-0123456789AB>  /System/Library/Kernels/kernel

Process:          other [9] (suspended)
Num samples:      2

  Thread 0x4f0    2 samples (1-2)
  2  main + 1 (Shop + 1) [0x104a00001]
";

    #[test]
    fn processes_threads_and_frames_stand_below_one_another() {
        let profile = read_spindump(TEXT);
        let parents: Vec<Option<u32>> = profile.frames.iter().map(|frame| frame.parent).collect();
        let shop = [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(3), Some(0), Some(7)];
        assert_eq!(parents, [&shop[..], &[None, Some(9), Some(10)]].concat());
        let symbols: Vec<&str> = profile.frames.iter().filter_map(|frame| frame.symbol.as_deref()).collect();
        assert_eq!(symbols[0], "Shop [451]");
        assert_eq!(symbols[1], "Thread 0x3e8 DispatchQueue \"com.apple.main-thread\"(1)");
        assert_eq!(symbols[4..6], ["operator+(int, int)", "ipc_mqueue_receive_continue"]);
        assert_eq!(profile.frames[1].count, 11);
        assert_eq!(profile.skipped, 0);
    }

    #[test]
    fn each_process_has_its_own_images() {
        let profile = read_spindump(TEXT);
        let named =
            |frame: usize| profile.frames[frame].image.map(|at| profile.images[at as usize].name.as_str());
        assert_eq!((named(3), named(5), named(6)), (Some("Shop"), Some("kernel"), Some("Shop")));
        let other = profile.frames[11].image.unwrap() as usize;
        assert_eq!((profile.images[other].start, profile.images[other].debug_id), (0x1_04a0_0000, None));
        assert!(profile.frames[5].kernel && profile.frames[5].exact && !profile.frames[4].exact);
        assert_eq!(profile.frames[3].place, Some(SourcePlace { file: "main.cpp".into(), line: 12 }));
    }

    #[test]
    fn a_damaged_image_costs_no_other() {
        let damaged = read_spindump(&TEXT.replace("0x104a00000 -        0x104a0ffff  Shop", "0x104a0"));
        let kernel = damaged.frames[5].image.unwrap() as usize;
        assert_eq!((damaged.images[kernel].name.as_str(), damaged.skipped), ("kernel", 1));
    }

    #[test]
    fn frames_of_powerstats_stand_below_the_process() {
        let text = "Heaviest stack for the target process:\n  30  ??? (A + 1) [0x1]\n\n\
                    Powerstats for:   Shop [49]\n\
                    UUID:             A1B2C3D4-0000-3111-8222-0123456789AB\n\
                    Num samples:      39 (58%)\n\
                    \n  39  ??? (libsystem_pthread.dylib + 12) [0x18a44ad34]\n    \
                    39  ??? (Shop + 20992) [0x104a05200]\n";
        let profile = read_spindump(text);
        let parents: Vec<Option<u32>> = profile.frames.iter().map(|frame| frame.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1)]);
        let own = &profile.images[profile.frames[2].image.unwrap() as usize];
        assert!(own.name == "Shop" && own.debug_id.is_some() && own.start == 0x1_04a0_0000, "{own:?}");
    }
}
