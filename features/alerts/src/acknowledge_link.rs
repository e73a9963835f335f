//! Links that acknowledge one firing: signed with the firing's own key, for a limited time.

use crate::ids::AlertFiringId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;

/// The begin of the path of the page; the token follows.
pub const ACKNOWLEDGE_PAGE: &str = "/console/acknowledge/";
/// How long a link works after the firing began.
const LINK_LIFETIME: Duration = Duration::days(7);

/// The parts of a link before its signature was checked.
#[derive(Debug, PartialEq, Eq)]
pub struct AcknowledgeLink {
    pub tenant: TenantId,
    pub firing: AlertFiringId,
    pub expires_at: OffsetDateTime,
    signature: Vec<u8>,
}

/// Returns the path of the page that acknowledges a firing. The same firing always has the same path, so that each attempt
/// sends the same message. Returns `None` if the key cannot be used.
pub fn acknowledge_path(
    tenant: &str,
    firing: AlertFiringId,
    began_at: OffsetDateTime,
    link_key: &[u8],
) -> Option<String> {
    let signed = format!("{tenant}.{firing}.{}", (began_at + LINK_LIFETIME).unix_timestamp());
    let signature = sign_link(link_key, &signed)?.finalize().into_bytes();
    let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{ACKNOWLEDGE_PAGE}{signed}.{digits}"))
}

fn sign_link(link_key: &[u8], signed: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(link_key).ok()?;
    mac.update(b"acknowledge:");
    mac.update(signed.as_bytes());
    Some(mac)
}

impl AcknowledgeLink {
    /// Reads a token. Returns `None` for any other text.
    pub fn parse(token: &str) -> Option<AcknowledgeLink> {
        let mut parts = token.rsplitn(4, '.');
        let signature = unslide_api::entropy::read_token(parts.next()?)?.to_vec();
        let expires_at = OffsetDateTime::from_unix_timestamp(parts.next()?.parse().ok()?).ok()?;
        let firing = parts.next()?.parse().ok()?;
        let tenant = TenantId::new(parts.next()?).ok()?;
        Some(AcknowledgeLink { tenant, firing, expires_at, signature })
    }

    /// Returns true if the link was signed with the key of its firing and has not expired. It compares in constant time.
    pub fn is_valid(&self, link_key: &[u8], now: OffsetDateTime) -> bool {
        let signed = format!("{}.{}.{}", self.tenant, self.firing, self.expires_at.unix_timestamp());
        let mac = sign_link(link_key, &signed);
        now < self.expires_at && mac.is_some_and(|mac| mac.verify_slice(&self.signature).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn a_link_is_for_one_firing_of_one_tenant_and_expires() {
        let (began, key) = (datetime!(2026-11-20 09:00 UTC), [7; 32]);
        let id = |number| AlertFiringId::from_uuid(unslide_store::Uuid::from_u128(number));
        let firing = id(5);
        let path = acknowledge_path("acme", firing, began, &key).unwrap();
        let token = path.strip_prefix(ACKNOWLEDGE_PAGE).unwrap();
        let link = AcknowledgeLink::parse(token).unwrap();
        assert_eq!((link.tenant.as_str(), link.firing), ("acme", firing));
        assert!(link.is_valid(&key, began + Duration::days(7) - Duration::SECOND));
        assert!(!link.is_valid(&key, began + Duration::days(7)), "expired");
        assert!(!link.is_valid(&[8; 32], began), "the key of another firing");
        let later = (began + Duration::days(8)).unix_timestamp().to_string();
        let expiry = (began + Duration::days(7)).unix_timestamp().to_string();
        for forged in [
            token.replace("acme", "umbrella"),
            token.replace(&firing.to_string(), &id(6).to_string()),
            token.replace(&expiry, &later),
        ] {
            assert_ne!(forged, token);
            assert!(!AcknowledgeLink::parse(&forged).unwrap().is_valid(&key, began), "{forged}");
        }
        for text in ["", "a.b.c.d", token.get(1..token.len() - 1).unwrap(), &format!("{token}0")] {
            assert_eq!(AcknowledgeLink::parse(text), None, "{text}");
        }
    }
}
