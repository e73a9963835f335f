//! Sources of stored source maps.

use crate::store;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Kind, Problem, ReservedAnswer, SymbolsDownload, reserve_bytes,
};
use unslide_artifacts::keys::for_object;
use unslide_model::DebugId;
use unslide_store::audit;
use unslide_symbolicate::read_map_source;

/// The most bytes of a source map from which a source is read.
const MAX_MAP_BYTES: u64 = 64 << 20;

/// Returns the text of a source of the source map with a debug id, and records that in the audit log.
///
/// # Errors
/// [`Kind::NotFound`], [`Kind::TooLarge`], or a server fails.
pub async fn load_source(
    storage: &Storage,
    access: &Access<SymbolsDownload>,
    debug_id: DebugId,
    path: String,
) -> Result<ReservedAnswer, Problem> {
    let none = || Problem::new(Kind::NotFound, "there is no source map with the text of this source");
    let tenant = access.tenant();
    let mut tx = storage.tenant(tenant).await?;
    let file = store::find_source_map(&mut tx, &debug_id, access.only_app()).await?.ok_or_else(none)?;
    if file.size > MAX_MAP_BYTES {
        let detail = format!("the source map has {} bytes, and the limit is {MAX_MAP_BYTES}", file.size);
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    let actor = access.principal.key_id.to_string();
    audit::append_once_an_hour(&mut tx, &actor, "sources.download", &debug_id.to_string()).await?;
    tx.commit().await?;
    // The texts of the map lie in memory beside its bytes.
    let reservation = reserve_bytes(&storage.capacity.permits, tenant, file.size.saturating_mul(2))?;
    let key = for_object(tenant.scope(file.content_hash));
    let object = storage.objects.get(&key, MAX_MAP_BYTES).await?.ok_or_else(none)?;
    let work = move || read_map_source(&object.bytes, &path);
    let text =
        storage.capacity.cpu.run_for(tenant, work).await?.map_err(Problem::internal)?.ok_or_else(none)?;
    Ok(ReservedAnswer { bytes: text.into(), reservation })
}
