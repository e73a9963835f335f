//! The versions of a group and of its app, and the groups that are new in a version.

use unslide_store::{GroupId, Result, TenantTx};

/// Versions of an app that are read, and those of a group.
const VERSIONS_LIMIT: i64 = 1_000;

/// New groups of a version that are read, those with the most reports.
const NEW_GROUPS_LIMIT: i64 = 20;

/// A group that is new in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub id: GroupId,
    pub title: String,
    pub reports: i64,
}

/// A version of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionWithGroup {
    pub version: String,
    /// True if reports of the group are of this version.
    pub has_group: bool,
}

/// Lists the versions of an app that have reports, and which of them have reports of a group or of those merged into it.
pub async fn list_versions(tx: &mut TenantTx, app: &str, group: GroupId) -> Result<Vec<VersionWithGroup>> {
    let (connection, tenant, _) = tx.parts();
    // From version to version, one index look-up each: the rows of a version's other days are not read.
    Ok(sqlx::query_as!(
        VersionWithGroup,
        r#"WITH RECURSIVE walked AS (
               (SELECT version FROM app_days
                WHERE tenant = $1 AND app = $2 AND reports > 0 ORDER BY version DESC LIMIT 1)
               UNION ALL
               SELECT n.version FROM walked w CROSS JOIN LATERAL
                    (SELECT d.version FROM app_days d
                     WHERE d.tenant = $1 AND d.app = $2 AND d.reports > 0 AND d.version < w.version
                     ORDER BY d.version DESC LIMIT 1) n),
           every AS MATERIALIZED (SELECT w.version FROM walked w LIMIT $4),
           own AS (
               SELECT DISTINCT d.value
               FROM (SELECT $3::uuid AS id
                     UNION ALL SELECT m.id FROM groups m WHERE m.tenant = $1 AND m.merged_into = $3) g
               CROSS JOIN LATERAL (SELECT value FROM group_breakdown_counts
                                   WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND reports > 0) d
               LIMIT $4)
           SELECT v.version AS "version!", bool_or(v.has_group) AS "has_group!"
           FROM (SELECT e.version, false AS has_group FROM every e UNION ALL SELECT o.value, true FROM own o) v
           GROUP BY v.version"#,
        tenant,
        app,
        group as GroupId,
        VERSIONS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Lists the groups of an app whose first report is of a version, those with the most reports first.
pub async fn list_new_groups(tx: &mut TenantTx, app: &str, version: &str) -> Result<Vec<NewGroup>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        NewGroup,
        r#"SELECT id AS "id: GroupId", title, reports FROM groups
           WHERE tenant = $1 AND app = $2 AND first_version = $3 AND merged_into IS NULL AND reports > 0
           ORDER BY reports DESC, id DESC LIMIT $4"#,
        tenant,
        app,
        version,
        NEW_GROUPS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
