//! Calls of the API's own operations by features that translate another protocol.

use crate::requests::access::CallingPrincipal;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tower::ServiceExt;
use unslide_store::keys::Principal;

/// The operations of this process, with the access rules, limits and counters of any other request. Routes outside the API get
/// it as an extension.
#[derive(Clone)]
pub struct OperationCalls(Router);

impl OperationCalls {
    pub(crate) fn new(operations: Router) -> OperationCalls {
        OperationCalls(operations)
    }

    /// Sends a request as if it came over the network from a principal that the feature has authenticated. An extension names the
    /// client's address.
    pub async fn send_request(&self, mut request: Request, principal: Principal) -> Response {
        request.extensions_mut().insert(CallingPrincipal(principal));
        match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
