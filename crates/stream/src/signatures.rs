//! Senders' rights by tenant, if gateways sign their records.

use crate::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_signatures::{SignedPurpose, VerifyingKey};

/// The longest time by which a record may be signed before, and after, it arrives at the broker.
const CLOCK_TOLERANCE_MILLIS: i64 = 300_000;
/// The longest time between the signature and the arrival of a replay: as long as dead letters are kept.
const REPLAY_MAX_AGE_MILLIS: i64 = 30 * 86_400_000;

/// The section `symbolizer.signatures`, which reports and events of gateways are held to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SignatureSettings {
    /// Whether a record without a signature is refused. One that has a signature is held to it in any
    /// case, if there are keys.
    pub required: bool,
    /// The keys of the gateways.
    pub keys: Vec<GatewayKey>,
}

/// A gateway's key, which verifies its signatures.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct GatewayKey {
    /// The key's name in the header `signature-key`.
    pub name: String,
    /// The public key of Ed25519: 32 bytes in base64.
    pub public_key: String,
    /// The tenants that it may sign for; `*` is every tenant.
    pub tenants: Vec<String>,
}

impl SignatureSettings {
    /// Returns everything that is wrong: field and reason.
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
    /// Reads the settings. Leaves out keys that cannot be used; validation refuses those.
    #[must_use]
    pub fn new(settings: &SignatureSettings) -> Signatures {
        let known = |key: &GatewayKey| {
            let all = key.tenants.iter().any(|tenant| tenant == "*");
            let tenants = (!all).then(|| key.tenants.iter().cloned().collect());
            Some((key.name.clone(), KnownKey { key: VerifyingKey::parse(&key.public_key).ok()?, tenants }))
        };
        Signatures { required: settings.required, keys: settings.keys.iter().filter_map(known).collect() }
    }

    /// Checks that the record may speak for the tenant. `arrived_millis` is when it came to the broker: a
    /// worker that is behind makes no signature older. Only a replay that the service itself has signed may
    /// be older than minutes.
    ///
    /// # Errors
    /// Returns the reason to refuse the record.
    pub fn check_signature(
        &self,
        record: &Record,
        tenant: &TenantId,
        arrived_millis: i64,
    ) -> Result<(), BadSignature> {
        if !self.required && self.keys.is_empty() {
            return Ok(());
        }
        let Some(signed_at) = self.signed_at(record, SignedPurpose::Record, tenant)? else {
            if !self.required {
                return Ok(());
            }
            let detail = format!("the record has no header `{}`", headers::SIGNATURE);
            return Err(BadSignature { reason: "no_signature", detail });
        };
        let replayed_at = match record.headers.get(headers::REPLAY_OF) {
            Some(_) => self.signed_at(record, SignedPurpose::Replay, tenant)?,
            None => None,
        };
        if let Some(at) = replayed_at {
            check_time(at, arrived_millis, CLOCK_TOLERANCE_MILLIS)?;
        }
        let max_age = if replayed_at.is_some() { REPLAY_MAX_AGE_MILLIS } else { CLOCK_TOLERANCE_MILLIS };
        check_time(signed_at, arrived_millis, max_age)
    }

    /// Returns when the record was signed for this purpose, or None if it has no such signature.
    ///
    /// # Errors
    /// Returns an error if there is a signature and it is not one that speaks for the tenant.
    fn signed_at(
        &self,
        record: &Record,
        purpose: SignedPurpose,
        tenant: &TenantId,
    ) -> Result<Option<i64>, BadSignature> {
        let bad = |detail: String| Err(BadSignature { reason: "bad_signature", detail });
        let [signature_header, key_header, time_header] = purpose.header_names();
        let text = |name| record.headers.get_text(name);
        let (signature, name, time) = match (text(signature_header), text(key_header), text(time_header)) {
            (Some(signature), Some(name), Some(time)) => (signature, name, time),
            (None, _, _) => return Ok(None),
            _ => return bad(format!("`{key_header}` or `{time_header}` is missing")),
        };
        let Some(known) = self.keys.get(name) else { return bad(format!("there is no key named {name:?}")) };
        if known.tenants.as_ref().is_some_and(|tenants| !tenants.contains(tenant.as_str())) {
            return bad(format!("the key {name} may not sign for the tenant {tenant}"));
        }
        let Ok(at) = time.parse::<i64>() else {
            return bad(format!("`{time_header}` is not a number of milliseconds"));
        };
        let value = record.value.as_deref().unwrap_or_default();
        if !known.key.verify_for(purpose, tenant, at, value, signature) {
            return bad(format!(
                "`{signature_header}` is not a signature of the key {name} over this record"
            ));
        }
        Ok(Some(at))
    }
}

/// Checks that a record was signed at most `max_age` milliseconds before it arrived, and at most
/// [`CLOCK_TOLERANCE_MILLIS`] after it.
///
/// # Errors
/// Returns `stale_signature`.
fn check_time(signed_at: i64, arrived: i64, max_age: i64) -> Result<(), BadSignature> {
    let age = arrived.saturating_sub(signed_at);
    if (-CLOCK_TOLERANCE_MILLIS..=max_age).contains(&age) {
        return Ok(());
    }
    let detail = format!(
        "signed at {signed_at} and arrived at {arrived}: a record may be signed at most {max_age} ms before it arrives and \
         {CLOCK_TOLERANCE_MILLIS} ms after; only a replay that the api has signed (api.signing.key) may be older"
    );
    Err(BadSignature { reason: "stale_signature", detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Headers, RecordRef};
    use unslide_model::Secret;
    use unslide_signatures::{Signer, SigningKey};

    const AT: i64 = 1_700_000_000_000;

    fn key() -> SigningKey {
        SigningKey::parse(&Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=")).unwrap()
    }

    fn settings(required: bool, tenants: &[&str]) -> SignatureSettings {
        let tenants = tenants.iter().map(|t| (*t).to_owned()).collect();
        let key = GatewayKey { name: "edge".into(), public_key: key().verifying_key().to_string(), tenants };
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
            .with(headers::SIGNATURE, key().sign_record(&tenant(slug), at, b"v"))
            .with(headers::SIGNATURE_KEY, "edge")
            .with(headers::SIGNED_AT, at.to_string())
    }

    fn judged(settings: &SignatureSettings, headers: Headers, slug: &str) -> &'static str {
        let check = Signatures::new(settings).check_signature(&record(headers), &tenant(slug), AT);
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
    fn a_replay_may_be_older_if_the_service_has_signed_it() {
        let mut keys = settings(true, &["acme"]);
        let service =
            || SigningKey::parse(&Secret::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")).unwrap();
        let public_key = service().verifying_key().to_string();
        keys.keys.push(GatewayKey { name: "api".into(), public_key, tenants: vec!["*".into()] });
        let replay = |signed: Headers, at: i64, purpose: SignedPurpose| {
            let own = Signer::new("api", service()).headers_for(purpose, &tenant("acme"), at, b"v");
            let names = SignedPurpose::Replay.header_names();
            let own = names.into_iter().zip(own).map(|(name, (_, value))| (name, value));
            own.fold(signed.with(headers::REPLAY_OF, "dead/0/1"), |all, (name, value)| all.with(name, value))
        };
        let own = SignedPurpose::Replay;
        let month = 30 * 86_400_000;
        let minute = 60_000;
        for (expected, headers) in [
            ("taken", replay(signed("acme", AT - month), AT, own)),
            ("taken", replay(signed("acme", AT), AT - minute, own)),
            ("stale_signature", replay(signed("acme", AT - month - 1), AT, own)),
            ("stale_signature", replay(signed("acme", AT + month), AT, own)),
            ("stale_signature", replay(signed("acme", AT - month), AT - month, own)),
            ("no_signature", replay(Headers::new(), AT, own)),
            ("bad_signature", replay(signed("other", AT), AT, own)),
            ("bad_signature", replay(signed("acme", AT - month), AT, SignedPurpose::Record)),
            // Any producer may set the header alone.
            ("stale_signature", signed("acme", AT - month).with(headers::REPLAY_OF, "dead/0/1")),
        ] {
            assert_eq!(judged(&keys, headers.clone(), "acme"), expected, "{headers:?}");
        }
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
