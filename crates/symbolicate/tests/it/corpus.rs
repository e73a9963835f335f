//! The fuzz targets' checks over their corpus.

use unslide_testkit::corpus::replay;

#[path = "../../../../fuzz/checks/demangle.rs"]
mod demangle;
#[path = "../../../../fuzz/checks/enrich.rs"]
mod enrich;
#[path = "../../../../fuzz/checks/object.rs"]
mod object;
#[path = "../../../../fuzz/checks/symcache.rs"]
mod symcache;

#[test]
fn objects_are_read_or_refused() {
    replay("object", object::check);
}

/// Proves: unchanged-bytes
#[test]
fn reports_are_answered_and_given_back() {
    replay("enrich", enrich::check);
}

#[test]
fn symcaches_answer_or_do_not() {
    replay("symcache", symcache::check);
}

#[test]
fn names_are_demangled_or_not() {
    replay("demangle", demangle::check);
}
