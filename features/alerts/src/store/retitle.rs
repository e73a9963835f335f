//! Events after texts of stored reports were removed: their headlines must not keep a former title.

use super::events::GROUP_PAGE;
use unslide_store::{Result, TenantTx};

/// The headline of a group that does not exist any more.
const FORMER_GROUP: &str = "A bug whose texts were removed";

/// Gives the events and firings of a tenant about groups the titles that the groups have now, unless they name them already. What was
/// sent stays with its receiver.
///
/// # Errors
/// The database fails.
pub async fn retitle_events(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_events e SET headline = n.title
         FROM (SELECT o.cause, o.rule, coalesce(g.title, $3) AS title
               FROM alert_events o
               LEFT JOIN groups g ON g.tenant = o.tenant AND $2 || g.id = o.path
               WHERE o.tenant = $1 AND starts_with(o.path, $2) AND position(coalesce(g.title, $3) IN o.headline) = 0) n
         WHERE e.tenant = $1 AND e.cause = n.cause AND e.rule = n.rule",
        tenant,
        GROUP_PAGE,
        FORMER_GROUP
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE alert_firings f SET headline = n.title
         FROM (SELECT o.id, coalesce(g.title, $3) AS title
               FROM alert_firings o
               LEFT JOIN groups g ON g.tenant = o.tenant AND $2 || g.id = o.path
               WHERE o.tenant = $1 AND starts_with(o.path, $2) AND position(coalesce(g.title, $3) IN o.headline) = 0) n
         WHERE f.tenant = $1 AND f.id = n.id",
        tenant,
        GROUP_PAGE,
        FORMER_GROUP
    )
    .execute(connection)
    .await?;
    Ok(())
}
