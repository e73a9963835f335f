//! The hash that a client announces for its body.

use crate::problem::{Kind, Problem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use unslide_model::ContentHash;

/// Reads one header's value: `None` if it is malformed, `Some(None)` if it has no SHA-256.
type Reader = fn(&str) -> Option<Option<ContentHash>>;

/// The header with the hash of the unpacked bytes.
const UNPACKED_HASH: &str = "x-content-sha256";

/// Returns the SHA-256 that the headers announce: `X-Content-SHA256` in hexadecimal, `Content-Digest` or
/// `Repr-Digest` with `sha-256=:…:` (RFC 9530), or the older `Digest` with `SHA-256=…` (RFC 3230). Other
/// algorithms are skipped. The standard headers hash the packed bytes of a body with a coding, which are
/// not kept, so such a body may have the first header only.
///
/// # Errors
/// [`Kind::InvalidParameter`] if one is malformed, two disagree, or one is about packed bytes.
pub fn parse_announced(headers: &HeaderMap, is_packed: bool) -> Result<Option<ContentHash>, Problem> {
    let mut found: Option<ContentHash> = None;
    let readers: [(&str, Reader); 4] = [
        (UNPACKED_HASH, |text| Some(Some(text.trim().parse().ok()?))),
        ("content-digest", parse_structured),
        ("repr-digest", parse_structured),
        ("digest", parse_legacy),
    ];
    for (name, read) in readers {
        if is_packed && name != UNPACKED_HASH && headers.contains_key(name) {
            let detail = format!(
                "{name}: a body with a content-encoding may announce the hash of its unpacked bytes only, as {UNPACKED_HASH}"
            );
            return Err(Problem::new(Kind::InvalidParameter, detail));
        }
        for value in headers.get_all(name) {
            let hash = value.to_str().ok().and_then(read).ok_or_else(|| {
                Problem::new(Kind::InvalidParameter, format!("{name}: not a SHA-256 in this header's form"))
            })?;
            let Some(hash) = hash else { continue };
            if found.is_some_and(|other| other != hash) {
                return Err(Problem::new(Kind::InvalidParameter, "two headers announce different hashes"));
            }
            found = Some(hash);
        }
    }
    Ok(found)
}

/// Reads a dictionary of byte sequences (RFC 8941): `sha-256=:base64:, other=:…:`.
fn parse_structured(text: &str) -> Option<Option<ContentHash>> {
    parse_pairs(text, "sha-256", |value| value.strip_prefix(':')?.strip_suffix(':'))
}

/// Reads `SHA-256=base64,MD5=…`, the algorithm in any case.
fn parse_legacy(text: &str) -> Option<Option<ContentHash>> {
    parse_pairs(text, "sha-256", |value| Some(value))
}

fn parse_pairs(text: &str, algorithm: &str, value: fn(&str) -> Option<&str>) -> Option<Option<ContentHash>> {
    let mut found = None;
    for pair in text.split(',') {
        let (name, rest) = pair.trim().split_once('=')?;
        if name.eq_ignore_ascii_case(algorithm) {
            let bytes = STANDARD.decode(value(rest)?).ok()?;
            found = Some(ContentHash(bytes.try_into().ok()?));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const BASE64: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

    fn read(headers: &[(&'static str, &str)]) -> Result<Option<String>, Kind> {
        read_of_body(headers, false)
    }

    fn read_of_body(headers: &[(&'static str, &str)], is_packed: bool) -> Result<Option<String>, Kind> {
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        let hash = parse_announced(&headers.collect(), is_packed).map_err(|problem| problem.kind())?;
        Ok(hash.map(|hash| hash.to_string()))
    }

    #[test]
    fn every_form_gives_the_same_hash() {
        let all = [
            ("x-content-sha256", HEX.to_uppercase()),
            ("content-digest", format!("md5=:AAAA:, sha-256=:{BASE64}:")),
            ("repr-digest", format!("sha-256=:{BASE64}:")),
            ("digest", format!("SHA-256={BASE64}")),
        ];
        for (name, value) in &all {
            assert_eq!(read(&[(name, value)]), Ok(Some(HEX.to_owned())), "{name}");
        }
        assert_eq!(read(&[("digest", "MD5=AAAA")]), Ok(None));
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn a_malformed_or_contradicting_hash_is_refused() {
        assert_eq!(read(&[("x-content-sha256", "abc")]), Err(Kind::InvalidParameter));
        assert_eq!(read(&[("content-digest", "sha-256=AAAA")]), Err(Kind::InvalidParameter));
        let other = "0".repeat(64);
        assert_eq!(
            read(&[("x-content-sha256", HEX), ("digest", &format!("sha-256={BASE64}"))]),
            Ok(Some(HEX.to_owned()))
        );
        assert_eq!(
            read(&[("x-content-sha256", &other), ("digest", &format!("sha-256={BASE64}"))]),
            Err(Kind::InvalidParameter)
        );
    }

    #[test]
    fn a_packed_body_announces_the_hash_of_its_unpacked_bytes() {
        assert_eq!(read_of_body(&[("x-content-sha256", HEX)], true), Ok(Some(HEX.to_owned())));
        let packed = format!("sha-256=:{BASE64}:");
        assert_eq!(read_of_body(&[("content-digest", &packed)], true), Err(Kind::InvalidParameter));
    }
}
