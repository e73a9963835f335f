//! The text of `sample`. The column of a frame's count shows its depth; the marks before it (`+ ! : |`) are
//! for the eye.

use super::image_line::image_line;
use super::{OpenFrames, address_list, leading_count};
use crate::profile::{MOST_IMAGES, Profile, ProfileFormat, ProfileFrame, parse_hex};
use unslide_calltree::SourcePlace;
use unslide_model::SymbolName;

/// The line before the frames.
pub(super) const CALL_GRAPH: &str = "Call graph:";

pub(super) fn read_sample(text: &str) -> Profile {
    let mut profile = Profile::new(ProfileFormat::Sample);
    let mut bases = Vec::new();
    let mut lines = text.lines();
    lines.by_ref().find(|line| line.trim() == CALL_GRAPH);
    let mut open = OpenFrames::default();
    for line in lines.by_ref().take_while(|line| !line.trim().is_empty()) {
        let Some((column, count, rest)) = parse_count(line) else {
            profile.skipped += 1;
            continue;
        };
        let parent = open.caller_at(column);
        let mut frame = if parent.is_none() && rest.starts_with("Thread_") {
            ProfileFrame { label: true, symbol: Some(format_thread_name(rest)), ..ProfileFrame::default() }
        } else {
            let (frame, base) = parse_frame(rest);
            bases.extend(base.zip(u32::try_from(profile.frames.len()).ok()).map(|(base, at)| (at, base)));
            frame
        };
        (frame.parent, frame.count) = (parent, count);
        match profile.push(frame) {
            Some(position) => open.open_frame(column, position),
            None => break,
        }
    }
    let listed = lines.skip_while(|line| !line.trim_start().starts_with("Binary Images")).skip(1);
    for line in listed.take_while(|line| !line.trim().is_empty()) {
        match image_line(line).filter(|_| profile.images.len() < MOST_IMAGES) {
            Some(image) => profile.images.push(image),
            None => profile.skipped += 1,
        }
    }
    profile.mark_leaves(0);
    profile.assign_images(0, 0, &bases);
    profile
}

/// Returns the column of the count, the count, and the text after it.
fn parse_count(line: &str) -> Option<(usize, u64, &str)> {
    let counted = line.trim_start_matches([' ', '\t', '+', '!', ':', '|']);
    let (count, rest) = leading_count(counted)?;
    let rest = rest.strip_prefix(' ').filter(|rest| !rest.trim().is_empty())?;
    Some((line.len() - counted.len(), count, rest.trim()))
}

/// Returns the name of a thread with its queue, with single blanks.
fn format_thread_name(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads `symbol  (in image) + offset  [addresses]  file:line`, or `???  (in image)  load address 0xBASE +
/// 0xOFFSET`. Returns the frame and the load address that it states.
fn parse_frame(text: &str) -> (ProfileFrame, Option<u64>) {
    let mut frame = ProfileFrame::default();
    let (symbol, tail) = match image_at(text) {
        Some((symbol, image, tail)) => {
            frame.image_name = image.to_owned();
            (symbol, tail)
        }
        None => text.find("  [").and_then(|at| text.split_at_checked(at)).unwrap_or((text, "")),
    };
    frame.symbol =
        Some(symbol.trim()).filter(|symbol| SymbolName::is_function(symbol.as_bytes())).map(str::to_owned);
    let base = tail
        .split_once("load address ")
        .and_then(|(_, rest)| parse_hex(rest.split_whitespace().next().unwrap_or_default()));
    if let Some((_, listed)) = tail.split_once('[') {
        let (addresses, after) = listed.split_once(']').unwrap_or((listed, ""));
        frame.addresses = address_list(addresses);
        frame.place = source_place(after.trim());
    }
    (frame, base)
}

/// Returns the symbol, the image and the rest. `(in …)` is the last one after which there is only text that
/// may follow an image.
fn image_at(text: &str) -> Option<(&str, &str, &str)> {
    let (symbol, image) = text.rsplit_once(" (in ")?;
    let mut ends = image.match_indices(')').filter_map(|(end, _)| {
        let (image, tail) = image.split_at_checked(end)?;
        Some((image, tail.strip_prefix(')')?))
    });
    let (image, tail) = ends.find(|(_, tail)| {
        let tail = tail.trim_start();
        tail.is_empty() || tail.starts_with(['+', '[']) || tail.starts_with("load address ")
    })?;
    Some((symbol, image, tail))
}

/// Reads `file:line`.
fn source_place(text: &str) -> Option<SourcePlace> {
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    (!file.is_empty()).then(|| SourcePlace { file: file.into(), line })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Analysis of sampling Shop (pid 42) every 1 millisecond
Load Address:    0x104a00000

Call graph:
    100 Thread_70001   DispatchQueue_1: com.apple.main-thread  (serial)
    + 100 start  (in dyld) + 2236  [0x18a0c50e0]
    +   100 main  (in Shop) + 40,52,...  [0x104a04028,0x104a04034,...]
    +     60 Cart::operator+(int, int)  (in Shop) + 112  [0x104a04170]  cart.cpp:41
    +     ! 60 ???  (in Shop)  load address 0x104a00000 + 0x5200  [0x104a05200]
    +     40 -[A(B) read:]  (in libA (B).dylib) + 8  [0x18a40e9a0]
    7 Thread_70002: worker
      7 thread_start  (in libsystem_pthread.dylib) + 8  [0x18a44ad34]

Total number in stack (recursive counted multiple, when >=5):
    5       main  (in Shop) + 40  [0x104a04028]

Binary Images:
       0x104a00000 -        0x104a0ffff +org.example.shop (4.2.0 - 4201) <A1B2C3D4-0000-3111-8222-0123456789AB> /Applications/Shop.app/Contents/MacOS/Shop
       0x18a0c0000 -        0x18a0fffff  dyld (1.0) <B1B2C3D4-0000-3111-8222-0123456789AB> /usr/lib/dyld
";

    #[test]
    fn depth_is_the_column_of_the_count() {
        let profile = read_sample(TEXT);
        let parents: Vec<Option<u32>> = profile.frames.iter().map(|frame| frame.parent).collect();
        let expected = [None, Some(0), Some(1), Some(2), Some(3), Some(2), None, Some(6)];
        assert_eq!((parents.as_slice(), profile.skipped), (&expected[..], 0));
        let counts: Vec<u64> = profile.frames.iter().map(|frame| frame.count).collect();
        assert_eq!(counts, [100, 100, 100, 60, 60, 40, 7, 7]);
        let exact: Vec<bool> = profile.frames.iter().map(|frame| frame.exact).collect();
        assert_eq!(exact, [false, false, false, false, true, true, false, true]);
    }

    #[test]
    fn symbols_images_addresses_and_lines_are_told_apart() {
        let frames = read_sample(TEXT).frames;
        let symbols: Vec<Option<&str>> = frames.iter().map(|frame| frame.symbol.as_deref()).collect();
        assert_eq!(symbols[0], Some("Thread_70001 DispatchQueue_1: com.apple.main-thread (serial)"));
        assert_eq!(
            symbols[2..6],
            [Some("main"), Some("Cart::operator+(int, int)"), None, Some("-[A(B) read:]")]
        );
        assert_eq!(frames[2].addresses, [0x1_04a0_4028, 0x1_04a0_4034]);
        assert_eq!(frames[5].image_name, "libA (B).dylib");
        assert_eq!(frames[3].place, Some(SourcePlace { file: "cart.cpp".into(), line: 41 }));
    }

    #[test]
    fn addresses_lie_in_listed_images_and_stated_ones() {
        let profile = read_sample(TEXT);
        let named =
            |frame: usize| profile.frames[frame].image.map(|at| profile.images[at as usize].name.as_str());
        assert_eq!(
            (named(1), named(2), named(4), named(5)),
            (Some("dyld"), Some("Shop"), Some("Shop"), None)
        );
        let cut = TEXT.split_once("Binary Images").unwrap().0;
        let profile = read_sample(cut);
        assert_eq!((profile.images.len(), profile.images[0].start), (1, 0x1_04a0_0000));
        assert_eq!(profile.frames[4].image, Some(0));
    }

    #[test]
    fn damaged_lines_cost_only_themselves() {
        let text = "Call graph:\n  5 main  (in A)\n  +  oops\n  + 18446744073709551616 huge\n  + 3 leaf [0x\n    9\n";
        let profile = read_sample(text);
        assert_eq!((profile.frames.len(), profile.skipped), (2, 3));
        assert_eq!(profile.frames[1].parent, Some(0));
        let damaged = TEXT.replace("       0x104a00000 -        0x104a0ffff", "       0x104a0");
        let profile = read_sample(&damaged);
        assert!(profile.images.iter().any(|image| image.name == "dyld") && profile.skipped == 1);
    }
}
