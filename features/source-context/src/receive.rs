//! Stores bundles of source files.
//!
//! The object is condemned before it is put, and taken off that list with the row: a failure in between leaves nothing.

use crate::store::{self, NewBundle, bundle_key};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Problem};
use unslide_api::feature::sources::{SourceBundleUpload, StoredSources};
use unslide_api::feature::upload::{check_symbol_quota, remove_object};
use unslide_artifacts::Put;
use unslide_model::{ContentHash, TenantId};
use unslide_source_context_formats::SourceBundle;
use unslide_store::{Uuid, segments, usage};

/// Stores a bundle, if the tenant keeps source files. The same bytes again only count as new.
///
/// # Errors
/// [`Kind::InvalidUpload`] for bytes that are no bundle within the limits, [`Kind::SymbolQuota`], or a server fails.
pub async fn store_bundle(
    storage: Arc<Storage>,
    upload: SourceBundleUpload,
) -> Result<StoredSources, Problem> {
    let SourceBundleUpload { tenant, app, symbol_bytes, bytes, reservation } = upload;
    let mut tx = storage.tenant(&tenant).await?;
    let is_enabled = store::is_enabled(&mut tx).await?;
    tx.rollback();
    if !is_enabled {
        return Ok(StoredSources::Disabled);
    }
    let read = bytes.clone();
    let bundle = move || {
        let parsed = SourceBundle::parse(&read).map_err(|error| {
            Problem::new(Kind::InvalidUpload, format!("the bundle of source files: {error}"))
        })?;
        Ok::<_, Problem>(NewBundle {
            debug_id: parsed.debug_id,
            app: app.unwrap_or_default(),
            content_hash: ContentHash(Sha256::digest(&read).into()),
            size: read.len() as u64,
            files: parsed.count_files(),
        })
    };
    let bundle = storage.capacity.cpu.run_for(&tenant, bundle).await??;
    let stored = StoredSources::Stored(bundle.files);
    let mut tx = storage.tenant(&tenant).await?;
    if store::renew_bundle(&mut tx, &bundle).await? {
        tx.commit().await?;
        return Ok(stored);
    }
    let object_id = segments::new_id(&mut tx).await?;
    let key = bundle_key(&tenant, object_id);
    segments::condemn_objects(&mut tx, &[key.to_string()]).await?;
    tx.commit().await?;
    storage.objects.put(&key, bytes, &Put::default()).await?;
    drop(reservation);
    let recorded = record_bundle(&storage, &tenant, &bundle, object_id, symbol_bytes).await;
    if recorded.is_err() {
        remove_object(&storage, &key).await;
    }
    recorded.map(|()| stored)
}

async fn record_bundle(
    storage: &Storage,
    tenant: &TenantId,
    bundle: &NewBundle,
    object_id: Uuid,
    symbol_bytes: Option<u64>,
) -> Result<(), Problem> {
    let mut tx = storage.tenant(tenant).await?;
    let used = usage::hold_symbols(&mut tx).await?;
    if let Some(limit) = symbol_bytes {
        check_symbol_quota(&storage.capacity, used, bundle.size, limit)?;
    }
    store::add_bundle(&mut tx, bundle, object_id).await?;
    Ok(tx.commit().await?)
}
