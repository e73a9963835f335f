//! The devices on which a bug happened, and the installations of the app.

use time::{Date, OffsetDateTime};
use unslide_store::{GroupId, Result, TenantTx};

/// The newest reports of a group that are read.
const REPORTS_LIMIT: i64 = 2_000;
/// Sessions that are read of each day. Their ids have no order in time, so the first ones are a sample of the day.
const SESSIONS_PER_DAY: i64 = 1_000;

/// A device or an installation as a report or a session names it, with the values that may be common to many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedDevice {
    pub version: String,
    pub day: Date,
    pub model: Option<String>,
    pub system: Option<String>,
}

/// Lists the devices of the newest reports of a group and of those merged into it, each once, from a time on. A report without a
/// device counts for itself.
pub async fn list_crashed_devices(
    tx: &mut TenantTx,
    group: GroupId,
    from: OffsetDateTime,
) -> Result<Vec<ComparedDevice>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ComparedDevice,
        r#"SELECT DISTINCT ON (coalesce(n.device, uuid_send(n.report_id))) n.version AS "version!",
                  (n.received_at AT TIME ZONE 'UTC')::date AS "day!", n.model,
                  nullif(concat_ws(' ', n.os_name, n.os_version), '') AS system
           FROM (SELECT r.* FROM (SELECT $2::uuid AS id
                                  UNION ALL SELECT m.id FROM groups m WHERE m.tenant = $1 AND m.merged_into = $2) g
                 CROSS JOIN LATERAL (
                     SELECT report_id, device, version, received_at, model, os_name, os_version FROM reports
                     WHERE tenant = $1 AND group_id = g.id AND received_at >= $3 AND same_crash_as IS NULL
                     ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $4) r
                 ORDER BY r.received_at DESC LIMIT $4) n
           ORDER BY coalesce(n.device, uuid_send(n.report_id)), n.received_at DESC"#,
        tenant,
        group as GroupId,
        from,
        REPORTS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Lists installations with sessions of a version on these days, each once: a sample of each day.
pub async fn sample_installations(
    tx: &mut TenantTx,
    app: &str,
    version: &str,
    days: &[Date],
) -> Result<Vec<ComparedDevice>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ComparedDevice,
        r#"SELECT DISTINCT ON (s.installation) s.version AS "version!", s.day AS "day!", s.device AS model, s.os AS system
           FROM unnest($3::date[]) AS d (day)
           CROSS JOIN LATERAL (SELECT installation, version, day, device, os FROM sessions
                               WHERE tenant = $1 AND app = $2 AND day = d.day
                               ORDER BY session_id LIMIT $5) s
           WHERE s.version = $4 AND s.installation IS NOT NULL
           ORDER BY s.installation, s.day DESC"#,
        tenant,
        app,
        days,
        version,
        SESSIONS_PER_DAY
    )
    .fetch_all(connection)
    .await?)
}
