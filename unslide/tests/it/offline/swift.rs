//! Swift's demangler, which some names end, in processes of its own.
//! Proves: bounded-input

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// A name that ends Swift's demangler.
const DEADLY: &str = "$s4Shop4QartV3addyySiD";

/// A report with frames of these names, given by the device.
fn report(names: &[String]) -> Value {
    let frames: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({"object_name": "Shop", "object_addr": 4_294_967_296_u64, "instruction_addr": 4_294_971_408_u64,
                   "symbol_addr": 4_294_971_392_u64, "symbol_name": name})
        })
        .collect();
    json!({
        "report": {"id": "5F9E6C1C-6E24-4C36-8F0E-9A3E3C0D6E10", "version": "3.3.0", "type": "standard"},
        "system": {"CFBundleIdentifier": "com.example.shop", "cpu_arch": "arm64"},
        "crash": {"error": {"type": "signal"}, "threads": [
            {"index": 0, "crashed": true, "backtrace": {"contents": frames, "skipped": 0}}]},
        "binary_images": [{"name": "/private/var/containers/Bundle/Application/Shop.app/Shop",
            "uuid": "0B1C2D3E-4F50-6172-8394-A5B6C7D8E9F0", "image_addr": 4_294_967_296_u64, "image_size": 1_048_576,
            "image_vmaddr": 4_294_967_296_u64, "cpu_type": 16_777_228, "cpu_subtype": 0}],
    })
}

/// What `unslide symbolicate` says of the frames' functions, report by report.
fn functions(reports: &[Value]) -> Vec<Vec<String>> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_unslide"))
        .arg("symbolicate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = reports.iter().map(|report| format!("{report}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let function =
        |frame: &Value| frame["symbolication"]["calls"][0]["function"].as_str().unwrap().to_owned();
    text.lines()
        .map(|line| {
            let report: Value = serde_json::from_str(line).unwrap();
            let frames = &report["crash"]["threads"][0]["backtrace"]["contents"];
            frames.as_array().unwrap().iter().map(function).collect()
        })
        .collect()
}

#[test]
fn a_name_that_ends_swifts_demangler_stays_as_it_is_and_costs_no_other_its_own() {
    let names = ["$s4Shop4CartV3addyySiF", DEADLY, "_$s4Shop4CartV3addyySiF", "main", "_ZN3geo5Shape4areaEi"];
    let names = names.map(str::to_owned);
    let found = functions(&[report(&names), report(&names)]);
    let readable = "Shop.Cart.add(Swift.Int) -> ()";
    assert_eq!(found, vec![[readable, DEADLY, readable, "main", "geo::Shape::area(int)"]; 2]);
}

#[test]
fn no_name_ends_the_program() {
    // Names near real ones: a letter changed, left out or put in, the same ones in each run.
    let letters = b"ABCDEFGSVWyzabcdfgilmnotvx0123456789_";
    let seeds = [
        "$s4Shop4CartV3addyySiF",
        "$s4main1xAA3FooVyADyADyS2iGAEGAFGvp",
        "$s7SwiftUI15ModifiedContentVyACyACyAA4TextVAA14_PaddingLayoutVGAA16_FlexFrameLayoutVGWOe",
        "$s12CanvasNative9NSCRenderC22drawFrameTexSubImage3DyySo8AVPlayerC_So0I15ItemVideoOutputCSo6CGSizeVtF",
    ];
    let mut state = 60_121_u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut names = Vec::new();
    for n in 0..4000 {
        let mut name = seeds[n % seeds.len()].as_bytes().to_vec();
        for _ in 0..=next(3) {
            let at = 2 + next(name.len() - 2);
            match next(3) {
                0 => name[at] = letters[next(letters.len())],
                1 => name.insert(at, letters[next(letters.len())]),
                _ => drop(name.remove(at)),
            }
        }
        names.push(String::from_utf8(name).unwrap());
    }
    let reports: Vec<Value> = names.chunks(10).map(report).collect();
    let found = functions(&reports);
    assert_eq!(found.len(), reports.len());
    let readable = found.iter().flatten().zip(&names).filter(|(found, name)| found != name).count();
    // Most are no names any more.
    assert!((400..4000).contains(&readable), "{readable}");
}
