//! The meaning of a source's answers.

use super::download::SourceDownload;
use crate::target::SymbolSourceKind;

/// The answer of a source to the request for one debug id.
#[derive(Debug)]
pub enum SourceAnswer {
    /// It has a file for the debug id.
    Found(SourceDownload),
    NotFound,
}

/// The meaning of a status, without that of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeaning {
    Found,
    NotFound,
    /// It depends on the code in the answer of a bucket.
    NoObjectOrBucket,
    Failed,
}

/// Returns the meaning of a status. A bucket that may not be listed answers 403 to a request for an object that does not exist: without
/// credentials there is nothing to correct, so it counts as not found.
pub fn read_status(kind: SymbolSourceKind, has_credentials: bool, status: u16) -> StatusMeaning {
    match status {
        200 => StatusMeaning::Found,
        404 if kind == SymbolSourceKind::S3 => StatusMeaning::NoObjectOrBucket,
        404 | 410 => StatusMeaning::NotFound,
        403 if !has_credentials => StatusMeaning::NotFound,
        _ => StatusMeaning::Failed,
    }
}

/// Returns the sentence about a status that says nothing about the file. `code` is the word of a bucket's answer, empty without one.
pub fn describe_failure(kind: SymbolSourceKind, status: u16, code: &str) -> String {
    let code_note = if code.is_empty() { String::new() } else { format!(" ({code})") };
    let advice = match (kind, status) {
        (_, 300..=399) if code == "PermanentRedirect" => {
            ": the bucket is in another region, or has another endpoint"
        }
        (_, 300..=399) => ": a redirect is not followed; name the address that it leads to",
        (SymbolSourceKind::S3, 403) if code.is_empty() || code == "AccessDenied" => {
            ": the access key needs s3:GetObject on the prefix, and s3:ListBucket on the bucket, without which S3 answers so for \
             objects that do not exist"
        }
        (SymbolSourceKind::S3, 404) => ": there is no such bucket",
        (SymbolSourceKind::Http, 401 | 403) => ": the server wants other credentials",
        (_, 429 | 503) => ": the source wants fewer requests",
        _ => "",
    };
    format!("The source answered with HTTP {status}{code_note}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_about_the_file_or_a_failure() {
        use SymbolSourceKind::{Http, S3};
        for (meaning, kind, has_credentials, status) in [
            (StatusMeaning::Found, Http, false, 200),
            (StatusMeaning::NotFound, Http, true, 404),
            (StatusMeaning::NotFound, Http, true, 410),
            (StatusMeaning::NoObjectOrBucket, S3, true, 404),
            (StatusMeaning::NotFound, S3, false, 403),
            (StatusMeaning::NotFound, Http, false, 403),
            (StatusMeaning::Failed, S3, true, 403),
            (StatusMeaning::Failed, Http, true, 403),
            (StatusMeaning::Failed, Http, false, 401),
            (StatusMeaning::Failed, Http, false, 302),
            (StatusMeaning::Failed, Http, false, 206),
            (StatusMeaning::Failed, S3, true, 500),
        ] {
            assert_eq!(read_status(kind, has_credentials, status), meaning, "{kind} {status}");
        }
        for (part, kind, status, code) in [
            ("redirect is not followed", Http, 302, ""),
            ("another region", S3, 301, "PermanentRedirect"),
            ("s3:ListBucket", S3, 403, "AccessDenied"),
            ("(SignatureDoesNotMatch)", S3, 403, "SignatureDoesNotMatch"),
            ("no such bucket", S3, 404, "NoSuchBucket"),
            ("other credentials", Http, 401, ""),
            ("HTTP 418", Http, 418, ""),
        ] {
            let text = describe_failure(kind, status, code);
            assert!(text.contains(part), "{text}");
        }
    }
}
