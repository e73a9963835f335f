//! What the tenant that floods sends.

use super::report;
use reqwest::multipart::{Form, Part};
use unslide_model::DebugId;
use unslide_tests::client::Client;

/// Reports of one request.
const REPORTS: u32 = 200;
/// Frames of the longest stacks of an allocation log, and stacks whose outermost frame is their thread.
const STACK_FRAMES: u32 = 50;
const STACKS: u32 = 10_000;

/// What is sent, and what the neighbour waits for beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reports, until queries find the neighbour's.
    Reports,
    /// dSYMs, until the neighbour's is ready.
    Symbols,
    /// Captures, until the neighbour's has an analysis.
    Captures,
}

/// A flood that a tenant sends with one key.
pub struct Flood {
    /// Its name in the output.
    pub name: &'static str,
    /// What it consists of.
    pub kind: Kind,
    body: Body,
}

enum Body {
    Reports { new_apps: bool },
    Symbols,
    Allocations,
}

/// All floods, those of a kind one after another.
pub const FLOODS: [Flood; 4] = [
    Flood { name: "one app", kind: Kind::Reports, body: Body::Reports { new_apps: false } },
    Flood { name: "a new app in each report", kind: Kind::Reports, body: Body::Reports { new_apps: true } },
    Flood { name: "large dSYMs", kind: Kind::Symbols, body: Body::Symbols },
    Flood { name: "allocation logs of 18 MB", kind: Kind::Captures, body: Body::Allocations },
];

/// A dSYM with its debug id, which may be replaced.
pub struct Dsym<'a> {
    /// The Mach-O file.
    pub file: &'a [u8],
    /// Its own debug id.
    pub debug_id: DebugId,
}

/// The files that a flood sends.
pub struct Files<'a> {
    /// The dSYM of each upload.
    pub dsym: Dsym<'a>,
    /// Events of an allocation log: 300,000 with the table of its stacks have 17.6 MB.
    pub events: u32,
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

impl Flood {
    /// Sends the request with this number. Returns what it contained, or `None` if it was not accepted.
    pub async fn send(&self, client: &Client, number: u32, files: &Files<'_>) -> Option<u32> {
        let (count, answer) = match self.body {
            Body::Reports { new_apps } => {
                (REPORTS, client.try_request("/v1/reports", Some(reports(number, new_apps))).await)
            }
            Body::Symbols => (1, client.try_request("/v1/symbols", Some(files.dsym.numbered(number))).await),
            Body::Allocations => {
                let path = "/v1/captures?app=com.noisy.app&kind=malloc_log&layout=index";
                (1, client.attempt_form(path, allocations(number, files.events)).await)
            }
        };
        answer.is_some_and(|(status, _)| status == 202).then_some(count)
    }
}

fn reports(request: u32, new_apps: bool) -> Vec<u8> {
    let app = |number| if new_apps { format!("com.noisy.app{number}") } else { "com.noisy.app".to_owned() };
    let numbers = request * REPORTS..(request + 1) * REPORTS;
    let reports: Vec<String> = numbers.map(|number| report(number, &app(number))).collect();
    format!("[{}]", reports.join(",")).into_bytes()
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
