//! Signatures of requests to buckets (AWS Signature Version 4).

use crate::target::BucketTarget;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use std::error::Error;
use std::time::SystemTime;
use time::OffsetDateTime;

/// Returns the headers that sign the GET of a URL, none for a public bucket.
///
/// # Errors
/// The region or the key cannot be in a signature.
pub fn sign_get(
    bucket: &BucketTarget,
    url: &str,
    at: OffsetDateTime,
) -> Result<Vec<(String, String)>, Box<dyn Error + Send + Sync>> {
    if bucket.access_key.is_empty() {
        return Ok(Vec::new());
    }
    let mut settings = SigningSettings::default();
    // As S3 wants it: the path as it is sent, with the hash of the body in a header.
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let secret = bucket.secret_key.reveal();
    let identity = Credentials::new(bucket.access_key.clone(), secret, None, None, "symbol source").into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(&bucket.region)
        .name("s3")
        .time(SystemTime::from(at))
        .settings(settings)
        .build()?
        .into();
    let request = SignableRequest::new("GET", url, std::iter::empty(), SignableBody::Bytes(&[]))?;
    let (instructions, _) = sign(request, &params)?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;
    use unslide_model::Secret;

    fn bucket(access_key: &str) -> BucketTarget {
        BucketTarget {
            endpoint: "https://s3.amazonaws.com".to_owned(),
            region: "us-east-1".to_owned(),
            bucket: "examplebucket".to_owned(),
            prefix: String::new(),
            access_key: access_key.to_owned(),
            secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        }
    }

    #[test]
    fn a_request_is_signed_for_its_path_time_and_region() {
        let sign_at = |bucket: &BucketTarget, url: &str| {
            let headers = sign_get(bucket, url, datetime!(2013-05-24 00:00 UTC)).unwrap();
            headers.into_iter().find(|(name, _)| name == "authorization").map(|(_, value)| value)
        };
        let url = "https://s3.amazonaws.com/examplebucket/test.txt";
        let signed = sign_at(&bucket("AKIAIOSFODNN7EXAMPLE"), url).unwrap();
        let scope = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        assert!(signed.starts_with(scope), "{signed}");
        assert!(signed.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date"), "{signed}");
        assert!(!signed.contains("wJalr"));
        assert_ne!(Some(signed), sign_at(&bucket("AKIAIOSFODNN7EXAMPLE"), &format!("{url}.gz")));
        assert_eq!(sign_at(&bucket(""), url), None);
    }
}
