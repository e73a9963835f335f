//! The number of groups in a list.

use super::{GroupFilter, find_known, push_matching, push_scope};
use crate::{Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};

/// Counts the groups that match, at most `limit`.
pub async fn count_groups(tx: &mut TenantTx, filter: &GroupFilter, limit: u32) -> Result<i64> {
    let known = find_known(tx, filter).await?;
    let (connection, tenant, _) = tx.parts();
    let select = "SELECT count(*) FROM (SELECT FROM groups g WHERE g.tenant = ";
    let mut query = QueryBuilder::<Postgres>::new(select);
    query.push_bind(tenant.to_owned());
    push_matching(&mut query, filter, known);
    push_scope(&mut query, filter);
    // In the order of an index of the tenant.
    query.push(" ORDER BY g.last_seen DESC, g.id DESC LIMIT ").push_bind(i64::from(limit)).push(") c");
    Ok(query.build_query_scalar().fetch_one(connection).await?)
}
