//! Stacks in text form, as JavaScriptCore, V8 and Hermes write `Error.stack`.

use super::{JavaScriptFrame, MOST_JAVASCRIPT_FRAMES, cut_text};

/// Names that engines write for code outside of functions.
const CODE: [&str; 3] = ["eval code", "global code", "module code"];
/// The maximum length of a bundle's file name, in characters.
const MOST_NAME: usize = 200;

/// Adds the frames of a text, line by line. Skips lines that are not frames, such as the error's message.
pub(super) fn read_frames(text: &str, frames: &mut Vec<JavaScriptFrame>) {
    for line in text.lines() {
        if frames.len() >= MOST_JAVASCRIPT_FRAMES {
            return;
        }
        frames.extend(read_frame(line.trim()));
    }
}

/// Reads the frames of an `RCTFatalException`: `function@line:column`. React Native counts the columns from 0 and omits
/// the bundle, except for a module of a RAM bundle. A function of the engine is at line -1.
pub(super) fn read_fatal(text: &str, bundle: &str) -> Vec<JavaScriptFrame> {
    let frame = |line: &str| {
        let (name, place) = line.trim().rsplit_once('@')?;
        let (name, is_bytecode) = without_open_address(name);
        if place == "-1" {
            return Some(JavaScriptFrame { function: function_name(name), ..JavaScriptFrame::default() });
        }
        let (rest, column) = number_behind(place)?;
        let (module, line) = rest.split_once(':').unwrap_or((bundle, rest));
        let line = line.parse().ok().filter(|line| *line > 0)?;
        Some(JavaScriptFrame {
            function: function_name(name),
            bundle: Some(module.chars().take(MOST_NAME).collect()),
            line: Some(line),
            column: Some(column),
            is_bytecode,
            ..JavaScriptFrame::default()
        })
    };
    text.lines().filter_map(frame).take(MOST_JAVASCRIPT_FRAMES).collect()
}

/// Reads one line of a stack.
fn read_frame(line: &str) -> Option<JavaScriptFrame> {
    if let Some(rest) = line.strip_prefix("at ") {
        return Some(read_v8_frame(rest.trim()));
    }
    // Addresses may also contain an `@`.
    let Some((name, place)) = line.split_once('@') else {
        // A message may end in a port. So a location without a name needs a line and a column, and no text before it.
        return read_located_frame("", line, false)
            .filter(|frame| frame.column.is_some() && !line.contains(": "));
    };
    let place = place.trim();
    // A line of a message may contain an `@`. A frame has a position, or says that it has no file.
    let is_of_engine =
        place.starts_with('[') || place.contains("wasm-function[") || CODE.contains(&name.trim());
    let has_position = number_behind(place).is_some_and(|(rest, _)| number_behind(rest).is_some());
    let engine = || JavaScriptFrame { function: function_name(name), ..JavaScriptFrame::default() };
    read_located_frame(name, place, false).or_else(|| (is_of_engine || has_position).then(engine))
}

/// `fn (url:line:column)`, `async fn (…)`, `url:line:column`, `fn (address at url:1:offset)`, `fn (native)`,
/// `eval (eval at fn (url:line:column), <anonymous>:line:column)`.
fn read_v8_frame(rest: &str) -> JavaScriptFrame {
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let inside = rest.strip_suffix(')');
    let split = inside
        .and_then(|inside| inside.strip_prefix('(').map(|place| ("", place)).or(inside.split_once(" (")));
    let (name, place) = split.map_or(("", rest), |(name, place)| (name.trim(), place.trim()));
    let (place, bytecode) = without_address(place);
    let own = if name.is_empty() && !rest.contains(':') { rest } else { name };
    read_located_frame(name, place, bytecode)
        .unwrap_or_else(|| JavaScriptFrame { function: function_name(own), ..JavaScriptFrame::default() })
}

/// Removes the words `address at`. Returns true if they were there: the column is then an offset in bytecode.
pub(super) fn without_address(place: &str) -> (&str, bool) {
    place.strip_prefix("address at ").map_or((place, false), |place| (place, true))
}

/// Removes the `(address at` that the first React Native versions with Hermes left behind a function's name. Returns
/// true if it was there: the column is then an offset in bytecode.
pub(super) fn without_open_address(name: &str) -> (&str, bool) {
    name.trim().strip_suffix("(address at").map_or((name, false), |name| (name, true))
}

/// Reads a frame at `url:line:column`. Engines count both from 1, and offsets in bytecode from 0.
fn read_located_frame(name: &str, place: &str, bytecode: bool) -> Option<JavaScriptFrame> {
    let (rest, last) = number_behind(place)?;
    let (url, line, column) = match number_behind(rest) {
        Some((url, line)) => (url, line, if bytecode { Some(last) } else { last.checked_sub(1) }),
        None => (rest, last, None),
    };
    Some(JavaScriptFrame {
        function: function_name(name),
        bundle: Some(bundle_file_name(url)?),
        line: Some(line).filter(|line| *line > 0),
        column,
        is_bytecode: bytecode,
        ..JavaScriptFrame::default()
    })
}

/// Splits `rest:number`.
fn number_behind(text: &str) -> Option<(&str, u32)> {
    let (rest, number) = text.rsplit_once(':')?;
    let number = number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())??;
    Some((rest, number))
}

/// Returns a function's name, or `None` for the placeholders of unnamed functions.
pub(super) fn function_name(name: &str) -> Option<String> {
    let name = name.trim();
    let none = [
        "",
        "<unknown>",
        "<anonymous>",
        "anonymous",
        "?",
        "(anonymous function)",
        "(anonymous)",
        "<eval>",
        "global",
    ];
    (!none.contains(&name) && !CODE.contains(&name)).then(|| cut_text(name))
}

/// Returns the bundle's file name in an address or a path: without scheme, host, folders, query and fragment. Returns
/// `None` for code in no file of the app: of the engine, `eval`, a browser extension, or the address itself.
#[must_use]
pub(super) fn bundle_file_name(url: &str) -> Option<String> {
    let url = url.trim();
    if is_eval(url) {
        return None;
    }
    // JavaScriptCore cuts queries off, so React Native writes `index.bundle//&platform=ios` for a `?`.
    let url = url.split_once("//&").map_or(url, |(url, _)| url);
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = match url.split_once(':') {
        Some((scheme, _)) if is_without_file(scheme) => return None,
        // The address of a page may have no file name.
        Some(("http" | "https", rest)) => rest.trim_start_matches('/').split_once('/')?.1,
        _ => url.split_once("://").map_or(url, |(_, behind)| behind),
    };
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let bare = name.trim_matches(['(', ')', '[', ']', '<', '>']);
    let none = [
        "",
        "native code",
        "wasm code",
        "native",
        "anonymous",
        "unknown",
        "InternalBytecode.js",
        "eval code",
    ];
    (!none.contains(&bare)).then(|| name.chars().take(MOST_NAME).collect())
}

/// Returns true for URL schemes that name no file of the app.
fn is_without_file(scheme: &str) -> bool {
    const SCHEMES: [&str; 7] = ["about", "blob", "data", "javascript", "node", "wasm", "webpack-internal"];
    let scheme = scheme.to_ascii_lowercase();
    SCHEMES.contains(&scheme.as_str()) || scheme.ends_with("-extension")
}

/// Returns true for code that `eval` or `Function` created: `eval at fn (…)` in V8, `… line 26 > eval` in Firefox.
fn is_eval(url: &str) -> bool {
    url.starts_with("eval at ") || [" > eval", " > Function"].iter().any(|made| url.contains(made))
}
