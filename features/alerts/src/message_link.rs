//! Links of messages: they acknowledge one firing or mute one rule, are signed with its own key, and work for a limited time.

use crate::ids::{AlertFiringId, AlertRuleId};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::Uuid;

/// How long a link works after the firing began or the message was made.
const LINK_LIFETIME: Duration = Duration::days(7);

/// The act of a link, once its reader presses the button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    Acknowledge,
    Mute,
}

impl LinkPurpose {
    /// Returns the begin of the path of the page; the token follows.
    pub const fn page_path(self) -> &'static str {
        match self {
            LinkPurpose::Acknowledge => "/console/acknowledge/",
            LinkPurpose::Mute => "/console/mute/",
        }
    }

    /// Returns what is signed before the token, so that a link of one page does not open another one.
    const fn signed_prefix(self) -> &'static [u8] {
        match self {
            LinkPurpose::Acknowledge => b"acknowledge:",
            LinkPurpose::Mute => b"mute:",
        }
    }
}

/// The parts of a link before its signature was checked.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageLink {
    purpose: LinkPurpose,
    pub tenant: TenantId,
    /// The firing or the rule.
    subject: Uuid,
    expires_at: OffsetDateTime,
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
    link_path(LinkPurpose::Acknowledge, tenant, &firing.to_string(), began_at, link_key)
}

/// Returns the path of the page that mutes a rule, for a message of this time. Returns `None` if the key cannot be used.
pub fn mute_path(
    tenant: &str,
    rule: AlertRuleId,
    created_at: OffsetDateTime,
    link_key: &[u8],
) -> Option<String> {
    link_path(LinkPurpose::Mute, tenant, &rule.to_string(), created_at, link_key)
}

fn link_path(
    purpose: LinkPurpose,
    tenant: &str,
    subject: &str,
    since: OffsetDateTime,
    link_key: &[u8],
) -> Option<String> {
    let signed = format!("{tenant}.{subject}.{}", (since + LINK_LIFETIME).unix_timestamp());
    let signature = sign_link(purpose, link_key, &signed)?.finalize().into_bytes();
    let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}{signed}.{digits}", purpose.page_path()))
}

fn sign_link(purpose: LinkPurpose, link_key: &[u8], signed: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(link_key).ok()?;
    mac.update(purpose.signed_prefix());
    mac.update(signed.as_bytes());
    Some(mac)
}

impl MessageLink {
    /// Reads the token of a page. Returns `None` for any other text.
    pub fn parse_token(purpose: LinkPurpose, token: &str) -> Option<MessageLink> {
        let mut parts = token.rsplitn(4, '.');
        let signature = unslide_api::entropy::read_token(parts.next()?)?.to_vec();
        let expires_at = OffsetDateTime::from_unix_timestamp(parts.next()?.parse().ok()?).ok()?;
        let subject = parts.next()?.parse().ok()?;
        let tenant = TenantId::new(parts.next()?).ok()?;
        Some(MessageLink { purpose, tenant, subject, expires_at, signature })
    }

    /// Returns the firing of a link that acknowledges.
    pub fn firing_id(&self) -> AlertFiringId {
        AlertFiringId::from_uuid(self.subject)
    }

    /// Returns the rule of a link that mutes.
    pub fn rule_id(&self) -> AlertRuleId {
        AlertRuleId::from_uuid(self.subject)
    }

    /// Returns true if the link was signed with the key of its firing or rule and has not expired. It compares in constant time.
    pub fn is_valid(&self, link_key: &[u8], now: OffsetDateTime) -> bool {
        let signed = format!("{}.{}.{}", self.tenant, self.subject, self.expires_at.unix_timestamp());
        let mac = sign_link(self.purpose, link_key, &signed);
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
        let id = |number| AlertFiringId::from_uuid(Uuid::from_u128(number));
        let firing = id(5);
        let path = acknowledge_path("acme", firing, began, &key).unwrap();
        let token = path.strip_prefix("/console/acknowledge/").unwrap();
        let parse = |token: &str| MessageLink::parse_token(LinkPurpose::Acknowledge, token);
        let link = parse(token).unwrap();
        assert_eq!((link.tenant.as_str(), link.firing_id()), ("acme", firing));
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
            assert!(!parse(&forged).unwrap().is_valid(&key, began), "{forged}");
        }
        for text in ["", "a.b.c.d", token.get(1..token.len() - 1).unwrap(), &format!("{token}0")] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_link_of_one_page_opens_no_other_one() {
        let (began, key) = (datetime!(2026-11-20 09:00 UTC), [7; 32]);
        let rule = AlertRuleId::from_uuid(Uuid::from_u128(5));
        let path = mute_path("acme", rule, began, &key).unwrap();
        let token = path.strip_prefix("/console/mute/").unwrap();
        let link = MessageLink::parse_token(LinkPurpose::Mute, token).unwrap();
        assert!(link.rule_id() == rule && link.is_valid(&key, began));
        assert!(!link.is_valid(&key, began + Duration::days(7)), "expired");
        assert!(!MessageLink::parse_token(LinkPurpose::Acknowledge, token).unwrap().is_valid(&key, began));
    }
}
