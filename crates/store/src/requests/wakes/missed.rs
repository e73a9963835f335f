//! Finds missed wakes: reports and rows of features that have not seen the present state of their symbols,
//! and that no request or job covers. There are none in normal operation; this search finds those of any
//! cause.

use super::{Arrived, system};
use crate::jobs::{self, Work};
use crate::number::{from_row, to_row32};
use crate::requests::FirstFailure;
use crate::symbol_waits::{MissedSymbols, SymbolPosition, SymbolWaits, list_symbol_waits};
use crate::{Result, Store, StoreError, Uuid};
use std::collections::BTreeMap;
use time::{Date, Duration};
use unslide_model::{DebugId, Owner};

/// Symbols of one question.
const MISSED_PAGE_ENTRIES: u32 = 500;

/// Symbols that are waited for, by their owner.
type Missed = BTreeMap<String, BTreeMap<Uuid, u64>>;

/// Adds a wake for all symbols that reports or rows of features wait for without a request. Returns the
/// number of waits that were found: one for a report and an image of its app, one for a tenant's day and a
/// system image, one for a row of a feature and an image. In normal operation that is 0.
///
/// # Errors
/// The first failure; one owner's failure does not keep the others' wakes.
pub async fn add_missed_wakes(store: &Store) -> Result<u64> {
    // The days that reports are kept of, as the catalogue has their tables.
    let days = sqlx::query_scalar!(
        r#"SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS "day!"
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
           WHERE i.inhparent = 'public.waits'::regclass AND c.relname ~ '_[0-9]{8}$' ORDER BY 1 DESC"#
    )
    .fetch_all(store.pool())
    .await?;
    let (mut missed, mut waits) = (Missed::new(), 0);
    for day in days {
        waits += collect_missed(store, Among::Day(day), &mut missed).await?;
    }
    waits += collect_missed(store, Among::SystemImages, &mut missed).await?;
    for of_feature in list_symbol_waits(store) {
        waits += collect_missed(store, Among::Feature(of_feature), &mut missed).await?;
    }
    let mut failures = FirstFailure::default();
    for (owner, symbols) in missed {
        let woken = match Owner::from_name(&owner) {
            Ok(owner) => add_wakes(store, &owner, symbols).await,
            Err(error) => Err(StoreError::corrupt("symbol_slots", error)),
        };
        if let Err(error) = woken {
            failures.record_failure(&owner, error)?;
        }
    }
    failures.into_result(waits)
}

/// Which waits are looked at.
#[derive(Clone, Copy)]
enum Among {
    /// Waits of reports that arrived on this day, which is a table of its own, for images of their apps.
    Day(Date),
    /// Those of all days for system images.
    SystemImages,
    /// Those of a feature.
    Feature(SymbolWaits),
}

/// Adds missed wakes, page by page; returns the number of waits.
async fn collect_missed(store: &Store, among: Among, missed: &mut Missed) -> Result<u64> {
    let (mut after, mut waits) = ((String::new(), Uuid::nil()), 0);
    loop {
        let rows = list_missed_page(store, among, &after.0, after.1).await?;
        let is_last = rows.len() < usize::try_from(MISSED_PAGE_ENTRIES).unwrap_or(usize::MAX);
        for row in rows {
            waits += from_row(row.waits);
            after = (row.owner.clone(), row.debug_id);
            missed.entry(row.owner).or_default().insert(row.debug_id, from_row(row.generation));
        }
        if is_last {
            return Ok(waits);
        }
    }
}

/// Returns the next symbols behind those of an owner and debug id.
async fn list_missed_page(
    store: &Store,
    among: Among,
    after_owner: &str,
    after_id: Uuid,
) -> Result<Vec<MissedSymbols>> {
    macro_rules! rows {
        ($from:literal, $($argument:expr),+) => {
            sqlx::query_as!(
                MissedSymbols,
                r#"SELECT owner AS "owner!", debug_id AS "debug_id!", generation AS "generation!", waits AS "waits!" FROM "#
                    + $from,
                $($argument),+
            )
            .fetch_all(store.pool())
            .await?
        };
    }
    let limit = to_row32(MISSED_PAGE_ENTRIES);
    Ok(match among {
        Among::Day(day) => {
            let begins = day.midnight().assume_utc();
            let ends = begins + Duration::DAY;
            rows!("unslide_waits_missed($1, $2, $3, $4, $5)", begins, ends, after_owner, after_id, limit)
        }
        Among::SystemImages => rows!("unslide_system_waits_missed($1, $2, $3)", after_owner, after_id, limit),
        Among::Feature(waits) => {
            let after = SymbolPosition { owner: after_owner, debug_id: after_id, limit: MISSED_PAGE_ENTRIES };
            (waits.list_missed)(store, after).await?
        }
    })
}

async fn add_wakes(store: &Store, owner: &Owner, symbols: BTreeMap<Uuid, u64>) -> Result<()> {
    let mut tx = store.owner(owner).await?;
    let of = |(debug_id, generation)| Arrived { debug_id: DebugId::from_uuid(debug_id), generation };
    let arrived: Vec<Arrived> = symbols.into_iter().map(of).collect();
    if tx.is_system() {
        system::record_arrived(&mut tx, &arrived).await?;
    } else {
        let wake =
            |one: Arrived| Work::Wake { debug_id: one.debug_id, generation: one.generation, from: None };
        let works: Vec<Work> = arrived.into_iter().map(wake).collect();
        jobs::add_all(&mut tx, &works, Duration::ZERO).await?;
    }
    tx.commit().await
}
