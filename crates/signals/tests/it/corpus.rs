//! The fuzz targets' checks over their corpus.

use unslide_testkit::corpus::replay;

#[path = "../../../../fuzz/checks/malloc.rs"]
mod malloc;
#[path = "../../../../fuzz/checks/profile.rs"]
mod profile;

#[test]
fn profiles_are_read_or_refused() {
    replay("profile", profile::check);
}

#[test]
fn logs_of_allocations_are_replayed() {
    replay("malloc", malloc::check);
}
