//! The location of a tenant's data among several cells.

use crate::column::{JsonColumn, TenantColumn, U64, words};
use crate::tenants::{QuotaLimits, TenantRecord, TenantStanding, announce_tenant, limits_json};
use crate::{BatchTx, OwnerTx, Result, StoreError, TenantTx};
use time::Duration;
use unslide_model::TenantId;

words! {
    /// The part of this cell in serving a tenant.
    pub enum TenantPlace {
        /// This cell serves it.
        Here = "here",
        /// No row of it may change for a moment: its last changes are being copied to another cell.
        Leaving = "leaving",
        /// Another cell serves it.
        Moved = "moved",
        /// Its rows are being copied to this cell.
        Arriving = "arriving",
    }
}

/// The location of a tenant's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantLocation {
    /// The part of this cell.
    pub place: TenantPlace,
    /// The prefix of the topics of the cell that serves it. Set if it is [`TenantPlace::Moved`].
    pub moved_to: Option<String>,
}

/// A tenant of this cell, before a transaction writes rows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnteredTenant {
    /// Whether the tenant is served.
    pub standing: TenantStanding,
    /// The part of this cell. If it is not [`TenantPlace::Here`], no record of the tenant may be stored, also if it is deleted here.
    pub place: TenantPlace,
}

impl EnteredTenant {
    /// Returns true if another cell may be storing records of the tenant.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.place != TenantPlace::Here
    }
}

/// Goes on in this tenant, as [`BatchTx::enter_tenant`] does, and returns how its records are to be handled; `None` if there is no
/// such tenant. All that is one statement. From here on to the end of the transaction a deletion of the tenant waits, and so does a
/// move that waits for its writers.
///
/// # Errors
/// The database fails.
pub async fn enter_tenant<'t>(
    tx: &'t mut BatchTx,
    tenant: &TenantId,
) -> Result<(&'t mut TenantTx, Option<EnteredTenant>)> {
    let (connection, _) = tx.parts();
    let row = sqlx::query_as!(
        EnteredTenant,
        r#"SELECT state AS "standing!: TenantStanding", place AS "place!: TenantPlace" FROM unslide_enter_tenant($1)"#,
        tenant.as_str()
    );
    let handling = row.fetch_optional(connection).await?;
    Ok((tx.mark_entered(tenant), handling))
}

/// Returns the location of the data of the transaction's tenant; `None` if there is no such tenant. A freeze that is over counts as
/// [`TenantPlace::Here`].
///
/// # Errors
/// The database fails.
pub async fn read_location(tx: &mut OwnerTx) -> Result<Option<TenantLocation>> {
    let (connection, slug, _) = tx.parts();
    let row = sqlx::query_as!(
        TenantLocation,
        r#"SELECT CASE WHEN place = 'leaving' AND frozen_until <= clock_timestamp() THEN 'here' ELSE place END AS "place!: TenantPlace",
                  moved_to
           FROM tenants WHERE slug = $1"#,
        slug
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Lets no row of the transaction's tenant change for a time, from the commit on. Transactions that have changed some by then
/// may still commit: wait for them with [`wait_for_writers`]. Returns false if the tenant is not [`TenantPlace::Here`].
///
/// # Errors
/// The database fails.
pub async fn freeze_tenant(tx: &mut TenantTx, lifetime: Duration) -> Result<bool> {
    let (connection, slug, _) = tx.parts();
    let frozen = sqlx::query!(
        "UPDATE tenants SET place = 'leaving', frozen_until = clock_timestamp() + make_interval(secs => $2)
         WHERE slug = $1 AND (place = 'here' OR place = 'leaving' AND frozen_until <= clock_timestamp())",
        slug,
        lifetime.as_seconds_f64()
    );
    Ok(frozen.execute(connection).await?.rows_affected() == 1)
}

/// Lets rows of the transaction's tenant change again after [`freeze_tenant`], if it has not moved.
///
/// # Errors
/// The database fails.
pub async fn thaw_tenant(tx: &mut TenantTx) -> Result<()> {
    let (connection, slug, _) = tx.parts();
    let thawed =
        "UPDATE tenants SET place = 'here', frozen_until = NULL WHERE slug = $1 AND place = 'leaving'";
    sqlx::query(thawed).bind(slug).execute(connection).await?;
    Ok(())
}

/// Waits until no other transaction that has changed rows of the transaction's tenant runs, and keeps new ones waiting until
/// this one ends.
///
/// # Errors
/// The database fails, or the wait takes longer than a statement may.
pub async fn wait_for_writers(tx: &mut TenantTx) -> Result<()> {
    let (connection, slug, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('tenant ' || $1, 0))")
        .bind(slug)
        .execute(connection)
        .await?;
    Ok(())
}

/// Records that the cell with this prefix of topics serves the transaction's tenant, and announces it: its records are
/// passed on from then on. Returns false if the freeze is over.
///
/// # Errors
/// The database fails.
pub async fn set_moved(tx: &mut TenantTx, topic_prefix: &str) -> Result<bool> {
    tx.allow_erasure().await?;
    change_place(tx, TenantPlace::Leaving, TenantPlace::Moved, Some(topic_prefix)).await
}

/// Records that the copy of the transaction's tenant is complete and this cell serves it, and announces it. Returns false if it is
/// not [`TenantPlace::Arriving`].
///
/// # Errors
/// The database fails.
pub async fn set_arrived(tx: &mut TenantTx) -> Result<bool> {
    tx.allow_erasure().await?;
    change_place(tx, TenantPlace::Arriving, TenantPlace::Here, None).await
}

async fn change_place(
    tx: &mut TenantTx,
    from: TenantPlace,
    to: TenantPlace,
    moved_to: Option<&str>,
) -> Result<bool> {
    let (connection, slug, now) = tx.parts();
    let changed = sqlx::query_as!(
        TenantRecord,
        r#"UPDATE tenants SET place = $3, moved_to = $4, frozen_until = NULL, version = version + 1, updated_at = $5
           WHERE slug = $1 AND place = $2 AND (frozen_until IS NULL OR frozen_until > clock_timestamp())
           RETURNING slug AS "id!: TenantColumn", name AS "name!", state AS "state!: TenantStanding",
                     limits AS "limits!: JsonColumn<QuotaLimits>", version AS "version!: U64",
                     created_at AS "created_at!", updated_at AS "updated_at!""#,
        slug,
        from.as_str(),
        to.as_str(),
        moved_to,
        now
    );
    let Some(tenant) = changed.fetch_optional(connection).await? else { return Ok(false) };
    announce_tenant(tx, &tenant).await?;
    Ok(true)
}

/// Adds the transaction's tenant to this cell as another cell has it, while its rows are being copied. Adds nothing if it is
/// there already.
///
/// # Errors
/// [`StoreError::Corrupt`] if this cell serves a tenant of that name, or the database fails.
pub async fn add_arriving(tx: &mut TenantTx, tenant: &TenantRecord) -> Result<()> {
    let limits = limits_json(&tenant.limits)?;
    let (connection, slug, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO tenants (slug, name, state, limits, version, created_at, updated_at, place)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'arriving') ON CONFLICT DO NOTHING",
        slug,
        tenant.name,
        tenant.state.as_str(),
        limits,
        crate::number::to_row(tenant.version),
        tenant.created_at,
        now
    )
    .execute(&mut *connection)
    .await?;
    match read_location(tx).await? {
        Some(TenantLocation { place: TenantPlace::Arriving, .. }) => Ok(()),
        _ => {
            Err(StoreError::corrupt("tenants", "a cell to which a tenant moves has one of that name already"))
        }
    }
}
