//! Any text as an external object key: accepted only if it lies under its tenant.

use unslide_artifacts::keys::{ObjectKey, segment_named};
use unslide_model::TenantId;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let tenant = TenantId::new("acme").expect("a tenant");
    if let Ok(key) = ObjectKey::parse_for_tenant(&tenant, text) {
        assert_eq!(key.as_str(), text);
        let mut parts = text.split('/');
        assert_eq!((parts.next(), parts.next()), (Some("t"), Some("acme")));
        assert!(parts.all(|part| !part.is_empty() && part != "." && part != ".."));
    }
    if segment_named(&tenant, text).is_some() {
        assert!(text.starts_with("t/acme/segments/"));
    }
}
