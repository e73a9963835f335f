//! The fuzz target's check over its corpus.

use unslide_testkit::corpus::replay;

#[path = "../../../../fuzz/checks/archive.rs"]
mod archive;

#[test]
fn uploads_are_unpacked_or_refused() {
    replay("archive", archive::check);
}
