//! A tenant's own rules of grouping, and how far its stored reports are grouped by them.

use crate::column::{U64, words};
use crate::cursor::ReportCursor;
use crate::jobs::{self, Work};
use crate::number::to_row;
use crate::tenants::{self, TenantStanding};
use crate::{OwnerTx, Result, TenantTx};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;

/// How long after a change reports may still be stored that were symbolicated by the rules before. A second
/// pass looks for them after this time.
pub const SETTLING_INTERVAL: Duration = Duration::minutes(2);
/// How long before the change such a report may have arrived.
const LATE_ARRIVAL_LIMIT: Duration = Duration::hours(1);

words! {
    /// How far stored reports are grouped by a tenant's rules.
    pub enum RegroupStatus {
        /// They are gone through.
        Running = "running",
        /// All were gone through. Those that arrived about when the rules changed are looked at once more.
        Settling = "settling",
        /// They are done.
        Done = "done",
    }
}

/// A tenant's rules, and how far its stored reports are grouped by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TenantGroupingRules {
    /// Counts the changes, from 1.
    pub version: u64,
    /// The rules, one a line; empty for none.
    pub text: String,
    /// The rules before these, to undo the change; empty for none.
    pub previous: String,
    /// Id of the key that changed them last.
    pub changed_by: String,
    /// Time of the last change (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
    /// `running` while the service checks stored reports; `settling` while reports that arrived around the time
    /// of the change may still come; then `done`.
    #[schema(value_type = String)]
    pub status: RegroupStatus,
    /// Number of reports that were checked since the change.
    pub looked: u64,
    /// Number of these reports that moved to another group.
    pub moved: u64,
    /// Reports that keep their group because their stored body was shortened or could not be read.
    pub unread: u64,
    /// The cursor of the next page.
    #[serde(skip)]
    pub(crate) last: Option<String>,
}

impl TenantGroupingRules {
    /// Returns the last report of the page before.
    pub(crate) fn last_cursor(&self) -> Option<ReportCursor> {
        self.last.as_deref().and_then(|last| last.parse().ok())
    }
}

/// Returns the tenant's rules; `None` if it never had any.
pub async fn get(tx: &mut OwnerTx) -> Result<Option<TenantGroupingRules>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        TenantGroupingRules,
        r#"SELECT version AS "version: U64", text, previous, changed_by, changed_at,
                  status AS "status: RegroupStatus", looked AS "looked: U64", moved AS "moved: U64", unread AS "unread: U64", last
           FROM grouping_rules WHERE tenant = $1"#,
        tenant
    )
    .fetch_optional(connection)
    .await?)
}

/// Changes the tenant's rules, announces them to the workers, and begins to move stored reports. Returns the
/// rules and the outbox row of the announcement; `None` if there is no such tenant. If the same rules are set
/// again, they move reports that a replay has put elsewhere, and the rules before them do not change.
pub async fn set_rules(
    tx: &mut TenantTx,
    actor: &str,
    text: &str,
) -> Result<Option<(TenantGroupingRules, i64)>> {
    let Some(tenant) =
        tenants::lock_tenant(tx).await?.filter(|tenant| tenant.state != TenantStanding::Deleted)
    else {
        return Ok(None);
    };
    let (connection, slug, now) = tx.parts();
    let rules = sqlx::query_as!(
        TenantGroupingRules,
        r#"INSERT INTO grouping_rules AS g (tenant, version, text, changed_by, changed_at, status)
           VALUES ($1, 1, $2, $3, $4, 'running')
           ON CONFLICT (tenant) DO UPDATE
           SET version = g.version + 1, text = EXCLUDED.text,
               previous = CASE WHEN g.text = EXCLUDED.text THEN g.previous ELSE g.text END, changed_by = EXCLUDED.changed_by,
               changed_at = EXCLUDED.changed_at, status = 'running', last = NULL, looked = 0, moved = 0, unread = 0
           RETURNING version AS "version: U64", text, previous, changed_by, changed_at,
                     status AS "status: RegroupStatus", looked AS "looked: U64", moved AS "moved: U64", unread AS "unread: U64", last"#,
        slug,
        text,
        actor,
        now
    )
    .fetch_one(connection)
    .await?;
    let changed = tenants::change_tenant(tx, &tenant.name, tenant.state, &tenant.limits).await?;
    let Some((_, announcement)) = changed else { return Ok(None) };
    jobs::add_job(tx, &Work::Regroup { version: rules.version }).await?;
    Ok(Some((rules, announcement)))
}

/// Counts of one page of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegroupCounts {
    pub(crate) looked: u64,
    pub(crate) moved: u64,
    pub(crate) unread: u64,
}

/// Records the progress through the reports, in the transaction that moves them. Returns false if the rules
/// changed or another worker has gone on in between: the caller must roll back then. `last` is the last
/// report of the page; `None` if no report is left.
pub(crate) async fn record_progress(
    tx: &mut TenantTx,
    rules: &TenantGroupingRules,
    last: Option<&ReportCursor>,
    counts: RegroupCounts,
) -> Result<bool> {
    let (status, next) = match (last, rules.status) {
        (Some(last), status) => (status, Some(last.to_string())),
        // Reports that were on their way when the rules changed.
        (None, RegroupStatus::Running) => (RegroupStatus::Settling, Some(rules.first_of_late().to_string())),
        (None, _) => (RegroupStatus::Done, None),
    };
    let (connection, tenant, _) = tx.parts();
    let done = sqlx::query!(
        "UPDATE grouping_rules
         SET status = $5, last = $6, looked = looked + $7, moved = moved + $8, unread = unread + $9
         WHERE tenant = $1 AND version = $2 AND status = $3 AND last IS NOT DISTINCT FROM $4",
        tenant,
        to_row(rules.version),
        rules.status.as_str(),
        rules.last.as_deref(),
        status.as_str(),
        next,
        to_row(counts.looked),
        to_row(counts.moved),
        to_row(counts.unread)
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

impl TenantGroupingRules {
    /// Returns the position at which the second pass begins.
    fn first_of_late(&self) -> ReportCursor {
        ReportCursor::after_report(self.changed_at - LATE_ARRIVAL_LIMIT, unslide_model::ReportId([0; 16]), 0)
    }
}
