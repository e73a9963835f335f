//! The engine on made-up reports, over symcaches that are written by hand so that every address of
//! them is known. Real objects have their own tests.

mod analyses;
mod bulk;
mod complexity;
mod frames;
mod golden;
mod grouping;
mod images;
mod names;
mod output;
mod profiles;
mod properties;
mod samples;
mod sizes;

use crate::symcache::{CodeOwner, CodePlace, CodeScope, NameSource, ObjectHeader, SymCache, Writer};
use crate::{Context, Enrichment, ImageSymbols, enrich};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use unslide_model::{CpuType, DebugId, Quality};
use unslide_report::{ReadLimits, Report};
use unslide_testkit::reports::{ARM64, Frame, Image, Report as Made, Thread};

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

pub(super) const APP: &str = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0";
pub(super) const LIBRARY: &str = "363F8E49-2D2A-3A26-BF90-60D6A8896CF0";
/// Where the app's image is loaded in most tests.
pub(super) const BASE: u64 = 0x1_0400_0000;
pub(super) const APP_PATH: &str = "/private/var/containers/Bundle/Application/Shop.app/Shop";
/// The app's preferred address.
pub(super) const TEXT: u64 = 0x1_0000_0000;

/// Offsets in every symcache of [`symbols`].
pub(super) mod at {
    /// A function with lines 40 and, from `INLINED` to `AFTER`, line 12 of an inlined one.
    pub const FUNCTION: u64 = 0x1000;
    pub const INLINED: u64 = 0x1040;
    pub const AFTER: u64 = 0x1080;
    /// Nothing.
    pub const GAP: u64 = 0x1100;
    /// A symbol with a size and no lines.
    pub const SYMBOL: u64 = 0x1200;
    /// A symbol without a size.
    pub const NEAREST: u64 = 0x1300;
    /// `_sigtramp`.
    pub const SIGTRAMP: u64 = 0x1400;
    /// A function that has no lines here and there: line 0.
    pub const LINE_0: u64 = 0x1500;
    /// The end of all functions.
    pub const END: u64 = 0x1600;
}

pub(super) fn id(text: &str) -> DebugId {
    text.parse().unwrap()
}

/// A symcache with the layout of [`at`].
pub(super) fn symbols(debug_id: &str, cpu: CpuType, quality: Quality) -> ImageSymbols {
    repeated(debug_id, cpu, quality, 1)
}

/// The same with its functions again and again, up to this offset.
pub(super) fn repeated(debug_id: &str, cpu: CpuType, quality: Quality, until: u64) -> ImageSymbols {
    let mut w = Writer::new(1 << 20);
    let mut ranges = vec![(0, None)];
    let owner = |w: &mut Writer, name: &str, path, start: u64, source, approximate| {
        let function = w.add_function(name, path).unwrap();
        w.add_scope(CodeScope::Owner(CodeOwner { function, start: Some(start as u32), source, approximate }))
            .unwrap()
    };
    if quality != Quality::None {
        let place = |scope, line, column| CodePlace { scope, line, column };
        let cart = Some(w.add_path("/src/cart.cpp").unwrap());
        let add = owner(&mut w, "_ZN4Shop3addEi", cart, at::FUNCTION, NameSource::Dwarf, false);
        let line_40 = place(add, 40, 9);
        let price = w.add_function("_ZN4Shop5priceEi", cart).unwrap();
        let caller = w.add_call(line_40).unwrap();
        let inlined = w.add_scope(CodeScope::Inlined { function: price, caller }).unwrap();
        let line_12 = place(inlined, 12, 0);
        let line_44 = place(add, 44, 1);
        let plain = place(owner(&mut w, "plain", None, at::SYMBOL, NameSource::Symtab, false), 0, 0);
        let near = place(owner(&mut w, "near", None, at::NEAREST, NameSource::Exports, true), 0, 0);
        let sigtramp = place(owner(&mut w, "_sigtramp", None, at::SIGTRAMP, NameSource::Symtab, false), 0, 0);
        let quiet = place(owner(&mut w, "quiet", cart, at::LINE_0, NameSource::Dwarf, false), 0, 3);
        let layout = [
            (at::FUNCTION, Some(line_40)),
            (at::INLINED, Some(line_12)),
            (at::AFTER, Some(line_44)),
            (at::GAP, None),
            (at::SYMBOL, Some(plain)),
            (at::NEAREST, Some(near)),
            (at::SIGTRAMP, Some(sigtramp)),
            (at::LINE_0, Some(quiet)),
            (at::END, None),
        ];
        for moved in (0..until).step_by((at::END + 0x40 - at::FUNCTION) as usize) {
            ranges.extend(layout.map(|(start, location)| ((start + moved) as u32, location)));
        }
    }
    let facts = ObjectHeader {
        debug_id: id(debug_id),
        cpu,
        text_address: TEXT,
        text_size: 0x10_0000,
        extent: 0x10_0000,
        quality,
    };
    let bytes = w.into_bytes(&facts, ranges.into_iter().collect()).unwrap();
    ImageSymbols::from_symcache(Arc::new(SymCache::parse(bytes).unwrap()))
}

/// The symbols that a test has.
#[derive(Default)]
pub(super) struct Have(HashMap<DebugId, ImageSymbols>);

impl Have {
    /// Those of the app, for arm64.
    pub fn app() -> Have {
        Have::default().and(APP, symbols(APP, ARM64, Quality::DwarfSymtab))
    }

    pub fn and(mut self, debug_id: &str, symbols: ImageSymbols) -> Have {
        self.0.insert(id(debug_id), symbols);
        self
    }

    pub fn enrich_with(&self, input: &[u8], context: &Context<'_>) -> Enrichment {
        let report = Report::read(input, &ReadLimits::default()).unwrap();
        enrich(&report, &|id| self.0.get(id), context)
    }

    pub fn enrich(&self, report: &Made) -> Enrichment {
        self.enrich_with(&report.bytes(), &Context::default())
    }

    /// The enriched report as a tree.
    pub fn tree(&self, report: &Made) -> Value {
        serde_json::from_slice(&self.enrich(report).bytes).unwrap()
    }

    /// What is said of a thread's frames.
    pub fn frames(&self, report: &Made, thread: usize) -> Vec<Value> {
        let tree = self.tree(report);
        let contents = &tree["crash"]["threads"][thread]["backtrace"]["contents"];
        contents.as_array().unwrap().iter().map(|frame| frame["symbolication"].clone()).collect()
    }

    /// What is said of the frames of a report's only thread, which was stopped by a signal.
    pub fn stopped(&self, frames: impl IntoIterator<Item = Frame>) -> Vec<Value> {
        self.frames(&app().thread(Thread::new(0).crashed().frames(frames)), 0)
    }

    /// What is said of a frame with an address that is looked up unchanged.
    pub fn exact(&self, frame: Frame) -> Value {
        self.stopped([frame]).remove(0)
    }
}

/// A report with the app's image and no threads.
pub(super) fn app() -> Made {
    Made::standard().image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x10_0000))
}

/// The lines of a frame's calls, innermost first; 0 for none.
pub(super) fn lines(frame: &Value) -> Vec<u64> {
    let calls = frame["calls"].as_array().map_or(&[][..], Vec::as_slice);
    calls.iter().map(|call| call["line"].as_u64().unwrap_or(0)).collect()
}
