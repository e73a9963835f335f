//! The whole output over a real dSYM, byte for byte.

use super::at::{END, FUNCTION};
use crate::object::build_symcache;
use crate::symcache::SymCache;
use crate::{Context, Detail, ImageSymbols, enrich};
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_report::{ReadLimits, Report as Read};
use unslide_testkit::reports::{ARM64, Error, Frame, Image, Report, Style, Thread};

const DSYM: &[u8] = include_bytes!("../../tests/data/app.dsym");
const LOAD: u64 = 0x1_0480_0000;
const SYSTEM: u64 = 0x1_8000_0000;

/// A crash in the deepest inlined code of the program, called from each of its functions; a second
/// thread in the system; frames that end in every other way.
fn report(symcache: &SymCache) -> Report {
    let deepest = symcache.ranges().max_by_key(|(_, answer)| answer.map_or(0, |a| a.calls().count()));
    let deepest = LOAD + deepest.map_or(0, |(start, _)| start.0);
    // A call returns to the instruction after it: four bytes into a range is inside the function.
    let mut callers: Vec<u64> = symcache
        .ranges()
        .filter_map(|(start, answer)| Some((answer?.symbol_address?, start)))
        .filter(|(function, start)| function == start)
        .map(|(_, start)| LOAD + start.0 + 4)
        .collect();
    callers.dedup();
    let shop = |address: u64| Frame::at(address).object("Shop", LOAD).symbol("_mh_execute_header", LOAD);
    let library = "363F8E49-2D2A-3A26-BF90-60D6A8896CF0";
    Report::standard()
        .error(Error::Mach)
        .image(
            Image::new(
                "/private/var/containers/Bundle/Application/Shop.app/Shop",
                &symcache.debug_id().to_string(),
                LOAD,
            )
            .vmaddr(symcache.text_address().0)
            .size(symcache.text_size().max(END))
            .cpu(ARM64),
        )
        .image(Image::new("/usr/lib/libobjc.A.dylib", library, SYSTEM))
        .thread(
            Thread::new(0)
                .crashed()
                .registers([("pc", deepest)])
                .frames(std::iter::once(deepest).chain(callers).map(shop)),
        )
        .thread(
            Thread::new(1).frames([
                Frame::at(SYSTEM + 0x2010)
                    .object("libobjc.A.dylib", SYSTEM)
                    .symbol("objc_msgSend", SYSTEM + 0x2000),
                Frame::at(SYSTEM + 0x3010)
                    .object("libobjc.A.dylib", SYSTEM)
                    .symbol("<redacted>", SYSTEM + 0x3000),
                Frame::at(LOAD + FUNCTION + 0x10_0000).object("Shop", LOAD),
                Frame::at(0x10),
            ]),
        )
        .style(Style::Pretty)
}

#[test]
fn a_report_over_a_real_dsym() {
    let built = build_symcache(DSYM).unwrap();
    let symcache = SymCache::parse(built.symcache).unwrap();
    let bytes = report(&symcache).bytes();
    let id = symcache.debug_id();
    let symbols = ImageSymbols::Found { symcache: Arc::new(symcache), generation: Some(1), object: None };
    let read = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let tenant = TenantId::new("acme").unwrap();
    for (name, detail) in [
        ("full", Detail::Full),
        ("crashed_thread_only", Detail::CrashedThreadOnly),
        ("functions_only", Detail::FunctionsOnly),
    ] {
        let context = Context { tenant: Some(&tenant), revision: Some(1), detail, ..Context::default() };
        let enriched = enrich(&read, &|wanted| (*wanted == id).then_some(&symbols), &context);
        let output = String::from_utf8(enriched.bytes).unwrap();
        // The version changes with each release; what the answers are does not.
        insta::assert_snapshot!(name, output.replace(crate::ENGINE, "unslide/VERSION"));
    }
}
