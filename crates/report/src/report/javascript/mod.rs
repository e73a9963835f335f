//! Errors of JavaScript that a report carries beside its native threads: React Native's and other bridges'.
//!
//! Where they are: `crash.error.user_reported` in JavaScript's `language`, with a `backtrace` of objects, of
//! lines or of one text; and the `reason` of an `RCTFatalException`, behind `, stack:`. The shapes of a frame are
//! those of React Native's `parseErrorStack`, of Sentry's clients, and of the texts of JavaScriptCore, V8 and
//! Hermes.

mod module;
pub(crate) mod ours;
mod stack;

use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};
use crate::{Number, Text};
pub use module::BundleModule;
pub(crate) use ours::OurContext;
pub use ours::{MOST_JAVASCRIPT_FRAMES, OurJavaScriptFrame};
use unslide_model::{DebugId, shell_word};

/// Characters of a function's name or a file's address.
const MOST_CHARS: usize = 512;
/// Bytes of a stack that is one text.
const MOST_STACK_BYTES: usize = 1 << 20;
/// The bundle of a release of React Native for iOS, which a fatal exception and a module of a RAM bundle do not name.
const DEFAULT_BUNDLE: &str = "main.jsbundle";
/// That of a release for Android.
const ANDROID_BUNDLE: &str = "index.android.bundle";

/// An error of JavaScript. Every text is the device's claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaScriptError {
    /// The error's class, such as `TypeError`.
    pub name: Option<String>,
    /// What it says.
    pub message: Option<String>,
    /// Its frames, the innermost first; [`MOST_JAVASCRIPT_FRAMES`] at most.
    pub frames: Vec<JavaScriptFrame>,
    /// `CFBundleIdentifier` of the app.
    pub app: String,
    /// `ios`, `android` or another system in lower case.
    pub platform: String,
    /// `CFBundleShortVersionString`.
    pub version: String,
    /// `CFBundleVersion`.
    pub build: String,
    /// The bundle that the modules among the frames are of.
    module_bundle: String,
}

impl JavaScriptError {
    /// The bundle that a frame's source map is of; `None` for a function of the engine.
    #[must_use]
    pub fn mapped_bundle<'e>(&'e self, frame: &'e JavaScriptFrame) -> Option<&'e str> {
        match frame.module {
            Some(_) => Some(&self.module_bundle),
            None => frame.bundle.as_deref(),
        }
    }

    /// The command that sends the source map of a bundle, for a shell.
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
            command = format!("{command} {option} {}", argument(value));
        }
        command
    }

    /// The error's own id is of the bundle that it was thrown in.
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

/// A text of the report, for a command.
fn argument(text: &str) -> String {
    const LONGEST: usize = 200;
    shell_word(&text.chars().filter(|c| !c.is_control()).take(LONGEST).collect::<String>())
}

/// One frame of an error of JavaScript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaScriptFrame {
    /// The function as the device names it, which a minifier may have shortened.
    pub function: Option<String>,
    /// The bundle's file name, without its folders and query, or the name of a part of it; `None` for a function of the
    /// engine.
    pub bundle: Option<String>,
    /// The part of the bundle, where lines are counted from its begin.
    pub module: Option<BundleModule>,
    /// The debug id that the report itself gives for the bundle.
    pub debug_id: Option<DebugId>,
    /// The line in the bundle, from 1.
    pub line: Option<u32>,
    /// The column in the line, from 0; for Hermes bytecode the offset in the bytecode.
    pub column: Option<u32>,
    /// True where the text says that the column is an offset in bytecode.
    pub is_bytecode: bool,
}

/// Where an error's frames are written, and what it is called.
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
    /// The error of JavaScript that the report is about; `None` where it is about none, or has no frames of it.
    #[must_use]
    pub fn javascript_error(&self) -> Option<JavaScriptError> {
        let main = self.main_part();
        let facts = PartFacts::of(self, main);
        let source = match facts.part()?.error_kind() {
            ErrorKind::User => reported(&facts)?,
            ErrorKind::NsException => fatal(&facts)?,
            _ => return None,
        };
        let mut frames = match source.stack {
            StackSource::Value(value) => frames_of(value),
            StackSource::Fatal(text) => stack::read_fatal(&text, DEFAULT_BUNDLE),
        };
        if frames.is_empty() {
            return None;
        }
        let keys = ["CFBundleIdentifier", "CFBundleShortVersionString", "CFBundleVersion", "system_name"];
        let [app, version, build, system] =
            facts.system(keys).map(|value| value.and_then(Value::text).map(short).unwrap_or_default());
        let platform = platform(&system);
        let default = if platform == "android" { ANDROID_BUNDLE } else { DEFAULT_BUNDLE };
        let module_bundle = module::find(&mut frames, source.is_react_native, default);
        let (name, message) = named(source.name, source.message);
        let error = JavaScriptError { name, message, frames, app, platform, version, build, module_bundle };
        Some(error.with_debug_id(source.debug_id))
    }
}

/// The platform of a system's name, as an upload of a source map spells it.
#[must_use]
pub fn platform(system: &str) -> String {
    let system = system.trim().to_lowercase();
    match system.as_str() {
        "iphone os" | "ipados" => "ios".to_owned(),
        _ => system,
    }
}

/// `crash.error.user_reported`, where its language is JavaScript's.
fn reported<'a>(facts: &PartFacts<'_, 'a>) -> Option<ErrorSource<'a>> {
    let user = facts.error(&["user_reported"])?;
    let [name, language, backtrace, own, own_too] =
        user.members(["name", "language", "backtrace", "debugId", "debug_id"]);
    let language = language.and_then(Value::string)?.to_lowercase();
    let is_one_of = |known: &[&str]| known.iter().any(|known| language.contains(known));
    let is_react_native = is_one_of(&["react-native", "react native", "hermes"]);
    if !is_react_native && !is_one_of(&["javascript", "typescript"]) && language != "js" {
        return None;
    }
    Some(ErrorSource {
        name: name.and_then(Value::text).map(short),
        message: facts.error(&["reason"]).and_then(Value::text).map(short),
        stack: StackSource::Value(backtrace?),
        debug_id: own.or(own_too).and_then(Value::uuid).and_then(crate::json::debug_id),
        is_react_native,
    })
}

/// The reason of an `RCTFatalException`, where it has a stack.
fn fatal<'a>(facts: &PartFacts<'_, 'a>) -> Option<ErrorSource<'a>> {
    let name = facts.error(&["nsexception", "name"])?.string()?;
    let own = name.strip_prefix("RCTFatalException")?.trim_start_matches([':', ' ']);
    let reason = facts.error(&["reason"]).or_else(|| facts.error(&["nsexception", "reason"]));
    let reason =
        reason?.text().filter(|reason| reason.raw().len() <= MOST_STACK_BYTES)?.decode().into_owned();
    let (message, stack) = reason.split_once(", stack:")?;
    let message = without_engine(message.trim_start_matches("Unhandled JS Exception: "));
    Some(ErrorSource {
        // The name is cut off after 75 characters, the reason is not.
        name: Some(cut(if message.is_empty() { own } else { message })),
        message: Some(cut(message)),
        stack: StackSource::Fatal(stack.to_owned()),
        debug_id: None,
        is_react_native: true,
    })
}

/// A message without the engine that React Native writes behind it: `, js engine: hermes`.
fn without_engine(message: &str) -> &str {
    let engine = message.rsplit_once(", js engine: ");
    engine
        .filter(|(_, engine)| engine.bytes().all(|b| b.is_ascii_alphanumeric()))
        .map_or(message, |(text, _)| text)
}

/// The class and the message of `TypeError: undefined is not a function`, which bridges give as either.
fn named(name: Option<String>, message: Option<String>) -> (Option<String>, Option<String>) {
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

/// The frames of a backtrace: an array of objects and lines, or one text.
fn frames_of(backtrace: Value<'_>) -> Vec<JavaScriptFrame> {
    let mut frames = Vec::new();
    if let Some(text) = backtrace.text().filter(|text| text.raw().len() <= MOST_STACK_BYTES) {
        stack::read(&text.decode(), &mut frames);
        return frames;
    }
    backtrace.each_item(|item| {
        if frames.len() >= MOST_JAVASCRIPT_FRAMES {
            return;
        }
        match item.text() {
            Some(line) if line.raw().len() <= MOST_STACK_BYTES => stack::read(&line.decode(), &mut frames),
            Some(_) => {}
            None => frames.extend(structured(item)),
        }
    });
    frames.truncate(MOST_JAVASCRIPT_FRAMES);
    frames
}

/// A frame that is an object: React Native counts columns from 0, Sentry's clients from 1. Offsets are from 0.
fn structured(frame: Value<'_>) -> Option<JavaScriptFrame> {
    if !frame.is_object() {
        return None;
    }
    let [method, function, file, filename, line, lineno] =
        frame.members(["methodName", "function", "file", "filename", "lineNumber", "lineno"]);
    let [column, colno, own, own_too] = frame.members(["column", "colno", "debugId", "debug_id"]);
    let function = method.or(function).and_then(Value::text).map(short);
    let file = file.or(filename).and_then(Value::text).map(short).unwrap_or_default();
    let (file, has_address) = stack::without_address(&file);
    let (function, has_open_address) = stack::without_open_address(function.as_deref().unwrap_or_default());
    let is_bytecode = has_address || has_open_address;
    let from_1 = colno.and_then(number).and_then(|column| column.checked_sub(u32::from(!is_bytecode)));
    Some(JavaScriptFrame {
        function: stack::function(function),
        bundle: stack::bundle(file),
        module: None,
        debug_id: own.or(own_too).and_then(Value::uuid).and_then(crate::json::debug_id),
        line: line.or(lineno).and_then(number).filter(|line| *line > 0),
        column: column.and_then(number).or(from_1),
        is_bytecode,
    })
}

/// A number, which some bridges write as a text.
fn number(value: Value<'_>) -> Option<u32> {
    match value.number() {
        Some(Number::Int { magnitude, negative: false }) => u32::try_from(magnitude).ok(),
        Some(_) => None,
        None => value.text()?.decode().trim().parse().ok(),
    }
}

fn short(text: Text<'_>) -> String {
    cut(&text.decode())
}

fn cut(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests;
