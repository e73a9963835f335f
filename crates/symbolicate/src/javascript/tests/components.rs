//! React's component stack beside the stack of the error.

use super::{answered, frames, own_map, report, symbols};
use serde_json::{Value, json};

/// Returns a report with a component stack.
fn with_components(stack: &Value) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&report("TypeError", &frames())).unwrap();
    json["crash"]["error"]["user_reported"]["componentStack"] = stack.clone();
    json.to_string().into_bytes()
}

#[test]
fn components_are_symbolicated_after_the_error_and_do_not_count() {
    let without = answered(&report("TypeError", &frames()), Some(&symbols(&own_map()))).0;
    let text = "\n    at Row (app:///main.jsbundle?platform=ios:1:15)\n    at View\n    at Cart (app:///main.jsbundle:1:21)";
    let objects = json!([
        {"methodName": "Row", "file": "main.jsbundle", "lineNumber": 1.0, "column": 14.0},
        {"methodName": "View"},
        {"methodName": "Cart", "file": "main.jsbundle", "lineNumber": 1, "column": 20}]);
    for stack in [json!(text), objects] {
        let (with, ours) = answered(&with_components(&stack), Some(&symbols(&own_map())));
        let frames = ours["javascript"]["frames"].as_array().unwrap();
        assert_eq!(frames.len(), 7, "the component of the system has no position: {frames:?}");
        assert!(frames[..5].iter().all(|frame| frame.get("component").is_none()));
        for (frame, line) in [(&frames[5], 2), (&frames[6], 6)] {
            assert_eq!(
                (&frame["component"], &frame["file"]),
                (&json!(true), &json!("src/cart.ts")),
                "{frame}"
            );
            assert_eq!(frame["line"], line);
        }
        let (with, without) = (with.grouping.unwrap(), without.grouping.clone().unwrap());
        assert_eq!((with.fingerprint, with.culprit), (without.fingerprint, without.culprit));
    }
    // The old form has no place in a bundle.
    let old = json!("\n    in Row (at App.js:10)\n    in View");
    let (_, ours) = answered(&with_components(&old), Some(&symbols(&own_map())));
    assert_eq!(ours["javascript"]["frames"].as_array().unwrap().len(), 5);
}
