//! The same frames of the same dSYM to our `POST /v1/symbolicate` and to Symbolicator's `POST /symbolicate`, from warm
//! caches.

use super::load::{Load, LoadFigures, Request};
use super::{UNLIMITED, start_api};
use crate::input::Input;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use unslide_embedded::free_port;
use unslide_tests::binary::Process;
use unslide_tests::installation::Installation;

/// Names the binary of Symbolicator, which has to be built by itself.
const BINARY: &str = "UNSLIDE_BENCH_SYMBOLICATOR";
/// The clients that ask at a time.
const CLIENTS: [u32; 2] = [1, 8];

/// Prints what a request takes of both, and the ratios.
pub async fn print(input: &Input, full: bool) {
    println!("\nThe same frames to POST /v1/symbolicate and to Symbolicator, from warm caches");
    let Some(binary) = std::env::var_os(BINARY).map(PathBuf::from) else {
        return println!("  left out: {BINARY} does not name its binary");
    };
    let mut installation = Installation::prepare().await;
    let key = start_api(&mut installation, input, &[UNLIMITED]).await;
    let port = free_port().expect("a port");
    let report: Value = serde_json::from_slice(&input.report(0)).expect("a report");
    // With its default options, and without what our answer does not have either.
    let by_default = request_of(&report);
    let mut least = by_default.clone();
    least["options"] = json!({"dif_candidates": false, "apply_source_context": false});
    let folder = installation.folder().join("symbolicator");
    let process = start(&binary, &folder, port, input);
    let theirs = Load { counter: None, address: format!("127.0.0.1:{port}"), process: &process };
    let address = installation.url.trim_start_matches("http://").to_owned();
    let ours = Load { counter: None, address, process: installation.find_process("api") };
    let request = Request::post("/v1/symbolicate", &key, &input.report(0), 200);
    let [by_default, least] = [by_default, least].map(|body| {
        let json = "content-type: application/json\r\n";
        Request::post("/symbolicate", json, body.to_string().as_bytes(), 200)
    });
    tokio::task::block_in_place(|| {
        let (own, other) = (our_calls(&ours.answer(&request)), their_calls(&theirs, &by_default));
        println!("  calls in the answer: {own} and {other}");
        let rounds = if full { 1_000 } else { 2 };
        for clients in CLIENTS {
            let run = |load: &Load<'_>, request| {
                // Once to warm it up.
                load.run(request, clients, rounds / 5);
                load.run(request, clients, rounds)
            };
            let own = run(&ours, &request);
            show("unslide", clients, &own);
            for (options, request) in [("its default options", &by_default), ("no source context", &least)] {
                let other = run(&theirs, request);
                show("Symbolicator", clients, &other);
                println!(
                    "    {options}: {:.1}x the CPU of unslide, {:.2}x the requests/s",
                    other.cpu_millis() / own.cpu_millis(),
                    other.per_second / own.per_second
                );
            }
        }
        println!(
            "  resident at most: {} MB and {} MB",
            ours.process.peak_bytes() >> 20,
            theirs.process.peak_bytes() >> 20
        );
    });
    drop(process);
    installation.stop().await;
}

fn show(name: &str, clients: u32, figures: &LoadFigures) {
    println!(
        "  {clients} client(s), {name:<12} {:>6.3} ms of CPU a request, {:.0} requests/s, p50 {:.1?}, p99 {:.1?}",
        figures.cpu_millis(),
        figures.per_second,
        figures.p50,
        figures.p99
    );
}

/// Starts Symbolicator with the dSYM in a folder of symbols.
fn start(binary: &Path, folder: &Path, port: u16, input: &Input) -> Process {
    let id = input.debug_id.to_string().replace('-', "").to_lowercase();
    let (first, rest) = id.split_at_checked(2).unwrap_or((&id, ""));
    let symbols = folder.join("symbols").join(first).join(rest);
    std::fs::create_dir_all(&symbols).expect("the folder can be made");
    std::fs::write(symbols.join("debuginfo"), &input.dsym).expect("the folder can be written");
    let config = folder.join("config.json");
    let source = json!({
        "id": "local",
        "type": "filesystem",
        "path": folder.join("symbols"),
        "layout": {"type": "unified"},
        "is_public": true,
    });
    let text = json!({
        "bind": format!("127.0.0.1:{port}"),
        "cache_dir": folder.join("cache"),
        "logging": {"level": "error"},
        "sources": [source],
    });
    std::fs::write(&config, text.to_string()).expect("the folder can be written");
    let mut command = Command::new(binary);
    command.arg("--config").arg(&config).arg("run");
    Process::start("symbolicator", command, &folder.join("log"))
}

/// What Symbolicator is asked for a report.
fn request_of(report: &Value) -> Value {
    let hexadecimal = |number: &Value| format!("{:#x}", number.as_u64().unwrap_or_default());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let module = |image: &Value| {
        json!({
            "type": "macho",
            "debug_id": image["uuid"],
            "code_file": image["name"],
            "image_addr": hexadecimal(&image["image_addr"]),
            "image_size": image["image_size"],
        })
    };
    let stack = |thread: &Value| {
        let frames = list(&thread["backtrace"]["contents"]);
        let frame = |frame: &Value| json!({"instruction_addr": hexadecimal(&frame["instruction_addr"])});
        json!({"frames": frames.iter().map(frame).collect::<Value>()})
    };
    json!({
        "platform": "native",
        "stacktraces": list(&report["crash"]["threads"]).iter().map(stack).collect::<Value>(),
        "modules": list(&report["binary_images"]).iter().map(module).collect::<Value>(),
    })
}

/// Asks Symbolicator until its caches are warm, and counts the calls of its answer.
fn their_calls(load: &Load<'_>, request: &Request) -> usize {
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(200));
        if std::net::TcpStream::connect(&load.address).is_err() {
            continue;
        }
        let answer = load.answer(request);
        let stacks = answer["stacktraces"].as_array().cloned().unwrap_or_default();
        let frames = stacks.iter().flat_map(|stack| stack["frames"].as_array().into_iter().flatten());
        let named = frames.filter(|frame| frame["status"] == "symbolicated").count();
        if answer["status"] == "completed" && named > 0 {
            return named;
        }
    }
    panic!("Symbolicator names no frame");
}

/// The calls of an answer of ours.
fn our_calls(answer: &Value) -> usize {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let threads = list(&answer["crash"]["threads"]).into_iter();
    let frames = threads.flat_map(|thread| list(&thread["backtrace"]["contents"]));
    frames.map(|frame| list(&frame["symbolication"]["calls"]).len()).sum()
}
