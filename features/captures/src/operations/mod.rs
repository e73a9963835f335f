//! The operations of the API.

mod block;
mod compare;
mod delete;
mod file;
mod get;
mod list;
mod prelude;
mod receive;
mod send;

pub use block::{BlockQuery, FoundBlock, find_block};
pub use compare::{CapturePair, capture_pair};
pub use delete::delete_capture;
pub use get::{FoundAnalysis, analysis};
pub use list::{CaptureQuery, list_captures};
pub use receive::CaptureBody;
pub use send::{AdmittedCapture, SendCaptureQuery, upload};

use axum::middleware::from_fn;
use prelude::*;
use unslide_api::feature::lift_time_bound;

/// The routes of this folder.
pub fn routes() -> OperationRouter {
    upload_routes()
        .routes(routes!(list::list_captures))
        .routes(routes!(get::get_capture, delete::delete_capture))
        .routes(routes!(file::get_capture_file))
        .routes(routes!(compare::compare_captures))
        .routes(routes!(block::get_capture_block))
}

/// The route that takes files, for as long as it needs.
fn upload_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(send::send_capture)).layer(from_fn(lift_time_bound))
}

/// There is no such capture of this tenant and app.
fn no_capture() -> Problem {
    Problem::new(Kind::NotFound, "there is no such capture")
}
