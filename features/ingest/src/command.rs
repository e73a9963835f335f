//! The making of public keys by `unslide key create --public`.

use crate::key::{AppPattern, KeyText};
use crate::operations::check_new;
use crate::store::{self, NewIngestKey};
use unslide_feature::{KeyMaker, KeyRequest, MadeKey};
use unslide_model::TenantId;
use unslide_store::{Store, audit};

/// Makes a public key on the command line.
pub const KEY_MAKER: KeyMaker = KeyMaker { make: make_key };

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
