//! The switch: no row of the tenant may change for a moment, while the rest is copied and compared.
//!
//! The transaction of the new cell commits after that of the old one. So rows that are due appear in the new cell when it serves the
//! tenant, and never in both. If the process ends between the two, both cells refuse changes until the next one repeats the copy.

use crate::catalog::{Tables, count_rows, quote_name, quote_text};
use crate::error::During;
use crate::notes::{MOST_NOTES, RowNotes, compare_counts, compare_early, insert_noted};
use crate::objects::{OBJECTS_TIME_LIMIT, Objects};
use crate::observer::seconds_since;
use crate::partitions::prepare_partitions;
use crate::piping::{Side, execute_statement, pipe_rows};
use crate::places::Places;
use crate::sessions::{cancel_at, read_session};
use crate::transactions::{Reads, TimeLimits, begin_owner, commit_tx};
use crate::{Move, Step, TenantMoveError};
use serde_json::json;
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use unslide_store::{TenantTx, audit, place};

/// Time for which transactions that had begun before the freeze are waited for. Others wait as long.
const WRITERS_TIMEOUT: Duration = Duration::from_secs(4);
/// A part of the freeze that is left for the commits.
const COMMIT_RESERVE: u32 = 5;
/// A part of the freeze that is left for the end of a copy that is late, before that.
const CANCEL_RESERVE: u32 = 10;
/// The tables that are copied before are counted while rows are frozen, too, if it took at most this long before.
const COUNT_TIME_LIMIT: Duration = Duration::from_secs(1);
/// Numbers that the new cell's sequences skip: other tenants use them at the same time.
const SKIPPED_NUMBERS: i64 = 1_000;

/// The result of an attempt to switch.
pub(crate) enum HandOver {
    /// The new cell serves the tenant.
    Done,
    /// The old cell serves the tenant, and another attempt may succeed.
    Failed(TenantMoveError),
}

/// Freezes the tenant's rows, copies the rest, and switches.
pub(crate) async fn hand_over(
    job: &Move<'_>,
    tables: &Tables,
    objects: &mut Objects,
) -> Result<HandOver, TenantMoveError> {
    prepare_partitions(job, tables).await?;
    let begin = Instant::now();
    if let Err(error) = compare_early(job, tables).await {
        return Ok(HandOver::Failed(error));
    }
    let counts_early = begin.elapsed() <= COUNT_TIME_LIMIT;
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let is_frozen = place::freeze_tenant(&mut tx, freeze_lifetime(job)?).await?;
    commit_tx(tx).await?;
    if !is_frozen {
        return Err(TenantMoveError::Other(format!(
            "the cell {} no longer serves the tenant",
            job.from.name
        )));
    }
    let begin = Instant::now();
    job.reach(Step::Frozen).await;
    let end = job.limits.freeze - job.limits.freeze / COMMIT_RESERVE;
    let copy_end = Instant::now() + end - job.limits.freeze / CANCEL_RESERVE;
    let switched = timeout(end, Box::pin(switch_cells(job, tables, counts_early, objects, copy_end))).await;
    let failed = match switched {
        Ok(Ok(())) => {
            job.say(&format!("frozen: {}; the cell {} serves the tenant", seconds_since(begin), job.to.name));
            return Ok(HandOver::Done);
        }
        Ok(Err(error)) => error,
        Err(_) => TenantMoveError::Late { detail: format!("more than {} s", end.as_secs_f64()) },
    };
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    place::thaw_tenant(&mut tx).await?;
    commit_tx(tx).await?;
    let places = Places::read(job).await?;
    if places.is_handed_over(job) {
        if places.is_arriving() {
            finish_switch(job).await?;
        }
        return Ok(HandOver::Done);
    }
    if failed.is_locked() {
        let detail = format!(
            "a transaction that changes rows of the tenant ran for more than {} s (`SELECT * FROM pg_stat_activity WHERE xact_start < \
             now() - interval '4 s'` in the cell {})",
            WRITERS_TIMEOUT.as_secs(),
            job.from.name
        );
        return Ok(HandOver::Failed(TenantMoveError::Late { detail }));
    }
    match failed {
        TenantMoveError::Late { .. } | TenantMoveError::Unequal { .. } => Ok(HandOver::Failed(failed)),
        failed => Err(failed),
    }
}

async fn switch_cells(
    job: &Move<'_>,
    tables: &Tables,
    counts_early: bool,
    objects: &mut Objects,
    copy_end: Instant,
) -> Result<(), TenantMoveError> {
    let limits = TimeLimits { statement: job.limits.freeze, lock: WRITERS_TIMEOUT };
    let mut from = begin_owner(job.from, &job.tenant, Reads::Latest, limits).await?;
    let mut to = begin_owner(job.to, &job.tenant, Reads::Latest, limits).await?;
    place::wait_for_writers(&mut from).await?;
    let last_objects = async {
        let begin = Instant::now();
        let pass = objects.copy_changed(job).await?;
        if begin.elapsed() > OBJECTS_TIME_LIMIT {
            job.say(&format!("objects: the last {} took {}", pass.copied, seconds_since(begin)));
        }
        Ok::<(), TenantMoveError>(())
    };
    let late = |detail: &str| Err(TenantMoveError::Late { detail: detail.to_owned() });
    let sessions = [
        (job.from, read_session(job.from, &mut from).await?),
        (job.to, read_session(job.to, &mut to).await?),
    ];
    let rest = copy_rest(job, tables, counts_early, &mut from, &mut to);
    // The rows are waited for even if the objects fail: see `cancel_at`.
    let (rows_copied, objects_copied) =
        tokio::join!(cancel_at(copy_end, job, &sessions, rest), timeout_at(copy_end, last_objects));
    rows_copied?;
    match objects_copied {
        Ok(copied) => copied?,
        Err(_) => return late("the last objects"),
    }
    if !place::set_moved(&mut from, &job.to.topic_prefix).await? {
        return late("the freeze was over before the switch");
    }
    if !place::set_arrived(&mut to).await? {
        return late("the new cell does not expect the tenant");
    }
    job.reach(Step::Compared).await;
    commit_tx(from).await?;
    job.reach(Step::HandedOver).await;
    commit_tx(to).await
}

/// Completes a switch: the old cell has handed the tenant over, and an earlier process ended before the new one served it.
pub(crate) async fn finish_switch(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let begin = Instant::now();
    let mut from = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let tables = Tables::read(job.from, from.parts().0).await?;
    prepare_partitions(job, &tables).await?;
    place::wait_for_writers(&mut from).await?;
    let mut to = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    copy_rest(job, &tables, true, &mut from, &mut to).await?;
    Objects::new(job).copy_changed(job).await?;
    place::set_arrived(&mut to).await?;
    commit_tx(to).await?;
    from.rollback().await?;
    job.say(&format!("switched: the cell {} serves the tenant ({})", job.to.name, seconds_since(begin)));
    Ok(())
}

/// Hands the tenant over without a copy: the database of the old cell was restored to a time before the move.
pub(crate) async fn hand_over_again(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    place::wait_for_writers(&mut tx).await?;
    // The copy may be of a moment in which the rows were frozen.
    place::thaw_tenant(&mut tx).await?;
    let is_moved = place::freeze_tenant(&mut tx, freeze_lifetime(job)?).await?
        && place::set_moved(&mut tx, &job.to.topic_prefix).await?;
    if !is_moved {
        return Err(TenantMoveError::Other(format!(
            "the freeze in {} was over before the switch",
            job.from.name
        )));
    }
    commit_tx(tx).await?;
    job.say(&format!(
        "handed over again: {} was restored to a time before the move; {} serves the tenant",
        job.from.name, job.to.name
    ));
    Ok(())
}

fn freeze_lifetime(job: &Move<'_>) -> Result<time::Duration, TenantMoveError> {
    time::Duration::try_from(job.limits.freeze)
        .map_err(|error| TenantMoveError::Other(format!("the time of a freeze: {error}")))
}

/// Copies the noted changes, the late table, and the tenant's own row, and compares the numbers of rows.
async fn copy_rest(
    job: &Move<'_>,
    tables: &Tables,
    counts_early: bool,
    from_tx: &mut TenantTx,
    to_tx: &mut TenantTx,
) -> Result<(), TenantMoveError> {
    let who = job.tenant.as_str();
    let notes = RowNotes::read(job.from, from_tx.parts().0, &job.tenant, MOST_NOTES).await?;
    let noted = notes.noted_tables(tables, &tables.early_names());
    let compared = || tables.ordered.iter().filter(|table| counts_early || table.is_late());
    let here = count_rows(job.from, from_tx.parts().0, who, compared(), None).await?;
    let mut from = Side { cell: &job.from.name, connection: from_tx.parts().0 };
    let mut to = Side { cell: &job.to.name, connection: to_tx.parts().0 };
    notes.copy_rows(&job.tenant, &noted, &mut from, &mut to).await?;
    for (index, table) in tables.ordered.iter().enumerate() {
        if let Some(index) = noted.iter().position(|noted| noted.name == table.name) {
            insert_noted(&mut to, table, index).await?;
        } else if table.is_late() {
            let query = format!(
                "SELECT {} FROM {} t WHERE t.tenant = {}",
                table.value_list(),
                table.quoted(),
                quote_text(who)
            );
            let temporary = format!("late_{index}");
            let columns = table.column_list();
            pipe_rows(&mut from, &query, &mut to, &temporary, &columns, &table.quoted()).await?;
            let action = format!("writing {}", table.name);
            execute_statement(&mut to, table.upsert_from(&temporary), &action).await?;
        }
    }
    let there = count_rows(job.to, to.connection, who, compared(), None).await?;
    compare_counts(&here, &there)?;
    skip_numbers(job, tables, from.connection, to.connection).await?;
    copy_tenant(job, from.connection, to.connection).await?;
    let detail = json!({ "from": job.from.name, "to": job.to.name });
    audit::append_entry(to_tx, "command line", "tenant.move", who, &detail).await?;
    Ok(())
}

/// Lets the sequences of the new cell go on after the numbers that come with the tenant's rows.
async fn skip_numbers(
    job: &Move<'_>,
    tables: &Tables,
    from: &mut PgConnection,
    to: &mut PgConnection,
) -> Result<(), TenantMoveError> {
    for table in &tables.ordered {
        for column in table.columns.iter().filter(|column| column.identity) {
            let newest = format!(
                "SELECT coalesce(max(t.{})::bigint, 0) FROM {} t WHERE t.tenant = {}",
                quote_name(&column.name),
                table.quoted(),
                quote_text(job.tenant.as_str())
            );
            let newest: i64 = sqlx::query_scalar(AssertSqlSafe(newest))
                .fetch_one(&mut *from)
                .await
                .during(&job.from.name, "reading numbers of rows")?;
            if newest == 0 {
                continue;
            }
            sqlx::query(
                "SELECT setval(s.sequence, $1) FROM (SELECT pg_get_serial_sequence($2, $3)::regclass AS sequence) s
                 WHERE coalesce(pg_sequence_last_value(s.sequence), 0) < $1",
            )
            .bind(newest + SKIPPED_NUMBERS)
            .bind(table.quoted())
            .bind(&column.name)
            .execute(&mut *to)
            .await
            .during(&job.to.name, "skipping numbers of rows")?;
        }
    }
    Ok(())
}

/// Copies the tenant's own row: its state, limits and switches.
async fn copy_tenant(
    job: &Move<'_>,
    from: &mut PgConnection,
    to: &mut PgConnection,
) -> Result<(), TenantMoveError> {
    let row: serde_json::Value =
        sqlx::query_scalar("SELECT to_jsonb(t) FROM tenants t WHERE t.slug = $1 FOR UPDATE")
            .bind(job.tenant.as_str())
            .fetch_one(from)
            .await
            .during(&job.from.name, "reading the tenant")?;
    let columns: String = sqlx::query_scalar(
        "SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
         WHERE a.attrelid = 'public.tenants'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
           AND a.attname NOT IN ('slug', 'place', 'frozen_until', 'moved_to')",
    )
    .fetch_one(&mut *to)
    .await
    .during(&job.to.name, "reading the catalogue")?;
    let update = format!(
        "UPDATE tenants SET ({columns}) = (SELECT {columns} FROM jsonb_populate_record(NULL::public.tenants, $1))
         WHERE slug = $2 AND place = 'arriving'"
    );
    sqlx::query(AssertSqlSafe(update))
        .bind(row)
        .bind(job.tenant.as_str())
        .execute(to)
        .await
        .during(&job.to.name, "writing the tenant")?;
    Ok(())
}
