//! The lines of the output, in the form of Apple's tool.

use super::image::AtosImage;
use std::collections::HashMap;
use std::fmt::Write as _;
use unslide_cli::Console;
use unslide_model::RelativeAddress;
use unslide_report::Text;
use unslide_report::text::escape_for_terminal;
use unslide_symbolicate::demangle::{is_swift, simplify_swift};
use unslide_symbolicate::symcache::{CodeAnswer, CodeCall, CodeLookup};

/// Swift names that are kept in their short form.
const MAX_KEPT_NAMES: usize = 10_000;

/// The point from which addresses count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// The file's own addresses.
    File,
    /// The address at which the image was loaded.
    Load(u64),
    /// The distance between addresses of the process and of the file.
    Slide(u64),
    /// The start of the image.
    Offset,
}

/// The form of an answer.
#[derive(Clone, Debug, Default)]
pub struct LineStyle {
    pub has_inline_frames: bool,
    pub has_full_paths: bool,
    /// The text between frames; None for a line feed.
    pub delimiter: Option<String>,
}

/// Answers addresses with the symbols of images.
pub struct AddressAnswering {
    images: Vec<AtosImage>,
    base: AddressBase,
    lines: LineWriting,
    /// Answers that are not yet written.
    pub output: String,
}

/// Writes frames. Names come from files of others, so characters that a terminal obeys are escaped.
struct LineWriting {
    style: LineStyle,
    /// Short Swift names by linkage name.
    swift_names: HashMap<String, String>,
}

/// The image of an address, and the offset in it.
#[derive(Clone, Copy)]
struct ImagePlace<'i> {
    image: &'i AtosImage,
    relative: RelativeAddress,
}

impl AddressBase {
    /// Returns the offset of an address from the image's start; None if it lies before it.
    fn to_relative(self, address: u64, image: &AtosImage) -> Option<RelativeAddress> {
        let text = image.symcache.text_address().0;
        let relative = match self {
            AddressBase::File => address.checked_sub(text),
            AddressBase::Load(start) => address.checked_sub(start),
            AddressBase::Slide(slide) => address.checked_sub(slide).and_then(|file| file.checked_sub(text)),
            AddressBase::Offset => Some(address),
        };
        relative.map(RelativeAddress)
    }
}

impl AddressAnswering {
    pub fn new(images: Vec<AtosImage>, base: AddressBase, style: LineStyle) -> AddressAnswering {
        let lines = LineWriting { style, swift_names: HashMap::new() };
        AddressAnswering { images, base, lines, output: String::new() }
    }

    /// Writes the answers to standard output.
    pub fn write_output(&mut self) {
        Console::get().write_bytes(self.output.as_bytes());
        self.output.clear();
    }

    /// Adds the answer for an address to the output. An address outside of all images is answered as it was typed.
    pub fn answer_address(&mut self, typed: &str) {
        let address = parse_address(typed);
        let mut inside = None;
        for image in &self.images {
            let Some(address) = address else { break };
            let Some(relative) = self.base.to_relative(address, image) else { continue };
            let place = ImagePlace { image, relative };
            match image.symcache.lookup(relative) {
                CodeLookup::Found(answer) => {
                    return self.lines.write_answer(&mut self.output, place, &answer);
                }
                CodeLookup::Gap => inside = inside.or(Some((place, address))),
                CodeLookup::Outside => {}
            }
        }
        match inside {
            Some((place, address)) => self.lines.write_gap(&mut self.output, place, address),
            None => self.output.push_str(&escape_for_terminal(typed)),
        }
        self.lines.end_answer(&mut self.output);
    }
}

impl LineWriting {
    /// Writes the functions at an address. Without inlined ones it is the function that owns the code, with the line of the
    /// call in it.
    fn write_answer(&mut self, output: &mut String, place: ImagePlace<'_>, answer: &CodeAnswer<'_>) {
        let start = answer.symbol_address.map(|start| place.relative.0.saturating_sub(start.0));
        let mut is_first = true;
        for call in answer.calls() {
            if call.inlined && !self.style.has_inline_frames {
                continue;
            }
            if !is_first {
                output.push_str(self.style.delimiter.as_deref().unwrap_or("\n"));
            }
            self.write_call(output, &place.image.name, &call, start);
            is_first = false;
        }
        self.end_answer(output);
    }

    fn end_answer(&self, output: &mut String) {
        output.push('\n');
        if self.style.has_inline_frames && self.style.delimiter.is_none() {
            output.push('\n');
        }
    }

    /// Writes an address in the image that has no name. With inlined functions Apple's tool prints an empty line.
    fn write_gap(&self, output: &mut String, place: ImagePlace<'_>, address: u64) {
        if !self.style.has_inline_frames {
            let digits = if u32::try_from(address).is_ok() { 8 } else { 16 };
            // Writing to a string has no error.
            let _ = write!(output, "0x{address:0digits$x} (in {})", place.image.name);
        }
    }

    fn write_call(&mut self, output: &mut String, image: &str, call: &CodeCall<'_>, offset: Option<u64>) {
        let linkage = call.raw.unwrap_or(call.function).decode();
        let name = call.function.decode();
        let name = if is_swift(linkage.as_bytes()) { self.swift_name(&linkage, &name) } else { &name };
        // Writing to a string has no error.
        let _ = write!(output, "{} (in {image})", escape_for_terminal(name));
        match call.file.map(Text::decode) {
            Some(_) if call.line.is_none() && is_swift(linkage.as_bytes()) => {
                output.push_str(" (<compiler-generated>:0)");
            }
            Some(file) => {
                let base = file.rsplit('/').next().unwrap_or_default();
                let file = if self.style.has_full_paths { &*file } else { base };
                let _ = write!(output, " ({}:{})", escape_for_terminal(file), call.line.unwrap_or(0));
            }
            None => {
                if let Some(offset) = offset.filter(|_| !call.inlined) {
                    let _ = write!(output, " + {offset}");
                }
            }
        }
    }

    /// Returns the short form of a Swift name, such as `Cart.add(_:)`.
    fn swift_name(&mut self, linkage: &str, demangled: &str) -> &str {
        if self.swift_names.len() >= MAX_KEPT_NAMES && !self.swift_names.contains_key(linkage) {
            self.swift_names.clear();
        }
        let short = || simplify_swift(linkage, demangled).unwrap_or_else(|| demangled.to_owned());
        self.swift_names.entry(linkage.to_owned()).or_insert_with(short)
    }
}

/// Parses a number that is hexadecimal with and without `0x`.
pub fn parse_hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

/// Parses an address: decimal if all its digits are, as crash logs have offsets, and hexadecimal otherwise.
pub fn parse_address(text: &str) -> Option<u64> {
    match !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        true => text.parse().ok(),
        false => parse_hexadecimal(text),
    }
}
