//! The sections of a text: header, threads, backtraces of exceptions, registers and images.

use super::frame_line::{TextFrame, parse_hex};
use super::image_line::TextImage;
use std::collections::HashMap;
use unslide_report::{ReadError, ReadLimits};

/// The maximum number of lines of a message.
const MESSAGE_LINES_LIMIT: usize = 64;
/// The maximum number of header fields.
const FIELDS_LIMIT: usize = 256;

/// The beginning of the line above a backtrace that an app wrote itself.
pub const BACKTRACE_HEAD: &str = "Backtrace of Thread ";

/// A thread of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextThread {
    /// The number that the text gives the thread.
    pub number: u64,
    pub name: Option<String>,
    pub queue: Option<String>,
    pub is_crashed: bool,
    /// True if old systems highlight the thread, because they ended the process for it.
    pub is_highlighted: bool,
    pub frames: Vec<TextFrame>,
    /// The number of frames of a recursion that the text leaves out.
    pub left_out: u64,
}

/// Everything that is read of a text.
#[derive(Clone, Debug, Default)]
pub struct TextLog {
    fields: HashMap<String, String>,
    pub threads: Vec<TextThread>,
    pub last_exception: Vec<TextFrame>,
    /// The first backtrace that the app left.
    pub app_backtrace: Vec<TextFrame>,
    /// Application-specific information, line by line.
    pub messages: Vec<String>,
    /// Registers of the crashed thread.
    pub registers: Vec<(String, u64)>,
    pub images: Vec<TextImage>,
    /// The line of the region that holds the address of the exception: `STACK GUARD  16ccb4000-1704b8000 …`.
    pub region: Option<String>,
    /// The kernel's notes: `APFS - (arg = 0) protection class does not allow pagein`.
    pub kernel_notes: Vec<String>,
    /// The UUID of the process's own image, from a header of JSON.
    pub own_uuid: Option<String>,
    /// True for backtraces that an app wrote itself: `Backtrace of Thread 771:`.
    pub is_backtraces: bool,
}

/// The section that lines belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Header,
    Message,
    Thread,
    LastException,
    AppBacktrace,
    Registers,
    Images,
    /// A section that is not read.
    Other,
}

/// Reads a text line by line.
#[derive(Debug, Default)]
struct SectionReader {
    log: TextLog,
    section: Section,
    /// The thread that a line named, which begins with the next head.
    named: Option<TextThread>,
    items: usize,
}

impl TextLog {
    /// Reads the sections of a text. `first_line` is the number of its first line.
    ///
    /// # Errors
    /// Returns [`ReadError::TooManyItems`] if there are too many threads, frames and images.
    pub fn read_text(text: &str, first_line: u32, limits: &ReadLimits) -> Result<TextLog, ReadError> {
        let mut reader = SectionReader::default();
        let mut offset = 0;
        for (number, line) in (first_line..).zip(text.split('\n')) {
            reader.read_line(line.trim(), number);
            if reader.items > limits.max_items {
                return Err(ReadError::TooManyItems { offset, limit: limits.max_items });
            }
            offset += line.len() + 1;
        }
        Ok(reader.log)
    }

    /// Returns a field of the header.
    pub fn find_field(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the UUID of the process's own image, if the text calls an image like the process and knows its UUID.
    pub fn own_uuid_of(&self, image: &str) -> Option<String> {
        let process = self.find_field("Process")?;
        let process = process.rsplit_once(" [").map_or(process, |(name, _)| name);
        self.own_uuid.clone().filter(|_| process == image)
    }

    /// Returns true if a frame prints the load address of its image.
    pub fn has_load_address(&self) -> bool {
        let mut frames = self.threads.iter().flat_map(|thread| &thread.frames).chain(&self.last_exception);
        frames.any(|frame| frame.base.is_some())
    }

    /// Returns true for backtraces that an app wrote itself, and not about an exception.
    pub fn is_without_exception(&self) -> bool {
        let is_of_crash = ["Exception Type", "Exception Codes", "Termination Reason"]
            .into_iter()
            .any(|field| self.find_field(field).is_some());
        self.is_backtraces && !is_of_crash && self.last_exception.is_empty() && self.app_backtrace.is_empty()
    }

    /// Returns true if the text has no frame.
    pub fn is_without_frames(&self) -> bool {
        let threads = self.threads.iter().all(|thread| thread.frames.is_empty());
        threads && self.last_exception.is_empty() && self.app_backtrace.is_empty()
    }
}

/// Reads `-------- ELIDED 43951 LEVELS OF RECURSION THROUGH 0x102b44014`.
fn elided_levels(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("ELIDED ")?;
    let (levels, rest) = rest.split_once(' ')?;
    levels.parse().ok().filter(|_| rest.starts_with("LEVELS OF RECURSION"))
}

impl SectionReader {
    fn read_line(&mut self, line: &str, number: u32) {
        if self.begin_section(line, number) {
            return;
        }
        match self.section {
            Section::Header | Section::Other => self.read_field(line),
            Section::Message if line.is_empty() => self.section = Section::Header,
            Section::Message => {
                if self.log.messages.len() < MESSAGE_LINES_LIMIT {
                    self.log.messages.push(line.to_owned());
                }
            }
            Section::Thread | Section::LastException | Section::AppBacktrace => self.read_frame(line, number),
            Section::Registers => self.read_registers(line),
            Section::Images => {
                if let Some(image) = TextImage::parse_line(line) {
                    self.items += 1;
                    self.log.images.push(image);
                }
            }
        }
    }

    /// Begins the section of which this is the first line. Returns false for any other line.
    fn begin_section(&mut self, line: &str, number: u32) -> bool {
        self.section = match line {
            _ if line.starts_with("Binary Images") => Section::Images,
            _ if line.starts_with("Last Exception Backtrace:") => Section::LastException,
            _ if line.starts_with("Application Specific Backtrace") && line.ends_with(':') => {
                if self.log.app_backtrace.is_empty() { Section::AppBacktrace } else { Section::Other }
            }
            _ if line.starts_with("Application Specific Information:") => Section::Message,
            _ if line.starts_with("Thread ") => return self.begin_thread(line),
            _ if line.starts_with(BACKTRACE_HEAD) => return self.begin_backtrace(line),
            _ if is_raw_list(line) && self.section == Section::LastException => {
                self.read_addresses(line, number);
                return true;
            }
            _ => return false,
        };
        true
    }

    /// Reads the line above the backtrace of a thread. The first one is that of the thread that is asked about.
    fn begin_backtrace(&mut self, line: &str) -> bool {
        let number = line.strip_prefix(BACKTRACE_HEAD).map(|rest| rest.trim_end_matches(':').trim());
        let Some(number) = number.and_then(|number| number.parse().ok()) else { return false };
        let is_crashed = self.log.threads.is_empty();
        self.items += 1;
        self.log.threads.push(TextThread { number, is_crashed, ..TextThread::default() });
        self.log.is_backtraces = true;
        self.section = Section::Thread;
        true
    }

    /// Reads a line about a thread. Returns false if it is none.
    fn begin_thread(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("Thread ") else { return false };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Some((number, rest)) = rest.split_at_checked(digits) else { return false };
        let Ok(number) = number.parse::<u64>() else {
            let is_state = line.contains("Thread State");
            self.section = if is_state { Section::Registers } else { self.section };
            return is_state;
        };
        if rest.starts_with(" crashed with ") {
            self.section = Section::Registers;
            return true;
        }
        if let Some(name) = rest.strip_prefix(" name:") {
            let mut thread = TextThread { number, ..TextThread::default() };
            thread.read_name(name);
            self.named = Some(thread);
            return true;
        }
        let is_crashed = rest.starts_with(" Crashed");
        let is_highlighted = rest.contains(" Highlighted");
        let rest = rest.trim_start_matches(" Crashed").trim_start_matches(" Highlighted");
        let Some(name) = rest.strip_prefix(':') else { return false };
        let mut thread = self.named.take().filter(|thread| thread.number == number).unwrap_or_default();
        thread.number = number;
        thread.is_crashed = is_crashed;
        thread.is_highlighted = is_highlighted;
        thread.read_name(name.trim_start_matches(':'));
        self.items += 1;
        self.log.threads.push(thread);
        self.section = Section::Thread;
        true
    }

    fn read_field(&mut self, line: &str) {
        if line.starts_with("--->") {
            self.log.region.get_or_insert_with(|| line.to_owned());
            return;
        }
        if line.contains(" - (arg = ") && self.log.kernel_notes.len() < MESSAGE_LINES_LIMIT {
            self.log.kernel_notes.push(line.to_owned());
            return;
        }
        let Some((key, value)) = line.split_once(':') else { return };
        if self.log.fields.len() < FIELDS_LIMIT && self.section == Section::Header {
            // The first one counts: texts that were pasted may have more below.
            self.log.fields.entry(key.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
        }
    }

    fn read_frame(&mut self, line: &str, number: u32) {
        let is_bare = self.log.is_backtraces && self.section == Section::Thread;
        let bare = || is_bare.then(|| TextFrame::parse_without_index(line, number)).flatten();
        let Some(frame) = TextFrame::parse_line(line, number).or_else(bare) else {
            let has_frames = match self.section {
                Section::Thread => self.log.threads.last().is_some_and(|thread| !thread.frames.is_empty()),
                Section::LastException => !self.log.last_exception.is_empty(),
                _ => !self.log.app_backtrace.is_empty(),
            };
            // A blank line ends a list of frames, and fields may follow.
            if line.is_empty() && has_frames {
                self.section = Section::Header;
            } else if !line.is_empty() {
                self.read_loose_line(line, number);
            }
            return;
        };
        self.items += 1;
        match self.section {
            Section::Thread => {
                if let Some(thread) = self.log.threads.last_mut() {
                    thread.frames.push(frame);
                }
            }
            Section::LastException => self.log.last_exception.push(frame),
            _ => self.log.app_backtrace.push(frame),
        }
    }

    /// Reads a line among frames that is none: addresses of an exception that continue on a further line, or a field.
    fn read_loose_line(&mut self, line: &str, number: u32) {
        if self.section == Section::LastException && line.starts_with("0x") {
            self.read_addresses(line, number);
        } else if let Some(levels) = elided_levels(line) {
            if let Some(thread) = self.log.threads.last_mut().filter(|_| self.section == Section::Thread) {
                thread.left_out = thread.left_out.saturating_add(levels);
            }
        } else if line.contains(':') && !line.starts_with(|c: char| c.is_ascii_digit()) {
            self.section = Section::Header;
            self.read_field(line);
        }
    }

    /// Reads addresses of an exception without names: `(0x18e… 0x18d…)`.
    fn read_addresses(&mut self, line: &str, number: u32) {
        let words = line.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','));
        for address in words.filter_map(parse_hex) {
            self.items += 1;
            let frame = TextFrame { line: number, address, ..TextFrame::default() };
            self.log.last_exception.push(frame);
        }
    }

    /// Reads names and values such as `x0: 0x0000000000000000`. Text after a value explains it.
    fn read_registers(&mut self, line: &str) {
        if line.is_empty() {
            if !self.log.registers.is_empty() {
                self.section = Section::Header;
            }
            return;
        }
        let mut words = line.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_suffix(':') else { continue };
            if let Some(value) = words.peek().copied().and_then(parse_hex) {
                self.log.registers.push((name.to_ascii_lowercase(), value));
            }
        }
        self.log.registers.truncate(128);
    }
}

impl TextThread {
    /// Reads a name, a queue, or both.
    fn read_name(&mut self, text: &str) {
        let text = text.trim();
        let (name, queue) = match text.split_once("Dispatch queue:") {
            Some((name, queue)) => (name.trim(), Some(queue.trim())),
            None => (text, None),
        };
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        self.name = some(name).or_else(|| self.name.take());
        self.queue = queue.and_then(some).or_else(|| self.queue.take());
    }
}

/// Returns true for the first line of a list of addresses.
fn is_raw_list(line: &str) -> bool {
    line.strip_prefix('(').is_some_and(|rest| rest.trim_start().starts_with("0x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TextLog {
        TextLog::read_text(text, 1, &ReadLimits::default()).unwrap()
    }

    #[test]
    fn heads_of_threads_have_every_form() {
        let frame = "0   Shop   0x0000000100002000 main + 4\r\n";
        for (head, name, queue, is_crashed) in [
            ("Thread 3:\n", None, None, false),
            ("Thread 3 name:\r\nThread 3 Crashed:\r\n", None, None, true),
            (
                "Thread 3 name:  Dispatch queue: com.a :: B 0x1 (QOS: X)\nThread 3:\n",
                None,
                Some("com.a :: B 0x1 (QOS: X)"),
                false,
            ),
            (
                "Thread 3 name:  worker  Dispatch queue: q\nThread 3 Crashed:\n",
                Some("worker"),
                Some("q"),
                true,
            ),
            ("Thread 3 Crashed:: Dispatch queue: com.a\n", None, Some("com.a"), true),
            ("Thread 3:: worker\n", Some("worker"), None, false),
            ("Thread 3 Crashed: Test Name\n", Some("Test Name"), None, true),
            ("  Thread 3 Highlighted:\n", None, None, false),
        ] {
            let log = read(&format!("{head}{frame}\nThread 4:\n{frame}"));
            assert_eq!(log.threads.len(), 2, "{head}");
            let thread = &log.threads[0];
            assert_eq!((thread.name.as_deref(), thread.queue.as_deref()), (name, queue), "{head}");
            assert_eq!((thread.number, thread.is_crashed, thread.frames.len()), (3, is_crashed, 1), "{head}");
        }
    }

    #[test]
    fn an_exception_without_names_is_a_list_of_addresses() {
        let log = read(
            "Last Exception Backtrace:\n(0x18e1 0x18d2\n0x100002000)\n\nThread 0:\n0 A 0x100002000 b + 1\n",
        );
        let addresses: Vec<u64> = log.last_exception.iter().map(|frame| frame.address).collect();
        assert_eq!(addresses, [0x18e1, 0x18d2, 0x1_0000_2000]);
        assert_eq!((log.last_exception[2].line, log.threads.len()), (3, 1));
    }

    #[test]
    fn fields_stand_above_and_between_sections() {
        let log = read(
            "Process:   Shop [42]\nApplication Specific Information:\nabort() called\n  more: text\n\nTriggered by Thread:  1\n\
             Thread 1 crashed with ARM Thread State (64-bit):\n    x0: 0x0000000000000001   x1: 0x2 pc: 0x3 esr: 0x4 (Data Abort)\n\n\
             Binary Images:\n0x1000 - 0x1fff A arm64 <> /a\nnot one\n",
        );
        assert_eq!(log.find_field("Process"), Some("Shop [42]"));
        assert_eq!(log.find_field("Triggered by Thread"), Some("1"));
        assert_eq!(log.messages, ["abort() called", "more: text"]);
        let names: Vec<&str> = log.registers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x0", "x1", "pc", "esr"]);
        assert_eq!(log.images.len(), 1);
    }
}
