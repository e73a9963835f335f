//! The apps that reports came from.

use crate::{Result, TenantTx};
use time::Date;

/// An app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Bundle identifier; empty for reports that name none.
    pub app: String,
    /// How many versions reports came from.
    pub versions: i64,
    /// How many reports.
    pub reports: i64,
    /// The day of the first one (UTC).
    pub first_day: Date,
    /// The day of the last one (UTC).
    pub last_day: Date,
}

/// The tenant's apps, by name.
///
/// # Errors
/// Where the database fails.
pub async fn list(tx: &mut TenantTx) -> Result<Vec<App>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        App,
        r#"SELECT app, count(DISTINCT version) FILTER (WHERE reports > 0) AS "versions!", sum(reports)::bigint AS "reports!",
                  min(day) FILTER (WHERE reports > 0) AS "first_day!", max(day) FILTER (WHERE reports > 0) AS "last_day!"
           FROM app_days WHERE tenant = $1 GROUP BY app HAVING sum(reports) > 0 ORDER BY app"#,
        tenant
    )
    .fetch_all(connection)
    .await?)
}
