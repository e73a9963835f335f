//! Requests to a bucket that failed.

use time::Duration;

/// A request to a bucket that failed: it is tried later.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct BucketFailure {
    /// The reason, for the tenant.
    pub text: String,
    /// The status of the answer; None without one.
    pub status: Option<u16>,
    /// The pause that the bucket wants.
    pub pause: Option<Duration>,
}

impl BucketFailure {
    pub fn new(text: impl Into<String>) -> BucketFailure {
        BucketFailure { text: text.into(), status: None, pause: None }
    }
}

/// Returns the sentence about a status that is a failure. `code` is the word of the bucket's answer, empty without one.
pub fn describe_status(method: &str, status: u16, code: &str) -> String {
    let code_note = if code.is_empty() { String::new() } else { format!(" ({code})") };
    let advice = match status {
        300..=399 if code == "PermanentRedirect" => {
            ": the bucket is in another region, or has another endpoint"
        }
        300..=399 => ": a redirect is not followed; name the address that it leads to",
        403 if code.is_empty() || code == "AccessDenied" => {
            ": the access key needs s3:PutObject and s3:DeleteObject on the prefix"
        }
        404 => ": there is no such bucket",
        429 | 503 => ": the bucket wants fewer requests",
        507 => ": the bucket is full",
        _ => "",
    };
    format!("The bucket answered to {method} with HTTP {status}{code_note}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_to_do() {
        for (part, status, code) in [
            ("redirect is not followed", 302, ""),
            ("another region", 301, "PermanentRedirect"),
            ("s3:PutObject", 403, "AccessDenied"),
            ("(SignatureDoesNotMatch)", 403, "SignatureDoesNotMatch"),
            ("no such bucket", 404, "NoSuchBucket"),
            ("fewer requests", 503, "SlowDown"),
            ("is full", 507, ""),
            ("HTTP 418", 418, ""),
        ] {
            let text = describe_status("PUT", status, code);
            assert!(text.contains(part), "{text}");
        }
    }
}
