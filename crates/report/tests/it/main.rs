//! The report crate, from outside.

mod log;
mod reading;
mod splicing;

use unslide_report::{Backtrace, FrameSlot, ReadLimits, Report, splice};

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

/// Reads what must be readable.
fn read(bytes: &[u8]) -> Report<'_> {
    match Report::read(bytes, &ReadLimits::default()) {
        Ok(report) => report,
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(bytes)),
    }
}

/// The reason why bytes are not read.
fn reason(bytes: &[u8]) -> &'static str {
    match Report::read(bytes, &ReadLimits::default()) {
        Ok(_) => "none",
        Err(error) => error.reason(),
    }
}

/// The warnings as texts.
fn warnings(bytes: &[u8]) -> Vec<String> {
    read(bytes).warnings.iter().map(ToString::to_string).collect()
}

/// Puts `frame` into every frame and `own` into the report object, as the engine does.
fn enrich_with(bytes: &[u8], frame: &str, own: &str) -> Vec<u8> {
    let report = read(bytes);
    let member = |has_members, value: &str| [splice::member_key(has_members), value.as_bytes()].concat();
    let slots = report.backtraces.iter().flat_map(Backtrace::frame_slots).map(|slot| match slot {
        FrameSlot::Frame(f) => (f.insert_at, f.has_members),
        FrameSlot::Blank(f) => (f.insert_at(), f.has_members()),
    });
    let mut insertions: Vec<_> = slots.map(|(at, has_members)| (at, member(has_members, frame))).collect();
    insertions.push((report.insert_at, member(report.has_members, own)));
    // A `recrash_report` or a section behind the last frame does not matter: only the order does.
    insertions.sort_by_key(|(offset, _)| *offset);
    let mut out = Vec::new();
    unslide_testkit::splice(bytes, insertions, &mut out);
    out
}

/// Enriches as the engine does, with little to say.
fn enrich(bytes: &[u8]) -> Vec<u8> {
    enrich_with(
        bytes,
        r#"{"status":"device"}"#,
        r#"{"version":1,"engine":"unslide/0.1.0","status":"partial"}"#,
    )
}

fn strip(bytes: &[u8]) -> Vec<u8> {
    match splice::strip_additions(bytes, &ReadLimits::default()) {
        Ok(stripped) => stripped.into_owned(),
        Err(error) => panic!("{error}"),
    }
}
