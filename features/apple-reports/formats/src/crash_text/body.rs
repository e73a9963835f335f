//! A text as the crash of an `.ips` log: its reader knows how the parts of a crash become a report.

use super::exception::TextException;
use super::frame_line::TextFrame;
use super::image_line::TextImage;
use super::sections::{TextLog, TextThread};
use super::text_images::TextImages;
use super::version::AppVersion;
use crate::json::JsonBuilder;

/// Names of registers that a log has, other than numbered ones.
const REGISTER_BYTES_LIMIT: usize = 8;

/// The crash of a text.
#[derive(Debug)]
pub struct TextBody {
    /// The JSON of the crash.
    pub json: Vec<u8>,
    /// The offset of the closing brace of each frame object, and its line in the text.
    frame_lines: Vec<(usize, u32)>,
}

impl TextBody {
    /// Writes the crash. `incident` is the report's id.
    pub fn from_log(log: &TextLog, incident: &str) -> TextBody {
        let writer = BodyWriter::new(log);
        let mut body = TextBody { json: Vec::new(), frame_lines: Vec::new() };
        let mut json = JsonBuilder::default();
        json.item(|json| {
            writer.write_header(incident, json);
            TextException::from_log(log).write_members(json);
            writer.write_messages(json);
            writer.write_kernel_notes(json);
            json.array("threads", |json| {
                for (position, thread) in log.threads.iter().enumerate() {
                    writer.write_thread(thread, position, json, &mut body.frame_lines);
                }
            });
            // Names in a backtrace of the app are those of the next function if a call does not return.
            let (exception, is_named) = match log.last_exception.is_empty() {
                true => (&log.app_backtrace, false),
                false => (&log.last_exception, true),
            };
            if !exception.is_empty() {
                json.array("lastExceptionBacktrace", |json| {
                    for frame in exception {
                        writer.write_frame(frame, is_named, json, &mut body.frame_lines);
                    }
                });
            }
            writer.write_images(json);
        });
        body.json = json.into_bytes();
        body
    }

    /// Returns the line of the frame object that ends at an offset. Returns 0 if there is none.
    pub fn line_at(&self, insert_at: usize) -> u32 {
        let found = self.frame_lines.binary_search_by_key(&insert_at, |(at, _)| *at);
        found.ok().and_then(|at| self.frame_lines.get(at)).map_or(0, |(_, line)| *line)
    }
}

/// Writes the parts of a crash.
struct BodyWriter<'l> {
    log: &'l TextLog,
    images: TextImages<'l>,
    /// The position of the crashed thread.
    crashed: Option<usize>,
    code_type: CodeType,
}

/// The CPU of a text, from its field `Code Type`.
struct CodeType {
    /// The machine's CPU in Apple's words.
    cpu: Option<&'static str>,
    /// The architecture of the code.
    arch: Option<&'static str>,
    is_translated: bool,
}

impl CodeType {
    fn from_text(text: &str) -> CodeType {
        let is_translated = text.contains("Translated");
        let (cpu, arch) = match text.split_whitespace().next().unwrap_or_default() {
            "ARM-64" | "ARM64" => (Some("ARM-64"), Some("arm64")),
            "X86-64" => (Some(if is_translated { "ARM-64" } else { "X86-64" }), Some("x86_64")),
            "X86" => (Some("X86"), Some("i386")),
            "ARM" => (Some("ARM"), None),
            _ => (None, None),
        };
        CodeType { cpu, arch, is_translated }
    }
}

impl<'l> BodyWriter<'l> {
    fn new(log: &'l TextLog) -> BodyWriter<'l> {
        let code_type = CodeType::from_text(log.find_field("Code Type").unwrap_or_default());
        BodyWriter { log, images: TextImages::from_log(log), crashed: crashed_thread(log), code_type }
    }

    fn write_header(&self, incident: &str, json: &mut JsonBuilder) {
        let field = |key| self.log.find_field(key);
        let (name, pid) = split_pid(field("Process").unwrap_or_default());
        let (_, parent_pid) = split_pid(field("Parent Process").unwrap_or_default());
        let identifier = field("Identifier").filter(|identifier| Some(*identifier) != name);
        let version = AppVersion::parse_version(
            field("Version").unwrap_or_default(),
            field("OS Version").unwrap_or_default(),
        );
        json.string("incident", incident);
        for (key, value) in [
            ("procName", name),
            ("procPath", field("Path")),
            ("captureTime", field("Date/Time")),
            ("modelCode", field("Hardware Model")),
            ("os_version", field("OS Version")),
            ("crashReporterKey", field("CrashReporter Key").or_else(|| field("Anonymous UUID"))),
            ("cpuType", self.code_type.cpu),
            ("slice_uuid", self.own_image().and_then(|image| image.uuid.as_deref())),
        ] {
            json.some_string(key, value);
        }
        for (key, value) in [("pid", pid), ("parentPid", parent_pid)] {
            if let Some(value) = value {
                json.number(key, value);
            }
        }
        if self.code_type.is_translated {
            json.flag("translated", true);
        }
        json.object("bundleInfo", |json| {
            json.some_string("CFBundleIdentifier", identifier);
            json.some_string("CFBundleShortVersionString", version.short.as_deref());
            json.some_string("CFBundleVersion", version.build.as_deref());
        });
        if let Some(crashed) = self.crashed {
            json.number("faultingThread", crashed as u64);
        }
    }

    /// Returns the image of the process itself.
    fn own_image(&self) -> Option<&'l TextImage> {
        let path = self.log.find_field("Path")?;
        self.log.images.iter().find(|image| image.path == path)
    }

    /// Writes the messages as those of the image that writes such messages.
    fn write_messages(&self, json: &mut JsonBuilder) {
        let messages = &self.log.messages;
        if messages.is_empty() {
            return;
        }
        let has = |part: &str| messages.iter().any(|line| line.contains(part));
        let image = match () {
            () if has("uncaught exception '") => "CoreFoundation",
            () if has("atal error") || has(".swift") => "libswiftCore.dylib",
            () if has("Library not loaded") || has("Symbol not found") => "dyld",
            () => "libsystem_c.dylib",
        };
        json.object("asi", |json| json.string_array(image, messages));
    }

    /// Writes what the text says of the region of the exception's address, and the kernel's notes.
    fn write_kernel_notes(&self, json: &mut JsonBuilder) {
        let region = [self.log.find_field("VM Region Info"), self.log.region.as_deref()];
        let region: Vec<&str> = region.into_iter().flatten().collect();
        for (key, lines) in
            [("vmRegionInfo", region.join("\n")), ("ktriageinfo", self.log.kernel_notes.join("\n"))]
        {
            json.some_string(key, Some(lines.as_str()).filter(|lines| !lines.is_empty()));
        }
    }

    fn write_thread(
        &self,
        thread: &TextThread,
        position: usize,
        json: &mut JsonBuilder,
        lines: &mut Vec<(usize, u32)>,
    ) {
        let is_crashed = self.crashed == Some(position);
        json.item(|json| {
            json.number("id", thread.number);
            json.some_string("name", thread.name.as_deref());
            json.some_string("queue", thread.queue.as_deref());
            if is_crashed {
                json.flag("triggered", true);
                self.write_registers(json);
            }
            if thread.left_out > 0 {
                json.array("recursionInfoArray", |json| {
                    json.item(|json| json.number("depth", thread.left_out));
                });
            }
            json.array("frames", |json| {
                for frame in &thread.frames {
                    self.write_frame(frame, true, json, lines);
                }
            });
        });
    }

    fn write_registers(&self, json: &mut JsonBuilder) {
        let is_name = |name: &str| {
            name.len() <= REGISTER_BYTES_LIMIT && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        json.object("threadState", |json| {
            for (name, value) in self.log.registers.iter().filter(|(name, _)| is_name(name)) {
                json.object(name, |json| json.number("value", *value));
            }
        });
    }

    fn write_frame(
        &self,
        frame: &TextFrame,
        is_named: bool,
        json: &mut JsonBuilder,
        lines: &mut Vec<(usize, u32)>,
    ) {
        json.item(|json| {
            let images = &self.images;
            let image = images.image_of_frame(frame).and_then(|at| Some((at, images.images.get(at)?)));
            match image {
                Some((at, image)) => {
                    json.number("imageIndex", at as u64);
                    json.number("imageOffset", frame.address.wrapping_sub(image.start));
                }
                None => json.number("imageOffset", frame.address),
            }
            if is_named {
                json.some_string("symbol", frame.symbol.as_deref());
                if let Some(offset) = frame.symbol_offset.filter(|_| frame.symbol.is_some()) {
                    json.number("symbolLocation", offset);
                }
            }
        });
        lines.push((json.byte_count() - 1, frame.line));
    }

    fn write_images(&self, json: &mut JsonBuilder) {
        json.array("usedImages", |json| {
            for image in &self.images.images {
                json.item(|json| {
                    json.string("source", "P");
                    json.number("base", image.start);
                    if image.is_guess {
                        json.flag("approximate", true);
                    }
                    json.number("size", image.size);
                    json.some_string("uuid", image.uuid.as_deref());
                    let file = image.path.rsplit('/').next().filter(|file| !file.is_empty());
                    json.some_string("name", file.or(Some(&image.name)));
                    json.some_string("path", Some(&image.path));
                    json.some_string("arch", image.arch.as_deref().or(self.code_type.arch));
                });
            }
        });
    }
}

/// Returns the position of the crashed thread: the one that a field names, or else the one with a head that says so.
fn crashed_thread(log: &TextLog) -> Option<usize> {
    let number = |key| {
        let digits: String = log.find_field(key)?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    // Systems up to iOS 9 highlight the thread of a process that they ended.
    let named = ["Triggered by Thread", "Crashed Thread", "Highlighted Thread"].into_iter().find_map(number);
    let of_number = |number: u64| log.threads.iter().position(|thread| thread.number == number);
    named
        .and_then(of_number)
        .or_else(|| log.threads.iter().position(|thread| thread.is_crashed))
        .or_else(|| log.threads.iter().position(|thread| thread.is_highlighted))
}

/// Splits `Shop [42]` into the name and the number.
fn split_pid(text: &str) -> (Option<&str>, Option<u64>) {
    let (name, pid) = match text.rsplit_once(" [") {
        Some((name, pid)) => (name, pid.trim_end_matches(']').parse().ok()),
        None => (text, None),
    };
    (Some(name.trim()).filter(|name| !name.is_empty()), pid)
}
