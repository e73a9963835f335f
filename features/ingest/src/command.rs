//! Public keys on the command line: `unslide key create --public`, `show` and `test`.

use crate::key::{AppPattern, KeyText};
use crate::operations::check_new;
use crate::operations::get::IngestKeyDetail;
use crate::store::{self, NewIngestKey};
use unslide_feature::{KeyMaker, KeyRequest, MadeKey, ShownKey};
use unslide_model::TenantId;
use unslide_store::{Store, audit};

/// Makes public keys on the command line, and the reports that test them.
pub const KEY_MAKER: KeyMaker =
    KeyMaker { make: make_key, show: show_key, url_path: "/i/", build_test_report };

/// Returns a report of an app for a test of its key, which is grouped apart from its crashes.
fn build_test_report(app: &str, id: &str) -> String {
    let name = "Unslide key test";
    serde_json::json!({
        "report": {"id": id, "type": "standard", "version": "3.6.0"},
        "system": {"CFBundleIdentifier": app, "CFBundleShortVersionString": "0.0.0", "CFBundleVersion": "0"},
        "user": {"unslide_key_test": true},
        "binary_images": [],
        "crash": {"threads": [], "error": {
            "type": "user", "reason": "sent by `unslide key test`",
            "user_reported": {"name": name, "language": "none"},
        }},
    })
    .to_string()
}

fn show_key<'k>(store: &'k Store, tenant: &'k TenantId, id: &'k str) -> ShownKey<'k> {
    Box::pin(async move {
        let mut tx = store.tenant(tenant).await?;
        let detail = IngestKeyDetail::read_detail(&mut tx, id, None).await?;
        Ok(detail.map(|detail| serde_json::to_string(&detail)).transpose()?)
    })
}

fn make_key<'k>(store: &'k Store, tenant: &'k TenantId, request: KeyRequest<'k>) -> MadeKey<'k> {
    Box::pin(async move {
        let apps = request.apps.iter().map(|app| AppPattern(app.clone())).collect();
        let new = NewIngestKey { name: request.name.to_owned(), apps };
        check_new(&new)?;
        let mut tx = store.tenant(tenant).await?;
        let text = KeyText::generate()?;
        let key = store::create_key(&mut tx, &new, &text).await?;
        let key =
            key.ok_or_else(|| format!("{tenant} has {} public keys; close one", store::MAX_OPEN_KEYS))?;
        let detail = serde_json::json!({"apps": key.apps});
        audit::append_entry(&mut tx, "command line", "public_key.create", &key.id, &detail).await?;
        tx.commit().await?;
        Ok(text.reveal().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::{ReadLimits, Report};

    #[test]
    fn a_test_report_is_a_report_of_its_app() {
        let id = "11111111-1111-1111-1111-111111111111";
        let json = build_test_report("com.example.shop", id);
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(report.id.to_string(), id);
        assert_eq!(report.summary().app.as_deref(), Some("com.example.shop"));
    }
}
