//! Releases, which the client makes before its symbol sets. Symbols belong to no release here.

use crate::declaration::read_declaration;
use axum::body::Body;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use unslide_api::feature::Capacity;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::SymbolsWrite;
use unslide_api::problem::{Kind, Problem};
use unslide_store::Uuid;

/// A release that a client makes.
#[derive(Deserialize)]
struct NewRelease {
    hash_id: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    project: String,
}

/// Answers a release with an id of its hash.
///
/// # Errors
/// The body is not valid or too large.
pub async fn answer_release(
    capacity: &Capacity,
    access: &Access<SymbolsWrite>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let NewRelease { hash_id, version, project } =
        read_declaration(capacity, access, headers, body, parse_release).await?;
    Ok(json!({ "id": release_id(&hash_id), "hash_id": hash_id, "version": version, "project": project }))
}

fn parse_release(body: &[u8]) -> Result<NewRelease, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::new(Kind::InvalidBody, error.to_string()))
}

/// Returns a UUID of version 8 (RFC 9562 §5.8), the same for the same hash.
fn release_id(hash_id: &str) -> Uuid {
    let hash: [u8; 32] = Sha256::digest(hash_id).into();
    let mut id = [0; 16];
    id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    Uuid::from_bytes(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_keeps_its_id() {
        assert_eq!(release_id("a"), release_id("a"));
        assert_ne!(release_id("a"), release_id("b"));
        assert_eq!(release_id("a").get_version_num(), 8);
    }
}
