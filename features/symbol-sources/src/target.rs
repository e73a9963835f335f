//! The address and the credentials of a symbol source, and their encryption with the key of the service, so that the database and its
//! backups hold none.
//!
//! A sealed target is a nonce of 12 bytes, and its JSON in AES-256-GCM. The tenant, the kind and the shown address are authenticated: a row
//! that is copied to another tenant, or shows another address, does not open.

use serde::{Deserialize, Serialize};
use unslide_api::feature::buckets::BucketTarget;
use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};
use unslide_store::sql::words;
use utoipa::ToSchema;

/// The setting with the key.
pub const SEALING_KEY: &str = "builder.symbol_sources.sealing_key";

const OTHER_KEY: &str = "it was sealed with another builder.symbol_sources.sealing_key: set the source again";

words! {
    /// The protocol by which a source is asked.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum SymbolSourceKind {
        /// A bucket with the interface of S3.
        S3 = "s3",
        /// A symbol server that answers by HTTP.
        Http = "http",
    }
}

/// Where a source is, and what proves who asks.
#[derive(Clone, Debug)]
pub enum SourceTarget {
    S3(BucketTarget),
    Http {
        url: Secret,
        /// The value of the header `Authorization`; empty if the server wants none.
        authorization: Secret,
    },
}

/// A target, in the form that is encrypted.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct TargetText {
    url: String,
    authorization: String,
    endpoint: String,
    region: String,
    bucket: String,
    prefix: String,
    access_key: String,
    secret_key: String,
}

impl SourceTarget {
    /// Returns the kind of the source.
    #[must_use]
    pub fn kind(&self) -> SymbolSourceKind {
        match self {
            SourceTarget::S3(_) => SymbolSourceKind::S3,
            SourceTarget::Http { .. } => SymbolSourceKind::Http,
        }
    }

    /// Returns the part of the address that may be shown. The part after the host of a symbol server may be a secret.
    #[must_use]
    pub fn shown_address(&self) -> String {
        match self {
            SourceTarget::S3(bucket) => bucket.base_url(),
            SourceTarget::Http { url, .. } => {
                let (scheme, rest) = url.reveal().split_once("://").unwrap_or(("", url.reveal()));
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                format!("{scheme}://{}/…", host.rsplit('@').next().unwrap_or_default())
            }
        }
    }

    /// Returns the URL of a path in the source.
    #[must_use]
    pub fn url_of_path(&self, path: &str) -> Secret {
        let base = match self {
            SourceTarget::S3(bucket) => bucket.base_url(),
            SourceTarget::Http { url, .. } => url.reveal().trim_end_matches('/').to_owned(),
        };
        Secret::new(format!("{base}/{path}"))
    }

    /// Returns true if requests prove who asks.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        match self {
            SourceTarget::S3(bucket) => !bucket.access_key.is_empty(),
            SourceTarget::Http { authorization, .. } => !authorization.is_empty(),
        }
    }
}

/// The owner of a sealed target.
#[derive(Clone, Copy, Debug)]
pub struct SourceOwner<'o> {
    pub tenant: &'o TenantId,
    pub kind: SymbolSourceKind,
    pub shown_address: &'o str,
}

impl SourceOwner<'_> {
    fn associated_data(self) -> String {
        format!("symbol source 1\n{}\n{}\n{}", self.tenant, self.kind, self.shown_address)
    }
}

/// Seals and opens the targets of sources.
pub struct SourceSealer(Sealer);

impl SourceSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<SourceSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(SourceSealer))
    }

    /// Encrypts a target.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_target(&self, tenant: &TenantId, target: &SourceTarget) -> Result<Vec<u8>, SealError> {
        let text = match target.clone() {
            SourceTarget::S3(bucket) => TargetText {
                endpoint: bucket.endpoint,
                region: bucket.region,
                bucket: bucket.bucket,
                prefix: bucket.prefix,
                access_key: bucket.access_key,
                secret_key: bucket.secret_key.reveal().to_owned(),
                ..TargetText::default()
            },
            SourceTarget::Http { url, authorization } => TargetText {
                url: url.reveal().to_owned(),
                authorization: authorization.reveal().to_owned(),
                ..TargetText::default()
            },
        };
        let shown_address = target.shown_address();
        let owner = SourceOwner { tenant, kind: target.kind(), shown_address: &shown_address };
        let json = serde_json::to_vec(&text).map_err(|_| SealError::Random)?;
        self.0.seal_secret(&owner.associated_data(), &json)
    }

    /// Decrypts a target.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_target(&self, owner: SourceOwner<'_>, sealed: &[u8]) -> Result<SourceTarget, SealError> {
        let json = self.0.open_secret(&owner.associated_data(), sealed)?;
        let text: TargetText = serde_json::from_slice(&json).map_err(|_| SealError::OtherKey(OTHER_KEY))?;
        Ok(match owner.kind {
            SymbolSourceKind::S3 => SourceTarget::S3(BucketTarget {
                endpoint: text.endpoint,
                region: text.region,
                bucket: text.bucket,
                prefix: text.prefix,
                access_key: text.access_key,
                secret_key: Secret::new(text.secret_key),
            }),
            SymbolSourceKind::Http => SourceTarget::Http {
                url: Secret::new(text.url),
                authorization: Secret::new(text.authorization),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn sealer(byte: u8) -> SourceSealer {
        SourceSealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
    }

    #[test]
    fn a_sealed_target_opens_for_its_tenant_kind_and_address_only() {
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let (url, authorization) =
            (Secret::new("https://symbols.example.com/hidden"), Secret::new("Bearer hidden"));
        let target = SourceTarget::Http { url, authorization };
        let shown_address = target.shown_address();
        assert_eq!(shown_address, "https://symbols.example.com/…");
        let sealed = sealer(1).seal_target(&acme, &target).unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"hidden"));
        let owner =
            SourceOwner { tenant: &acme, kind: SymbolSourceKind::Http, shown_address: &shown_address };
        let opened = sealer(1).open_target(owner, &sealed).unwrap();
        assert_eq!(opened.url_of_path("a/b").reveal(), "https://symbols.example.com/hidden/a/b");
        assert!(opened.has_credentials());
        assert!(sealer(2).open_target(owner, &sealed).is_err(), "another key");
        for foreign in [
            SourceOwner { tenant: &other, ..owner },
            SourceOwner { kind: SymbolSourceKind::S3, ..owner },
            SourceOwner { shown_address: "https://evil.example.com/…", ..owner },
        ] {
            assert!(sealer(1).open_target(foreign, &sealed).is_err(), "{foreign:?}");
        }
    }

    #[test]
    fn a_bucket_shows_its_prefix_and_no_key() {
        let acme = TenantId::new("acme").unwrap();
        let target = |prefix: &str| {
            SourceTarget::S3(BucketTarget {
                endpoint: "https://s3.eu-central-1.amazonaws.com/".to_owned(),
                region: "eu-central-1".to_owned(),
                bucket: "builds".to_owned(),
                prefix: prefix.to_owned(),
                access_key: "AKIAHIDDEN".to_owned(),
                secret_key: Secret::new("hidden"),
            })
        };
        let shown_address = target("ios/dsyms").shown_address();
        assert_eq!(shown_address, "https://s3.eu-central-1.amazonaws.com/builds/ios/dsyms");
        assert_eq!(target("").shown_address(), "https://s3.eu-central-1.amazonaws.com/builds");
        let sealed = sealer(1).seal_target(&acme, &target("ios/dsyms")).unwrap();
        let owner = SourceOwner { tenant: &acme, kind: SymbolSourceKind::S3, shown_address: &shown_address };
        let SourceTarget::S3(opened) = sealer(1).open_target(owner, &sealed).unwrap() else {
            panic!("no bucket");
        };
        assert_eq!((opened.access_key.as_str(), opened.secret_key.reveal()), ("AKIAHIDDEN", "hidden"));
    }
}
