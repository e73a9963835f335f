//! One build of the corpus, and the addresses of a backtrace in it.

use super::bugs::Step::{self, App, Calls, System, Within};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use unslide_model::RelativeAddress;
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{ImageSymbols, object as builder};
use unslide_testkit::fixtures;
use unslide_testkit::reports::{self, Error, Frame, Image, Thread};

/// One build of the corpus.
pub(super) struct Build {
    cpu: unslide_model::CpuType,
    pub(super) symbols: ImageSymbols,
    symcache: Arc<SymCache>,
    pub(super) debug_id: String,
    text: u64,
    marks: HashMap<u64, Vec<u64>>,
    /// Where functions start, in order.
    functions: Vec<u64>,
    /// Where functions start, by their linkage names.
    starts: HashMap<String, u64>,
    /// All calls and jumps between functions.
    calls: Vec<Call>,
}

/// A call or a jump to a function.
#[derive(Clone, Copy)]
struct Call {
    /// The address behind the instruction: where a call returns to.
    after: u64,
    target: u64,
    is_jump: bool,
}

impl Build {
    pub(super) fn make(folder: &Path, architecture: &str, optimisation: &str, version: &str) -> Build {
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
        let starts: HashMap<String, u64> = file
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Text)
            .filter_map(|s| Some((s.name().ok()?.strip_prefix('_')?.to_owned(), s.address())))
            .collect();
        let code = file.section_by_name("__text").expect("code");
        let bytes = code.data().expect("its bytes");
        let calls = if architecture == "arm64" {
            arm64_calls(bytes, code.address())
        } else {
            x86_64_calls(bytes, code.address())
        };
        let calls = calls.into_iter().filter(|call| functions.binary_search(&call.target).is_ok()).collect();
        let symcache = SymCache::parse(builder::build_symcache(&dsym).expect("a sound dSYM").symcache)
            .expect("a symcache");
        let symcache = Arc::new(symcache);
        Build {
            cpu: if architecture == "arm64" { reports::ARM64 } else { reports::X86_64 },
            debug_id: symcache.debug_id().to_string(),
            text: symcache.text_address().0,
            symbols: ImageSymbols::from_symcache(Arc::clone(&symcache)),
            symcache,
            marks,
            functions,
            starts,
            calls,
        }
    }

    fn function(&self, address: u64) -> usize {
        self.functions.partition_point(|start| *start <= address)
    }

    /// Where the function that holds an address starts.
    fn start(&self, address: u64) -> u64 {
        self.functions[self.function(address) - 1]
    }

    /// The names of the functions at an address, from the innermost inlined one on, without namespaces and types.
    fn names(&self, address: u64) -> Vec<String> {
        let found = self.symcache.lookup(RelativeAddress(address - self.text)).into_answer();
        let calls = found.into_iter().flat_map(|found| found.calls());
        let short = |name: &str| {
            let name = name.split('(').next().unwrap_or(name);
            name.rsplit("::").next().unwrap_or(name).to_owned()
        };
        calls.map(|call| short(&call.function.decode())).collect()
    }

    /// The addresses that lead through functions with these names to a function that starts at `target` and is called
    /// `inner`.
    fn ways_to(&self, target: u64, inner: &str, names: &[&str]) -> Option<Vec<u64>> {
        if names.is_empty() {
            return Some(Vec::new());
        }
        self.calls.iter().filter(|call| call.target == target).find_map(|call| {
            let (site, start) = (call.after - 1, self.start(call.after - 1));
            let found = self.names(site);
            // What the compiler has moved out has a frame if it calls, and none if it jumps.
            let is_moved_out = found.iter().any(|name| name.starts_with("OUTLINED_FUNCTION"));
            // A destructor of an object calls the one of the object as a part, or jumps to it.
            let is_same = found.len() == 1 && found[0] == inner;
            if (is_moved_out || is_same) && start != target {
                let outer = self.ways_to(start, inner, names)?;
                let own = (!call.is_jump).then_some(call.after);
                return Some(own.into_iter().chain(outer).collect());
            }
            let is_way = !call.is_jump
                && (1..=names.len()).contains(&found.len())
                && found.iter().eq(&names[..found.len()]);
            if !is_way {
                return None;
            }
            let outer = self.ways_to(start, names[found.len() - 1], &names[found.len()..])?;
            Some(std::iter::once(call.after).chain(outer).collect())
        })
    }

    /// The addresses of a crash in a function, or in what the compiler has moved out of it.
    fn within(&self, name: &str) -> Vec<u64> {
        let start = self.starts[name];
        let is_moved_out = |call: &&Call| {
            let names = self.names(call.target);
            self.start(call.after - 1) == start
                && names.iter().any(|name| name.starts_with("OUTLINED_FUNCTION"))
        };
        match self.calls.iter().filter(|call| !call.is_jump).find(is_moved_out) {
            Some(call) => vec![call.target, call.after],
            None => vec![start + 8],
        }
    }

    /// The addresses of a backtrace, from the innermost on: a call that is inlined has no frame of its own.
    fn frames(&self, steps: &[Step]) -> Vec<Result<u64, (&'static str, &'static str)>> {
        let known: Vec<(Step, &[u64])> = steps
            .iter()
            .filter_map(|step| match step {
                App(mark) => self.marks.get(mark).map(|addresses| (*step, addresses.as_slice())),
                System(..) | Calls(..) | Within(..) => Some((*step, [].as_slice())),
            })
            .collect();
        let mut frames: Vec<Result<u64, (&str, &str)>> = Vec::new();
        for (at, (step, addresses)) in known.iter().enumerate().rev() {
            if let System(image, name) = step {
                frames.push(Err((image, name)));
                continue;
            }
            let addresses_of_step = match step {
                Calls(target, names) => {
                    let ways = self.ways_to(self.starts[*target], target, names);
                    Some(ways.unwrap_or_else(|| panic!("no way to {target} through {names:?}")))
                }
                Within(name) => Some(self.within(name)),
                App(_) | System(..) => None,
            };
            if let Some(addresses) = addresses_of_step {
                frames.extend(addresses.into_iter().rev().map(Ok));
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

    pub(super) fn report(&self, steps: &[Step], slide: u64) -> Vec<u8> {
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

/// The direct calls (`bl`) and jumps (`b`) of arm64.
fn arm64_calls(code: &[u8], base: u64) -> Vec<Call> {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    let calls = words.enumerate().filter_map(|(at, word)| {
        let is_jump = match word >> 26 {
            0b10_0101 => false,
            0b00_0101 => true,
            _ => return None,
        };
        let address = base + 4 * at as u64;
        // 26 bits with a sign, in words.
        let distance = i64::from((word << 6).cast_signed() >> 6) * 4;
        Some(Call { after: address + 4, target: address.wrapping_add_signed(distance), is_jump })
    });
    calls.collect()
}

/// The direct calls (`e8`) and jumps (`e9`) of x86-64. Other bytes that look so lead to no function's start.
fn x86_64_calls(code: &[u8], base: u64) -> Vec<Call> {
    let calls = code.windows(5).enumerate().filter(|(_, bytes)| matches!(bytes[0], 0xE8 | 0xE9)).map(
        |(at, bytes)| {
            let distance = i32::from_le_bytes(bytes[1..].try_into().expect("four bytes"));
            let after = base + at as u64 + 5;
            Call { after, target: after.wrapping_add_signed(i64::from(distance)), is_jump: bytes[0] == 0xE9 }
        },
    );
    calls.collect()
}
