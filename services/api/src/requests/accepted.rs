//! Responses to requests with a result that comes later.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// A 202 response with the address of the result in `Location`.
pub struct AcceptedResponse<T> {
    /// The body of the response.
    pub body: T,
    /// The path of the result; `None` if there is no single one.
    pub location: Option<String>,
}

impl<T: Serialize> IntoResponse for AcceptedResponse<T> {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::ACCEPTED, Json(self.body)).into_response();
        // Paths are made of ids, so they are always valid header values.
        if let Some(Ok(location)) = self.location.map(HeaderValue::try_from) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}
