//! Parts for features that receive reports.

pub use crate::http::observe::RequestId;
pub use crate::http::server::ClientAddress;
pub use crate::http::trace::TraceContext;
pub use crate::limits::permits::{Caller, Reservation};
pub use crate::reports::ingest::{Bounds, Incoming};
pub use crate::reports::lenient::{LenientReport, ReadBudget, RefusedReport, read_leniently};
pub use crate::requests::accept::parse_weights;
pub use crate::requests::access::assign_caller;
pub use crate::requests::body::{Chunks, read_body};
pub use crate::requests::events::build_record;

use axum::http::HeaderMap;

/// Returns the boundary that the headers name if the body is multipart/form-data.
#[must_use]
pub fn header_boundary(headers: &HeaderMap) -> Option<String> {
    crate::uploads::multipart::parse_boundary(headers, crate::problem::Kind::InvalidBody).ok().flatten()
}
