//! The statements about the images of builds.

use unslide_model::DebugId;
use unslide_store::sql::{from_row, to_row};
use unslide_store::{OwnerTx, Result, Uuid};

/// One architecture of a build.
#[derive(Clone, Copy, Debug)]
pub struct BuildArch<'b> {
    pub build: &'b str,
    pub arch: &'b str,
}

/// A build, or one architecture of it.
#[derive(Clone, Copy, Debug)]
pub struct ImagesOfBuild<'b> {
    pub build: &'b str,
    /// The only architecture; all of them if absent.
    pub arch: Option<&'b str>,
}

/// Numbers of recorded builds and images.
#[derive(Clone, Copy, Debug)]
pub struct CountedBuilds {
    /// Builds of the owner, each architecture counted, up to one more than it may have.
    pub builds: i64,
    /// Images of one architecture of one build.
    pub images: i64,
}

/// Counts the owner's builds, and the images of one. Costs a look into the index for each build.
pub async fn count_builds(tx: &mut OwnerTx, key: BuildArch<'_>) -> Result<CountedBuilds> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        CountedBuilds,
        r#"WITH RECURSIVE known AS (
               (SELECT b.build, b.arch FROM system_symbol_builds b WHERE b.tenant = $1
                ORDER BY b.build, b.arch LIMIT 1)
               UNION ALL
               SELECT n.build, n.arch FROM known k CROSS JOIN LATERAL (
                   SELECT b.build, b.arch FROM system_symbol_builds b
                   WHERE b.tenant = $1 AND (b.build, b.arch) > (k.build, k.arch)
                   ORDER BY b.build, b.arch LIMIT 1) n)
           SELECT (SELECT count(*) FROM known) AS "builds!",
                  (SELECT count(*) FROM system_symbol_builds WHERE tenant = $1 AND build = $2 AND arch = $3) AS "images!""#,
        tenant,
        key.build,
        key.arch
    )
    .fetch_one(connection)
    .await?)
}

/// Records images of a build, in the order of their ids. Returns how many are new.
pub async fn record_images(
    tx: &mut OwnerTx,
    key: BuildArch<'_>,
    sorted_ids: &[Uuid],
    actor: &str,
) -> Result<i64> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "INSERT INTO system_symbol_builds (tenant, build, arch, debug_id, imported_at, imported_by)
         SELECT $1, $2, $3, d, $5, $6 FROM unnest($4::uuid[]) AS d ON CONFLICT DO NOTHING",
        tenant,
        key.build,
        key.arch,
        sorted_ids,
        now,
        actor
    )
    .execute(connection)
    .await?;
    Ok(to_row(done.rows_affected()))
}

/// Removes some images from the list of a build, those with the lowest ids, and returns them.
pub async fn unlist_images(tx: &mut OwnerTx, wanted: ImagesOfBuild<'_>, most: usize) -> Result<Vec<DebugId>> {
    let (connection, tenant, _) = tx.parts();
    let ids = sqlx::query_scalar!(
        r#"WITH gone AS (
               DELETE FROM system_symbol_builds
               WHERE tenant = $1 AND build = $2 AND ($3::text IS NULL OR arch = $3) AND debug_id IN (
                   SELECT DISTINCT b.debug_id FROM system_symbol_builds b
                   WHERE b.tenant = $1 AND b.build = $2 AND ($3::text IS NULL OR b.arch = $3)
                   ORDER BY b.debug_id LIMIT $4)
               RETURNING debug_id)
           SELECT DISTINCT debug_id AS "debug_id!" FROM gone"#,
        tenant,
        wanted.build,
        wanted.arch,
        to_row(most as u64)
    )
    .fetch_all(connection)
    .await?;
    Ok(ids.into_iter().map(DebugId::from_uuid).collect())
}

/// Returns those of these images that no build lists.
pub async fn find_unlisted(tx: &mut OwnerTx, debug_ids: &[DebugId]) -> Result<Vec<DebugId>> {
    let ids: Vec<_> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let unlisted = sqlx::query_scalar!(
        r#"SELECT d AS "d!" FROM unnest($2::uuid[]) AS d
           WHERE NOT EXISTS (SELECT FROM system_symbol_builds b WHERE b.tenant = $1 AND b.debug_id = d)"#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    Ok(unlisted.into_iter().map(DebugId::from_uuid).collect())
}

/// Counts the images of a build.
pub async fn count_remaining(tx: &mut OwnerTx, wanted: ImagesOfBuild<'_>) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let count = sqlx::query_scalar!(
        r#"SELECT count(DISTINCT debug_id) AS "count!" FROM system_symbol_builds
           WHERE tenant = $1 AND build = $2 AND ($3::text IS NULL OR arch = $3)"#,
        tenant,
        wanted.build,
        wanted.arch
    )
    .fetch_one(connection)
    .await?;
    Ok(from_row(count))
}

/// An image of a build.
pub struct RecordedImage {
    pub debug_id: DebugId,
    /// True if no other build lists it, and no other architecture that stays.
    pub unlisted: bool,
}

/// Returns the images of a build.
pub async fn list_images(tx: &mut OwnerTx, wanted: ImagesOfBuild<'_>) -> Result<Vec<RecordedImage>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT i.debug_id AS "debug_id!", NOT EXISTS (
                      SELECT FROM system_symbol_builds o WHERE o.tenant = $1 AND o.debug_id = i.debug_id
                        AND (o.build <> $2 OR o.arch <> $3)) AS "unlisted!"
           FROM (SELECT DISTINCT b.debug_id FROM system_symbol_builds b
                 WHERE b.tenant = $1 AND b.build = $2 AND ($3::text IS NULL OR b.arch = $3)) AS i"#,
        tenant,
        wanted.build,
        wanted.arch
    )
    .fetch_all(connection)
    .await?;
    let images = rows
        .into_iter()
        .map(|row| RecordedImage { debug_id: DebugId::from_uuid(row.debug_id), unlisted: row.unlisted });
    Ok(images.collect())
}
