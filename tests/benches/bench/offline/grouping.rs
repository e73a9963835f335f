//! How well reports are grouped: a corpus of known bugs, built in many ways. Pairwise precision: of all pairs of
//! reports in one group, the part that is of one bug. Recall: of all pairs of one bug, the part that is in one
//! group.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{Context, ImageSymbols, enrich, object as builder};
use unslide_testkit::fixtures;
use unslide_testkit::reports::{self, Error, Frame, Image, Thread};

/// A step of a backtrace, from the innermost on.
#[derive(Clone, Copy)]
enum Step {
    /// The app, at a mark of `tests/grouping`; left out where a version has no such mark.
    App(u64),
    /// A function of the system, by image and name.
    System(&'static str, &'static str),
}
use Step::{App, System};

const KILL: Step = System("libsystem_kernel.dylib", "__pthread_kill");
const ABORT: Step = System("libsystem_c.dylib", "abort");
const QSORT: Step = System("libsystem_c.dylib", "_qsort");
const FORWARD: [Step; 3] = [
    System("CoreFoundation", "-[NSObject(NSObject) doesNotRecognizeSelector:]"),
    System("CoreFoundation", "___forwarding___"),
    System("CoreFoundation", "_CF_forwarding_prep_0"),
];
const THROW: [Step; 3] = [
    System("CoreFoundation", "__exceptionPreprocess"),
    System("libobjc.A.dylib", "objc_exception_throw"),
    System("CoreFoundation", "-[__NSArrayM objectAtIndexedSubscript:]"),
];
const BLOCK: [Step; 2] = [
    System("libdispatch.dylib", "_dispatch_call_block_and_release"),
    System("libdispatch.dylib", "_dispatch_client_callout"),
];

/// The bugs and the ways to each: with the same name they are one bug.
fn bugs() -> Vec<(&'static str, Vec<Step>)> {
    let app = |marks: &[u64]| marks.iter().copied().map(App).collect::<Vec<_>>();
    let after = |system: &[Step], marks: &[u64]| [system.to_vec(), app(marks)].concat();
    let called_by =
        |mark: u64, system: &[Step], marks: &[u64]| [vec![App(mark)], system.to_vec(), app(marks)].concat();
    vec![
        ("parse_price", app(&[10, 11, 12, 1])),
        ("parse_quantity", app(&[20, 21, 1])),
        ("by_price", called_by(30, &[QSORT], &[31, 1])),
        ("by_quantity", called_by(40, &[QSORT], &[41, 1])),
        ("refund asserts", after(&[KILL, ABORT], &[50, 52, 53, 1])),
        ("restock asserts", after(&[KILL, ABORT], &[50, 60, 61, 1])),
        ("decode_image", app(&[70, 90, 71, 1])),
        ("decode_image", app(&[70, 90, 72, 1])),
        ("checkout", app(&[80, 90, 81, 1])),
        ("Cart::sum", app(&[210, 211, 2])),
        ("Cart::sum", app(&[210, 212, 2])),
        ("discounts", app(&[220, 222, 223, 2])),
        ("vouchers", app(&[230, 222, 231, 2])),
        ("Button::draw", app(&[240, 241, 2])),
        ("Button::click", app(&[250, 251, 2])),
        ("first_title", app(&[110, 261, 262, 2])),
        ("last_badge", app(&[110, 271, 272, 2])),
        ("cancel_order", app(&[120, 281, 2])),
        ("repeat_order", app(&[120, 291, 2])),
        ("Money::rounded", app(&[140, 371, 2])),
        ("Money::rounded", app(&[140, 372, 2])),
        ("pick_size", after(&[KILL, ABORT], &[130, 301, 2])),
        ("pick_colour", after(&[KILL, ABORT], &[130, 311, 2])),
        ("Session::Session", app(&[320, 321, 2])),
        ("Session::~Session", app(&[330, 331, 2])),
        ("exchange_rate", app(&[340, 341, 342, 343, 2])),
        ("exchange_rate", app(&[340, 341, 342, 344, 2])),
        ("validate", app(&[350, 351, 2])),
        ("Address::validate", app(&[360, 361, 2])),
        ("totalWithTax", app(&[410, 3])),
        ("totalWithVoucher", app(&[420, 3])),
        ("load block", called_by(430, &BLOCK, &[])),
        ("fetch raises", after(&THROW, &[440, 3])),
        ("unknown method", after(&FORWARD, &[450, 3])),
        ("sum", app(&[460, 3])),
    ]
}

/// One build of the corpus.
struct Build {
    cpu: unslide_model::CpuType,
    symbols: ImageSymbols,
    debug_id: String,
    text: u64,
    marks: HashMap<u64, Vec<u64>>,
    /// Where functions start, in order.
    functions: Vec<u64>,
}

impl Build {
    fn make(folder: &Path, architecture: &str, optimisation: &str, version: &str) -> Build {
        let recipe = fixtures::recipe().join("../grouping/build");
        let folder = folder.join(format!("{architecture}-{optimisation}-{version}"));
        fixtures::run(Command::new(recipe).arg(&folder).args([architecture, optimisation, version]));
        let read = |path: &str| std::fs::read(folder.join(path)).expect("it was built");
        let (app, dsym) = (read("app"), read("app.dSYM/Contents/Resources/DWARF/app"));
        let file = object::File::parse(&*app).expect("a Mach-O file");
        let section = file.section_by_name("__marks").expect("the marks");
        let mut marks: HashMap<u64, Vec<u64>> = HashMap::new();
        for mark in section.data().expect("its bytes").chunks_exact(16) {
            let [number, address] =
                [0, 8].map(|at| u64::from_le_bytes(mark[at..at + 8].try_into().expect("eight bytes")));
            // A chained fixup keeps its address in the lower 36 bits.
            marks.entry(number).or_default().push(address & 0xF_FFFF_FFFF);
        }
        let mut functions: Vec<u64> =
            file.symbols().filter(|s| s.kind() == SymbolKind::Text).map(|s| s.address()).collect();
        functions.sort_unstable();
        let symcache =
            SymCache::parse(builder::build(&dsym).expect("a sound dSYM").symcache).expect("a symcache");
        Build {
            cpu: if architecture == "arm64" { reports::ARM64 } else { reports::X86_64 },
            debug_id: symcache.debug_id().to_string(),
            text: symcache.text_address().0,
            symbols: ImageSymbols::found(Arc::new(symcache)),
            marks,
            functions,
        }
    }

    fn function(&self, address: u64) -> usize {
        self.functions.partition_point(|start| *start <= address)
    }

    /// The addresses of a backtrace, from the innermost on: a call that is inlined has no frame of its own.
    fn frames(&self, steps: &[Step]) -> Vec<Result<u64, (&'static str, &'static str)>> {
        let known: Vec<(Step, &[u64])> = steps
            .iter()
            .filter_map(|step| match step {
                App(mark) => self.marks.get(mark).map(|addresses| (*step, addresses.as_slice())),
                System(..) => Some((*step, [].as_slice())),
            })
            .collect();
        let mut frames: Vec<Result<u64, (&str, &str)>> = Vec::new();
        for (at, (step, addresses)) in known.iter().enumerate().rev() {
            if let System(image, name) = step {
                frames.push(Err((image, name)));
                continue;
            }
            let outer = frames.last().and_then(|frame| frame.ok()).map(|address| self.function(address));
            let inlined = addresses.iter().find(|address| outer == Some(self.function(**address)));
            if let Some(address) = inlined {
                frames.pop();
                frames.push(Ok(*address));
                continue;
            }
            // Of several copies, the one that contains the next call as well.
            let next = at.checked_sub(1).map_or(&[][..], |next| known[next].1);
            let holds_next =
                |address: &&u64| next.iter().any(|inner| self.function(*inner) == self.function(**address));
            let address =
                addresses.iter().find(holds_next).or(addresses.first()).expect("a mark has a place");
            frames.push(Ok(*address));
        }
        frames.reverse();
        frames
    }

    fn report(&self, steps: &[Step], slide: u64) -> Vec<u8> {
        let load = self.text + slide;
        let mut report = reports::Report::standard().error(Error::Mach).image(
            Image::new("/private/var/containers/Bundle/Application/Shop.app/Shop", &self.debug_id, load)
                .vmaddr(self.text)
                .size(0x10_0000)
                .cpu(self.cpu),
        );
        let mut images: Vec<&str> = Vec::new();
        let mut frames = Vec::new();
        for frame in self.frames(steps) {
            frames.push(match frame {
                Ok(address) => Frame::at(address + slide),
                Err((image, name)) => {
                    let known = images.iter().position(|known| *known == image);
                    let number = known.unwrap_or_else(|| {
                        images.push(image);
                        images.len() - 1
                    });
                    let base = 0x1_9000_0000 + number as u64 * 0x10_0000;
                    Frame::at(base + 0x140).object(image, base).symbol(name, base + 0x100)
                }
            });
        }
        for (number, image) in images.iter().enumerate() {
            let id = format!("AAAAAAAA-0000-4000-8000-{number:012X}");
            let base = 0x1_9000_0000 + number as u64 * 0x10_0000;
            report = report
                .image(Image::new(&format!("/usr/lib/{image}"), &id, base).size(0x10_0000).cpu(self.cpu));
        }
        report.thread(Thread::new(0).frames(frames).crashed()).bytes()
    }
}

/// What three rules make of one report: ours, its first function, and all its functions.
fn keys(build: &Build, bytes: &[u8]) -> ([String; 3], String) {
    let report = Report::read(bytes, &ReadLimits::default()).expect("a report");
    let id = build.debug_id.clone();
    let symbols = |wanted: &unslide_model::DebugId| (wanted.to_string() == id).then_some(&build.symbols);
    let enriched = enrich(&report, &symbols, &Context::default());
    let grouping = enriched.grouping.expect("it says what happened");
    let json: serde_json::Value = serde_json::from_slice(&enriched.bytes).expect("a report");
    let frames = json["crash"]["threads"][0]["backtrace"]["contents"].as_array().expect("frames");
    let functions: Vec<String> = frames
        .iter()
        .flat_map(|frame| match frame["symbolication"]["calls"].as_array() {
            Some(calls) if !calls.is_empty() => {
                calls.iter().map(|call| call["function"].to_string()).collect()
            }
            _ => vec![frame["symbol_name"].to_string()],
        })
        .collect();
    let ours = format!("{:?}", grouping.fingerprint);
    let first = functions.first().cloned().unwrap_or_default();
    ([ours, first, functions.join("\n")], grouping.culprit.unwrap_or_default())
}

/// Precision and recall over all pairs of reports.
fn measure(reports: &[(&str, String)]) -> (f64, f64) {
    let pairs = |counts: BTreeMap<String, u64>| counts.values().map(|n| n * (n - 1) / 2).sum::<u64>() as f64;
    let count = |of: &dyn Fn(&(&str, String)) -> String| {
        let mut counts = BTreeMap::new();
        reports.iter().for_each(|report| *counts.entry(of(report)).or_default() += 1);
        pairs(counts)
    };
    let both = count(&|(bug, key)| format!("{bug}\n{key}"));
    (both / count(&|(_, key)| key.clone()), both / count(&|(bug, _)| (*bug).to_owned()))
}

/// What our rule reaches at least: precision and recall of all builds, and of the small run
/// with two optimisation levels.
const FULL_AIM: (f64, f64) = (0.99, 0.95);
const SMALL_AIM: (f64, f64) = (0.97, 0.90);

/// Prints precision and recall beside two simpler rules, and which bugs were split or merged.
///
/// # Panics
/// Where our rule misses its aim.
pub fn print(full: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let optimisations: &[&str] = if full { &["O0", "O1", "O2", "O3", "Os", "Oz"] } else { &["O0", "O2"] };
    let mut reports: Vec<(&str, [String; 3])> = Vec::new();
    let mut culprits: BTreeMap<String, BTreeMap<&str, u32>> = BTreeMap::new();
    let mut builds = 0;
    for architecture in ["arm64", "x86_64"] {
        for optimisation in optimisations {
            for version in ["first", "moved", "wrapped"] {
                let build = Build::make(folder.path(), architecture, optimisation, version);
                builds += 1;
                for (number, (bug, steps)) in bugs().into_iter().enumerate() {
                    let slide = (builds * 97 + number as u64) * 0x4000;
                    let (keys, culprit) = keys(&build, &build.report(&steps, slide));
                    *culprits.entry(culprit).or_default().entry(bug).or_default() += 1;
                    reports.push((bug, keys));
                }
            }
        }
    }
    println!("\nGrouping: {} reports of a corpus of known bugs in {builds} builds", reports.len());
    let mut ours = (0.0, 0.0);
    for (at, rule) in ["our rule", "the first function", "all functions"].iter().enumerate() {
        let keyed: Vec<(&str, String)> = reports.iter().map(|(bug, keys)| (*bug, keys[at].clone())).collect();
        let (precision, recall) = measure(&keyed);
        println!("  {rule:<20} precision {precision:.3}, recall {recall:.3}");
        if at == 0 {
            ours = (precision, recall);
        }
    }
    for (culprit, bugs) in &culprits {
        let split =
            bugs.keys().any(|bug| culprits.values().filter(|bugs| bugs.contains_key(bug)).count() > 1);
        if bugs.len() > 1 || split {
            println!("    reports of {bugs:?} have the culprit {culprit}");
        }
    }
    let aim = if full { FULL_AIM } else { SMALL_AIM };
    assert!(ours.0 >= aim.0 && ours.1 >= aim.1, "precision and recall {ours:?} are below {aim:?}");
}
