//! Symbol sets: which are missing, the URL for each, and the files.

use super::container::open_container;
use super::upload_url::{UploadUrl, UrlFile, add_token, find_key};
use crate::declaration::read_declaration;
use crate::whole_file::{FileSender, UNUSED_KINDS, acquire_tenant_permit, storable_name};
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Keys;
use unslide_api::feature::Storage;
use unslide_api::feature::intake::{Caller, assign_caller};
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::{
    Chunks, SymbolsWrite, UploadQuota, announced_length, check_quota, run_detached,
};
use unslide_api::problem::{Kind, Problem};
use unslide_model::{DebugId, Owner};
use unslide_store::symbols::{SymbolReadiness, check_readiness};
use unslide_store::tenants;

/// The most symbol sets in a request.
const MAX_SETS: usize = 1_000;

/// The symbol sets that a client declares.
#[derive(Deserialize)]
struct DeclaredSets {
    symbol_sets: Vec<DeclaredSet>,
    /// The client sends the sets that are ready as well.
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
struct DeclaredSet {
    /// The debug id of a dSYM.
    chunk_id: String,
}

impl DeclaredSet {
    fn debug_id(&self) -> Option<DebugId> {
        self.chunk_id.parse().ok()
    }
}

fn parse_sets(body: &[u8]) -> Result<DeclaredSets, Problem> {
    let sets: DeclaredSets =
        serde_json::from_slice(body).map_err(|error| Problem::new(Kind::InvalidBody, error.to_string()))?;
    if sets.symbol_sets.len() > MAX_SETS {
        let detail = format!("symbol_sets: {}, and the limit is {MAX_SETS}", sets.symbol_sets.len());
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    Ok(sets)
}

/// Answers which symbol sets are to be uploaded: those without symbols that are ready.
///
/// # Errors
/// The body is not valid or too large, or a server fails.
pub async fn list_missing(
    storage: &Storage,
    access: &Access<SymbolsWrite>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let sets = read_declaration(&storage.capacity, access, headers, body, parse_sets).await?;
    let ids: Vec<DebugId> = sets.symbol_sets.iter().filter_map(DeclaredSet::debug_id).collect();
    // The symbols of another app are not shown to a key for one app: it sends its own, and the bytes are found.
    let ready: HashSet<DebugId> = if sets.force || ids.is_empty() || access.only_app().is_some() {
        HashSet::new()
    } else {
        let mut tx = storage.owner(&access.symbol_owner()).await?;
        let states = check_readiness(&mut tx, &ids).await?.into_iter();
        states.filter(|(_, state)| *state == SymbolReadiness::Ready).map(|(id, _)| id).collect()
    };
    let is_missing = |set: &&DeclaredSet| set.debug_id().is_none_or(|id| !ready.contains(&id));
    let missing: Vec<&str> =
        sets.symbol_sets.iter().filter(is_missing).map(|set| set.chunk_id.as_str()).collect();
    Ok(json!({ "chunk_ids_to_upload": missing }))
}

/// Answers with a URL for each symbol set, below `folder`.
///
/// # Errors
/// The body is not valid or too large, or a server fails.
pub async fn list_urls(
    keys: &Keys,
    access: &Access<SymbolsWrite>,
    folder: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let sets = read_declaration(&keys.capacity, access, headers, body, parse_sets).await?;
    let token = keys.entropy.generate_token().map_err(Problem::internal)?;
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    add_token(&mut tx, &token, access.principal.key_id).await?;
    tx.commit().await?;
    let mut urls = Map::new();
    for set in sets.symbol_sets {
        let name = storable_name(&set.chunk_id);
        let file = UrlFile { tenant: access.tenant().clone(), name: name.clone() };
        let end = UploadUrl::new(file, token).to_text();
        let end = end.ok_or_else(|| Problem::internal("a URL cannot be made"))?;
        let url = format!("{folder}/{end}");
        let form = json!({ "url": url, "fields": {} });
        let entry = json!({ "symbol_set_id": name, "presigned_url": form, "presigned_put_url": url });
        urls.insert(set.chunk_id, entry);
    }
    Ok(json!({ "id_map": urls }))
}

/// Receives the file of a symbol set, which comes without a key.
///
/// # Errors
/// The URL permits nothing, the file is not valid or too large, or a server fails.
pub async fn receive_set(
    storage: &Arc<Storage>,
    parts: &Parts,
    url: &str,
    body: Body,
) -> Result<(), Problem> {
    let refused = || Problem::new(Kind::Unauthorized, "the URL has ended: ask for another one");
    let url = UploadUrl::parse(url).ok_or_else(refused)?;
    let tenant = url.file.tenant.clone();
    let mut tx = storage.tenant(&tenant).await?;
    let key = find_key(&mut tx, &url.hash_token()).await?.ok_or_else(refused)?;
    let limits = tenants::get(&mut tx).await?.map(|tenant| tenant.limits).unwrap_or_default();
    tx.rollback();
    assign_caller(&parts.extensions, &storage.capacity, Caller::Tenant(tenant.clone()))?;
    let permit = acquire_tenant_permit(&storage.capacity, &tenant).await?;
    let quota = UploadQuota::for_tenant(&storage.capacity, &limits, key.app.is_some());
    let sender = FileSender { owner: Owner::Tenant(tenant), app: key.app, quota };
    let name = url.file.name;
    let body = Chunks::new(&parts.headers, body, sender.quota.bytes, storage.capacity.limits.client_pace())?;
    check_quota(storage, &sender.owner, announced_length(&parts.headers), sender.quota.symbol_bytes).await?;
    let (storage, timeout) = (storage.clone(), Duration::from_secs(storage.capacity.limits.upload_seconds));
    // In a task of its own, as every upload: a client that leaves still has its failure recorded.
    run_detached(Box::pin(async move {
        let _permit = permit;
        let received = tokio::time::timeout(timeout, store_container(&storage, &name, &sender, body)).await;
        received.unwrap_or_else(|_| {
            Err(Problem::new(Kind::BodyTimeout, format!("an upload may take {} s", timeout.as_secs())))
        })
    }))
    .await
}

async fn store_container(
    storage: &Storage,
    name: &str,
    sender: &FileSender,
    body: Chunks,
) -> Result<(), Problem> {
    let container = open_container(body.into_stream(), sender.quota.bytes).await?;
    if container.is_dsym {
        sender.send_file(storage, Some(name), container.archive).await?;
        return Ok(());
    }
    let detail = format!("symbol set of kind {}: {UNUSED_KINDS}", container.kind);
    Err(Problem::new(Kind::UnsupportedFormat, detail))
}
