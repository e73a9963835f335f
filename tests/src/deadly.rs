//! A report that kills its workers: a worker that asks for its symbols is killed before it has
//! an answer, each time, as by a bug that one report brings out.

use crate::app::App;
use crate::proxy::Proxy;
use std::net::SocketAddr;
use tokio::sync::mpsc;
use unslide_model::DebugId;
use unslide_testkit::reports::Report;

/// The image that no worker survives.
const DEBUG_ID: DebugId = DebugId(*b"\xde\xad\xbe\xa7kills-worker");

/// Such a report.
#[must_use]
pub fn deadly_report(app: &App, number: u32) -> Report {
    app.report_of_build(number, DEBUG_ID)
}

/// Keeps the symbols of such reports from getting through the proxy before object storage. Returns the
/// addresses of those who ask: they are to be killed.
#[must_use]
pub fn trap_symbols(objects: &Proxy) -> mpsc::UnboundedReceiver<SocketAddr> {
    let digits = DEBUG_ID.to_compact();
    objects.trap_requests(digits.get(2..).unwrap_or_default())
}
