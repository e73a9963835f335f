//! `GET /v1/audit-log/entries`: the audit log in the order in which it grew, for those who follow it.

use super::EVERY_APP;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, MAX_LIMIT, Problem, Query, TenantAdmin, problems};
use unslide_store::AuditEntryId;
use unslide_store::audit::{AuditEntry, find_position, list_entries_after};
use utoipa::{IntoParams, ToSchema};

problems!(Failures: InvalidParameter, NotFound);

/// Entries of an answer if the request names no limit.
const USUAL_LIMIT: u32 = 100;

/// Which part of the log to answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntriesQuery {
    /// Id of an entry; those that were committed after it are listed. Absent: from the first one on.
    #[param(value_type = Option<Uuid>)]
    pub after: Option<AuditEntryId>,
    /// Entries of the answer, 1 to 500; 100 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// Entries of the audit log.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AuditEntries {
    /// In the order in which they were committed. Fewer than the limit: these are all so far.
    #[schema(max_items = 500)]
    pub items: Vec<AuditEntry>,
}

/// Follow the audit log
///
/// Lists entries in the order in which they were committed, after one that is known: the id of the last one is the `after` of the next
/// request, which misses none. Entries of versions before these places are in `GET /v1/audit-log` alone.
#[utoipa::path(get, path = "/v1/audit-log/entries", tag = "audit-export", operation_id = "list_audit_entries",
    params(EntriesQuery),
    responses((status = 200, description = "The entries.", body = AuditEntries), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_audit_entries(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(query): Query<EntriesQuery>,
) -> Result<Json<AuditEntries>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let limit = query.limit.unwrap_or(USUAL_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Problem::new(Kind::InvalidParameter, format!("limit: 1 to {MAX_LIMIT}")));
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    let position = match query.after {
        None => 0,
        Some(id) => {
            let missing = || Problem::new(Kind::NotFound, "after: there is no such entry of the audit log");
            find_position(&mut tx, id).await?.ok_or_else(missing)?
        }
    };
    Ok(Json(AuditEntries { items: list_entries_after(&mut tx, position, limit).await? }))
}
