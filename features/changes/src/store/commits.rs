//! The statements about commits, by the debug ids of builds.

use std::collections::BTreeSet;
use unslide_model::DebugId;
use unslide_store::{OwnerTx, Result, TenantTx};

/// The most builds of a tenant with a commit. The newest are kept.
const BUILDS_LIMIT: i64 = 100_000;

/// The stored commit of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildCommitRow {
    pub debug_id: DebugId,
    pub commit: String,
    pub repository: Option<String>,
    pub pull_request: Option<u32>,
    pub source_root: Option<String>,
}

/// A commit to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBuildCommitRow {
    /// 7 to 64 hexadecimal digits in lower case.
    pub commit: String,
    /// The address of the repository, without credentials.
    pub repository: Option<String>,
    pub pull_request: Option<i32>,
    pub source_root: Option<String>,
}

/// Stores the commit of builds, in place of those that were named before.
pub async fn set_commit(
    tx: &mut TenantTx,
    debug_ids: &BTreeSet<DebugId>,
    new: &NewBuildCommitRow,
) -> Result<()> {
    // In the order of the key, in which all writers lock rows.
    let ids: Vec<_> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO build_commits (tenant, debug_id, commit_sha, repository, pull_request, source_root, recorded_at)
         SELECT $1, d.id, $3, $4, $5, $6, $7 FROM unnest($2::uuid[]) AS d (id)
         ON CONFLICT (tenant, debug_id) DO UPDATE SET
             commit_sha = EXCLUDED.commit_sha, repository = EXCLUDED.repository, pull_request = EXCLUDED.pull_request,
             source_root = EXCLUDED.source_root, recorded_at = EXCLUDED.recorded_at",
        tenant,
        &ids,
        new.commit,
        new.repository,
        new.pull_request,
        new.source_root,
        now
    )
    .execute(&mut *connection)
    .await?;
    // Rows that another transaction has locked are left to it.
    sqlx::query!(
        "DELETE FROM build_commits WHERE tenant = $1 AND debug_id = ANY (ARRAY (
             SELECT o.debug_id FROM build_commits o
             WHERE o.tenant = $1 AND o.recorded_at < (
                 SELECT l.recorded_at FROM build_commits l WHERE l.tenant = $1 ORDER BY l.recorded_at DESC OFFSET $2 LIMIT 1)
             ORDER BY o.debug_id FOR UPDATE SKIP LOCKED))",
        tenant,
        BUILDS_LIMIT - 1
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Lists the commits of those of these builds that have one.
pub async fn list_commits(tx: &mut TenantTx, debug_ids: &[DebugId]) -> Result<Vec<BuildCommitRow>> {
    let ids: Vec<_> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT debug_id, commit_sha, repository, pull_request, source_root FROM build_commits
         WHERE tenant = $1 AND debug_id = ANY ($2)",
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    let rows = rows.into_iter().map(|row| BuildCommitRow {
        debug_id: DebugId::from_uuid(row.debug_id),
        commit: row.commit_sha,
        repository: row.repository,
        pull_request: row.pull_request.map(i32::unsigned_abs),
        source_root: row.source_root,
    });
    Ok(rows.collect())
}

/// Deletes the commit of a build.
pub async fn delete_commit(tx: &mut OwnerTx, debug_id: &DebugId) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM build_commits WHERE tenant = $1 AND debug_id = $2", tenant, debug_id.uuid())
        .execute(connection)
        .await?;
    Ok(())
}
