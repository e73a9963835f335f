//! Who may send for which tenant, where gateways sign their records.

use crate::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_proto::signed::VerifyingKey;

/// By how much a record's arrival at the broker and the time that it was signed may differ.
const MAX_AGE_MILLIS: u64 = 300_000;
/// The same for a record that is sent again from the dead letters, which says so itself: as long as dead
/// letters are kept.
const REPLAY_MAX_AGE_MILLIS: u64 = 30 * 86_400_000;

/// The section `symbolizer.signatures`, which reports and session events are held to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SignatureSettings {
    /// Whether a record without a signature is refused. One that has a signature is held to it in any
    /// case, if there are keys.
    pub required: bool,
    /// The keys of the gateways.
    pub keys: Vec<GatewayKey>,
}

/// A gateway's key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct GatewayKey {
    /// The name, as it is in the header `signature-key`.
    pub name: String,
    /// The public key of Ed25519: 32 bytes in base64.
    pub public_key: String,
    /// The tenants that it may sign for; `*` is every tenant.
    pub tenants: Vec<String>,
}

impl SignatureSettings {
    /// Everything that is wrong: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.required && self.keys.is_empty() {
            problems.push(("keys".to_owned(), "are required and there are none".to_owned()));
        }
        let mut names = BTreeSet::new();
        for (n, key) in self.keys.iter().enumerate() {
            let mut problem = |field: &str, text: String| problems.push((format!("keys.{n}.{field}"), text));
            if key.name.is_empty() || key.name.len() > 100 || !names.insert(&key.name) {
                problem("name", "must be one to a hundred bytes, and no other key's".to_owned());
            }
            if let Err(error) = VerifyingKey::parse(&key.public_key) {
                problem("public_key", error.to_string());
            }
            if key.tenants.is_empty() {
                problem("tenants", "name the tenants that it signs for, or `*`".to_owned());
            }
            for tenant in key.tenants.iter().filter(|t| *t != "*" && TenantId::new(t.as_str()).is_err()) {
                problem("tenants", format!("{tenant:?} is no tenant's name"));
            }
        }
        problems
    }
}

/// Why a record is refused: a stable word, and the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSignature {
    /// `no_signature`, `bad_signature` or `stale_signature`.
    pub reason: &'static str,
    /// For a person.
    pub detail: String,
}

struct KnownKey {
    key: VerifyingKey,
    /// `None`: every tenant.
    tenants: Option<BTreeSet<String>>,
}

/// The keys that records are held to.
pub struct Signatures {
    required: bool,
    keys: BTreeMap<String, KnownKey>,
}

impl Signatures {
    /// What the settings say; keys that can't be used, which validation refuses, are left out.
    #[must_use]
    pub fn new(settings: &SignatureSettings) -> Signatures {
        let known = |key: &GatewayKey| {
            let all = key.tenants.iter().any(|tenant| tenant == "*");
            let tenants = (!all).then(|| key.tenants.iter().cloned().collect());
            Some((key.name.clone(), KnownKey { key: VerifyingKey::parse(&key.public_key).ok()?, tenants }))
        };
        Signatures { required: settings.required, keys: settings.keys.iter().filter_map(known).collect() }
    }

    /// Whether the record may speak for the tenant. `arrived_millis` is when it came to the broker: a
    /// worker that is behind makes no signature older.
    ///
    /// # Errors
    /// [`BadSignature`].
    pub fn check(&self, record: &Record, tenant: &TenantId, arrived_millis: i64) -> Result<(), BadSignature> {
        if !self.required && self.keys.is_empty() {
            return Ok(());
        }
        let text = |name| record.headers.text(name);
        let given = (text(headers::SIGNATURE), text(headers::SIGNATURE_KEY), text(headers::SIGNED_AT));
        let (signature, name, signed_at) = match given {
            (Some(signature), Some(name), Some(at)) => (signature, name, at),
            (None, None, None) if !self.required => return Ok(()),
            (None, _, _) => {
                let detail = format!("the record has no header `{}`", headers::SIGNATURE);
                return Err(BadSignature { reason: "no_signature", detail });
            }
            _ => {
                let detail = format!("`{}` or `{}` is missing", headers::SIGNATURE_KEY, headers::SIGNED_AT);
                return Err(BadSignature { reason: "bad_signature", detail });
            }
        };
        let bad = |detail: String| Err(BadSignature { reason: "bad_signature", detail });
        let Some(known) = self.keys.get(name) else { return bad(format!("there is no key named {name:?}")) };
        if known.tenants.as_ref().is_some_and(|tenants| !tenants.contains(tenant.as_str())) {
            return bad(format!("the key {name} may not sign for the tenant {tenant}"));
        }
        let Ok(at) = signed_at.parse::<i64>() else {
            return bad(format!("`{}` is not a number of milliseconds", headers::SIGNED_AT));
        };
        let value = record.value.as_deref().unwrap_or_default();
        if !known.key.verify(tenant, at, value, signature) {
            return bad(format!("the signature is not that of the key {name} over this record"));
        }
        let replay = record.headers.get(headers::REPLAY_OF).is_some();
        let limit = if replay { REPLAY_MAX_AGE_MILLIS } else { MAX_AGE_MILLIS };
        if arrived_millis.abs_diff(at) > limit {
            let detail =
                format!("signed at {at} and arrived at {arrived_millis}: {limit} ms may lie between");
            return Err(BadSignature { reason: "stale_signature", detail });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Headers, RecordRef};
    use unslide_model::Secret;
    use unslide_proto::signed::SigningKey;

    const AT: i64 = 1_700_000_000_000;

    fn key() -> SigningKey {
        SigningKey::parse(&Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=")).unwrap()
    }

    fn settings(required: bool, tenants: &[&str]) -> SignatureSettings {
        let tenants = tenants.iter().map(|t| (*t).to_owned()).collect();
        let key = GatewayKey { name: "edge".into(), public_key: key().verifying().to_string(), tenants };
        SignatureSettings { required, keys: vec![key] }
    }

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    fn record(headers: Headers) -> Record {
        let at = RecordRef { topic: "in".into(), partition: 0, offset: 0 };
        Record { at, time_millis: Some(AT), key: None, value: Some("v".into()), headers }
    }

    fn signed(slug: &str, at: i64) -> Headers {
        Headers::new()
            .with(headers::SIGNATURE, key().sign(&tenant(slug), at, b"v"))
            .with(headers::SIGNATURE_KEY, "edge")
            .with(headers::SIGNED_AT, at.to_string())
    }

    fn judged(settings: &SignatureSettings, headers: Headers, slug: &str) -> &'static str {
        let check = Signatures::new(settings).check(&record(headers), &tenant(slug), AT);
        check.map_or_else(|refused| refused.reason, |()| "taken")
    }

    #[test]
    fn a_required_signature_must_be_the_keys_for_this_tenant_and_of_now() {
        let only_acme = settings(true, &["acme"]);
        assert_eq!(judged(&only_acme, signed("acme", AT), "acme"), "taken");
        assert_eq!(judged(&only_acme, Headers::new(), "acme"), "no_signature");
        assert_eq!(judged(&only_acme, signed("acme", AT), "other"), "bad_signature");
        assert_eq!(judged(&only_acme, signed("other", AT), "other"), "bad_signature");
        assert_eq!(judged(&settings(true, &["*"]), signed("other", AT), "other"), "taken");
        let unknown = signed("acme", AT).with(headers::SIGNATURE_KEY, "nobody");
        assert_eq!(judged(&only_acme, unknown, "acme"), "bad_signature");
        let moved = signed("acme", AT).with(headers::SIGNED_AT, (AT + 1).to_string());
        assert_eq!(judged(&only_acme, moved, "acme"), "bad_signature");
        for off in [300_001, -300_001] {
            assert_eq!(judged(&only_acme, signed("acme", AT + off), "acme"), "stale_signature");
        }
        assert_eq!(judged(&only_acme, signed("acme", AT - 300_000), "acme"), "taken");
    }

    #[test]
    fn a_replay_may_be_older_and_must_still_be_signed() {
        let keys = settings(true, &["acme"]);
        let replay = |headers: Headers| headers.with(headers::REPLAY_OF, "dead/0/1");
        let month = 30 * 86_400_000;
        assert_eq!(judged(&keys, replay(signed("acme", AT - month)), "acme"), "taken");
        assert_eq!(judged(&keys, replay(signed("acme", AT - month - 1)), "acme"), "stale_signature");
        assert_eq!(judged(&keys, replay(Headers::new()), "acme"), "no_signature");
        assert_eq!(judged(&keys, replay(signed("other", AT)), "acme"), "bad_signature");
    }

    #[test]
    fn where_none_is_required_one_that_is_there_still_has_to_be_right() {
        let keys = settings(false, &["acme"]);
        assert_eq!(judged(&keys, Headers::new(), "acme"), "taken");
        assert_eq!(judged(&keys, signed("other", AT), "acme"), "bad_signature");
        assert_eq!(
            judged(&SignatureSettings::default(), signed("other", AT), "acme"),
            "taken",
            "there are no keys"
        );
    }

    #[test]
    fn every_problem_of_the_settings_is_named() {
        let mut bad = settings(true, &["acme", "No Slug"]);
        bad.keys.push(GatewayKey { name: "edge".into(), public_key: "x".into(), tenants: vec![] });
        let fields: Vec<_> = bad.problems().into_iter().map(|(field, _)| field).collect();
        let expected = ["keys.0.tenants", "keys.1.name", "keys.1.public_key", "keys.1.tenants"];
        assert_eq!(fields, expected);
        let none = SignatureSettings { required: true, ..SignatureSettings::default() };
        assert_eq!(none.problems()[0].0, "keys");
        assert!(settings(true, &["*"]).problems().is_empty());
    }
}
