//! The signature of Slack's requests.
//!
//! Source: <https://docs.slack.dev/authentication/verifying-requests-from-slack>.

use http::HeaderMap;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::hooks::has_hex_signature;
use unslide_model::Secret;

/// How far the time of a request may be from now.
const REQUEST_AGE_MAX: Duration = Duration::minutes(5);

/// Returns true if a request has the signature of its bytes and a time near `now`. It compares in constant time.
pub fn is_signed(headers: &HeaderMap, body: &[u8], secret: &Secret, now: OffsetDateTime) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signed = (|| {
        let time = text("x-slack-request-timestamp")?;
        let seconds: i64 = time.parse().ok()?;
        let signature = text("x-slack-signature")?.strip_prefix("v0=")?;
        let age = now.unix_timestamp().abs_diff(seconds);
        let is_near = age <= REQUEST_AGE_MAX.whole_seconds().unsigned_abs();
        is_near.then_some((time, signature))
    })();
    let Some((time, signature)) = signed else { return false };
    let bytes = [b"v0:", time.as_bytes(), b":", body].concat();
    has_hex_signature(secret, &bytes, Some(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Slack's documentation.
    #[test]
    fn a_request_is_signed_with_its_time_and_all_its_bytes() {
        let secret = Secret::new("8f742231b10e8888abcd99yyyzzz85a5");
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let headers = |time: &str, signature: &str| {
            let pairs = [("x-slack-request-timestamp", time), ("x-slack-signature", signature)];
            pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).into_iter().collect()
        };
        let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        let right: HeaderMap = headers("1531420618", signature);
        assert!(is_signed(&right, body.as_bytes(), &secret, at(1_531_420_618)));
        assert!(is_signed(&right, body.as_bytes(), &secret, at(1_531_420_918)));
        assert!(!is_signed(&right, body.as_bytes(), &secret, at(1_531_420_919)), "too old");
        assert!(!is_signed(&right, body.as_bytes(), &secret, at(1_531_420_317)), "too early");
        assert!(!is_signed(&right, &body.as_bytes()[1..], &secret, at(1_531_420_618)));
        assert!(!is_signed(&right, body.as_bytes(), &Secret::new(""), at(1_531_420_618)));
        let later = headers("1531420619", signature);
        assert!(!is_signed(&later, body.as_bytes(), &secret, at(1_531_420_619)), "the time is signed");
        assert!(!is_signed(&HeaderMap::new(), body.as_bytes(), &secret, at(1_531_420_618)));
    }
}
