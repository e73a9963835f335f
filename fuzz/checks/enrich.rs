//! Any report, answered: what is added comes off again, and answering twice changes nothing.

use std::sync::{Arc, OnceLock};
use unslide_model::{CpuType, DebugId};
use unslide_report::{ReadLimits, Report, text};
use unslide_symbolicate::grouping::{GroupingRules, regroup_report};
use unslide_symbolicate::object::build_symcache;
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{Context, ImageSymbols, Plan, SymbolNeed, build_source_map, explain_report, most_bytes};
use unslide_testkit::macho;

/// The symcache of a fixture.
fn fixture() -> &'static [u8] {
    static SYMCACHE: OnceLock<Vec<u8>> = OnceLock::new();
    SYMCACHE.get_or_init(|| {
        let dsym = include_bytes!("../../crates/symbolicate/tests/data/app.dsym");
        build_symcache(dsym).expect("a sound dSYM").symcache
    })
}

/// A source map that has something to say of many places.
const MAP: &str = r#"{"version":3,"sources":["a.ts","node_modules/b.js"],"sourcesContent":["a\nb\n\"c\"",null],
"names":["f"],"x_facebook_sources":[[{"names":["g"],"mappings":"AAA"}],null],
"mappings":"AAAA,IAACA,ICEA;;;AAAA,E;AAAA;;;;;;;AAAA,IAACA"}"#;

/// The symcache of a file with functions of the names that the report has for its own.
fn named(report: &Report<'_>) -> Vec<u8> {
    const FUNCTIONS: usize = 128;
    let frames = report.backtraces.iter().flat_map(|backtrace| &backtrace.frames);
    let names = frames.filter_map(|frame| frame.symbol_name).take(FUNCTIONS);
    let names: Vec<String> = names.map(|name| name.decode().replace('\0', "")).collect();
    let starts = (macho::CODE..).step_by(16).take(FUNCTIONS);
    let symbols = names.iter().cycle().map(|name| &**name).zip(starts).collect();
    build_symcache(&macho::File { symbols, ..macho::File::default() }.bytes()).expect("a sound file").symcache
}

/// The symbols of the fixture, or those with the report's own names, under the debug id and the CPU that are needed.
fn disguised(need: &SymbolNeed, report: &Report<'_>) -> ImageSymbols {
    if need.cpu == Some(CpuType::JAVASCRIPT) {
        let built = build_source_map(MAP.as_bytes(), need.debug_id).expect("a sound map");
        return ImageSymbols::from_symcache(Arc::new(SymCache::parse(built.symcache).expect("a symcache")));
    }
    let mut bytes = if need.debug_id.0[15] % 2 == 1 { named(report) } else { fixture().to_vec() };
    bytes[16..32].copy_from_slice(&need.debug_id.0);
    if let Some(cpu) = need.cpu {
        bytes[32..36].copy_from_slice(&cpu.cpu_type.to_le_bytes());
    }
    ImageSymbols::from_symcache(Arc::new(SymCache::parse(bytes).expect("a symcache")))
}

fn symbols(need: &SymbolNeed, report: &Report<'_>) -> ImageSymbols {
    match need.debug_id.0[0] % 8 {
        0 => ImageSymbols::Missing,
        1 => ImageSymbols::Malformed,
        2 => ImageSymbols::FetchingFailed,
        _ => disguised(need, report),
    }
}

pub fn check(data: &[u8]) {
    let limits = ReadLimits::default();
    let Ok(report) = Report::read(data, &limits) else { return };
    let plan = Plan::new(&report);
    let have: Vec<_> = plan.list_needs().iter().map(|need| (need.debug_id, symbols(need, &report))).collect();
    let find = |id: &DebugId| have.iter().find(|(known, _)| known == id).map(|(_, symbols)| symbols);
    let context = Context { revision: Some(1), ..Context::default() };
    let enriched = plan.enrich(&find, &context);
    let again = Report::read(&enriched.bytes, &limits);
    // An input near the limit of size may have grown beyond it.
    let Ok(again) = again else { return assert!(enriched.bytes.len() > limits.max_bytes) };
    assert_eq!(again.strip_additions(), report.strip_additions());
    assert_eq!(Plan::new(&again).enrich(&find, &context).bytes, enriched.bytes);
    assert!(enriched.bytes.len() <= most_bytes(report.strip_additions().len()));
    // What it says is enough to group it again.
    if let Ok(grouping) = regroup_report(&again, &GroupingRules::default()) {
        assert!(enriched.cut || grouping == enriched.grouping);
    }
    let _ = (again.summary(), text::apple_log(&again));
    let explained = explain_report(&report, &find, &GroupingRules::default(), &[]);
    let native: usize = explained.backtraces.iter().map(|b| b.frames.len()).sum();
    let frames = native + explained.javascript.len();
    assert!(explained.truncated || u64::try_from(frames) == Ok(enriched.frames.total));
}
