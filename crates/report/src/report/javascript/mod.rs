//! JavaScript errors that a report contains beside its native threads, from React Native and other bridges.
//!
//! Two sources: `crash.error.user_reported` with JavaScript as its `language`, and a `backtrace` of objects, of
//! lines or of one text; and the `reason` of an `RCTFatalException`, after `, stack:`. The forms of a frame are
//! those of React Native's `parseErrorStack`, of Sentry's clients, and of the texts of JavaScriptCore, V8 and
//! Hermes.

mod module;
pub(crate) mod ours;
mod stack;

use crate::Text;
use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};
pub use module::BundleModule;
pub(crate) use ours::OurContext;
pub use ours::{MOST_JAVASCRIPT_FRAMES, OurJavaScriptFrame};
use unslide_model::{DebugId, shell_word};

/// The maximum length of a function's name or a file's address, in characters.
const MOST_CHARS: usize = 512;
/// The maximum size of a stack that is one text, in bytes.
const MOST_STACK_BYTES: usize = 1 << 20;
/// React Native's release bundle for iOS. Fatal exceptions and modules of a RAM bundle do not name it.
const DEFAULT_BUNDLE: &str = "main.jsbundle";
/// React Native's release bundle for Android.
const ANDROID_BUNDLE: &str = "index.android.bundle";

/// A JavaScript error. Every text comes from the device and is not verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaScriptError {
    /// The error's class, such as `TypeError`.
    pub name: Option<String>,
    /// The error's message.
    pub message: Option<String>,
    /// The frames, the innermost first; at most [`MOST_JAVASCRIPT_FRAMES`].
    pub frames: Vec<JavaScriptFrame>,
    /// `CFBundleIdentifier` of the app.
    pub app: String,
    /// `ios`, `android` or another system in lower case.
    pub platform: String,
    /// `CFBundleShortVersionString`.
    pub version: String,
    /// `CFBundleVersion`.
    pub build: String,
    /// The bundle that contains the modules among the frames.
    module_bundle: String,
}

impl JavaScriptError {
    /// Returns the bundle of the source map that resolves a frame, or `None` for a function of the engine.
    #[must_use]
    pub fn mapped_bundle<'e>(&'e self, frame: &'e JavaScriptFrame) -> Option<&'e str> {
        match frame.module {
            Some(_) => Some(&self.module_bundle),
            None => frame.bundle.as_deref(),
        }
    }

    /// Returns the shell command that uploads the source map of a bundle.
    #[must_use]
    pub fn upload_command(&self, bundle: &str) -> String {
        let words = [
            ("--app", self.app.as_str()),
            ("--platform", &self.platform),
            ("--app-version", &self.version),
            ("--build", &self.build),
            ("--bundle", bundle),
        ];
        let mut command = "unslide upload --source-map MAP".to_owned();
        for (option, value) in words {
            command = format!("{command} {option} {}", shell_argument(value));
        }
        command
    }

    /// Gives the error's own debug id to all frames in the bundle that threw the error.
    fn with_debug_id(mut self, debug_id: Option<DebugId>) -> JavaScriptError {
        let bundle = |frame| self.mapped_bundle(frame).map(str::to_owned);
        let thrown_in = self.frames.iter().find_map(bundle);
        let of_it: Vec<bool> =
            self.frames.iter().map(|frame| thrown_in.is_some() && bundle(frame) == thrown_in).collect();
        for (frame, _) in self.frames.iter_mut().zip(of_it).filter(|(_, of_it)| *of_it) {
            frame.debug_id = frame.debug_id.or(debug_id);
        }
        self
    }
}

/// Returns a text of the report as an argument of a command.
fn shell_argument(text: &str) -> String {
    const ARGUMENT_CHARS_LIMIT: usize = 200;
    shell_word(&text.chars().filter(|c| !c.is_control()).take(ARGUMENT_CHARS_LIMIT).collect::<String>())
}

/// One frame of a JavaScript error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaScriptFrame {
    /// The function's name from the device. A minifier may have shortened it.
    pub function: Option<String>,
    /// The bundle's file name without folders and query, or the name of a part of it. `None` for a function of the
    /// engine.
    pub bundle: Option<String>,
    /// The part of the bundle, if lines count from its start.
    pub module: Option<BundleModule>,
    /// The bundle's debug id from the report.
    pub debug_id: Option<DebugId>,
    /// The line in the bundle, from 1.
    pub line: Option<u32>,
    /// The column in the line, from 0. For Hermes bytecode, the offset in the bytecode.
    pub column: Option<u32>,
    /// True if the text says that the column is an offset in bytecode.
    pub is_bytecode: bool,
    /// True for a component of React that was being rendered, and no call of the error's stack.
    pub is_component: bool,
}

/// The name, message and stack of an error in the report.
struct ErrorSource<'a> {
    name: Option<String>,
    message: Option<String>,
    stack: StackSource<'a>,
    debug_id: Option<DebugId>,
    is_react_native: bool,
}

enum StackSource<'a> {
    Value(Value<'a>),
    /// The lines of an `RCTFatalException`: `function@line:column` or `function@123.js:line:column`, columns from 0.
    Fatal(String),
}

impl Report<'_> {
    /// Returns the report's JavaScript error. Returns `None` if it is about another error, or has no JavaScript frames.
    #[must_use]
    pub fn javascript_error(&self) -> Option<JavaScriptError> {
        let main = self.main_part();
        let facts = PartFacts::for_part(self, main);
        let source = match facts.part()?.error_kind() {
            ErrorKind::User => read_user_reported(&facts)?,
            ErrorKind::NsException => read_fatal_exception(&facts)?,
            _ => return None,
        };
        let mut frames = match source.stack {
            StackSource::Value(value) => frames_of(value),
            StackSource::Fatal(text) => stack::read_fatal(&text, DEFAULT_BUNDLE),
        };
        if frames.is_empty() {
            return None;
        }
        add_components(&facts, &mut frames);
        let keys = ["CFBundleIdentifier", "CFBundleShortVersionString", "CFBundleVersion", "system_name"];
        let [app, version, build, system] = facts
            .system_members(keys)
            .map(|value| value.and_then(Value::as_text).map(shorten_text).unwrap_or_default());
        let platform = platform_name(&system);
        let default = if platform == "android" { ANDROID_BUNDLE } else { DEFAULT_BUNDLE };
        let module_bundle = module::find_bundle(&mut frames, source.is_react_native, default);
        let (name, message) = split_class_and_message(source.name, source.message);
        let error = JavaScriptError { name, message, frames, app, platform, version, build, module_bundle };
        Some(error.with_debug_id(source.debug_id))
    }
}

/// Adds the frames of React's `componentStack` after those of the error. Components of the system have no position, and are
/// left out.
fn add_components(facts: &PartFacts<'_, '_>, frames: &mut Vec<JavaScriptFrame>) {
    let reported = facts.error_member(&["user_reported"]);
    let found = reported.into_iter().chain(facts.user_sections()).find_map(|object| {
        let [camel, snake] = object.find_members(["componentStack", "component_stack"]);
        camel.or(snake)
    });
    let components = found.map(frames_of).unwrap_or_default();
    let placed = components.into_iter().filter(|frame| frame.line.is_some());
    let room = MOST_JAVASCRIPT_FRAMES.saturating_sub(frames.len());
    frames.extend(placed.take(room).map(|frame| JavaScriptFrame { is_component: true, ..frame }));
}

/// Converts a system's name to the platform name in uploads of source maps.
#[must_use]
pub fn platform_name(system: &str) -> String {
    let system = system.trim().to_lowercase();
    match system.as_str() {
        "iphone os" | "ipados" => "ios".to_owned(),
        _ => system,
    }
}

/// Reads `crash.error.user_reported` if its language is JavaScript.
fn read_user_reported<'a>(facts: &PartFacts<'_, 'a>) -> Option<ErrorSource<'a>> {
    let user = facts.error_member(&["user_reported"])?;
    let [name, language, backtrace, own, own_too] =
        user.find_members(["name", "language", "backtrace", "debugId", "debug_id"]);
    let language = language.and_then(Value::decode_string)?.to_lowercase();
    let is_one_of = |known: &[&str]| known.iter().any(|known| language.contains(known));
    let is_react_native = is_one_of(&["react-native", "react native", "hermes"]);
    if !is_react_native && !is_one_of(&["javascript", "typescript"]) && language != "js" {
        return None;
    }
    Some(ErrorSource {
        name: name.and_then(Value::as_text).map(shorten_text),
        message: facts.error_member(&["reason"]).and_then(Value::as_text).map(shorten_text),
        stack: StackSource::Value(backtrace?),
        debug_id: own.or(own_too).and_then(Value::as_uuid).and_then(crate::json::debug_id),
        is_react_native,
    })
}

/// Reads the reason of an `RCTFatalException` if it has a stack.
fn read_fatal_exception<'a>(facts: &PartFacts<'_, 'a>) -> Option<ErrorSource<'a>> {
    let name = facts.error_member(&["nsexception", "name"])?.decode_string()?;
    let own = name.strip_prefix("RCTFatalException")?.trim_start_matches([':', ' ']);
    let reason = facts.error_member(&["reason"]).or_else(|| facts.error_member(&["nsexception", "reason"]));
    let reason =
        reason?.as_text().filter(|reason| reason.raw().len() <= MOST_STACK_BYTES)?.decode().into_owned();
    let (message, stack) = reason.split_once(", stack:")?;
    let message = without_engine(message.trim_start_matches("Unhandled JS Exception: "));
    Some(ErrorSource {
        // The name is cut off after 75 characters, but not the reason.
        name: Some(cut_text(if message.is_empty() { own } else { message })),
        message: Some(cut_text(message)),
        stack: StackSource::Fatal(stack.to_owned()),
        debug_id: None,
        is_react_native: true,
    })
}

/// Removes the engine that React Native appends to a message: `, js engine: hermes`.
fn without_engine(message: &str) -> &str {
    let engine = message.rsplit_once(", js engine: ");
    engine
        .filter(|(_, engine)| engine.bytes().all(|b| b.is_ascii_alphanumeric()))
        .map_or(message, |(text, _)| text)
}

/// Splits `TypeError: undefined is not a function` into class and message. Bridges put the whole text into either.
fn split_class_and_message(
    name: Option<String>,
    message: Option<String>,
) -> (Option<String>, Option<String>) {
    let text = name.unwrap_or_default();
    let text = without_engine(&text);
    let (class, rest) = match text.split_once(": ") {
        Some((class, rest)) if is_class(class) => (class.to_owned(), rest.to_owned()),
        _ if is_class(text.trim()) => (text.trim().to_owned(), String::new()),
        _ => (String::new(), text.to_owned()),
    };
    let message = message.filter(|message| !message.is_empty()).unwrap_or(rest);
    let message = without_engine(&message);
    let message = message.strip_prefix(&format!("{class}: ")).unwrap_or(message).to_owned();
    (Some(class).filter(|class| !class.is_empty()), Some(message).filter(|message| !message.is_empty()))
}

fn is_class(text: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
    !text.is_empty() && text.len() <= 100 && text.chars().all(word)
}

/// Reads the frames of a backtrace: an array of objects and lines, or one text.
fn frames_of(backtrace: Value<'_>) -> Vec<JavaScriptFrame> {
    let mut frames = Vec::new();
    if let Some(text) = backtrace.as_text().filter(|text| text.raw().len() <= MOST_STACK_BYTES) {
        stack::read_frames(&text.decode(), &mut frames);
        return frames;
    }
    backtrace.each_item(|item| {
        if frames.len() >= MOST_JAVASCRIPT_FRAMES {
            return;
        }
        match item.as_text() {
            Some(line) if line.raw().len() <= MOST_STACK_BYTES => {
                stack::read_frames(&line.decode(), &mut frames);
            }
            Some(_) => {}
            None => frames.extend(read_frame_object(item)),
        }
    });
    frames.truncate(MOST_JAVASCRIPT_FRAMES);
    frames
}

/// Reads a frame object. React Native counts columns from 0, Sentry's clients from 1. Offsets count from 0.
fn read_frame_object(frame: Value<'_>) -> Option<JavaScriptFrame> {
    if !frame.is_object() {
        return None;
    }
    let [method, function, file, filename, line, lineno] =
        frame.find_members(["methodName", "function", "file", "filename", "lineNumber", "lineno"]);
    let [column, colno, own, own_too] = frame.find_members(["column", "colno", "debugId", "debug_id"]);
    let function = method.or(function).and_then(Value::as_text).map(shorten_text);
    let file = file.or(filename).and_then(Value::as_text).map(shorten_text).unwrap_or_default();
    let (file, has_address) = stack::without_address(&file);
    let (function, has_open_address) = stack::without_open_address(function.as_deref().unwrap_or_default());
    let is_bytecode = has_address || has_open_address;
    let from_1 = colno.and_then(read_number).and_then(|column| column.checked_sub(u32::from(!is_bytecode)));
    Some(JavaScriptFrame {
        function: stack::function_name(function),
        bundle: stack::bundle_file_name(file),
        module: None,
        debug_id: own.or(own_too).and_then(Value::as_uuid).and_then(crate::json::debug_id),
        line: line.or(lineno).and_then(read_number).filter(|line| *line > 0),
        column: column.and_then(read_number).or(from_1),
        is_bytecode,
        is_component: false,
    })
}

/// Reads a number. Some bridges write it as a text, or with a fraction of zero.
fn read_number(value: Value<'_>) -> Option<u32> {
    u32::try_from(value.decimal_unsigned()?).ok()
}

fn shorten_text(text: Text<'_>) -> String {
    cut_text(&text.decode())
}

fn cut_text(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests;
