//! The fuzz targets' checks over their corpus.

use unslide_testkit::corpus::replay;

#[path = "../../../../fuzz/checks/archive.rs"]
mod archive;
#[path = "../../../../fuzz/checks/key.rs"]
mod key;

#[test]
fn uploads_are_unpacked_or_refused() {
    replay("archive", archive::check);
}

#[test]
fn keys_from_elsewhere_are_taken_for_their_own_tenant_only() {
    replay("key", key::check);
}
