//! Lists of operations in forms other than JSON pages, such as files. Features add these forms.

pub use crate::limits::answers::reserve_bytes;
pub use crate::limits::permits::Reservation;
pub use crate::limits::slot::RequestSlot;
pub use crate::list_tables::ListTable;
pub use crate::requests::accept::parse_weights;

use crate::feature::ApiFeature;
use crate::state::Api;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::pin::Pin;
use utoipa::openapi::OpenApi;

/// Entries of each page that a list is read in for another form.
pub const PAGE_ENTRIES: u32 = 50;

/// The answer to a request.
pub type ListAnswer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Other forms of all lists. Each function and text concerns the lists of [`Api::list_tables`].
#[derive(Clone, Copy, Debug)]
pub struct ListForms {
    /// Answers a request to an operation or a page. [`Next`] is the operation; each call of it has the time
    /// of a request.
    pub answer: fn(Api, Request, Next) -> ListAnswer,
    /// Adds the forms to the operations of these lists in the OpenAPI document.
    pub document: fn(&mut OpenApi, &[&'static ListTable]),
    /// The folder of the console with the lists that have a page, such as `/console/files`: each below the name of its
    /// table, with the filters of its page.
    pub folder: &'static str,
    /// The text of the link from a page to its list in the folder.
    pub link: &'static str,
}

/// Returns the forms that features add.
pub fn list_forms(features: &[ApiFeature]) -> impl Iterator<Item = ListForms> {
    features.iter().filter_map(|feature| feature.forms)
}

/// Lets a feature answer a request.
pub async fn delegate_to_feature(
    State((api, forms)): State<(Api, ListForms)>,
    request: Request,
    next: Next,
) -> Response {
    (forms.answer)(api, request, next).await
}
