//! The devices on which a bug happened, and the installations of the app.

use sqlx::FromRow;
use time::{Date, OffsetDateTime};
use unslide_model::ReportId;
use unslide_store::report_rows::{ReportSample, SampleScope, read_samples};
use unslide_store::sql::from_row32;
use unslide_store::{GroupId, ReportPlace, Result, TenantTx, Uuid};

/// The newest reports of a group that are read.
const REPORTS_LIMIT: i64 = 2_000;
/// Sessions that are read of each day. Their ids have no order in time, so the first ones are a sample of the day.
const SESSIONS_PER_DAY: i64 = 1_000;
/// The most values that a flag is compared with. One with more tells installations apart, as an id does.
pub const VALUES_OF_FLAG_LIMIT: i64 = 50;
/// Counts that one statement returns. Models and systems come first, and then those of the most frequent flags.
const COUNTS_LIMIT: i64 = 20_000;

/// A device that met a bug, as its newest report names it.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct CrashedDevice {
    pub version: String,
    pub day: Date,
    pub model: Option<String>,
    pub system: Option<String>,
    pub received_at: OffsetDateTime,
    pub report_id: Uuid,
    pub variant: i32,
}

/// How many installations or devices have a value.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct ValueCount {
    /// The name of the flag; empty for facts of the device.
    pub name: String,
    pub value: String,
    pub count: i64,
    /// Different values of the flag.
    pub values: i64,
}

/// Counts of a sample of installations with sessions of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallationCounts {
    pub all: i64,
    /// Those with a session that carries flags.
    pub carrying_flags: i64,
    pub models: Vec<ValueCount>,
    pub systems: Vec<ValueCount>,
    /// The values of flags, those of the most frequent flags first. A flag with too many has some of them only.
    pub flags: Vec<ValueCount>,
}

/// Lists the devices of the newest reports of a group and of those merged into it, each once, from a time on. A report without a
/// device counts for itself.
pub async fn list_crashed_devices(
    tx: &mut TenantTx,
    group: GroupId,
    from: OffsetDateTime,
) -> Result<Vec<CrashedDevice>> {
    let columns = "r.device, r.version, r.model, r.os_name, r.os_version";
    let sample = ReportSample::new(SampleScope::Group(group), columns, REPORTS_LIMIT);
    let sample = ReportSample { from: Some(from), condition: "r.same_crash_as IS NULL", ..sample };
    read_samples(tx, [sample], &|query| {
        query.push(
            "SELECT DISTINCT ON (coalesce(n.device, uuid_send(n.report_id))) n.version,
                    (n.received_at AT TIME ZONE 'UTC')::date AS day, n.model,
                    nullif(concat_ws(' ', n.os_name, n.os_version), '') AS system, n.received_at, n.report_id, n.variant
             FROM newest n ORDER BY coalesce(n.device, uuid_send(n.report_id)), n.received_at DESC",
        );
    })
    .await
}

/// Counts the own keys of these devices with their values, the most frequent keys first.
pub async fn count_report_keys(tx: &mut TenantTx, devices: &[CrashedDevice]) -> Result<Vec<ValueCount>> {
    let places: Vec<ReportPlace> = devices
        .iter()
        .map(|device| ReportPlace {
            id: ReportId::from_uuid(device.report_id),
            variant: from_row32(device.variant),
            received_at: device.received_at,
        })
        .collect();
    let sample =
        ReportSample::new(SampleScope::Places(&places), "r.context -> 'keys' AS keys", REPORTS_LIMIT);
    read_samples(tx, [sample], &|query| {
        query.push(format!(
            "SELECT name, value, count, values FROM (
                 SELECT p.*, row_number() OVER (PARTITION BY name ORDER BY count DESC, value COLLATE \"C\") AS place,
                        count(*) OVER (PARTITION BY name) AS values, sum(count) OVER (PARTITION BY name) AS total
                 FROM (SELECT k.key AS name, k.value, count(*) AS count
                       FROM newest CROSS JOIN LATERAL jsonb_each_text(keys) k GROUP BY k.key, k.value) p) c
             WHERE place <= {} ORDER BY total DESC, name COLLATE \"C\", place LIMIT {COUNTS_LIMIT}",
            VALUES_OF_FLAG_LIMIT + 1
        ));
    })
    .await
}

/// Counts the values that installations with sessions of a version on these days have, each installation once: of a sample of each
/// day.
pub async fn count_installations(
    tx: &mut TenantTx,
    app: &str,
    version: &str,
    days: &[Date],
) -> Result<InstallationCounts> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH sample AS MATERIALIZED (
               SELECT DISTINCT ON (s.installation) s.device AS model, s.os AS system, s.flags
               FROM unnest($3::date[]) AS d (day)
               CROSS JOIN LATERAL (SELECT installation, version, day, device, os, flags FROM sessions
                                   WHERE tenant = $1 AND app = $2 AND day = d.day
                                   ORDER BY session_id LIMIT $5) s
               WHERE s.version = $4 AND s.installation IS NOT NULL
               ORDER BY s.installation, s.day DESC),
           facts AS (
               SELECT 'all' AS kind, '' AS name, '' AS value, count(*) AS count FROM sample
               UNION ALL SELECT 'carrying', '', '', count(flags) FROM sample
               UNION ALL SELECT 'model', '', model, count(*) FROM sample WHERE model IS NOT NULL GROUP BY model
               UNION ALL SELECT 'system', '', system, count(*) FROM sample WHERE system IS NOT NULL GROUP BY system
               UNION ALL SELECT 'flag', k.key, k.value, count(*)
               FROM sample CROSS JOIN LATERAL jsonb_each_text(sample.flags) k GROUP BY k.key, k.value),
           placed AS (
               SELECT *, row_number() OVER (PARTITION BY kind, name ORDER BY count DESC, value COLLATE "C") AS place,
                      count(*) OVER (PARTITION BY kind, name) AS values, sum(count) OVER (PARTITION BY kind, name) AS total
               FROM facts)
           SELECT kind AS "kind!", name AS "name!", value AS "value!", count AS "count!", values AS "values!"
           FROM placed WHERE kind <> 'flag' OR place <= $6
           ORDER BY kind = 'flag', total DESC, kind, name COLLATE "C", place LIMIT $7"#,
        tenant,
        app,
        days,
        version,
        SESSIONS_PER_DAY,
        VALUES_OF_FLAG_LIMIT + 1,
        COUNTS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let mut counts = InstallationCounts::default();
    for row in rows {
        let found = ValueCount { name: row.name, value: row.value, count: row.count, values: row.values };
        match row.kind.as_str() {
            "all" => counts.all = found.count,
            "carrying" => counts.carrying_flags = found.count,
            "model" => counts.models.push(found),
            "system" => counts.systems.push(found),
            _ => counts.flags.push(found),
        }
    }
    Ok(counts)
}
