//! What tenants use, by day: CPU time, bytes of Kafka and of object storage, and what is stored for them.

use crate::column::{Nullable, TenantColumn, U64, words};
use crate::database::days::day;
use crate::number::to_row32;
use crate::{BatchTx, Result, Store};
use serde::Serialize;
use serde_json::{Value, json};
use time::{Date, Duration, OffsetDateTime};
use unslide_model::{ResourceUse, ResourceUses, TenantId};
use utoipa::ToSchema;

/// How long a day is kept.
pub const USES_KEPT_FOR: Duration = Duration::days(400);

/// What a symbolizer says that it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseStatement {
    /// The worker's name.
    pub worker: String,
    /// When it said so. A statement that is no newer than the worker's last one counts nothing.
    pub at: OffsetDateTime,
    /// What it used since its last statement.
    pub uses: ResourceUses,
}

/// What a tenant used in a day (UTC), or what no tenant caused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DailyUse {
    /// Slug of the tenant. Absent in the rest of the day: what no tenant caused, or what could not be told.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The day (UTC).
    #[schema(value_type = String, format = Date)]
    #[serde(with = "day")]
    pub day: Date,
    /// CPU time of all processes in microseconds.
    pub cpu_micros: u64,
    /// Bytes of records read from and written to Kafka, before compression and without replicas.
    pub kafka_bytes: u64,
    /// Requests to object storage.
    pub object_requests: u64,
    /// Bytes sent to and received from object storage.
    pub object_bytes: u64,
    /// Reports and events that were stored.
    pub stored: u64,
}

/// The amounts of a row.
macro_rules! amounts {
    ($row:ident) => {
        impl $row {
            /// Returns the amounts.
            #[must_use]
            pub fn amounts(&self) -> ResourceUse {
                ResourceUse {
                    cpu_micros: self.cpu_micros,
                    kafka_bytes: self.kafka_bytes,
                    object_requests: self.object_requests,
                    object_bytes: self.object_bytes,
                    stored: self.stored,
                }
            }
        }
    };
}
amounts!(DailyUse);
amounts!(UseSum);

/// Adds what this process used.
pub async fn add_uses(store: Store, uses: ResourceUses) -> Result<()> {
    if uses.is_empty() {
        return Ok(());
    }
    sqlx::query!("SELECT unslide_add_resource_uses(NULL, $1, $2)", store.now(), uses_json(&uses))
        .execute(store.pool())
        .await?;
    Ok(())
}

/// Adds what symbolizers used. The transaction has to enter another tenant before it continues.
pub async fn add_statements(tx: &mut BatchTx, statements: &[&UseStatement]) -> Result<()> {
    for statement in statements {
        let (connection, _) = tx.parts();
        sqlx::query!(
            "SELECT unslide_add_resource_uses($1, $2, $3)",
            statement.worker,
            statement.at,
            uses_json(&statement.uses)
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Which days and tenants to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsesFilter {
    /// The first day (UTC).
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// One tenant only.
    pub tenant: Option<TenantId>,
}

/// Returns what was used by tenant and day, the newest day first; the rest of a day is its last row. Begins after a day and
/// tenant; a day without a tenant begins after its rest.
pub async fn list_daily_uses(
    store: &Store,
    filter: &UsesFilter,
    after: Option<&(Date, Option<TenantId>)>,
    limit: u32,
) -> Result<Vec<DailyUse>> {
    let (after_day, after_tenant) = after.map(|(day, tenant)| (*day, tenant.as_ref())).unzip();
    Ok(sqlx::query_as!(
        DailyUse,
        r#"SELECT tenant AS "tenant!: Nullable<TenantColumn>", day AS "day!", cpu_micros AS "cpu_micros!: U64",
                  kafka_bytes AS "kafka_bytes!: U64", object_requests AS "object_requests!: U64",
                  object_bytes AS "object_bytes!: U64", stored AS "stored!: U64"
           FROM unslide_resource_uses($1, $2, $3, $4, $5, $6)"#,
        filter.from,
        filter.to,
        filter.tenant.as_ref().map(TenantId::as_str),
        after_day,
        after_tenant.flatten().map(TenantId::as_str),
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?)
}

words! {
    /// What a sum is of.
    pub enum SumKind {
        /// One tenant.
        Tenant = "tenant",
        /// The tenants that used less than those with rows of their own, together.
        Others = "others",
        /// What no tenant caused, or what could not be told.
        Rest = "rest",
    }
}

/// What was used in some days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseSum {
    /// What the sum is of.
    pub kind: SumKind,
    /// The tenant of [`SumKind::Tenant`].
    pub tenant: Option<TenantId>,
    /// Number of tenants.
    pub tenants: u64,
    /// See [`DailyUse::cpu_micros`].
    pub cpu_micros: u64,
    /// See [`DailyUse::kafka_bytes`].
    pub kafka_bytes: u64,
    /// See [`DailyUse::object_requests`].
    pub object_requests: u64,
    /// See [`DailyUse::object_bytes`].
    pub object_bytes: u64,
    /// See [`DailyUse::stored`].
    pub stored: u64,
}

/// Returns what was used in days: the tenants with the most CPU time, up to a number, the others together, and the rest.
pub async fn sum_uses(store: &Store, from: Date, to: Date, most: u32) -> Result<Vec<UseSum>> {
    Ok(sqlx::query_as!(
        UseSum,
        r#"SELECT kind AS "kind!: SumKind", tenant AS "tenant!: Nullable<TenantColumn>", tenants AS "tenants!: U64",
                  cpu_micros AS "cpu_micros!: U64", kafka_bytes AS "kafka_bytes!: U64",
                  object_requests AS "object_requests!: U64", object_bytes AS "object_bytes!: U64", stored AS "stored!: U64"
           FROM unslide_resource_use_sums($1, $2, $3)"#,
        from,
        to,
        to_row32(most)
    )
    .fetch_all(store.pool())
    .await?)
}

fn uses_json(uses: &ResourceUses) -> Value {
    let rows = uses.iter().map(|(tenant, used)| {
        json!({
            "tenant": tenant.as_ref().map(TenantId::as_str),
            "cpu_micros": used.cpu_micros,
            "kafka_bytes": used.kafka_bytes,
            "object_requests": used.object_requests,
            "object_bytes": used.object_bytes,
            "stored": used.stored,
        })
    });
    rows.collect()
}
