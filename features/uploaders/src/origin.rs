//! The address of this server, as a client reached it.

use axum::http::HeaderMap;
use axum::http::header::HOST;
use unslide_api::problem::{Kind, Problem};

/// Returns the origin that the client reached. `public_url` is the configured address, or empty.
///
/// # Errors
/// [`Kind::InvalidRequest`] if neither the request nor the configuration names it.
pub fn own_origin(public_url: &str, headers: &HeaderMap) -> Result<String, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let public = public_url.trim_end_matches('/');
    let host = text(HOST.as_str()).filter(|host| !host.is_empty());
    let is_public = |host: &str| public.split_once("://").is_some_and(|(_, known)| known == host);
    match host {
        Some(host) if is_public(host) => Ok(public.to_owned()),
        Some(host) => {
            let scheme = text("x-forwarded-proto").filter(|scheme| ["http", "https"].contains(scheme));
            Ok(format!("{}://{host}", scheme.unwrap_or("http")))
        }
        None if !public.is_empty() => Ok(public.to_owned()),
        None => Err(Problem::new(
            Kind::InvalidRequest,
            "the request has no Host header, and api.public_url is not set",
        )),
    }
}
