//! Calls of the API's own operations by features that translate another protocol.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tower::ServiceExt;

/// The operations of this process, with the access rules, limits and counters of any other request. Routes outside the API get
/// it as an extension.
#[derive(Clone)]
pub struct OperationCalls(Router);

impl OperationCalls {
    pub(crate) fn new(operations: Router) -> OperationCalls {
        OperationCalls(operations)
    }

    /// Sends a request as if it came over the network. An extension names the client's address.
    pub async fn send_request(&self, request: Request) -> Response {
        match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
