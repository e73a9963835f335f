use super::*;
use crate::ReadLimits;
use serde_json::json;

fn error(user: &str) -> Option<JavaScriptError> {
    let system = r#"{"CFBundleIdentifier":"com.example.shop","CFBundleShortVersionString":"1.2","CFBundleVersion":"7","system_name":"iOS"}"#;
    let json = format!(r#"{{"system":{system},"crash":{{"error":{user}}}}}"#);
    Report::read(json.as_bytes(), &ReadLimits::default()).unwrap().javascript_error()
}

fn reported(backtrace: &str) -> Vec<JavaScriptFrame> {
    let user = format!(
        r#"{{"type":"user","reason":"x","user_reported":{{"name":"TypeError","language":"JavaScript","backtrace":{backtrace}}}}}"#
    );
    error(&user).map(|error| error.frames).unwrap_or_default()
}

fn of(lines: &str) -> Vec<(String, String, u32, u32)> {
    let frames = reported(&format!("\"{}\"", lines.replace('\n', "\\n")));
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let shown = |frame: &JavaScriptFrame| {
        let (line, column) = (frame.line.unwrap_or(0), frame.column.unwrap_or(999));
        (text(&frame.function), text(&frame.bundle), line, column)
    };
    frames.iter().map(shown).collect()
}

#[test]
fn modules_of_a_bundle_are_known_by_their_names_where_it_is_of_react_native() {
    let of = |language: &str, lines: &[&str]| -> Vec<(Option<u32>, Option<u32>, String)> {
        let user = json!({"name": "E", "language": language, "backtrace": lines});
        let error = error(&json!({"type": "user", "user_reported": user}).to_string()).unwrap();
        let shown = |frame: &JavaScriptFrame| {
            let bundle = error.mapped_bundle(frame).unwrap_or_default().to_owned();
            (frame.module.map(|part| part.segment), frame.module.and_then(|part| part.module), bundle)
        };
        error.frames.iter().map(shown).collect()
    };
    let main = || "main.jsbundle".to_owned();
    let lines = ["a@12.js:1:2", "b@seg-3_5.js:1:2", "c@app:///seg-3.js:1:2", "forEach@[native code]"];
    let expected = [
        (Some(0), Some(12), main()),
        (Some(3), Some(5), main()),
        (Some(3), None, main()),
        (None, None, String::new()),
    ];
    assert_eq!(of("react-native", &lines), expected);
    let index = "index.ios.bundle".to_owned();
    let named = of("javascript", &["a@12.js:1:2", "b@file:///index.ios.bundle:3:4"]);
    assert_eq!(named, [(Some(0), Some(12), index.clone()), (None, None, index)]);
    let of_web = of("javascript", &["a@12.js:1:2", "b@main.js:3:4"]);
    assert_eq!(of_web[0], (None, None, "12.js".to_owned()));
}

#[test]
fn numbers_may_be_texts_or_have_a_fraction_of_zero() {
    let frame = |line: &str, column: &str| {
        let read = reported(&format!(
            r#"[{{"methodName":"f","file":"main.jsbundle","lineNumber":{line},"column":{column}}}]"#
        ));
        (read[0].line, read[0].column)
    };
    for (line, column) in [("1203", "7"), ("1203.0", "7.0"), ("\"1203\"", "\"7\""), ("1.203e3", "\"7.0\"")] {
        assert_eq!(frame(line, column), (Some(1203), Some(7)), "{line} {column}");
    }
    assert_eq!(frame("1203.5", "-1"), (None, None));
}

fn frame(function: &str, bundle: &str, line: u32, column: u32) -> (String, String, u32, u32) {
    (function.to_owned(), bundle.to_owned(), line, column)
}

#[test]
fn every_engines_stack_is_read_with_columns_from_0() {
    let v8 = "TypeError: undefined is not a function\n    at render (http://h:8081/index.bundle?platform=ios&dev=true:12:10)\n    at http://h/index.bundle:3:1\n    at async Promise.all (index 0)\n    at async load (app:///main.jsbundle:7:8)\n    at Array.map (native)\n    at Object.pay [as onPress] (/var/x y/main.jsbundle:1:2)";
    assert_eq!(
        of(v8),
        [
            frame("render", "index.bundle", 12, 9),
            frame("-", "index.bundle", 3, 0),
            frame("Promise.all", "-", 0, 999),
            frame("load", "main.jsbundle", 7, 7),
            frame("Array.map", "-", 0, 999),
            frame("Object.pay [as onPress]", "main.jsbundle", 1, 1),
        ]
    );
    let jsc = "pay@app:///main.jsbundle:1:40\n@file:///a/main.jsbundle:2:1\nforEach@[native code]\nglobal code@main.jsbundle:9:3\nno frame here";
    assert_eq!(
        of(jsc),
        [
            frame("pay", "main.jsbundle", 1, 39),
            frame("-", "main.jsbundle", 2, 0),
            frame("forEach", "-", 0, 999),
            frame("-", "main.jsbundle", 9, 2),
        ]
    );
    let hermes =
        "    at pay (address at index.android.bundle:1:73941)\n    at anonymous (address at seg-3.js:1:20)";
    assert_eq!(of(hermes), [frame("pay", "index.android.bundle", 1, 73941), frame("-", "seg-3.js", 1, 20)]);
}

#[test]
fn code_in_no_file_of_the_app_has_no_bundle() {
    let without = |function: &str| frame(function, "-", 0, 999);
    let v8 = "    at eval (eval at foo (main.jsbundle:1:101), <anonymous>:1:1)\n    at bar (eval at <anonymous> (eval at foo (a.js:1:2)), <anonymous>:3:4)\n    at apply ((native):0:0)\n    at new Cart (<anonymous>)\n    at <anonymous>\n    at <anonymous>:1:1\n    at add (wasm://wasm/7a1b:wasm-function[3]:0x1f)\n    at load (node:internal/modules/cjs:1:2)\n    at f (about:blank:1:2)\n    at f (blob:https://shop.example/0a-1b:1:2)\n    at f (data:text/javascript;base64,Zm9v:1:2)\n    at f (chrome-extension://abc/inject.js:1:2)\n    at f (https://shop.example:8443:1:2)\n    at anonymous (address at InternalBytecode.js:1:1271)";
    let names = ["eval", "bar", "apply", "new Cart", "-", "-", "add", "load", "f", "f", "f", "f", "f", "-"];
    assert_eq!(of(v8), names.map(without));
    let others = "forEach@[native code]\neval@[native code]\neval code@\nwasm-function[3]@[wasm code]\nadd@http://h/a.wasm:wasm-function[3]:0x1b\nf@http://h/a.js line 26 > eval:2:65\n@http://h/a.js line 1 > Function:1:1\nglobal code@about:blank:1:1\nmail a@b.example is wrong";
    let names = ["forEach", "eval", "-", "wasm-function[3]", "add", "f", "-", "-"];
    assert_eq!(of(others), names.map(without));
    let objects = reported(
        r#"[{"methodName":"eval","file":"eval at foo (main.jsbundle:1:1), <anonymous>","lineNumber":1,"column":1},
            {"methodName":"apply","file":"(native)","lineNumber":0,"column":0},
            {"methodName":"f","file":"blob:http://h/1","lineNumber":1,"column":1}]"#,
    );
    assert_eq!(objects.len(), 3);
    assert!(objects.iter().all(|frame| frame.bundle.is_none()), "{objects:?}");
}

#[test]
fn a_bundle_has_the_same_name_in_every_form_of_its_address() {
    for address in [
        "http://localhost:8081/index.bundle//&platform=ios&dev=true&app=com.example.shop",
        "http://localhost:8081/index.bundle?platform=ios&path=a/b@c",
        "http://localhost:8081/index.bundle//&a=b?c#d",
        "https://shop.example/@scope/index.bundle#x",
        "app:///index.bundle",
        "app://index.bundle",
        "capacitor://localhost/static/index.bundle",
        "file:///var/x y/index.bundle",
        "/data/a (b)/index.bundle",
        "C:\\\\app\\\\index.bundle",
        "index.bundle",
    ] {
        let expected = [frame("pay", "index.bundle", 1, 100)];
        assert_eq!(of(&format!("pay@{address}:1:101")), expected, "{address}");
        assert_eq!(of(&format!("at pay ({address}:1:101)")), expected, "{address}");
        let file = json!([{"methodName": "pay", "file": address.replace("\\\\", "\\"), "lineNumber": 1, "column": 100}]);
        assert_eq!(reported(&file.to_string())[0].bundle.as_deref(), Some("index.bundle"), "{address}");
    }
}

#[test]
fn objects_count_columns_as_their_bridge_does() {
    let frames = reported(
        r#"[{"methodName":"pay","file":"http://h/main.jsbundle?x=1","lineNumber":4,"column":0},
            {"function":"cart","filename":"app:///main.jsbundle","lineno":5,"colno":8},
            {"methodName":"f","file":"main.jsbundle","lineNumber":"6","column":"3"}, "g@main.jsbundle:7:2", 5]"#,
    );
    let at: Vec<_> = frames.iter().map(|frame| (frame.line, frame.column)).collect();
    assert_eq!(at, [(Some(4), Some(0)), (Some(5), Some(7)), (Some(6), Some(3)), (Some(7), Some(1))]);
    assert!(frames.iter().all(|frame| frame.bundle.as_deref() == Some("main.jsbundle")));
}

#[test]
fn objects_keep_the_words_that_mark_an_offset_in_bytecode() {
    let frames = reported(
        r#"[{"methodName":"pay","file":"address at index.android.bundle","lineNumber":1,"column":73941},
            {"function":"cart","filename":"address at app:///index.android.bundle","lineno":1,"colno":20}]"#,
    );
    let at: Vec<_> =
        frames.iter().map(|frame| (frame.bundle.as_deref(), frame.column, frame.is_bytecode)).collect();
    let bundle = Some("index.android.bundle");
    assert_eq!(at, [(bundle, Some(73941), true), (bundle, Some(20), true)]);
}

#[test]
fn the_name_and_the_message_are_taken_apart_and_the_app_is_known() {
    let of = |name: &str, reason: &str| {
        let error = error(&format!(
            r#"{{"type":"user","reason":"{reason}","user_reported":{{"name":"{name}","language":"react-native","backtrace":["a@b.js:1:2"]}}}}"#
        ));
        let error = error.unwrap();
        assert_eq!((error.app.as_str(), error.platform.as_str()), ("com.example.shop", "ios"));
        assert_eq!((error.version.as_str(), error.build.as_str()), ("1.2", "7"));
        (error.name.unwrap_or_default(), error.message.unwrap_or_default())
    };
    let pair = |name: &str, message: &str| (name.to_owned(), message.to_owned());
    assert_eq!(
        of("TypeError", "undefined is not a function"),
        pair("TypeError", "undefined is not a function")
    );
    assert_eq!(of("Error: no cart", "Error: no cart"), pair("Error", "no cart"));
    assert_eq!(of("no class at all", ""), pair("", "no class at all"));
}

#[test]
fn a_fatal_exception_of_react_native_is_an_error_of_javascript() {
    let error = error(
        r#"{"type":"nsexception","reason":"Unhandled JS Exception: TypeError: undefined is not an object, stack:\npay@12:340\n<unknown>@7:0\ncart@5.js:3:8\n","nsexception":{"name":"RCTFatalException: Unhandled JS Exception: TypeError: undef..."}}"#,
    )
    .unwrap();
    assert_eq!(error.name.as_deref(), Some("TypeError"));
    assert_eq!(error.message.as_deref(), Some("undefined is not an object"));
    let at: Vec<_> = error.frames.iter().map(|f| (f.function.as_deref(), f.line, f.column)).collect();
    let expected =
        [(Some("pay"), Some(12), Some(340)), (None, Some(7), Some(0)), (Some("cart"), Some(3), Some(8))];
    assert_eq!(at, expected);
    assert_eq!(error.frames[0].bundle.as_deref(), Some("main.jsbundle"));
    assert_eq!(error.frames[2].module, Some(BundleModule { segment: 0, module: Some(5) }));
}

#[test]
fn the_first_react_native_with_hermes_is_read() {
    let error = error(
        r#"{"type":"nsexception","reason":"Unhandled JS Exception: TypeError: undefined is not a function, js engine: hermes, stack:\nanonymous (address at@1:1082033\napply@-1\ny (address at@1:120\n","nsexception":{"name":"RCTFatalException: Unhandled JS Exception: TypeError: undefined is not a function, js engine: hermes"}}"#,
    )
    .unwrap();
    assert_eq!(error.name.as_deref(), Some("TypeError"));
    assert_eq!(error.message.as_deref(), Some("undefined is not a function"));
    let at: Vec<_> = error.frames.iter().map(|f| (f.function.as_deref(), f.column, f.is_bytecode)).collect();
    assert_eq!(
        at,
        [(None, Some(1_082_033), true), (Some("apply"), None, false), (Some("y"), Some(120), true)]
    );
    let object =
        reported(r#"[{"methodName":"y (address at","file":"main.jsbundle","lineNumber":1,"column":120}]"#);
    assert_eq!((object[0].function.as_deref(), object[0].is_bytecode), (Some("y"), true));
}

#[test]
fn the_engine_is_no_part_of_a_message() {
    assert_eq!(without_engine("no cart, js engine: hermes"), "no cart");
    assert_eq!(without_engine("no cart, js engine: one of two"), "no cart, js engine: one of two");
    let user = r#"{"type":"user","reason":"no cart, js engine: jsc","user_reported":{"name":"Error: no cart, js engine: jsc","language":"js","backtrace":["a@b.js:1:2"]}}"#;
    assert_eq!(error(user).unwrap().message.as_deref(), Some("no cart"));
}

#[test]
fn the_command_for_a_missing_map_is_safe_to_copy() {
    let error = JavaScriptError {
        app: "com.example.shop".into(),
        version: "$(id)'".into(),
        ..JavaScriptError::default()
    };
    assert_eq!(
        error.upload_command("main.jsbundle"),
        r"unslide upload --source-map MAP --app com.example.shop --platform '' --app-version '$(id)'\''' --build '' --bundle main.jsbundle"
    );
}

#[test]
fn other_languages_and_empty_stacks_are_no_errors_of_javascript() {
    let user = |language: &str, backtrace: &str| {
        error(&format!(
            r#"{{"type":"user","user_reported":{{"name":"E","language":"{language}","backtrace":{backtrace}}}}}"#
        ))
    };
    assert_eq!(user("Lua", r#"["a@b.js:1:2"]"#), None);
    assert_eq!(user("JavaScript", "[]"), None);
    assert_eq!(user("JavaScript", "7"), None);
    let many = format!("[{}]", vec![r#""a@b.js:1:2""#; 5_000].join(","));
    assert_eq!(user("js", &many).unwrap().frames.len(), MOST_JAVASCRIPT_FRAMES);
    let long = format!(r#"["{}@b.js:1:2"]"#, "é".repeat(20_000));
    assert_eq!(user("js", &long).unwrap().frames[0].function.as_ref().unwrap().chars().count(), MOST_CHARS);
}
