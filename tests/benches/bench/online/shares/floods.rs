//! What the tenant that floods sends.

use super::report;
use crate::input::Input;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use unslide_model::DebugId;
use unslide_tests::client::Client;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Reports of one request of a gateway, and of an app.
const REPORTS: u32 = 200;
const APP_REPORTS: u32 = 10;
/// Frames of the longest stacks of an allocation log, and stacks whose outermost frame is their thread.
const STACK_FRAMES: u32 = 50;
const STACKS: u32 = 10_000;
/// Bytes of a chunk, unpacked.
const CHUNK_BYTES: usize = 8 << 20;

/// What is sent, and what the neighbour waits for beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reports, until queries find the neighbour's.
    Reports,
    /// Work for builders, until the neighbour's dSYM is ready.
    Symbols,
    /// Captures, until the neighbour's has an analysis.
    Captures,
    /// Requests that the api answers, until it answers the neighbour's.
    Answers,
}

/// A flood that a tenant sends.
pub struct Flood {
    /// Its name in the output.
    pub name: &'static str,
    /// What it consists of.
    pub kind: Kind,
    body: Body,
}

enum Body {
    Reports { new_apps: bool },
    PublicReports,
    Symbols,
    Erasures,
    Allocations,
    Profiles,
    Chunks,
    SourceBundles,
    SourceLines,
    McpLists,
    Addresses,
}

/// All floods, those of a kind one after another.
pub const FLOODS: [Flood; 12] = [
    Flood { name: "one app", kind: Kind::Reports, body: Body::Reports { new_apps: false } },
    Flood { name: "a new app in each report", kind: Kind::Reports, body: Body::Reports { new_apps: true } },
    Flood { name: "reports with a public key", kind: Kind::Reports, body: Body::PublicReports },
    Flood { name: "large dSYMs", kind: Kind::Symbols, body: Body::Symbols },
    Flood { name: "erasures of persons", kind: Kind::Symbols, body: Body::Erasures },
    Flood { name: "allocation logs of 18 MB", kind: Kind::Captures, body: Body::Allocations },
    Flood { name: "profiles of 2 MB", kind: Kind::Captures, body: Body::Profiles },
    Flood { name: "chunks of 8 MiB, packed", kind: Kind::Answers, body: Body::Chunks },
    Flood { name: "bundles of 18,000 source files", kind: Kind::Answers, body: Body::SourceBundles },
    Flood { name: "source lines of such a bundle", kind: Kind::Answers, body: Body::SourceLines },
    Flood { name: "lists of 100 reports by MCP", kind: Kind::Answers, body: Body::McpLists },
    Flood { name: "9,000 addresses of symbolicate/v5", kind: Kind::Answers, body: Body::Addresses },
];

/// A dSYM with its debug id, which may be replaced.
pub struct Dsym<'a> {
    /// The Mach-O file.
    pub file: &'a [u8],
    /// Its own debug id.
    pub debug_id: DebugId,
}

/// How large the files of a flood are.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Events of an allocation log: 300,000 with the table of its stacks have 17.6 MB.
    pub events: u32,
    /// Stacks of a profile, of some 100 bytes.
    pub stacks: u32,
    /// Files of a source bundle.
    pub sources: u32,
    /// Frames of a request of a profiler.
    pub addresses: usize,
}

/// The tenant that floods, and what it sends.
pub struct Sender<'a> {
    client: Client,
    /// May administer the tenant.
    admin: Client,
    dsym: Dsym<'a>,
    sizes: Sizes,
    public_key: String,
    names_key: String,
    bundle: Vec<u8>,
    /// A request of a profiler.
    addresses: String,
    /// The path of the lines of a report's frames.
    lines: String,
}

impl Dsym<'_> {
    /// Returns the file with another debug id, which makes it another upload.
    ///
    /// # Panics
    /// If the file does not hold its debug id.
    pub fn numbered(&self, number: u32) -> Vec<u8> {
        let mut file = self.file.to_vec();
        let own = self.debug_id.0;
        let at = file.windows(own.len()).position(|bytes| bytes == own).expect("the debug id");
        file[at..at + 4].copy_from_slice(&number.to_be_bytes());
        file
    }
}

impl<'a> Sender<'a> {
    /// Makes the keys of a tenant, and gives it symbols, a report of the app and the source files of its dSYM. The first
    /// client may send and read, the second one administers.
    ///
    /// # Panics
    /// If a step fails.
    pub async fn prepare(client: Client, admin: Client, input: &'a Input, sizes: Sizes) -> Sender<'a> {
        let made = |(status, answer): (u16, Value)| {
            assert_eq!(status, 201, "{answer}");
            answer["key"].as_str().or(answer["text"].as_str()).expect("the text of a key").to_owned()
        };
        let new = json!({"name": "app", "apps": ["com.noisy.app"]});
        let public_key =
            made(admin.attempt_json("/v1/public-keys", &new.to_string()).await.expect("an answer"));
        let new = json!({"name": "team"});
        let names_key =
            made(admin.attempt_json("/v1/names-keys", &new.to_string()).await.expect("an answer"));
        client.upload_symbols(input.dsym.clone()).await;
        let (status, answer) = client.post("/v1/reports", input.report(0)).await;
        assert_eq!(status, 202, "{answer}");
        let path = format!("/v1/reports/{}", super::report_id(0));
        client.wait_for(&path, super::FLOOD_TIMEOUT, |status, _| status == 200).await;
        let enabled = admin.attempt_put("/v1/sources", br#"{"enabled":true}"#.to_vec()).await;
        assert!(enabled.is_some(), "the tenant keeps source files");
        let dsym = Dsym { file: &input.dsym, debug_id: input.debug_id };
        let bundle = source_bundle(dsym.debug_id, sizes.sources);
        Sender {
            addresses: profiler_request(input, sizes.addresses),
            lines: format!("{path}/source-context"),
            client,
            admin,
            dsym,
            sizes,
            public_key,
            names_key,
            bundle,
        }
    }
}

impl Flood {
    /// Sends the request with this number. Returns what it contained, or `None` if it was not accepted.
    pub async fn send(&self, sender: &Sender<'_>, number: u32) -> Option<u32> {
        let client = &sender.client;
        let (count, answer) = match self.body {
            Body::Reports { new_apps } => {
                (REPORTS, client.try_request("/v1/reports", Some(reports(number, REPORTS, new_apps))).await)
            }
            Body::PublicReports => {
                let path = format!("/i/{}", sender.public_key);
                (APP_REPORTS, client.attempt_json(&path, &public_reports(number)).await)
            }
            Body::Symbols => (1, client.try_request("/v1/symbols", Some(sender.dsym.numbered(number))).await),
            Body::Erasures => {
                let person = json!({"kind": "user", "id": format!("u-{number}")}).to_string();
                (1, sender.admin.attempt_json("/v1/person-erasures", &person).await)
            }
            Body::Allocations => {
                let path = "/v1/captures?app=com.noisy.app&kind=malloc_log&layout=index";
                (1, client.attempt_form(path, allocations(number, sender.sizes.events)).await)
            }
            Body::Profiles => {
                let path = "/v1/captures?app=com.noisy.app&kind=profile";
                (1, client.try_request(path, Some(profile(number, sender.sizes.stacks))).await)
            }
            Body::Chunks => {
                let path = "/api/0/organizations/noisy/chunk-upload/";
                (1, client.attempt_form(path, packed_chunk(number)).await)
            }
            Body::SourceBundles => {
                (1, client.try_request("/v1/source-bundles", Some(sender.bundle.clone())).await)
            }
            Body::SourceLines => (1, client.try_request(&sender.lines, None).await),
            Body::McpLists => (1, client.attempt_tool("list_reports", &json!({"limit": 100})).await),
            Body::Addresses => {
                let path = format!("/symbols/{}/symbolicate/v5", sender.names_key);
                (1, client.attempt_json(&path, &sender.addresses).await)
            }
        };
        answer.is_some_and(|(status, _)| (200..300).contains(&status)).then_some(count)
    }
}

fn reports(request: u32, count: u32, new_apps: bool) -> Vec<u8> {
    let app = |number| if new_apps { format!("com.noisy.app{number}") } else { "com.noisy.app".to_owned() };
    let numbers = request * REPORTS..request * REPORTS + count;
    let reports: Vec<String> = numbers.map(|number| report(number, &app(number))).collect();
    format!("[{}]", reports.join(",")).into_bytes()
}

fn public_reports(request: u32) -> String {
    String::from_utf8(reports(request, APP_REPORTS, false)).expect("JSON")
}

/// A profile of many different stacks.
fn profile(number: u32, stacks: u32) -> Vec<u8> {
    let mut text = String::new();
    for stack in 0..stacks {
        let _ = writeln!(
            text,
            "main;run_loop;handle_event_{};layout_{stack};measure_text_{number};draw_glyphs_{} 1",
            stack % 97,
            stack % 1_009
        );
    }
    text.into_bytes()
}

/// A chunk of a file as Sentry's clients send it.
fn packed_chunk(number: u32) -> Form {
    let mut chunk = vec![0; CHUNK_BYTES];
    chunk[..4].copy_from_slice(&number.to_be_bytes());
    let sha1: String = Sha1::digest(&chunk).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&chunk).expect("memory");
    Form::new().part("file_gzip", Part::bytes(encoder.finish().expect("memory")).file_name(sha1))
}

/// A bundle of small source files, as Sentry's clients write it.
fn source_bundle(debug_id: DebugId, files: u32) -> Vec<u8> {
    let mut bytes = Cursor::new(b"SYSB\x02\0\0\0".to_vec());
    bytes.set_position(8);
    let mut writer = ZipWriter::new(bytes);
    let mut listed = serde_json::Map::new();
    for file in 0..files {
        let path = format!("/src/feature_{}/file_{file}.c", file % 100);
        let name = format!("files{path}");
        writer.start_file(&name, SimpleFileOptions::default()).expect("memory");
        writer.write_all(format!("int value_{file};\n").repeat(20).as_bytes()).expect("memory");
        listed.insert(name, json!({"type": "source", "path": path}));
    }
    let manifest = json!({"debug_id": debug_id.to_string(), "files": listed}).to_string();
    writer.start_file("manifest.json", SimpleFileOptions::default()).expect("memory");
    writer.write_all(manifest.as_bytes()).expect("memory");
    writer.finish().expect("memory").into_inner()
}

/// The addresses of the reports' frames, again and again, as a profiler sends them.
fn profiler_request(input: &Input, addresses: usize) -> String {
    let id = format!("{}0", input.debug_id.to_compact().to_uppercase());
    let offsets = input.stacks.concat();
    let frames: Vec<Value> =
        offsets.iter().cycle().take(addresses).map(|offset| json!([0, offset])).collect();
    json!({"memoryMap": [["app", id]], "stacks": [frames]}).to_string()
}

/// A log in which each block is live at the end and was allocated by one of many deep stacks.
fn allocations(number: u32, events: u32) -> Form {
    let slots = u64::from(STACKS * STACK_FRAMES);
    let events = (0..u64::from(events)).flat_map(|event| {
        // The stacks are visited far apart, so that no cache of the last one helps.
        let stack = event.wrapping_mul(7_919).wrapping_add(u64::from(number)) % slots;
        [48, (0x6000_0000_0000 + event * 48) ^ 0x5555, stack, 2]
    });
    let stacks = (0..slots).flat_map(|slot| {
        let is_thread = slot % u64::from(STACK_FRAMES) == 0;
        [0x1_0000_0000 + slot * 4, if is_thread { u64::MAX } else { slot - 1 }]
    });
    let part = |words: Vec<u8>| Part::bytes(words);
    Form::new().part("events", part(words(events))).part("stacks", part(words(stacks)))
}

fn words(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}
