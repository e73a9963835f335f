//! The key of a request, in whatever form its client sends it.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::{SymbolsWrite, admit_request, authenticate_key};
use unslide_api::problem::Problem;

/// Checks that a key may upload symbols.
///
/// # Errors
/// [`Kind::Unauthorized`](unslide_api::problem::Kind::Unauthorized) for an unknown key,
/// [`Kind::InsufficientScope`](unslide_api::problem::Kind::InsufficientScope) for one without `symbols:write`, or the
/// tenant is suspended or busy.
pub async fn sign_in(keys: &Keys, parts: &Parts, key: &str) -> Result<Access<SymbolsWrite>, Problem> {
    let principal = authenticate_key(&parts.extensions, keys, key).await?;
    admit_request(parts, &keys.capacity, principal, &parts.method)
}

/// Returns the token in `Authorization: Bearer …`, or an empty text.
pub fn bearer_token(headers: &HeaderMap) -> &str {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_token_follows_the_scheme() {
        let read = |value: &'static str| {
            let headers: HeaderMap = [(AUTHORIZATION, HeaderValue::from_static(value))].into_iter().collect();
            bearer_token(&headers).to_owned()
        };
        assert_eq!(read("Bearer unslide_a_b"), "unslide_a_b");
        assert_eq!(read("bearer  x "), "x");
        assert_eq!(read("Basic x"), "");
        assert_eq!(read("x"), "");
        assert_eq!(bearer_token(&HeaderMap::new()), "");
    }
}
