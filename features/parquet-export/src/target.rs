//! The bucket of a tenant and its encryption with the key of the service, so that the database and its backups hold no credentials.
//!
//! A sealed target is a nonce of 12 bytes, and its JSON in AES-256-GCM. The tenant and the shown address are authenticated: a row that is
//! copied to another tenant, or shows another address, does not open.

use serde::{Deserialize, Serialize};
use unslide_api::feature::buckets::BucketTarget;
use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "builder.parquet_export.sealing_key";

const OTHER_KEY: &str = "it was sealed with another builder.parquet_export.sealing_key: set the bucket again";

/// A target, in the form that is encrypted.
#[derive(Deserialize, Serialize)]
struct TargetText {
    endpoint: String,
    region: String,
    bucket: String,
    prefix: String,
    access_key: String,
    secret_key: String,
}

/// Seals and opens the targets of exports.
pub struct ExportSealer(Sealer);

impl ExportSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<ExportSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(ExportSealer))
    }

    /// Encrypts a target.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_target(&self, tenant: &TenantId, target: &BucketTarget) -> Result<Vec<u8>, SealError> {
        let BucketTarget { endpoint, region, bucket, prefix, access_key, secret_key } = target.clone();
        let secret_key = secret_key.reveal().to_owned();
        let text = TargetText { endpoint, region, bucket, prefix, access_key, secret_key };
        let json = serde_json::to_vec(&text).map_err(|_| SealError::Random)?;
        self.0.seal_secret(&associated_data(tenant, &target.base_url()), &json)
    }

    /// Decrypts a target.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_target(
        &self,
        tenant: &TenantId,
        shown_address: &str,
        sealed: &[u8],
    ) -> Result<BucketTarget, SealError> {
        let json = self.0.open_secret(&associated_data(tenant, shown_address), sealed)?;
        let text: TargetText = serde_json::from_slice(&json).map_err(|_| SealError::OtherKey(OTHER_KEY))?;
        let TargetText { endpoint, region, bucket, prefix, access_key, secret_key } = text;
        let secret_key = Secret::new(secret_key);
        Ok(BucketTarget { endpoint, region, bucket, prefix, access_key, secret_key })
    }
}

fn associated_data(tenant: &TenantId, shown_address: &str) -> String {
    format!("parquet export 1\n{tenant}\n{shown_address}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn a_sealed_target_opens_for_its_tenant_and_address_only() {
        let sealer = |byte: u8| {
            ExportSealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
        };
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let target = BucketTarget {
            endpoint: "https://s3.eu-central-1.amazonaws.com".to_owned(),
            region: "eu-central-1".to_owned(),
            bucket: "lake".to_owned(),
            prefix: "crashes".to_owned(),
            access_key: "AKIAHIDDEN".to_owned(),
            secret_key: Secret::new("hidden-secret"),
        };
        let address = target.base_url();
        let sealed = sealer(1).seal_target(&acme, &target).unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"hidden" || part == b"HIDDEN"));
        let opened = sealer(1).open_target(&acme, &address, &sealed).unwrap();
        assert_eq!((opened.base_url(), opened.secret_key.reveal()), (address.clone(), "hidden-secret"));
        assert!(sealer(2).open_target(&acme, &address, &sealed).is_err(), "another key");
        assert!(sealer(1).open_target(&other, &address, &sealed).is_err(), "another tenant");
        assert!(sealer(1).open_target(&acme, "https://evil.example.com/lake", &sealed).is_err());
    }
}
