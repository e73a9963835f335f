//! Reports.

pub mod delete;
pub mod explain;
pub mod get;
pub mod list;
pub mod load;
pub mod markdown;
mod profile;
mod schemas;
mod send;
mod symbolicate;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn report_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(send::send_reports, list::list_reports))
        .routes(routes!(delete::delete_report))
        .routes(routes!(explain::explain_report))
        .routes(routes!(profile::get_report_profile))
        .routes(routes!(symbolicate::symbolicate))
}

/// Returns the route that waits if its client asks for it.
pub fn waiting_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get::get_report))
}
