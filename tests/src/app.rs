//! An app of the fixtures that crashed: its dSYM, and reports with addresses. Their answers are known from
//! its source.

use unslide_model::{DebugId, FileAddress, RelativeAddress};
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;
use unslide_testkit::reports::{ARM64, Error, Frame, Image, Report, Style, Thread};

/// One build of the fixtures' app.
#[derive(Clone)]
pub struct App {
    /// The bundle identifier.
    pub bundle: &'static str,
    /// The dSYM's Mach-O file.
    pub dsym: Vec<u8>,
    /// Its debug id.
    pub debug_id: DebugId,
    text: FileAddress,
    crash: RelativeAddress,
    caller: RelativeAddress,
}

/// Load address of the app in the made-up processes, relative to its preferred address: an odd number of
/// pages.
const SLIDE: u64 = 0x4e4_c000;
/// Path of the app's own code on a device.
pub const IN_BUNDLE: &str = "/private/var/containers/Bundle/Application/Shop.app/Shop";

impl App {
    /// The fixture `name`, such as `app` or `app-next`.
    ///
    /// # Panics
    /// If the fixture cannot be built or lacks the functions of its source.
    #[must_use]
    pub fn from_fixture(name: &str) -> App {
        let path = fixtures::dsym(name);
        let dsym = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let built = object::build_symcache(&dsym).expect("a sound object");
        let symcache = SymCache::parse(built.symcache).expect("a symcache");
        let find = |function: &str, calls: usize| {
            let found = symcache.ranges().find(|(_, answer)| {
                answer.as_ref().is_some_and(|answer| {
                    let mut all = answer.calls();
                    all.next().is_some_and(|call| call.function.decode() == function && call.line.is_some())
                        && all.count() + 1 == calls
                })
            });
            found.unwrap_or_else(|| panic!("{name} has no {function} with {calls} calls")).0
        };
        App {
            bundle: "com.example.shop",
            crash: find("leaf_crash", 1),
            caller: find("level_three", 4),
            debug_id: symcache.debug_id(),
            text: symcache.text_address(),
            dsym,
        }
    }

    /// The same code as another app. Its dSYM has the debug id of sixteen bytes `id`.
    ///
    /// # Panics
    /// If the dSYM does not hold its debug id.
    #[must_use]
    pub fn as_app(&self, bundle: &'static str, id: u8) -> App {
        let (own, debug_id) = (self.debug_id.0, DebugId([id; 16]));
        let mut dsym = self.dsym.clone();
        let at = dsym.windows(own.len()).position(|window| window == own).expect("the debug id");
        dsym[at..at + own.len()].copy_from_slice(&debug_id.0);
        App { bundle, dsym, debug_id, ..self.clone() }
    }

    /// Returns the app's load address in the made-up processes.
    #[must_use]
    pub fn load_address(&self) -> u64 {
        self.text.0 + SLIDE
    }

    /// Returns the stack of [`App::build_report`] as offsets from the load address: a program counter and a return address.
    #[must_use]
    pub fn stack(&self) -> [u64; 2] {
        // A return address is the instruction after its call.
        [self.crash.0, self.caller.0 + 4]
    }

    /// A report of a crash in `leaf_crash`, called through three inlined functions. `number` makes
    /// its id.
    #[must_use]
    pub fn build_report(&self, number: u32) -> Report {
        self.report_at(number, IN_BUNDLE, self.debug_id)
    }

    /// The same with a second thread of `frames` frames that say nothing: the least that can be said of each
    /// is many times as long.
    #[must_use]
    pub fn report_of_frames(&self, number: u32, frames: usize) -> Report {
        let frames = std::iter::repeat_n(Frame::empty(), frames);
        self.build_report(number).thread(Thread::new(1).frames(frames)).style(Style::Compact)
    }

    /// Makes the same report, with the code in a library of the operating system.
    #[must_use]
    pub fn system_report(&self, number: u32) -> Report {
        self.report_at(number, "/usr/lib/libshop.dylib", self.debug_id)
    }

    /// The same of another build, which has this debug id.
    #[must_use]
    pub fn report_of_build(&self, number: u32, debug_id: DebugId) -> Report {
        self.report_at(number, IN_BUNDLE, debug_id)
    }

    /// A log of one allocation of 1,000 bytes by the app, in the layout `index`: its events, its stacks and its images.
    #[must_use]
    pub fn build_allocation_log(&self) -> [Vec<u8>; 3] {
        let (load, [_, caller]) = (self.load_address(), self.stack());
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let images = serde_json::json!({"binary_images": [{"name": IN_BUNDLE, "image_addr": load,
            "image_size": 0x10_0000, "uuid": self.debug_id.to_string()}]});
        [
            words(&[1_000, 0x6000_0010 ^ 0x5555, 2, 2]),
            words(&[0, 0, 0x104, u64::MAX, load + caller, 1]),
            images.to_string().into_bytes(),
        ]
    }

    fn report_at(&self, number: u32, path: &str, debug_id: DebugId) -> Report {
        let load = self.load_address();
        let [crash, caller] = self.stack().map(|distance| load + distance);
        Report::standard()
            .app(self.bundle, "1.2.3", "45")
            .id(&format!("00000000-0000-4000-8000-0000{number:08X}"))
            .error(Error::Mach)
            .image(
                Image::new(path, &debug_id.to_string(), load).vmaddr(self.text.0).size(0x10_0000).cpu(ARM64),
            )
            .thread(
                Thread::new(0)
                    .frames([Frame::at(crash), Frame::at(caller)])
                    .crashed()
                    .all_registers(ARM64, crash),
            )
    }
}

/// The functions of the crashed thread's frames, innermost first, of an enriched report.
#[must_use]
pub fn list_functions(enriched: &serde_json::Value) -> Vec<Vec<String>> {
    let frames = enriched["crash"]["threads"][0]["backtrace"]["contents"].as_array();
    let calls = |frame: &serde_json::Value| {
        let calls = frame["symbolication"]["calls"].as_array().cloned().unwrap_or_default();
        calls.iter().map(|call| call["function"].as_str().unwrap_or("").to_owned()).collect()
    };
    frames.map(|frames| frames.iter().map(calls).collect()).unwrap_or_default()
}

/// Result of [`list_functions`] for [`App::build_report`] once its symbols are there.
pub const FUNCTIONS: [&[&str]; 2] = [&["leaf_crash"], &["level_three", "level_two", "level_one", "do_work"]];
