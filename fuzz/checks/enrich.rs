//! Any report, answered: what is added comes off again, and answering twice changes nothing.

use std::sync::Arc;
use std::sync::OnceLock;
use unslide_model::{CpuType, DebugId, FileAddress, Quality, RelativeAddress};
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::object::build;
use unslide_symbolicate::symcache::{Lookup, SymCache};
use unslide_symbolicate::{Context, ImageSymbols, Need, Plan, Symbols, explain, most_bytes};

/// The symbols of a fixture, under any debug id.
struct Disguised {
    debug_id: DebugId,
    cpu: CpuType,
}

fn symcache() -> &'static SymCache<Vec<u8>> {
    static SYMCACHE: OnceLock<SymCache<Vec<u8>>> = OnceLock::new();
    SYMCACHE.get_or_init(|| {
        let dsym = include_bytes!("../../crates/symbolicate/tests/data/app.dsym");
        let built = build(dsym).expect("a sound dSYM");
        SymCache::parse(built.symcache).expect("a symcache")
    })
}

impl Symbols for Disguised {
    fn debug_id(&self) -> DebugId {
        self.debug_id
    }
    fn cpu(&self) -> CpuType {
        self.cpu
    }
    fn text_address(&self) -> FileAddress {
        symcache().text_address()
    }
    fn quality(&self) -> Quality {
        symcache().quality()
    }
    fn lookup(&self, address: RelativeAddress) -> Lookup<'_> {
        symcache().lookup(address)
    }
}

fn symbols(need: &Need) -> ImageSymbols {
    let cpu = need.cpu.unwrap_or(symcache().cpu());
    match need.debug_id.0[0] % 8 {
        0 => ImageSymbols::Missing,
        1 => ImageSymbols::Malformed,
        2 => ImageSymbols::FetchingFailed,
        _ => ImageSymbols::found(Arc::new(Disguised { debug_id: need.debug_id, cpu })),
    }
}

pub fn check(data: &[u8]) {
    let limits = ReadLimits::default();
    let Ok(report) = Report::read(data, &limits) else { return };
    let plan = Plan::new(&report);
    let have: Vec<_> = plan.needs().iter().map(|need| (need.debug_id, symbols(need))).collect();
    let find = |id: &DebugId| have.iter().find(|(known, _)| known == id).map(|(_, symbols)| symbols);
    let context = Context { revision: Some(1), ..Context::default() };
    let enriched = plan.enrich(&find, &context);
    let again = Report::read(&enriched.bytes, &limits);
    // An input near the limit of size may have grown beyond it.
    let Ok(again) = again else { return assert!(enriched.bytes.len() > limits.max_bytes) };
    assert_eq!(again.stripped(), report.stripped());
    assert_eq!(Plan::new(&again).enrich(&find, &context).bytes, enriched.bytes);
    assert!(enriched.bytes.len() <= most_bytes(report.stripped().len()));
    let explained = explain(&report, &find);
    let frames: usize = explained.backtraces.iter().map(|b| b.frames.len()).sum();
    assert!(explained.truncated || u64::try_from(frames) == Ok(enriched.frames.total));
}
