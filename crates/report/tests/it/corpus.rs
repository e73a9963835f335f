//! The fuzz targets' checks over their corpus.

use unslide_testkit::corpus::replay;

#[path = "../../../../fuzz/checks/report.rs"]
mod report;
#[path = "../../../../fuzz/checks/splice.rs"]
mod splice;

#[test]
fn reports_are_read_or_refused() {
    replay("report", report::check);
}

#[test]
fn what_is_put_in_comes_out() {
    replay("splice", splice::check);
    replay("report", splice::check);
}
