//! Checks AWS Signature Version 4, in the form with an authorization header.

use super::error::S3Error;
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use hyper::http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use time::{Date, Duration, Month, OffsetDateTime, Time};

/// The longest time between the date of a request and now.
const CLOCK_SKEW_MAX: Duration = Duration::minutes(15);
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The characters of a path that a client signs escaped. In a query slashes are escaped as well.
const SIGNED_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
pub(super) const SIGNED_QUERY: &AsciiSet = &SIGNED_PATH.add(b'/');

/// The secrets by the ids of their access keys.
pub(super) struct AccessKeys(pub(super) HashMap<String, String>);

/// How the signature covers the body of a request.
#[derive(Debug)]
pub(super) enum SignedBody {
    Unsigned,
    Sha256([u8; 32]),
    /// `aws-chunked`. Each chunk is signed if there is a signer.
    Chunks(Option<ChunkSigner>),
}

/// Checks the signatures of chunks, each of which covers the one before.
pub(super) struct ChunkSigner {
    signing_key: [u8; 32],
    date: String,
    scope: String,
    former: String,
}

impl std::fmt::Debug for ChunkSigner {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChunkSigner for {}", self.scope)
    }
}

/// The fields of an authorization header.
struct Authorization<'h> {
    access_key: &'h str,
    /// Date, region and service that the key is derived for.
    scope: &'h str,
    signed_headers: &'h str,
    signature: Vec<u8>,
}

impl AccessKeys {
    /// Checks who sent a request, and that the request is as it was sent.
    ///
    /// # Errors
    /// The signature is missing, wrong or too old.
    pub(super) fn verify(&self, request: &Parts, now: OffsetDateTime) -> Result<SignedBody, S3Error> {
        let header = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
        let text = header("authorization").ok_or(S3Error::AccessDenied("the request is not signed"))?;
        let given = read_authorization(text).ok_or(S3Error::AuthorizationHeaderMalformed)?;
        let date = header("x-amz-date").ok_or(S3Error::AccessDenied("x-amz-date is missing"))?;
        let time = read_date(date).ok_or(S3Error::AccessDenied("x-amz-date is no time"))?;
        if (now - time).abs() > CLOCK_SKEW_MAX {
            return Err(S3Error::RequestTimeTooSkewed);
        }
        let is_signed = |name: &str| given.signed_headers.split(';').any(|signed| signed == name);
        let mut names = request.headers.keys().map(hyper::header::HeaderName::as_str);
        if !is_signed("host") || names.any(|name| name.starts_with("x-amz-") && !is_signed(name)) {
            return Err(S3Error::AccessDenied("a header that has to be signed is not"));
        }
        let body = header("x-amz-content-sha256")
            .ok_or(S3Error::InvalidRequest("x-amz-content-sha256 is missing"))?;
        let secret = self.0.get(given.access_key).ok_or(S3Error::InvalidAccessKeyId)?;
        let signing_key = derive_key(secret, given.scope);
        let canonical = write_canonical(request, given.signed_headers, body);
        let hash = hex(&Sha256::digest(canonical));
        let signed = format!("{ALGORITHM}\n{date}\n{}\n{hash}", given.scope);
        check_mac(&signing_key, &signed, &given.signature)?;
        // The scope is signed, but its date could be another one.
        if !date.starts_with(given.scope.split('/').next().unwrap_or_default()) {
            return Err(S3Error::AuthorizationHeaderMalformed);
        }
        let signer = || ChunkSigner {
            signing_key,
            date: date.to_owned(),
            scope: given.scope.to_owned(),
            former: hex(&given.signature),
        };
        match body {
            "UNSIGNED-PAYLOAD" => Ok(SignedBody::Unsigned),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(SignedBody::Chunks(None)),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" | "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
                Ok(SignedBody::Chunks(Some(signer())))
            }
            digits => {
                let hash = read_hex(digits).and_then(|bytes| bytes.try_into().ok());
                hash.map(SignedBody::Sha256)
                    .ok_or(S3Error::InvalidRequest("x-amz-content-sha256 is no SHA-256"))
            }
        }
    }
}

impl ChunkSigner {
    /// Checks the signature of the next chunk, whose bytes have this hash.
    ///
    /// # Errors
    /// Another one signed it, or it is not the next one.
    pub(super) fn check_chunk(&mut self, bytes: Sha256, signature: &str) -> Result<(), S3Error> {
        let (none, hash) = (hex(&Sha256::digest(b"")), hex(&bytes.finalize()));
        self.check("PAYLOAD", &format!("{none}\n{hash}"), signature)
    }

    /// Checks the signature of the trailer, a line for each header.
    ///
    /// # Errors
    /// Another one signed it.
    pub(super) fn check_trailer(&mut self, lines: &str, signature: &str) -> Result<(), S3Error> {
        self.check("TRAILER", &hex(&Sha256::digest(lines)), signature)
    }

    fn check(&mut self, kind: &str, hashes: &str, signature: &str) -> Result<(), S3Error> {
        let signed = format!("{ALGORITHM}-{kind}\n{}\n{}\n{}\n{hashes}", self.date, self.scope, self.former);
        let bytes = read_hex(signature).ok_or(S3Error::SignatureDoesNotMatch)?;
        check_mac(&self.signing_key, &signed, &bytes)?;
        signature.clone_into(&mut self.former);
        Ok(())
    }
}

fn read_authorization(text: &str) -> Option<Authorization<'_>> {
    let fields: HashMap<&str, &str> =
        text.strip_prefix(ALGORITHM)?.split(',').filter_map(|field| field.trim().split_once('=')).collect();
    let credential = fields.get("Credential")?;
    let slash = credential.rmatch_indices('/').nth(3)?.0;
    let (access_key, scope) = (credential.get(..slash)?, credential.get(slash + 1..)?);
    scope.ends_with("/s3/aws4_request").then_some(())?;
    let signature = read_hex(fields.get("Signature")?)?;
    Some(Authorization { access_key, scope, signed_headers: fields.get("SignedHeaders")?, signature })
}

/// Reads a time as `20130524T000000Z`.
fn read_date(text: &str) -> Option<OffsetDateTime> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    if day.len() != 8 || clock.len() != 6 || !text.is_ascii() {
        return None;
    }
    let number = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<u8>().ok();
    let month = Month::try_from(number(day, 4, 6)?).ok()?;
    let date = Date::from_calendar_date(day.get(..4)?.parse().ok()?, month, number(day, 6, 8)?).ok()?;
    let time = Time::from_hms(number(clock, 0, 2)?, number(clock, 2, 4)?, number(clock, 4, 6)?).ok()?;
    Some(OffsetDateTime::new_utc(date, time))
}

/// Writes a request in the one form in which it is signed.
pub(super) fn write_canonical(request: &Parts, signed_headers: &str, body: &str) -> String {
    let escape =
        |text: &str, set| percent_encode(&percent_decode_str(text).collect::<Vec<u8>>(), set).to_string();
    let path = escape(request.uri.path(), SIGNED_PATH);
    let query = request.uri.query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (escape(name, SIGNED_QUERY), escape(value, SIGNED_QUERY)))
        .collect();
    pairs.sort();
    let query = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let headers: String = signed_headers
        .split(';')
        .map(|name| format!("{name}:{}\n", write_header(&request.headers, name)))
        .collect();
    format!("{}\n{path}\n{query}\n{headers}\n{signed_headers}\n{body}", request.method)
}

fn write_header(headers: &HeaderMap, name: &str) -> String {
    let values = headers.get_all(name).iter().map(|value| {
        let text = String::from_utf8_lossy(value.as_bytes());
        text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    });
    values.collect::<Vec<_>>().join(",")
}

pub(super) fn derive_key(secret: &str, scope: &str) -> [u8; 32] {
    let start = format!("AWS4{secret}").into_bytes();
    let key =
        scope.split('/').fold(start, |key, part| compute_mac(&key, part).finalize().into_bytes().to_vec());
    key.try_into().unwrap_or_default()
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of each length")]
pub(super) fn compute_mac(key: &[u8], text: &str) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key").chain_update(text)
}

/// Compares in constant time.
fn check_mac(key: &[u8], text: &str, signature: &[u8]) -> Result<(), S3Error> {
    compute_mac(key, text).verify_slice(signature).map_err(|_| S3Error::SignatureDoesNotMatch)
}

/// Returns the hexadecimal digits of bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(HEX_DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

pub(super) fn read_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}
