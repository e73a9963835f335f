//! Parts for features that receive reports.

pub use crate::http::observe::RequestId;
pub use crate::http::server::ClientAddress;
pub use crate::http::trace::TraceContext;
pub use crate::limits::permits::Reservation;
pub use crate::limits::slot::{Caller, RequestSlot};
pub use crate::reports::ingest::{
    BodyForm, Bounds, Incoming, ReadBudget, ReceivedReport, ReportScope, list_refused, read_reports,
};
pub use crate::requests::accept::parse_weights;
pub use crate::requests::access::assign_caller;
pub use crate::requests::body::{Chunks, read_body, unpack_body};
pub use crate::requests::events::split_values;
pub use crate::requests::records::RecordMaker;
pub use crate::requests::refused::{RefusedElement, RefusedValue, WRONG_APP};

use axum::http::HeaderMap;

/// Returns the form of a body whose headers may be wrong: a form if they name a boundary, else any.
#[must_use]
pub fn header_form(headers: &HeaderMap) -> BodyForm {
    let boundary = crate::uploads::multipart::parse_boundary(headers, crate::problem::Kind::InvalidBody);
    boundary.ok().flatten().map_or(BodyForm::Any, BodyForm::Parts)
}
