//! Stacks that are texts, as JavaScriptCore, V8 and Hermes write `Error.stack`.

use super::{JavaScriptFrame, MOST_JAVASCRIPT_FRAMES, cut};

/// Characters of a bundle's file name.
const MOST_NAME: usize = 200;

/// Adds the frames of a text, line by line. What is no frame, such as the error's message, is skipped.
pub(super) fn read(text: &str, frames: &mut Vec<JavaScriptFrame>) {
    for line in text.lines() {
        if frames.len() >= MOST_JAVASCRIPT_FRAMES {
            return;
        }
        frames.extend(frame(line.trim()));
    }
}

/// The frames of an `RCTFatalException`: `function@line:column`, where React Native has counted the columns from 0
/// and has left the bundle out, unless it is a module of a RAM bundle.
pub(super) fn read_fatal(text: &str, bundle: &str) -> Vec<JavaScriptFrame> {
    let frame = |line: &str| {
        let (name, place) = line.trim().rsplit_once('@')?;
        let (rest, column) = number_behind(place)?;
        let (module, line) = rest.split_once(':').unwrap_or((bundle, rest));
        let line = line.parse().ok().filter(|line| *line > 0)?;
        Some(JavaScriptFrame {
            function: function(name),
            bundle: Some(module.chars().take(MOST_NAME).collect()),
            line: Some(line),
            column: Some(column),
            ..JavaScriptFrame::default()
        })
    };
    text.lines().filter_map(frame).take(MOST_JAVASCRIPT_FRAMES).collect()
}

/// One line of a stack.
fn frame(line: &str) -> Option<JavaScriptFrame> {
    if let Some(rest) = line.strip_prefix("at ") {
        return Some(v8(rest.trim()));
    }
    let Some((name, place)) = line.rsplit_once('@') else {
        // A message may end in a port: a place alone has a line and a column, and no text before it.
        return located("", line, false).filter(|frame| frame.column.is_some() && !line.contains(": "));
    };
    if place.trim() == "[native code]" {
        return Some(JavaScriptFrame { function: function(name), ..JavaScriptFrame::default() });
    }
    // A line of a message may hold an `@`: a frame has a position.
    located(name, place, false)
}

/// `fn (url:line:column)`, `async fn (…)`, `url:line:column`, `fn (address at url:1:offset)`, `fn (native)`.
fn v8(rest: &str) -> JavaScriptFrame {
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let (name, place) = match rest.strip_suffix(')').and_then(|inside| inside.rsplit_once('(')) {
        Some((name, place)) => (name.trim(), place.trim()),
        None => ("", rest),
    };
    let (place, bytecode) = without_address(place);
    let own = if name.is_empty() && !rest.contains(':') { rest } else { name };
    located(name, place, bytecode)
        .unwrap_or_else(|| JavaScriptFrame { function: function(own), ..JavaScriptFrame::default() })
}

/// A place without the words `address at`, and whether it had them: an offset in bytecode then stands for the column.
pub(super) fn without_address(place: &str) -> (&str, bool) {
    place.strip_prefix("address at ").map_or((place, false), |place| (place, true))
}

/// A frame at `url:line:column`; engines count both from 1, and offsets in bytecode from 0.
fn located(name: &str, place: &str, bytecode: bool) -> Option<JavaScriptFrame> {
    let (rest, last) = number_behind(place)?;
    let (url, line, column) = match number_behind(rest) {
        Some((url, line)) => (url, line, if bytecode { Some(last) } else { last.checked_sub(1) }),
        None => (rest, last, None),
    };
    Some(JavaScriptFrame {
        function: function(name),
        bundle: Some(bundle(url)?),
        line: Some(line).filter(|line| *line > 0),
        column,
        is_bytecode: bytecode,
        ..JavaScriptFrame::default()
    })
}

/// `rest:number`.
fn number_behind(text: &str) -> Option<(&str, u32)> {
    let (rest, number) = text.rsplit_once(':')?;
    let number = number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())??;
    Some((rest, number))
}

/// A function's name; `None` for the words that stand for none.
pub(super) fn function(name: &str) -> Option<String> {
    let name = name.trim();
    let none =
        ["", "<unknown>", "<anonymous>", "anonymous", "?", "(anonymous function)", "global code", "global"];
    (!none.contains(&name)).then(|| cut(name))
}

/// The bundle's file name in an address or a path: without scheme, host, folders, query and fragment. `None` where
/// there is none, as in `[native code]`.
#[must_use]
pub(super) fn bundle(url: &str) -> Option<String> {
    let url = url.trim();
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, behind)| behind);
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let none = ["", "[native code]", "native", "<anonymous>", "unknown", "InternalBytecode.js", "eval code"];
    (!none.contains(&name)).then(|| name.chars().take(MOST_NAME).collect())
}
