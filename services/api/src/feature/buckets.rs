//! Buckets of tenants with the interface of S3, for features that read or fill them: the fields that name a bucket, and the signatures of
//! requests to it (AWS Signature Version 4).

use crate::requests::input::is_text;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use std::error::Error;
use std::time::SystemTime;
use time::OffsetDateTime;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, check_url};

/// The most bytes of an address and a prefix, and of a region and a key.
pub const ADDRESS_BYTES_LIMIT: usize = 500;
const WORD_BYTES_LIMIT: usize = 200;
const BUCKET_BYTES_LIMIT: usize = 63;
/// The region of a bucket if none is named.
const USUAL_REGION: &str = "us-east-1";

/// A prefix in a bucket, with the key that signs requests to it.
#[derive(Clone, Debug)]
pub struct BucketTarget {
    /// The URL of the service, without a slash at its end.
    pub endpoint: String,
    /// The region that requests are signed for.
    pub region: String,
    pub bucket: String,
    /// Empty, or without a slash at either end.
    pub prefix: String,
    /// The id of the access key; empty for a public bucket.
    pub access_key: String,
    pub secret_key: Secret,
}

/// The fields of a request that name a bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct BucketFields<'f> {
    /// The URL of the service; absent for AWS in the region.
    pub address: Option<&'f Secret>,
    pub bucket: Option<&'f str>,
    pub prefix: Option<&'f str>,
    pub region: Option<&'f str>,
    pub access_key: Option<&'f str>,
    pub secret_key: Option<&'f Secret>,
}

impl BucketTarget {
    /// Returns the URL that paths follow, without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> String {
        let endpoint = self.endpoint.trim_end_matches('/');
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{endpoint}/{}{slash}{}", self.bucket, self.prefix)
    }

    /// Returns the headers that sign a request with a body of this SHA-256 in hexadecimal digits, none for a public bucket.
    ///
    /// # Errors
    /// The region or the key cannot be in a signature.
    pub fn sign_request(
        &self,
        method: &str,
        url: &str,
        body_sha256: &str,
        at: OffsetDateTime,
    ) -> Result<Vec<(String, String)>, Box<dyn Error + Send + Sync>> {
        if self.access_key.is_empty() {
            return Ok(Vec::new());
        }
        let mut settings = SigningSettings::default();
        // As S3 wants it: the path as it is sent, with the hash of the body in a header.
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let secret = self.secret_key.reveal();
        let identity =
            Credentials::new(self.access_key.clone(), secret, None, None, "a tenant's bucket").into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(SystemTime::from(at))
            .settings(settings)
            .build()?
            .into();
        let body = SignableBody::Precomputed(body_sha256.to_owned());
        let request = SignableRequest::new(method, url, std::iter::empty(), body)?;
        let (instructions, _) = sign(request, &params)?.into_parts();
        Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

impl BucketFields<'_> {
    /// Returns the bucket that the fields name. A secret that they lack is that of the former bucket, if address, bucket and key are the
    /// same. `section` is the section of the settings with the networks that are allowed.
    ///
    /// # Errors
    /// Returns what is wrong with the fields, for the tenant.
    pub fn read_target(
        &self,
        former: Option<&BucketTarget>,
        allowed: &AllowedReceivers,
        section: &str,
    ) -> Result<BucketTarget, String> {
        self.check_texts()?;
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let region = given(self.region).unwrap_or_else(|| USUAL_REGION.to_owned());
        let endpoint = match self.address.filter(|address| !address.is_empty()) {
            Some(endpoint) => endpoint.clone(),
            None => Secret::new(format!("https://s3.{region}.amazonaws.com")),
        };
        check_base_address(&endpoint, allowed, section)?;
        let mut target = BucketTarget {
            endpoint: endpoint.reveal().trim_end_matches('/').to_owned(),
            region,
            bucket: given(self.bucket).ok_or("bucket: the name of the bucket")?,
            prefix: given(self.prefix).unwrap_or_default().trim_matches('/').to_owned(),
            access_key: given(self.access_key).unwrap_or_default(),
            secret_key: self.secret_key.cloned().unwrap_or_default(),
        };
        if let (true, Some(known)) = (target.secret_key.is_empty(), former)
            && (&known.endpoint, &known.bucket, &known.access_key)
                == (&target.endpoint, &target.bucket, &target.access_key)
        {
            target.secret_key = known.secret_key.clone();
        }
        if target.access_key.is_empty() != target.secret_key.is_empty() {
            return Err("access_key and secret_key: both, or none for a public bucket".to_owned());
        }
        Ok(target)
    }

    fn check_texts(&self) -> Result<(), String> {
        let texts = [
            ("address", self.address.map(Secret::reveal), ADDRESS_BYTES_LIMIT),
            ("region", self.region, WORD_BYTES_LIMIT),
            ("access_key", self.access_key, WORD_BYTES_LIMIT),
            ("secret_key", self.secret_key.map(Secret::reveal), WORD_BYTES_LIMIT),
        ];
        for (name, text, limit) in texts {
            let text = text.filter(|text| !text.is_empty());
            if text.is_some_and(|text| !is_text(text, limit) || !text.is_ascii()) {
                return Err(format!("{name}: at most {limit} bytes of ASCII, no control characters"));
            }
        }
        let is_word = |text: &str, also: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte))
        };
        if self.region.is_some_and(|region| !is_word(region, b"-")) {
            return Err("region: letters, digits and -".to_owned());
        }
        if self.bucket.is_some_and(|bucket| bucket.len() > BUCKET_BYTES_LIMIT || !is_word(bucket, b"-._")) {
            return Err(format!("bucket: at most {BUCKET_BYTES_LIMIT} letters, digits, -, . and _"));
        }
        let prefix = self.prefix.unwrap_or_default();
        let is_prefix = prefix.len() <= ADDRESS_BYTES_LIMIT
            && is_word(prefix, b"-._/")
            && !prefix.trim_matches('/').split('/').any(|part| matches!(part, "." | ".."))
            && !prefix.trim_matches('/').contains("//");
        if !is_prefix {
            return Err(format!("prefix: at most {ADDRESS_BYTES_LIMIT} letters, digits, -, ., _ and /"));
        }
        Ok(())
    }
}

/// Checks that requests may be sent to a URL, and that paths can follow it.
///
/// # Errors
/// Returns what is wrong with it, for the tenant.
pub fn check_base_address(address: &Secret, allowed: &AllowedReceivers, section: &str) -> Result<(), String> {
    let url = check_url(address, allowed, section).map_err(|error| format!("address: {error}"))?;
    let has_more = url.fragment().is_some() || url.query().is_some();
    if has_more || !url.username().is_empty() || url.password().is_some() {
        return Err("address: a URL without a query, a fragment, a user and a password".to_owned());
    }
    Ok(())
}

/// Returns the code of a bucket's error (`<Code>AccessDenied</Code>`), or an empty text.
#[must_use]
pub fn find_error_code(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let is_word = |code: &&str| code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    code.map(|(code, _)| code).filter(is_word).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    /// SHA-256 of no bytes.
    const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

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
    fn a_request_is_signed_for_its_method_path_time_and_region() {
        let sign_at = |bucket: &BucketTarget, method: &str, url: &str| {
            let headers = bucket.sign_request(method, url, NO_BODY, datetime!(2013-05-24 00:00 UTC)).unwrap();
            headers.into_iter().find(|(name, _)| name == "authorization").map(|(_, value)| value)
        };
        let (key, url) = (bucket("AKIAIOSFODNN7EXAMPLE"), "https://s3.amazonaws.com/examplebucket/test.txt");
        let signed = sign_at(&key, "GET", url).unwrap();
        let scope = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        assert!(signed.starts_with(scope), "{signed}");
        assert!(signed.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date"), "{signed}");
        assert!(!signed.contains("wJalr"));
        assert_ne!(Some(signed.clone()), sign_at(&key, "GET", &format!("{url}.gz")));
        assert_ne!(Some(signed), sign_at(&key, "DELETE", url));
        assert_eq!(sign_at(&bucket(""), "GET", url), None);
    }

    #[test]
    fn fields_name_a_bucket_or_say_what_is_wrong() {
        let (none, secret) = (AllowedReceivers::default(), Secret::new("s"));
        let read = |fields: BucketFields| fields.read_target(None, &none, "builder.x");
        let named = BucketFields { bucket: Some("builds"), prefix: Some("/a/b/"), ..BucketFields::default() };
        let target = read(named).unwrap();
        assert_eq!(target.base_url(), "https://s3.us-east-1.amazonaws.com/builds/a/b");
        let (metadata, local) =
            (Secret::new("https://169.254.169.254"), Secret::new("https://a.example.com/?a=1"));
        for (part, fields) in [
            ("bucket", BucketFields { bucket: None, ..named }),
            ("bucket", BucketFields { bucket: Some("../other"), ..named }),
            ("prefix", BucketFields { prefix: Some("a/../b"), ..named }),
            ("prefix", BucketFields { prefix: Some("a?b"), ..named }),
            ("region", BucketFields { region: Some("eu/central"), ..named }),
            ("secret_key", BucketFields { access_key: Some("A"), ..named }),
            ("access_key", BucketFields { secret_key: Some(&secret), ..named }),
            ("builder.x.networks", BucketFields { address: Some(&metadata), ..named }),
            ("a query", BucketFields { address: Some(&local), ..named }),
        ] {
            let wrong = read(fields).unwrap_err();
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
        // A secret stays for the same bucket and key, and is sent to no other one.
        let known = BucketTarget { access_key: "A".to_owned(), secret_key: secret.clone(), ..target };
        let keyed = BucketFields { access_key: Some("A"), ..named };
        assert_eq!(keyed.read_target(Some(&known), &none, "").unwrap().secret_key.reveal(), "s");
        let moved = BucketFields { bucket: Some("other"), ..keyed };
        assert!(moved.read_target(Some(&known), &none, "").is_err());
    }

    #[test]
    fn a_code_is_a_word_of_the_answer() {
        let body = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Key>a</Key></Error>";
        assert_eq!(find_error_code(body), "NoSuchKey");
        for body in [&b"not found"[..], b"<Code>a b</Code>", b"<Code>open", b"\xff<Code>\xff</Code>"] {
            assert_eq!(find_error_code(body), "");
        }
    }
}
