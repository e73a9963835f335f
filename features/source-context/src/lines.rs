//! Finds source lines in stored bundles.

use crate::store::{self, StoredBundle, bundle_key};
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Problem, reserve_bytes};
use unslide_api::feature::sources::{SourceLines, SourcePosition, SourceScope};
use unslide_model::DebugId;
use unslide_source_context_formats::{MAX_BUNDLE_BYTES, SourceBundle};

/// The most bundles that are read for one report.
const MAX_BUNDLES: usize = 8;

/// Finds the lines around positions in the bundles that the scope allows. A lost or damaged bundle gives none.
///
/// # Errors
/// A server does not answer, or no bytes are left for a bundle.
pub async fn find_lines(
    storage: Arc<Storage>,
    scope: SourceScope,
    positions: Vec<SourcePosition>,
) -> Result<SourceLines, Problem> {
    let mut by_image: BTreeMap<DebugId, Vec<SourcePosition>> = BTreeMap::new();
    for position in positions {
        by_image.entry(position.debug_id).or_default().push(position);
    }
    let debug_ids: Vec<_> = by_image.keys().map(|id| id.uuid()).collect();
    let mut tx = storage.tenant(&scope.tenant).await?;
    let bundles = store::find_bundles(&mut tx, &debug_ids, &scope.app, scope.only_app.as_deref()).await?;
    tx.rollback();
    let mut lines = SourceLines::default();
    for bundle in bundles.into_iter().take(MAX_BUNDLES) {
        let wanted = by_image.remove(&bundle.debug_id).unwrap_or_default();
        lines = read_lines(&storage, &scope, &bundle, wanted, lines).await?;
    }
    Ok(lines)
}

/// Adds the lines of one bundle.
async fn read_lines(
    storage: &Storage,
    scope: &SourceScope,
    bundle: &StoredBundle,
    wanted: Vec<SourcePosition>,
    mut lines: SourceLines,
) -> Result<SourceLines, Problem> {
    let reservation = reserve_bytes(&storage.capacity.permits, &scope.tenant, bundle.size)?;
    let key = bundle_key(&scope.tenant, bundle.object_id);
    let Some(object) = storage.objects.get(&key, MAX_BUNDLE_BYTES).await? else { return Ok(lines) };
    let work = move || {
        let _reservation = reservation;
        let mut by_path: BTreeMap<String, Vec<SourcePosition>> = BTreeMap::new();
        for position in wanted {
            by_path.entry(position.path.clone()).or_default().push(position);
        }
        let paths = by_path.keys().map(String::as_str);
        let Ok(opened) = SourceBundle::open(&object.bytes, paths) else { return lines };
        let mut reader = opened.into_reader();
        for (path, positions) in by_path {
            let Some(text) = reader.read_text(&path) else { continue };
            for position in positions {
                lines.insert_around(position, &text);
            }
        }
        lines
    };
    Ok(storage.capacity.cpu.run_for(&scope.tenant, work).await?)
}
