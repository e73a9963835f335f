//! One report and the dSYM that answers it.

use std::path::PathBuf;
use std::sync::Arc;
use unslide_model::{DebugId, RelativeAddress};
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::{NameSource, SymCache};
use unslide_testkit::fixtures;
use unslide_testkit::reports::{ARM64, Error, Frame, Image, Thread, sized};

/// How the reports' ids begin.
const ID: &str = "00000000-0000-4000-8000-0000";
/// Frames of each thread.
const THREAD: usize = 16;
/// Where the process loaded the app: behind the other images, since no two overlap in a process.
const LOAD: u64 = 0x1_44e4_c000;

/// What is measured with.
pub struct Input {
    /// The file of the dSYM's Mach-O slice.
    pub path: PathBuf,
    /// Its bytes.
    pub dsym: Vec<u8>,
    /// Its symcache.
    pub symcache: Arc<SymCache>,
    /// Its debug id.
    pub debug_id: DebugId,
    /// Frames of each report.
    pub frames: usize,
    /// Images of each report.
    pub images: usize,
    /// Offsets of the frames of each thread, the innermost first.
    pub stacks: Vec<Vec<u64>>,
    /// The mean length of the frames' call chains.
    pub depth: f64,
    template: Vec<u8>,
    /// Where the last eight digits of the report's id stand.
    id_at: usize,
}

impl Input {
    /// The dSYM that `UNSLIDE_BENCH_DSYM` names, or a small fixture.
    pub fn prepare() -> Input {
        std::env::var_os("UNSLIDE_BENCH_DSYM")
            .map_or_else(Input::prepare_small, |path| Input::from_file(path.into()))
    }

    /// A small fixture.
    pub fn prepare_small() -> Input {
        Input::from_file(fixtures::dsym("app"))
    }

    fn from_file(path: PathBuf) -> Input {
        let dsym = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let built = object::build_symcache(&dsym).expect("a sound object");
        let symcache = SymCache::parse(built.symcache).expect("a symcache");
        let frames = 320;
        let (addresses, calls) = choose(&symcache, frames, 0);
        let images = 150;
        let template = template(&symcache, &addresses, images);
        let found = template.windows(ID.len()).position(|bytes| bytes == ID.as_bytes());
        let id_at = found.expect("the report has an id") + ID.len();
        Input {
            path,
            dsym,
            stacks: addresses.chunks(THREAD).map(<[u64]>::to_vec).collect(),
            debug_id: symcache.debug_id(),
            frames,
            images,
            depth: calls as f64 / frames as f64,
            template,
            id_at,
            symcache: Arc::new(symcache),
        }
    }

    /// Reports of so many addresses that none is remembered when it comes again.
    pub fn unlike_reports(&self) -> Vec<Vec<u8>> {
        let reports = (1..64).map(|shift| choose(&self.symcache, self.frames, shift).0);
        reports.map(|addresses| template(&self.symcache, &addresses, self.images)).collect()
    }

    /// The report with this number in its id.
    pub fn report(&self, number: u32) -> Vec<u8> {
        let mut report = self.template.clone();
        report[self.id_at..self.id_at + 8].copy_from_slice(format!("{number:08X}").as_bytes());
        report
    }
}

/// A report of these frames in threads of sixteen, and of images that nothing refers to.
fn template(symcache: &SymCache, addresses: &[u64], images: usize) -> Vec<u8> {
    let others = sized(7, images, 0);
    let path = "/private/var/containers/Bundle/Application/Shop.app/Shop";
    let mut report = others.id(&format!("{ID}00000000")).error(Error::Mach).image(
        Image::new(path, &symcache.debug_id().to_string(), LOAD)
            .size(symcache.text_size().max(0x1000))
            .cpu(ARM64),
    );
    for (index, addresses) in addresses.chunks(THREAD).enumerate() {
        let frames = addresses
            .iter()
            .map(|address| Frame::at(LOAD + address).object("Shop", LOAD).symbol("_mh_execute_header", LOAD));
        let mut thread = Thread::new(index as u64).frames(frames);
        if index == 0 {
            thread = thread.crashed().all_registers(ARM64, LOAD + addresses[0]);
        }
        report = report.thread(thread);
    }
    report.bytes()
}

/// Seven of ten addresses from code with inlined calls, three from code that only the symbol table
/// knows (where that is little, from code without inlined calls), spread evenly; and all their calls. Another
/// shift gives others, where there are enough.
fn choose(symcache: &SymCache, frames: usize, shift: usize) -> (Vec<u64>, usize) {
    let mut inlined = Vec::new();
    let mut named = Vec::new();
    let mut flat = Vec::new();
    for (start, answer) in symcache.ranges() {
        let Some(answer) = answer else { continue };
        let depth = answer.calls().count();
        let place = (RelativeAddress(start.0 + 1), depth.max(1));
        match (answer.source, depth) {
            (NameSource::Dwarf, 2..) => inlined.push(place),
            (NameSource::Dwarf, _) => flat.push(place),
            _ => named.push(place),
        }
    }
    let others = if named.len() >= frames / 10 { named } else { flat };
    let spread = |from: &[(RelativeAddress, usize)], count: usize| -> Vec<(RelativeAddress, usize)> {
        (0..count).map(|n| from[(n * from.len() / count + shift) % from.len()]).collect()
    };
    let mut chosen = spread(&inlined, frames * 7 / 10);
    chosen.extend(spread(&others, frames - chosen.len()));
    let calls = chosen.iter().map(|(_, depth)| depth).sum();
    (chosen.into_iter().map(|(address, _)| address.0).collect(), calls)
}
