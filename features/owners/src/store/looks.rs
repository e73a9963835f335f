//! Looks for owners: which groups are due, and what was found. A group is due while it was asked for more often than it was
//! answered, so that a look that something has made old in the meantime does not count as the last one.

use super::apps::OwnersApp;
use super::files::OwnersFileId;
use super::groups::{OwnerLook, read_explanation};
use time::Duration;
use unslide_api::feature::tenant_turns::grow_pause;
use unslide_model::{ReportId, TenantId};
use unslide_owners_formats::OwnerOutcome;
use unslide_store::groups::labels::set_labels;
use unslide_store::sql::{TenantColumn, to_row32};
use unslide_store::{GroupId, Result, Store, TenantTx};

/// The prefix of the labels of groups.
pub const LABEL_PREFIX: &str = "owner:";
/// The label of groups without an owner. No owner has this name.
pub const NO_OWNER_LABEL: &str = "owner:none";
/// How long a process looks at the groups that it has claimed. After that another one may.
const LOOK_LEASE: Duration = Duration::minutes(5);
/// The pause after the first look that failed. It doubles up to the limit.
const LOOK_RETRY_BACKOFF: Duration = Duration::seconds(30);
const LOOK_RETRY_BACKOFF_LIMIT: Duration = Duration::hours(6);
/// Looks in a row that fail until the group is given up: 20 hours after the first. A change of its reports begins again.
pub const LOOK_FAILURES_LIMIT: u32 = 13;
/// Groups that one step makes due after a change of files.
const SWEEP_LIMIT: i64 = 1_000;

/// A group that is due.
#[derive(Clone, Debug)]
pub struct DueGroup {
    pub group: GroupId,
    pub app: String,
    /// The number of looks that were asked for so far: the look answers these.
    pub needed: i64,
    pub failures: u32,
    /// True if a report is to be read, else what the last look has read still holds.
    pub needs_report: bool,
    /// The culprit of the group, and the version of its newest report.
    pub culprit: String,
    pub newest_version: String,
    /// The last look, if one has ended.
    pub before: Option<OwnerLook>,
}

impl OwnerLook {
    /// Returns the labels of a group with this owner.
    fn list_labels(&self) -> Vec<String> {
        match self.outcome {
            OwnerOutcome::Owned => self.owners.iter().map(|owner| format!("{LABEL_PREFIX}{owner}")).collect(),
            _ => vec![NO_OWNER_LABEL.to_owned()],
        }
    }
}

/// Returns tenants with groups that are due, by name from the one after `after` on, so that each has its turn however much
/// another one has to do.
pub async fn list_due_tenants(store: &Store, after: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_owners_due($1, $2, $3) -- refresh"#,
        store.now(),
        after,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Makes the next groups of an app due after its files or rewrites have changed. Returns true if there is more to do.
pub async fn make_groups_due(tx: &mut TenantTx) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let next = sqlx::query!(
        r#"SELECT app, epoch, swept_to AS "swept_to: GroupId",
                  coalesce(fence < pg_snapshot_xmin(pg_current_snapshot()), false) AS "is_visible!",
                  coalesce(fence >= pg_snapshot_xmax(pg_current_snapshot()), true) AS "is_new!"
           FROM owner_apps WHERE tenant = $1 AND swept_epoch < epoch ORDER BY changed_at, app COLLATE "C" LIMIT 1
           FOR NO KEY UPDATE SKIP LOCKED"#,
        tenant
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(next) = next else { return Ok(false) };
    // A number that no transaction has reached is of the server that the database was restored from.
    if next.is_new {
        // Transactions that do not know of the app yet may have created groups: wait for their end.
        sqlx::query!(
            "UPDATE owner_apps SET fence = pg_current_xact_id() WHERE tenant = $1 AND app = $2",
            tenant,
            next.app
        )
        .execute(connection)
        .await?;
        return Ok(true);
    }
    if !next.is_visible {
        return Ok(true);
    }
    // Groups are locked before their rows here, as whoever deletes a group does.
    let swept = sqlx::query_scalar!(
        r#"INSERT INTO group_owners AS o (tenant, group_id, app, needed, cause_needed, next_look_at)
           SELECT $1, g.id, g.app, 1, 1, $4
           FROM (SELECT id, app FROM groups WHERE tenant = $1 AND app = $2
                   AND id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
                 ORDER BY id LIMIT $5 FOR KEY SHARE) g
           ON CONFLICT (tenant, group_id) DO UPDATE SET needed = o.needed + 1, next_look_at = $4
           RETURNING group_id AS "group: GroupId""#,
        tenant,
        next.app,
        next.swept_to as Option<GroupId>,
        now,
        SWEEP_LIMIT
    )
    .fetch_all(&mut *connection)
    .await?;
    let is_end = i64::try_from(swept.len()).unwrap_or(SWEEP_LIMIT) < SWEEP_LIMIT;
    sqlx::query!(
        "UPDATE owner_apps SET swept_to = CASE WHEN $4::boolean THEN NULL ELSE $3::uuid END, swept_epoch = CASE WHEN $4 THEN epoch ELSE swept_epoch END
         WHERE tenant = $1 AND app = $2",
        tenant,
        next.app,
        swept.iter().max().copied() as Option<GroupId>,
        is_end
    )
    .execute(connection)
    .await?;
    Ok(!is_end)
}

/// Claims groups that are due for this process.
pub async fn claim_groups(tx: &mut TenantTx, limit: u16) -> Result<Vec<DueGroup>> {
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        r#"UPDATE group_owners o SET next_look_at = $3
           FROM (SELECT group_id FROM group_owners WHERE tenant = $1 AND needed > done AND next_look_at <= $2
                 ORDER BY next_look_at, group_id LIMIT $4 FOR UPDATE SKIP LOCKED) d
           JOIN groups g ON g.tenant = $1 AND g.id = d.group_id
           WHERE o.tenant = $1 AND o.group_id = d.group_id
           RETURNING o.group_id AS "group: GroupId", o.app, o.needed, o.failures, o.outcome, o.owners, o.explanation,
                     o.file_id AS "file_id: OwnersFileId", o.report_id, o.variant, o.revision, o.culprit AS read_culprit,
                     o.cause_needed > o.done AS "is_renewed!", g.culprit, g.last_version"#,
        tenant,
        now,
        now + LOOK_LEASE,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let due = rows.into_iter().map(|row| {
        let report = row.report_id.zip(row.variant).zip(row.revision);
        let before = row.outcome.as_deref().and_then(OwnerOutcome::parse).map(|outcome| OwnerLook {
            outcome,
            owners: row.owners,
            explanation: read_explanation(row.explanation),
            file: row.file_id,
            report: report.map(|((id, variant), revision)| {
                (ReportId(*id.as_bytes()), variant.unsigned_abs(), revision.unsigned_abs())
            }),
            // An earlier release has kept none.
            culprit: row.read_culprit.unwrap_or_else(|| row.culprit.clone()),
        });
        DueGroup {
            group: row.group,
            app: row.app,
            needed: row.needed,
            failures: row.failures.unsigned_abs(),
            needs_report: row.is_renewed || before.as_ref().is_none_or(|look| look.culprit != row.culprit),
            culprit: row.culprit,
            newest_version: row.last_version,
            before,
        }
    });
    Ok(due.collect())
}

/// Looks with the result of the look before.
#[derive(Clone, Debug, Default)]
pub struct UnchangedLooks {
    groups: Vec<GroupId>,
    needed: Vec<i64>,
    epochs: Vec<i64>,
    files: Vec<Option<OwnersFileId>>,
}

impl UnchangedLooks {
    /// Adds a group of an app that was read at this epoch.
    pub fn add_look(&mut self, due: &DueGroup, app: &OwnersApp, file: Option<OwnersFileId>) {
        self.groups.push(due.group);
        self.needed.push(due.needed);
        self.epochs.push(app.epoch);
        self.files.push(file);
    }

    /// Ends these looks with one statement, as [`finish_look`] does for others.
    pub async fn end_looks(&self, tx: &mut TenantTx) -> Result<()> {
        if self.groups.is_empty() {
            return Ok(());
        }
        let (connection, tenant, now) = tx.parts();
        sqlx::query!(
            "UPDATE group_owners o SET done = n.needed, failures = 0, file_id = n.file, looked_at = $6
             FROM (SELECT u.* FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::uuid[]) AS u (id, needed, epoch, file)
                   JOIN group_owners g ON g.tenant = $1 AND g.group_id = u.id ORDER BY u.id FOR UPDATE OF g) n
             WHERE o.tenant = $1 AND o.group_id = n.id AND o.done < n.needed
               AND EXISTS (SELECT FROM owner_apps a WHERE a.tenant = $1 AND a.app = o.app AND a.epoch = n.epoch)",
            tenant,
            &self.groups as &[GroupId],
            &self.needed,
            &self.epochs,
            &self.files as &[Option<OwnersFileId>],
            now
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// Stores what a look has found, unless a newer look has ended or the files or rewrites have changed since `app` was read.
/// Returns true if it is stored.
pub async fn finish_look(
    tx: &mut TenantTx,
    due: &DueGroup,
    app: &OwnersApp,
    found: &OwnerLook,
) -> Result<bool> {
    let explanation = serde_json::to_value(&found.explanation).unwrap_or_default();
    let report = found.report;
    let (connection, tenant, now) = tx.parts();
    // The group is locked first, as by its deletion.
    let group = sqlx::query_scalar!(
        r#"SELECT 1 AS "found!" FROM groups WHERE tenant = $1 AND id = $2 FOR KEY SHARE"#,
        tenant,
        due.group as GroupId
    );
    if group.fetch_optional(&mut *connection).await?.is_none() {
        return Ok(false);
    }
    let stored = sqlx::query!(
        "UPDATE group_owners SET done = $3, failures = 0, outcome = $5, owners = $6, explanation = $7, file_id = $8,
             report_id = $9, variant = $10, revision = $11, looked_at = $12, culprit = $13
         WHERE tenant = $1 AND group_id = $2 AND done < $3
           AND EXISTS (SELECT FROM owner_apps a WHERE a.tenant = $1 AND a.app = group_owners.app AND a.epoch = $4)",
        tenant,
        due.group as GroupId,
        due.needed,
        app.epoch,
        found.outcome.as_str(),
        &found.owners,
        explanation,
        found.file as Option<OwnersFileId>,
        report.map(|(id, ..)| id.uuid()),
        report.map(|(_, variant, _)| to_row32(variant)),
        report.map(|(.., revision)| to_row32(revision)),
        now,
        found.culprit
    )
    .execute(connection)
    .await?;
    if stored.rows_affected() == 0 {
        return Ok(false);
    }
    let is_known = |before: &OwnerLook| before.outcome == found.outcome && before.owners == found.owners;
    if !due.before.as_ref().is_some_and(is_known) {
        set_labels(tx, due.group, LABEL_PREFIX, &found.list_labels()).await?;
    }
    Ok(true)
}

/// Records a look that failed. The group stays due after a pause, which grows, until it is given up: then it keeps the owner that is
/// known. Returns true if it is given up.
pub async fn record_failed_look(tx: &mut TenantTx, due: &DueGroup) -> Result<bool> {
    if due.failures + 1 >= LOOK_FAILURES_LIMIT {
        return give_up(tx, due).await;
    }
    let pause = grow_pause(LOOK_RETRY_BACKOFF, 2, due.failures, LOOK_RETRY_BACKOFF_LIMIT);
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE group_owners SET failures = failures + 1, next_look_at = $4
         WHERE tenant = $1 AND group_id = $2 AND done < $3 AND needed = $3",
        tenant,
        due.group as GroupId,
        due.needed,
        now + pause
    )
    .execute(connection)
    .await?;
    Ok(false)
}

/// Ends the looks at a group that cannot be read. The next look reads it again: that of the next file of owners, or of a change of
/// its reports.
async fn give_up(tx: &mut TenantTx, due: &DueGroup) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    // The group is locked first, as by its deletion.
    let group = sqlx::query_scalar!(
        r#"SELECT 1 AS "found!" FROM groups WHERE tenant = $1 AND id = $2 FOR KEY SHARE"#,
        tenant,
        due.group as GroupId
    );
    if group.fetch_optional(&mut *connection).await?.is_none() {
        return Ok(false);
    }
    let given_up = sqlx::query!(
        "UPDATE group_owners SET done = $3, cause_needed = $3 + 1, failures = failures + 1, looked_at = $4,
             outcome = coalesce(outcome, $5)
         WHERE tenant = $1 AND group_id = $2 AND done < $3 AND needed = $3",
        tenant,
        due.group as GroupId,
        due.needed,
        now,
        OwnerOutcome::Unreadable.as_str()
    )
    .execute(connection)
    .await?;
    let is_given_up = given_up.rows_affected() > 0;
    if is_given_up && due.before.is_none() {
        set_labels(tx, due.group, LABEL_PREFIX, &[NO_OWNER_LABEL.to_owned()]).await?;
    }
    Ok(is_given_up)
}
