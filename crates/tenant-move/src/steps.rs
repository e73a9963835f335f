//! The steps of a move in their order, and the one at which an interrupted move continues.

use crate::before_copy::{check_move, prepare_copy};
use crate::catalog::Tables;
use crate::freeze::{HandOver, finish_switch, hand_over, hand_over_again};
use crate::notes::apply_notes;
use crate::objects::{OBJECTS_TIME_LIMIT, Objects};
use crate::observer::{Step, seconds_since};
use crate::places::Places;
use crate::transactions::MoveLock;
use crate::{Move, TenantMoveError, copying, leaving};
use tokio::time::Instant;

/// Changes that may be left before the rows are frozen.
const FEW_NOTES: u64 = 500;
/// Rounds of changes and objects before the rows are frozen although more came than were copied.
const ROUNDS: u32 = 20;

pub(crate) async fn run_steps(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let _lock = MoveLock::take_both(job).await?;
    let places = Places::read(job).await?;
    if places.is_restored() {
        hand_over_again(job).await?;
    } else if !places.is_handed_over(job) {
        check_move(job, &places).await?;
        copy_and_switch(job).await?;
    } else if places.is_arriving() {
        finish_switch(job).await?;
    } else if !places.is_arrived() {
        return Err(TenantMoveError::Other(format!(
            "the cell {} has handed the tenant {} over, but the cell {} does not know it: restore that cell's database",
            job.from.name, job.tenant, job.to.name
        )));
    }
    job.reach(Step::Arrived).await;
    leaving::leave_cell(job).await
}

/// Copies the tenant until the new cell serves it.
async fn copy_and_switch(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let tables = prepare_copy(job).await?;
    let mut objects = Objects::new(job);
    let mut tries = 1;
    loop {
        copy_ahead(job, &tables, &mut objects).await?;
        match hand_over(job, &tables, &mut objects).await? {
            HandOver::Done => return Ok(()),
            HandOver::Failed(error) if tries >= job.limits.freezes => return Err(error),
            HandOver::Failed(error) => job.say(&format!("again, because {error}")),
        }
        tries += 1;
    }
}

/// Copies the tables, the objects and the changes, until little is left.
async fn copy_ahead(job: &Move<'_>, tables: &Tables, objects: &mut Objects) -> Result<(), TenantMoveError> {
    copying::copy_tables(job, tables).await?;
    let early = tables.early_names();
    job.reach(Step::TablesCopied).await;
    for round in 0..ROUNDS {
        let begin = Instant::now();
        let pass = objects.copy_changed(job).await?;
        let passed = begin.elapsed();
        if round == 0 || pass.copied > 0 {
            job.say(&format!(
                "objects: {} of {} copied, {} bytes ({})",
                pass.copied,
                pass.listed,
                pass.bytes,
                seconds_since(begin)
            ));
        }
        job.reach(Step::ObjectsCopied).await;
        let begin = Instant::now();
        let applied = apply_notes(job, tables, &early).await?;
        if applied > 0 {
            job.say(&format!("changes: {applied} copied ({})", seconds_since(begin)));
        }
        if applied <= FEW_NOTES && passed <= OBJECTS_TIME_LIMIT {
            break;
        }
    }
    Ok(())
}
