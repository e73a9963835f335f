//! Any texts as the headers of a signed record: only the gateway's own signature is taken, and only
//! for what it signed.

use unslide_model::{Secret, TenantId};
use unslide_signatures::{SigningKey, VerifyingKey};

/// The first line is a key's or a signature's text, the second a tenant, the third a time; the rest is
/// the record's value.
pub fn check(data: &[u8]) {
    let mut parts = data.splitn(4, |byte| *byte == b'\n');
    let mut text = || std::str::from_utf8(parts.next().unwrap_or_default()).unwrap_or_default();
    let (header, tenant, time) = (text(), text(), text());
    let value = parts.next().unwrap_or_default();
    // 32 bytes of 7 in base64.
    let secret = Secret::new("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    let ours = SigningKey::parse(&secret).expect("a key");
    if let Ok(foreign) = VerifyingKey::parse(header) {
        assert_eq!(VerifyingKey::parse(&foreign.to_string()).expect("what was written"), foreign);
    }
    let Ok(tenant) = TenantId::new(tenant) else { return };
    let time = time.parse().unwrap_or_default();
    let signature = ours.sign_record(&tenant, time, value);
    let public = ours.verifying_key();
    assert!(public.verify_record(&tenant, time, value, &signature));
    assert_eq!(public.verify_record(&tenant, time, value, header), header == signature);
    assert!(!public.verify_record(&tenant, i64::wrapping_add(time, 1), value, &signature));
    assert!(!public.verify_record(&tenant, time, &[value, b"x"].concat(), &signature));
}
