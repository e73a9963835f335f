//! The statements about bundles of source files, and the tenant's switch.

use serde::Deserialize;
use serde_json::Value;
use unslide_artifacts::keys::{ObjectKey, feature_file};
use unslide_model::{ContentHash, DebugId, TenantId};
use unslide_store::sql::{HashColumn, U64, from_row, to_row, to_row32};
use unslide_store::tables::{KeyColumn, OwnedTable, RowAge, RowFiles};
use unslide_store::{
    FeatureFile, HookFuture, OwnerTx, Result, StoreError, StoreEvent, StoreHook, TenantTx, Uuid, segments,
};

/// The folder of bundles below a tenant's prefix, and the name of each file.
const BUNDLE_FOLDER: &str = "source-bundles";
const BUNDLE_NAME: &str = "bundle";
/// Whether a tenant that has not chosen keeps source files.
const ENABLED_BY_DEFAULT: bool = false;

/// Deletes bundles with their symbols.
pub const HOOK: StoreHook = StoreHook {
    tables: OWNED_TABLES,
    on_event: Some(|event| Box::pin(delete_for_event(event))),
    ..StoreHook::new(crate::NAME)
};

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable::new("source_switches"),
    OwnedTable {
        key: &[KeyColumn::Value("debug_id"), KeyColumn::Text("app")],
        received_at: Some("received_at"),
        age: RowAge::Retention,
        files: Some(RowFiles { columns: &["debug_id", "object_id"], list: list_files }),
        counted_bytes: Some("size"),
        ..OwnedTable::new("source_bundles")
    },
];

/// Returns the key of a bundle's object.
pub fn bundle_key(tenant: &TenantId, object_id: Uuid) -> ObjectKey {
    feature_file(tenant, BUNDLE_FOLDER, object_id, BUNDLE_NAME)
}

/// Returns true if the tenant keeps source files.
pub fn is_enabled(tx: &mut TenantTx) -> HookFuture<'_, bool> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        let found = sqlx::query_scalar!("SELECT enabled FROM source_switches WHERE tenant = $1", tenant);
        Ok(found.fetch_optional(connection).await?.unwrap_or(ENABLED_BY_DEFAULT))
    })
}

/// Sets whether the tenant keeps source files. Bundles stay, and are not shown while it does not.
pub async fn set_enabled(tx: &mut TenantTx, is_enabled: bool) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let switch = sqlx::query!(
        "INSERT INTO source_switches (tenant, enabled, changed_at) VALUES ($1, $2, $3)
         ON CONFLICT (tenant) DO UPDATE SET enabled = EXCLUDED.enabled, changed_at = EXCLUDED.changed_at",
        tenant,
        is_enabled,
        now
    );
    switch.execute(connection).await?;
    Ok(())
}

/// The bundles of a tenant together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleTotals {
    pub bundles: u64,
    pub files: u64,
    pub bytes: u64,
}

/// Returns the number and size of the tenant's bundles.
pub async fn count_bundles(tx: &mut TenantTx) -> Result<BundleTotals> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT count(*) AS "bundles!", coalesce(sum(files), 0)::bigint AS "files!",
                  coalesce(sum(size), 0)::bigint AS "bytes!"
           FROM source_bundles WHERE tenant = $1"#,
        tenant
    )
    .fetch_one(connection)
    .await?;
    Ok(BundleTotals {
        bundles: from_row(row.bundles),
        files: from_row(row.files),
        bytes: from_row(row.bytes),
    })
}

/// A bundle that was read.
#[derive(Clone, Debug)]
pub struct NewBundle {
    pub debug_id: DebugId,
    /// Empty if its sender named no app.
    pub app: String,
    pub content_hash: ContentHash,
    pub size: u64,
    pub files: u32,
}

/// Notes that a bundle came again. Returns false if the tenant does not have these bytes for this app.
pub async fn renew_bundle(tx: &mut TenantTx, bundle: &NewBundle) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let renewed = sqlx::query!(
        "UPDATE source_bundles SET received_at = $5
         WHERE tenant = $1 AND debug_id = $2 AND app = $3 AND content_hash = $4",
        tenant,
        bundle.debug_id.uuid(),
        bundle.app,
        bundle.content_hash.0.as_slice(),
        now
    )
    .execute(connection)
    .await?;
    Ok(renewed.rows_affected() > 0)
}

/// Records a bundle with its object, in place of an older one of the same debug id and app. The older object is condemned.
pub async fn add_bundle(tx: &mut TenantTx, bundle: &NewBundle, object_id: Uuid) -> Result<()> {
    let owner = tx.tenant()?;
    let (connection, tenant, now) = tx.parts();
    let replaced = sqlx::query_scalar!(
        r#"WITH old AS (
               SELECT object_id FROM source_bundles WHERE tenant = $1 AND debug_id = $2 AND app = $3 FOR UPDATE),
           new AS (
               INSERT INTO source_bundles AS b (tenant, debug_id, app, object_id, content_hash, size, files, received_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
               ON CONFLICT (tenant, debug_id, app) DO UPDATE
               SET object_id = excluded.object_id, content_hash = excluded.content_hash, size = excluded.size,
                   files = excluded.files, received_at = excluded.received_at)
           SELECT object_id AS "object_id!" FROM old"#,
        tenant,
        bundle.debug_id.uuid(),
        bundle.app,
        object_id,
        bundle.content_hash.0.as_slice(),
        to_row(bundle.size),
        to_row32(bundle.files),
        now
    )
    .fetch_optional(connection)
    .await?;
    segments::forget_objects(tx, &[bundle_key(&owner, object_id).to_string()]).await?;
    let replaced: Vec<String> = replaced.iter().map(|id| bundle_key(&owner, *id).to_string()).collect();
    segments::condemn_objects(tx, &replaced).await
}

/// A stored bundle.
#[derive(Clone, Debug)]
pub struct StoredBundle {
    pub debug_id: DebugId,
    pub object_id: Uuid,
    pub size: u64,
}

/// Finds the bundles of debug ids, one for each: that of the app if there is one, else the newest. With `only_app`, bundles of
/// this app alone.
pub async fn find_bundles(
    tx: &mut TenantTx,
    debug_ids: &[Uuid],
    app: &str,
    only_app: Option<&str>,
) -> Result<Vec<StoredBundle>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT DISTINCT ON (debug_id) debug_id, object_id, size AS "size: U64"
           FROM source_bundles
           WHERE tenant = $1 AND debug_id = ANY ($2) AND ($4::text IS NULL OR app = $4)
           ORDER BY debug_id, app = $3 DESC, received_at DESC"#,
        tenant,
        debug_ids,
        app,
        only_app
    )
    .fetch_all(connection)
    .await?;
    let bundle = rows.into_iter().map(|row| StoredBundle {
        debug_id: DebugId::from_uuid(row.debug_id),
        object_id: row.object_id,
        size: row.size.into(),
    });
    Ok(bundle.collect())
}

async fn delete_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    let StoreEvent::SymbolsDeleted(tx, debug_id) = event else { return Ok(()) };
    let (connection, tenant, _) = tx.parts();
    let deleted = sqlx::query_scalar!(
        "DELETE FROM source_bundles WHERE tenant = $1 AND debug_id = $2 RETURNING object_id",
        tenant,
        debug_id.uuid()
    )
    .fetch_all(connection)
    .await?;
    condemn_bundles(tx, &deleted).await
}

async fn condemn_bundles(tx: &mut OwnerTx, objects: &[Uuid]) -> Result<()> {
    let owner = tx.tenant()?;
    let keys: Vec<String> = objects.iter().map(|id| bundle_key(&owner, *id).to_string()).collect();
    segments::condemn_objects(tx, &keys).await
}

/// The columns that say which file a bundle has.
#[derive(Deserialize)]
struct BundleRow {
    debug_id: Uuid,
    object_id: Uuid,
}

fn list_files(tenant: &TenantId, row: Value) -> Result<Vec<FeatureFile>> {
    let row: BundleRow = serde_json::from_value(row).map_err(|e| StoreError::corrupt("source_bundles", e))?;
    let key = bundle_key(tenant, row.object_id).to_string();
    Ok(vec![FeatureFile { key, needed_as: Some(format!("the source files of {}", row.debug_id)) }])
}

/// The file of a source map.
#[derive(Clone, Copy, Debug)]
pub struct SourceMapFile {
    pub content_hash: ContentHash,
    pub size: u64,
}

/// Finds the source map of a debug id that answers for it. With `app` it must come from an upload for this app.
pub async fn find_source_map(
    tx: &mut OwnerTx,
    debug_id: &DebugId,
    app: Option<&str>,
) -> Result<Option<SourceMapFile>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT content_hash AS "content_hash: HashColumn", size AS "size: U64" FROM objects o
           WHERE tenant = $1 AND debug_id = $2 AND status = 'ready' AND kind = 'source_map'
             AND ($3::text IS NULL OR EXISTS (
                 SELECT FROM upload_objects b JOIN uploads u ON u.tenant = b.tenant AND u.id = b.upload_id
                 WHERE b.tenant = $1 AND b.content_hash = o.content_hash AND u.app = $3))
           ORDER BY quality DESC, created_at DESC, content_hash LIMIT 1"#,
        tenant,
        debug_id.uuid(),
        app
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| SourceMapFile { content_hash: row.content_hash.into(), size: row.size.into() }))
}
