//! Figures of all tenants beside their limits: which tenant is loud, near its limits or full.
//!
//! `symbol_bytes` and `pending_bytes` count the same as [`crate::usage`] does for one tenant.

use crate::column::{JsonColumn, TenantColumn, U64, words};
use crate::number::{to_row, to_row32};
use crate::tenants::{QuotaLimits, TenantStanding};
use crate::{Result, Store};
use serde::Serialize;
use unslide_model::TenantId;
use utoipa::ToSchema;

words! {
    /// The figure that tenants are ordered by, the largest first.
    pub enum FigureOrder {
        /// Reports of the last hour.
        Reports = "reports",
        /// Records that the indexer has deferred.
        Deferred = "deferred",
        /// Bytes of symbols and other files, stored and pending.
        Symbols = "symbols",
        /// Share of the limit on symbols that is used.
        Full = "full",
    }
}

/// The figures of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TenantFigures)]
pub struct TenantFigures {
    /// Slug of the tenant, its id in the API.
    #[schema(value_type = String)]
    pub id: TenantId,
    /// Display name of the tenant, for people.
    pub name: String,
    /// State of the tenant: `active` or `suspended`.
    #[schema(value_type = String)]
    pub state: TenantStanding,
    /// Its own limits; 0 represents the service's default.
    pub limits: QuotaLimits,
    /// Reports stored in the last hour. They are counted by the hour: of the hour before, the part that lies in the period
    /// counts. A sampled report counts as many as it represents.
    pub reports_last_hour: u64,
    /// Reports stored in the last 24 hours, counted in the same way.
    pub reports_last_day: u64,
    /// Records that the indexer has deferred because the tenant used more than its share.
    pub deferred_records: u64,
    /// Bytes of stored symbols and other files.
    pub symbol_bytes: u64,
    /// Bytes of uploads that are sent in parts or wait to be unpacked. They count against the limit.
    pub pending_bytes: u64,
    /// Limit on both together: the tenant's own, or the service's default.
    pub symbol_limit_bytes: u64,
    /// Uploads that wait to be unpacked or are being unpacked.
    pub uploads_waiting: u64,
    /// Keys that are in force.
    pub keys: u64,
    /// The figure of the order, for the position in the list. A share counts in millionths.
    #[serde(skip)]
    pub rank: u64,
}

impl TenantFigures {
    /// Returns the bytes that count against the limit on symbols.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.symbol_bytes.saturating_add(self.pending_bytes)
    }

    /// Returns the used share of the limit on symbols; more than 1 if the limit was lowered later.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn symbol_share(&self) -> f64 {
        self.used_bytes() as f64 / self.symbol_limit_bytes.max(1) as f64
    }
}

/// Returns the tenants that are not deleted in this order, by slug among equals, from the one after `after`
/// on: a rank and a slug. `symbol_limit` holds for tenants without a limit of their own. Each page reads the
/// figures of all tenants.
pub async fn list_figures(
    store: &Store,
    order: FigureOrder,
    symbol_limit: u64,
    after: Option<&(i64, TenantId)>,
    limit: u32,
) -> Result<Vec<TenantFigures>> {
    let (rank, slug) = after.map(|(rank, slug)| (*rank, slug.as_str())).unzip();
    let counted = store.tables().into_iter().filter_map(|table| Some((table.name, table.counted_bytes?)));
    let (tables, columns): (Vec<&str>, Vec<&str>) = counted.unzip();
    Ok(sqlx::query_as!(
        TenantFigures,
        r#"SELECT r.slug AS "id!: TenantColumn", r.name AS "name!", r.state AS "state!: TenantStanding",
                  r.limits AS "limits!: JsonColumn<QuotaLimits>", r.reports_last_hour AS "reports_last_hour!: U64",
                  r.reports_last_day AS "reports_last_day!: U64", r.deferred_records AS "deferred_records!: U64",
                  r.symbol_bytes AS "symbol_bytes!: U64", r.pending_bytes AS "pending_bytes!: U64",
                  r.symbol_limit AS "symbol_limit_bytes!: U64", r.uploads_waiting AS "uploads_waiting!: U64",
                  r.keys AS "keys!: U64", r.rank AS "rank!: U64"
           FROM (SELECT f.*, s.symbol_bytes, l.symbol_limit,
                        CASE $2 WHEN 'deferred' THEN f.deferred_records
                                WHEN 'symbols' THEN s.symbol_bytes + f.pending_bytes
                                WHEN 'full' THEN least(
                                    floor((s.symbol_bytes + f.pending_bytes) * 1000000::numeric / l.symbol_limit),
                                    9223372036854775807)::bigint
                                ELSE f.reports_last_hour END AS rank
                 FROM unslide_tenant_figures($1) f
                 JOIN unslide_stored_bytes($7, $8) AS s (tenant, symbol_bytes) ON s.tenant = f.slug
                 CROSS JOIN LATERAL (
                     SELECT least(coalesce(nullif((f.limits ->> 'symbol_bytes')::numeric, 0), $3::bigint), 9223372036854775807)::bigint
                         AS symbol_limit) l) r
           WHERE $4::bigint IS NULL OR r.rank < $4 OR r.rank = $4 AND r.slug > $5::text
           ORDER BY r.rank DESC, r.slug LIMIT $6"#,
        store.clock().now(),
        order.as_str(),
        to_row(symbol_limit).max(1),
        rank,
        slug,
        i64::from(to_row32(limit)),
        &tables as &[&str],
        &columns as &[&str]
    )
    .fetch_all(store.pool())
    .await?)
}
