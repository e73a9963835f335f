//! How many crashes have an owner, and which.

use serde::Serialize;
use time::Date;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Kinds of events that are crashes.
const CRASH_KINDS: [&str; 4] = ["crash", "exception", "stack_overflow", "javascript"];

/// Crashes of an app in a period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct OwnerShares {
    /// All of them: reports of the kinds `crash`, `exception`, `stack_overflow` and `javascript`.
    pub crashes: i64,
    /// Those of groups without an owner.
    pub without_owner: i64,
    /// Those of groups whose owner is still to be looked for. They are in neither share.
    pub not_looked: i64,
    /// Groups with a report that cannot be read: the looks at them are repeated, or were given up.
    pub failing_groups: i64,
    /// `without_owner` in per cent of the crashes that were looked at; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 12.5)]
    pub share_without_owner: Option<f64>,
}

/// The groups and crashes of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnerCount {
    /// A user, a team or a mail address, as the file has it.
    #[schema(example = "@example/cart")]
    pub owner: String,
    /// Groups of its code with reports.
    pub groups: i64,
    /// Their crashes in the period.
    pub crashes: i64,
}

/// Counts the crashes of an app since a day.
#[expect(clippy::cast_precision_loss, reason = "a share")]
pub async fn measure_shares(tx: &mut TenantTx, app: &str, from: Date) -> Result<OwnerShares> {
    let kinds = CRASH_KINDS.map(str::to_owned);
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT coalesce(sum(d.reports), 0)::bigint AS "crashes!",
                  coalesce(sum(d.reports) FILTER (WHERE o.outcome <> 'owned'), 0)::bigint AS "without!",
                  coalesce(sum(d.reports) FILTER (WHERE o.outcome IS NULL), 0)::bigint AS "not_looked!",
                  (SELECT count(*) FROM group_owners f WHERE f.tenant = $1 AND f.app = $2 AND f.failures > 0) AS "failing!"
           FROM groups g
           JOIN group_day_counts d ON d.tenant = g.tenant AND d.group_id = g.id AND d.day >= $3
           LEFT JOIN group_owners o ON o.tenant = g.tenant AND o.group_id = coalesce(g.merged_into, g.id)
           WHERE g.tenant = $1 AND g.app = $2 AND g.kind = ANY ($4)"#,
        tenant,
        app,
        from,
        &kinds
    )
    .fetch_one(connection)
    .await?;
    let looked = row.crashes - row.not_looked;
    let share = |part: i64| (100.0 * part as f64 / looked as f64 * 100.0).round() / 100.0;
    Ok(OwnerShares {
        crashes: row.crashes,
        without_owner: row.without,
        not_looked: row.not_looked,
        failing_groups: row.failing,
        share_without_owner: (looked > 0).then(|| share(row.without)),
    })
}

/// Lists the owners of an app's groups, those with the most crashes since a day first.
pub async fn count_owners(tx: &mut TenantTx, app: &str, from: Date, limit: u32) -> Result<Vec<OwnerCount>> {
    let kinds = CRASH_KINDS.map(str::to_owned);
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        OwnerCount,
        r#"SELECT w.owner AS "owner!", count(*) AS "groups!", coalesce(sum(c.crashes), 0)::bigint AS "crashes!"
           FROM group_owners o
           JOIN groups g ON g.tenant = o.tenant AND g.id = o.group_id AND g.merged_into IS NULL AND g.reports > 0
           CROSS JOIN LATERAL unnest(o.owners) AS w (owner)
           CROSS JOIN LATERAL (
               SELECT sum(d.reports) AS crashes FROM groups m
               JOIN group_day_counts d ON d.tenant = m.tenant AND d.group_id = m.id AND d.day >= $3
               WHERE m.tenant = o.tenant AND (m.id = g.id OR m.merged_into = g.id) AND m.kind = ANY ($4)) c
           WHERE o.tenant = $1 AND o.app = $2 AND o.outcome = 'owned'
           GROUP BY w.owner ORDER BY 3 DESC, 2 DESC, w.owner COLLATE "C" LIMIT $5"#,
        tenant,
        app,
        from,
        &kinds,
        i64::from(limit)
    );
    Ok(rows.fetch_all(connection).await?)
}
