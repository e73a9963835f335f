//! `unslide tenant move`: a tenant with everything that it has, from this cell to another one.

use crate::configuration::Configured;
use crate::configuration::cell_pair::{CellConfiguration, load_other_cell, load_own_cell};
use crate::prelude::*;
use std::time::Duration;
use unslide_artifacts::ObjectStore;
use unslide_cli::{confirm_action, quantity};
use unslide_history::History;
use unslide_model::TenantId;
use unslide_store::Settings;
use unslide_stream::admin;
use unslide_tenant_move::{
    CellServers, Examination, Move, MoveLimits, MoveObserver, Obstacles, TenantMoveError, abort_move,
    examine_move, find_obstacles, move_tenant,
};

/// One object store has one clock; a listing has its time in seconds.
const SAME_CLOCK_MARGIN: Duration = Duration::from_secs(2);

/// Arguments of `unslide tenant move`: the tenant and its new cell.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Slug of the tenant
    tenant: TenantId,
    /// Name of the cell that gets it; `cells.files` has its settings
    #[arg(long, value_name = "CELL")]
    to: String,
    /// Say what would be copied and why it would be refused, and change nothing
    #[arg(long, conflicts_with_all = ["yes", "abort"])]
    dry_run: bool,
    /// End a move that has not switched: this cell serves the tenant as before, and the other one has nothing of it
    #[arg(long)]
    abort: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// How long to wait for the last records of this cell, and then for its erasure, such as 30min or 2h
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = quantity::seconds)]
    at_most: u32,
}

/// Prints the lines of a move.
struct Lines;

impl MoveObserver for Lines {
    fn say(&self, line: &str) {
        say!("{line}");
    }
}

/// Moves a tenant, or goes on with a move that was interrupted.
///
/// # Errors
/// Returns the reason for which the tenant cannot be moved, or the server that failed.
pub fn run(arguments: &Arguments) -> Outcome {
    let from = load_own_cell(&arguments.configured)?;
    let Some(file) = from.administration.cells.files.get(&arguments.to) else {
        let known: Vec<&str> = from.administration.cells.files.keys().map(String::as_str).collect();
        return Err(CommandError::usage(format!(
            "cells.files has no settings of the cell {}; it has those of: {}",
            arguments.to,
            known.join(", ")
        ))
        .into());
    };
    if !from.administration.cells.is_on() {
        return Err(CommandError::usage(
            "cells.directory is not set: a tenant moves from one cell to another",
        )
        .into());
    }
    let to = load_other_cell(file)?;
    if to.administration.cells.name != arguments.to {
        return Err(CommandError::usage(format!(
            "{} has the settings of the cell \"{}\", not of {}",
            file.display(),
            to.administration.cells.name,
            arguments.to
        ))
        .into());
    }
    block_on(run_move(arguments, &from, &to))
}

async fn run_move(arguments: &Arguments, from: &CellConfiguration, to: &CellConfiguration) -> Outcome {
    let (mut old, new) = (connect_cell(from).await?, connect_cell(to).await?);
    let history = &from.administration.history;
    if history.is_on() {
        old.store = old.store.with_history(Some(History::new(history)?));
    }
    let mut directory = from.administration.cells.directory_settings(&from.administration.postgres);
    // That of the tables' owner.
    directory.any_login = true;
    let directory = boot::connect_directory(&directory).await?;
    let is_one_store = from.objects.endpoint == to.objects.endpoint;
    let usual = MoveLimits::default();
    let limits = MoveLimits {
        ending: Duration::from_secs(arguments.at_most.into()),
        clock_margin: if is_one_store { SAME_CLOCK_MARGIN } else { usual.clock_margin },
        ..usual
    };
    let job = Move {
        tenant: arguments.tenant.clone(),
        from: &old,
        to: &new,
        directory: &directory,
        limits,
        observer: &Lines,
    };
    if arguments.abort {
        let question = format!(
            "This ends the move of the tenant {}, and deletes what the cell {} has of it.",
            arguments.tenant, arguments.to
        );
        confirm_action(&question, arguments.yes)?;
        abort_move(&job).await?;
        return Ok(Exit::Ready);
    }
    let mut obstacles = find_obstacles(&job).await?;
    obstacles.refusals.extend(check_topics(arguments, from, to).await?);
    obstacles.refusals.extend(check_sealing(&obstacles, from, to));
    obstacles.refusals.extend(check_history(from, to));
    if obstacles.is_restored {
        note!(
            "{} has the tenant by an earlier move, and the database of {} was restored to a time before it: nothing is copied, and {} \
             erases what it has of the tenant",
            arguments.to,
            old.name,
            old.name
        );
    }
    if arguments.dry_run && !obstacles.is_restored {
        print_examination(&examine_move(&job).await?);
    }
    if arguments.dry_run {
        return Ok(print_obstacles(&obstacles));
    }
    // A move that has switched cannot be refused any more.
    let is_begun = obstacles.is_handed_over;
    if let Some(reason) = obstacles.refusals.first().filter(|_| !is_begun) {
        let (tenant, cell) = (arguments.tenant.clone(), arguments.to.clone());
        return Err(TenantMoveError::Refused { tenant, cell, reason: reason.clone() }.into());
    }
    let question = format!(
        "This moves the tenant {} to the cell {}: for up to {} s it takes no writes, and this cell erases what it has. It cannot move \
         back.",
        arguments.tenant,
        arguments.to,
        limits.freeze.as_secs()
    );
    confirm_action(&question, arguments.yes || is_begun)?;
    move_tenant(&job).await?;
    Ok(Exit::Ready)
}

async fn connect_cell(settings: &CellConfiguration) -> Result<CellServers, BoxError> {
    // The owner of the tables makes triggers and reads the rows of all tables.
    let postgres = Settings { any_login: true, ..settings.administration.postgres.clone() };
    Ok(CellServers {
        name: settings.administration.cells.name.clone(),
        store: boot::connect_database(&postgres, &settings.administration.hooks).await?,
        objects: ObjectStore::s3(&settings.objects).await,
        topic_prefix: settings.administration.kafka.topic_prefix.clone(),
    })
}

/// Lists the reasons for which records could not be passed on: the old cell's symbolizers and indexers write to the topics of the
/// new cell.
async fn check_topics(
    arguments: &Arguments,
    from: &CellConfiguration,
    to: &CellConfiguration,
) -> Result<Vec<String>, BoxError> {
    let (old, new) = (&from.administration.kafka, &to.administration.kafka);
    let mut refusals = Vec::new();
    let topics = new.topic_names();
    let there = admin::topics_matching(old, |topic| topics.all().contains(&topic)).await;
    let there = there.map_err(|error| boot::kafka_failed(old, error))?;
    let missing: Vec<&str> =
        topics.all().into_iter().filter(|topic| !there.iter().any(|there| there == topic)).collect();
    if !missing.is_empty() {
        refusals.push(format!(
            "records are passed on within one Kafka, and this cell's login there sees no {}: `unslide migrate --topics` of {} creates them, \
             and the login needs the right Describe",
            missing.join(", "),
            arguments.to
        ));
    }
    let names = [
        old.topic_names().tenant_input(&arguments.tenant),
        old.topic_names().tenant_output(&arguments.tenant),
    ];
    let own = admin::topics_matching(old, |topic| names.iter().any(|name| name == topic)).await;
    let own = own.map_err(|error| boot::kafka_failed(old, error))?;
    if !own.is_empty() {
        refusals.push(format!("it has topics of its own, which are not moved: {}", own.join(", ")));
    }
    Ok(refusals)
}

/// Lists the settings by which the new cell could not open secrets of the tenant.
fn check_sealing(obstacles: &Obstacles, from: &CellConfiguration, to: &CellConfiguration) -> Vec<String> {
    if obstacles.sealed.is_empty() {
        return Vec::new();
    }
    let tables = obstacles.sealed.join(", ");
    if !from.knows_sealing_keys(to) {
        note!(
            "the tenant has sealed secrets in {tables}, and neither settings file has sealing keys: make sure that both cells have the \
             same, or these secrets have to be set again"
        );
    }
    let other = from.list_other_sealing_keys(to);
    if other.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "the cells seal secrets with other keys, and the tenant has some in {tables}: {}",
        other.join(", ")
    )]
}

/// Refuses two cells with one database at ClickHouse: the erasure in the old cell would delete what the new one has there.
fn check_history(from: &CellConfiguration, to: &CellConfiguration) -> Option<String> {
    let (old, new) = (&from.administration.history, &to.administration.history);
    (old.is_on() && old.url == new.url && old.database == new.database).then(|| {
        format!(
            "both cells have the database {} at one ClickHouse: each needs its own (history.database)",
            old.database
        )
    })
}

fn print_examination(examination: &Examination) {
    let mut table = Table::new(&["TABLE", "ROWS", "BYTES"]);
    for size in &examination.tables {
        table.add_row([size.name.clone(), size.rows.to_string(), size.bytes.to_string()]);
    }
    table.print();
    if examination.history_rows > 0 {
        say!("rows in ClickHouse, which come back to PostgreSQL first: {}", examination.history_rows);
    }
    say!("objects: {}, {} bytes", examination.objects, examination.object_bytes);
    if examination.unfinished_uploads > 0 {
        say!("uploads in parts that begin again: {}", examination.unfinished_uploads);
    }
}

fn print_obstacles(obstacles: &Obstacles) -> Exit {
    for reason in &obstacles.refusals {
        say!("refused: {reason}");
    }
    if obstacles.refusals.is_empty() {
        say!("nothing is in the way of the move");
        return Exit::Ready;
    }
    Exit::Failed
}
