//! MetricKit's JSON: a payload of diagnostics, one diagnostic, or a call stack tree alone.

use super::json::{Token, Tokens, parse_unsigned};
use crate::profile::{Profile, ProfileError, ProfileFormat};
use stacks::{Direction, RawFrame, append_stacks};
use unslide_model::DebugId;
use unslide_report::DiagnosticKind;

mod stacks;

/// The most frames of a file; each is a JSON object.
const MOST_RAW_FRAMES: usize = 1 << 18;

pub(super) fn read_document(text: &str) -> Result<Profile, ProfileError> {
    let tokens = Tokens::new(text).map_err(|error| ProfileError::Json(error.to_string()))?;
    let mut reader = Reader::default();
    for token in tokens {
        reader.handle_token(token);
    }
    Ok(reader.into_profile())
}

/// An element of the document that is open.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Open {
    /// A payload, a diagnostic or a tree: they have no keys in common.
    Document {
        diagnostic: bool,
    },
    /// The diagnostics of one kind.
    Diagnostics,
    MetaData,
    CallStacks,
    CallStack,
    /// The frames that one frame calls, or those at the root.
    Frames(Option<u32>),
    Frame(Option<u32>),
    Other,
}

/// A call stack tree while it is read.
#[derive(Default)]
struct Tree {
    /// The kind of the diagnostic, such as `hang 20 sec`.
    kind: String,
    measured: String,
    per_thread: bool,
    /// The frames of each stack, and whether its thread is the one that the diagnostic is about.
    stacks: Vec<(bool, Vec<RawFrame>)>,
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    key: String,
    kind: String,
    tree: Tree,
    trees: Vec<Tree>,
    frames: usize,
    skipped: u64,
}

impl Reader {
    fn handle_token(&mut self, token: Token<'_>) {
        match token {
            Token::Object => self.open_object(),
            Token::Array => self.open_array(),
            Token::End => self.end_container(),
            Token::Key(key) => key.into_owned().clone_into(&mut self.key),
            Token::Text(text) => self.handle_text(&text),
            Token::Number(number) => self.handle_number(number),
            Token::Bool(value) => self.handle_boolean(value),
            Token::Null => {}
        }
    }

    fn open_object(&mut self) {
        let open = match (self.open.last(), self.key.as_str()) {
            (None, _) => Open::Document { diagnostic: true },
            (Some(Open::Diagnostics), _) => Open::Document { diagnostic: true },
            (Some(Open::Document { .. }), "callStackTree") => Open::Document { diagnostic: false },
            (Some(Open::Document { .. }), "diagnosticMetaData") => Open::MetaData,
            (Some(Open::CallStacks), _) => {
                self.tree.stacks.push((false, Vec::new()));
                Open::CallStack
            }
            (Some(Open::Frames(caller)), _) => Open::Frame(self.add_frame(*caller)),
            _ => Open::Other,
        };
        self.open.push(open);
        self.key.clear();
    }

    fn open_array(&mut self) {
        let open = match (self.open.last(), self.key.as_str()) {
            // Several payloads.
            (None, _) => Open::Diagnostics,
            (Some(Open::Document { .. }), "callStacks") => Open::CallStacks,
            (Some(Open::Document { .. }), key) if key.ends_with("Diagnostics") => {
                key.trim_end_matches("Diagnostics").clone_into(&mut self.kind);
                Open::Diagnostics
            }
            (Some(Open::CallStack), "callStackRootFrames") => Open::Frames(None),
            (Some(Open::Frame(Some(frame))), "subFrames") => Open::Frames(Some(*frame)),
            _ => Open::Other,
        };
        self.open.push(open);
        self.key.clear();
    }

    fn end_container(&mut self) {
        if self.open.pop() == Some(Open::Document { diagnostic: true }) {
            let tree = std::mem::take(&mut self.tree);
            if !tree.stacks.is_empty() {
                self.trees.push(Tree { kind: self.kind.clone(), ..tree });
            }
        }
        self.key.clear();
    }

    /// Adds a frame to the current stack.
    fn add_frame(&mut self, caller: Option<u32>) -> Option<u32> {
        self.frames += 1;
        if self.frames > MOST_RAW_FRAMES {
            self.skipped += 1;
            return None;
        }
        let (_, frames) = self.tree.stacks.last_mut()?;
        frames.push(RawFrame { above: caller, ..RawFrame::default() });
        u32::try_from(frames.len() - 1).ok()
    }

    /// Returns the frame that is open.
    fn current_frame(&mut self) -> Option<&mut RawFrame> {
        let Some(Open::Frame(Some(frame))) = self.open.last() else { return None };
        self.tree.stacks.last_mut()?.1.get_mut(*frame as usize)
    }

    fn handle_text(&mut self, text: &str) {
        if self.open.last() == Some(&Open::MetaData) && DiagnosticKind::from_measure_key(&self.key).is_some()
        {
            text.clone_into(&mut self.tree.measured);
        }
        let key = std::mem::take(&mut self.key);
        if let Some(frame) = self.current_frame() {
            match key.as_str() {
                "binaryName" => text.clone_into(&mut frame.name),
                "binaryUUID" => frame.debug_id = text.parse::<DebugId>().ok(),
                _ => {}
            }
        }
    }

    fn handle_number(&mut self, number: &str) {
        let key = std::mem::take(&mut self.key);
        if let Some(frame) = self.current_frame() {
            match key.as_str() {
                "address" => frame.address = parse_unsigned(number),
                "offsetIntoBinaryTextSegment" => frame.offset = parse_unsigned(number),
                "sampleCount" => frame.count = parse_unsigned(number),
                _ => {}
            }
        }
    }

    fn handle_boolean(&mut self, value: bool) {
        match (self.open.last(), self.key.as_str()) {
            (Some(Open::Document { .. }), "callStackPerThread") => self.tree.per_thread = value,
            (Some(Open::CallStack), "threadAttributed") => {
                if let Some((attributed, _)) = self.tree.stacks.last_mut() {
                    *attributed = value;
                }
            }
            _ => {}
        }
        self.key.clear();
    }

    /// Returns the profile of the sampled diagnostics. It has crashes only if there are no others.
    fn into_profile(mut self) -> Profile {
        let mut profile = Profile::new(ProfileFormat::MetricKit);
        profile.skipped = self.skipped;
        let is_crash = |tree: &Tree| tree.kind == "crash";
        if !self.trees.iter().all(is_crash) {
            self.trees.retain(|tree| !is_crash(tree));
        }
        for tree in &self.trees {
            let stacks = || tree.stacks.iter().map(|(_, frames)| frames.as_slice());
            let direction = Direction::from_stacks(stacks(), tree.per_thread);
            let name = [tree.kind.as_str(), tree.measured.as_str()].join(" ");
            let label = (!name.trim().is_empty()).then(|| name.trim().to_owned());
            append_stacks(&mut profile, label, &tree.stacks, direction);
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(address: u64, count: u64, name: &str, below: &str) -> String {
        format!(
            "{{\"binaryUUID\":\"A1B2C3D4-0000-3111-8222-0123456789AB\",\"offsetIntoBinaryTextSegment\":{},\
             \"sampleCount\":{count},\"subFrames\":[{below}],\"binaryName\":\"{name}\",\"address\":{address}}}",
            address & 0xfff
        )
    }

    fn document(kind: &str, per_thread: bool, frames: &str) -> String {
        format!(
            "{{\"timeStampEnd\":\"x\",\"{kind}Diagnostics\":[{{\"callStackTree\":{{\"callStacks\":[{{\
             \"threadAttributed\":true,\"callStackRootFrames\":[{frames}]}}],\"callStackPerThread\":{per_thread}}},\
             \"diagnosticMetaData\":{{\"hangDuration\":\"20 sec\",\"pid\":[1]}}}}]}}"
        )
    }

    fn shown(profile: &Profile) -> Vec<(Option<u32>, u64, u64, bool)> {
        let frames = profile.frames.iter();
        frames.map(|f| (f.parent, f.addresses.first().copied().unwrap_or(0), f.count, f.exact)).collect()
    }

    #[test]
    fn the_tree_of_a_hang_is_read_from_the_thread_down() {
        let leaves = [frame(0x3003, 1, "Shop", ""), frame(0x3004, 2, "Shop", "")].join(",");
        let text = document(
            "hang",
            false,
            &frame(0x1001, 5, "libsystem_pthread.dylib", &frame(0x2002, 4, "Shop", &leaves)),
        );
        let profile = read_document(&text).unwrap();
        assert_eq!(profile.frames[0].symbol.as_deref(), Some("hang 20 sec"));
        let expected = [
            (None, 0, 5, false),
            (Some(0), 0x1001, 5, false),
            (Some(1), 0x2002, 4, false),
            (Some(2), 0x3003, 1, true),
            (Some(2), 0x3004, 2, true),
        ];
        assert_eq!(shown(&profile), expected);
        let image = &profile.images[profile.frames[2].image.unwrap() as usize];
        assert_eq!((image.start, image.name.as_str(), image.debug_id.is_some()), (0x2000, "Shop", true));
    }

    #[test]
    fn an_image_begins_at_the_load_address_that_its_frames_have_as_offset() {
        let base = 0x1_00c6_4000_u64;
        let frame = |address: u64, field: u64, below: &str| {
            format!(
                "{{\"address\":{address},\"offsetIntoBinaryTextSegment\":{field},\"sampleCount\":5,\"binaryName\":\"Shop\",\
                 \"subFrames\":[{below}]}}"
            )
        };
        for per_thread in [false, true] {
            for kind in ["hang", "cpuException", "diskWriteException", "appLaunch"] {
                let called = frame(base + 0x5010, base, &frame(base + 0x6020, 0x6020, ""));
                let profile =
                    read_document(&document(kind, per_thread, &frame(base + 0x4004, base, &called)));
                let images = profile.unwrap().images;
                assert_eq!(images.iter().map(|image| image.start).collect::<Vec<_>>(), [base], "{kind}");
            }
        }
    }

    #[test]
    fn a_tree_with_the_program_counter_at_its_root_is_turned() {
        let start = |count| frame(0x9009, count, "dyld", "");
        let below = [frame(0x2002, 3, "Shop", &start(3)), frame(0x2003, 2, "Shop", &start(2))].join(",");
        for per_thread in [false, true] {
            let text = document("cpuException", per_thread, &frame(0x1001, 5, "Shop", &below));
            let profile = read_document(&text).unwrap();
            let expected = [
                (Some(0), 0x9009, 5, false),
                (Some(1), 0x2002, 3, false),
                (Some(2), 0x1001, 3, true),
                (Some(1), 0x2003, 2, false),
                (Some(4), 0x1001, 2, true),
            ];
            assert_eq!(shown(&profile)[1..], expected, "{per_thread}");
        }
    }

    #[test]
    fn chains_of_any_depth_are_read_up_to_the_limit() {
        let deep = "{\"address\":4097,\"sampleCount\":1,\"subFrames\":[".repeat(100_000);
        let text =
            format!("{{\"callStacks\":[{{\"callStackRootFrames\":[{deep}{}]}}]}}", "]}".repeat(100_000));
        let profile = read_document(&text).unwrap();
        assert!(profile.frames.len() > 1_000 && profile.frames.len() < 3_000, "{}", profile.frames.len());
        assert!(profile.skipped > 90_000, "{}", profile.skipped);
    }

    #[test]
    fn crashes_are_left_out_beside_what_was_sampled() {
        let (crash, hang) = (
            document("crash", true, &frame(0x1001, 1, "Shop", "")),
            document("hang", false, &frame(0x2002, 1, "Shop", "")),
        );
        let both = read_document(&format!("[{crash},{hang}]")).unwrap();
        assert_eq!(both.frames.iter().filter(|frame| frame.parent.is_none()).count(), 1);
        assert_eq!(read_document(&crash).unwrap().frames.len(), 2);
    }
}
