//! The address and the secrets of a receiver, and their encryption with the key of the service, so that the database and its backups hold none.
//!
//! A sealed target is a nonce of 12 bytes, and its JSON in AES-256-GCM. The tenant, the kind and the shown address are authenticated: a row that
//! is copied to another tenant, or shows another address, does not open.

use serde::{Deserialize, Serialize};
use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};
use unslide_store::sql::words;
use utoipa::ToSchema;

/// The setting with the key.
pub const SEALING_KEY: &str = "api.audit_export.sealing_key";

const OTHER_KEY: &str = "it was sealed with another api.audit_export.sealing_key: set the receiver again";

words! {
    /// The protocol by which a receiver gets entries.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum AuditReceiverKind {
        /// Signed requests over HTTPS.
        Webhook = "webhook",
        /// Syslog (RFC 5424) over TLS (RFC 5425).
        Syslog = "syslog",
    }
}

/// Where entries go, and what proves it.
#[derive(Clone, Debug)]
pub enum ReceiverTarget {
    Webhook {
        url: Secret,
        /// The secret that signs requests.
        secret: Secret,
    },
    Syslog {
        host: String,
        port: u16,
        /// Certificates of the authority that has to have signed the server's, in PEM; empty for those that this machine trusts.
        authority: String,
    },
}

/// A target, in the form that is encrypted.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct TargetText {
    url: String,
    secret: String,
    host: String,
    port: u16,
    authority: String,
}

impl ReceiverTarget {
    /// Returns the kind of the receiver.
    #[must_use]
    pub fn kind(&self) -> AuditReceiverKind {
        match self {
            ReceiverTarget::Webhook { .. } => AuditReceiverKind::Webhook,
            ReceiverTarget::Syslog { .. } => AuditReceiverKind::Syslog,
        }
    }

    /// Returns the part of the address that may be shown. The part after a URL's host is a secret.
    #[must_use]
    pub fn shown_address(&self) -> String {
        match self {
            ReceiverTarget::Webhook { url, .. } => {
                let (scheme, rest) = url.reveal().split_once("://").unwrap_or(("", url.reveal()));
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                format!("{scheme}://{}/…", host.rsplit('@').next().unwrap_or_default())
            }
            ReceiverTarget::Syslog { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            ReceiverTarget::Syslog { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

/// The owner of a sealed target.
#[derive(Clone, Copy, Debug)]
pub struct TargetOwner<'o> {
    pub tenant: &'o TenantId,
    pub kind: AuditReceiverKind,
    pub shown_address: &'o str,
}

impl TargetOwner<'_> {
    fn associated_data(self) -> String {
        format!("audit receiver 1\n{}\n{}\n{}", self.tenant, self.kind, self.shown_address)
    }
}

/// Seals and opens targets.
pub struct TargetSealer(Sealer);

impl TargetSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<TargetSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(TargetSealer))
    }

    /// Encrypts a target.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_target(&self, tenant: &TenantId, target: &ReceiverTarget) -> Result<Vec<u8>, SealError> {
        let text = match target {
            ReceiverTarget::Webhook { url, secret } => TargetText {
                url: url.reveal().to_owned(),
                secret: secret.reveal().to_owned(),
                ..TargetText::default()
            },
            ReceiverTarget::Syslog { host, port, authority } => TargetText {
                host: host.clone(),
                port: *port,
                authority: authority.clone(),
                ..TargetText::default()
            },
        };
        let shown_address = target.shown_address();
        let owner = TargetOwner { tenant, kind: target.kind(), shown_address: &shown_address };
        let json = serde_json::to_vec(&text).map_err(|_| SealError::Random)?;
        self.0.seal_secret(&owner.associated_data(), &json)
    }

    /// Decrypts a target.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_target(&self, owner: TargetOwner<'_>, sealed: &[u8]) -> Result<ReceiverTarget, SealError> {
        let json = self.0.open_secret(&owner.associated_data(), sealed)?;
        let text: TargetText = serde_json::from_slice(&json).map_err(|_| SealError::OtherKey(OTHER_KEY))?;
        let TargetText { url, secret, host, port, authority } = text;
        Ok(match owner.kind {
            AuditReceiverKind::Webhook => {
                ReceiverTarget::Webhook { url: Secret::new(url), secret: Secret::new(secret) }
            }
            AuditReceiverKind::Syslog => ReceiverTarget::Syslog { host, port, authority },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn a_sealed_target_opens_for_its_tenant_kind_and_address_only() {
        let sealer = |byte: u8| {
            TargetSealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
        };
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let (url, secret) = (Secret::new("https://siem.example.com/hidden"), Secret::new("whsec_hidden"));
        let target = ReceiverTarget::Webhook { url, secret };
        let shown_address = target.shown_address();
        assert_eq!(shown_address, "https://siem.example.com/…");
        let sealed = sealer(1).seal_target(&acme, &target).unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"hidden"));
        let owner =
            TargetOwner { tenant: &acme, kind: AuditReceiverKind::Webhook, shown_address: &shown_address };
        let Ok(ReceiverTarget::Webhook { url, secret }) = sealer(1).open_target(owner, &sealed) else {
            panic!("it does not open");
        };
        assert_eq!((url.reveal(), secret.reveal()), ("https://siem.example.com/hidden", "whsec_hidden"));
        assert!(sealer(2).open_target(owner, &sealed).is_err(), "another key");
        for foreign in [
            TargetOwner { tenant: &other, ..owner },
            TargetOwner { kind: AuditReceiverKind::Syslog, ..owner },
            TargetOwner { shown_address: "https://evil.example.com/…", ..owner },
        ] {
            assert!(sealer(1).open_target(foreign, &sealed).is_err(), "{foreign:?}");
        }
    }
}
