//! `unslide cells set`.

use crate::configuration::{Administration, Configured, load_administration};
use crate::prelude::*;
use sqlx::{Connection, PgConnection};
use unslide_model::{Clock, SystemClock, TenantId};
use unslide_store::cells::{Cell, claim_tenant, list_cells, set_cell};
use unslide_store::place::{TenantPlace, read_location};
use unslide_store::{Store, tenants};

/// Tenants that are read with one statement.
const TENANT_PAGE_ENTRIES: u32 = 500;

/// Arguments of `unslide cells set`.
#[derive(Args)]
#[command(after_help = "\
The login of `cells.directory` has to be the one that applies migrations there: UNSLIDE_CELLS__DIRECTORY names it for this command.

Examples:
  unslide cells set eu --url http://api.eu.internal:8080 --region eu-central-1 --claim-tenants
  unslide cells set us --url https://api.us.internal --topic-prefix us.unslide.")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// The cell's name: a-z, 0-9 and '-'
    #[arg(value_parser = parse_name)]
    cell: String,
    /// The address of its api, as doors reach it, without a path
    #[arg(long)]
    url: Option<String>,
    /// The prefix of its topics [default: `kafka.topic_prefix`, for the cell of these settings]
    #[arg(long, value_name = "PREFIX")]
    topic_prefix: Option<String>,
    /// The place of its servers, in your words
    #[arg(long)]
    region: Option<String>,
    /// Also enter the tenants of these settings' database that the directory does not have: for the first cell
    #[arg(long)]
    claim_tenants: bool,
}

/// Returns the name of a cell, which has the form of a slug.
fn parse_name(text: &str) -> Result<String, String> {
    match TenantId::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a name has 2 to 40 characters: a-z, 0-9 and '-'".to_owned()),
    }
}

/// Changes the directory.
pub fn run(arguments: &Arguments) -> Outcome {
    let administration = load_administration(&arguments.configured, false)?;
    let cells = &administration.cells;
    if !cells.is_on() {
        return Err(CommandError::usage(
            "cells.directory is not set: it names the database with the directory",
        )
        .into());
    }
    let is_own = cells.name == arguments.cell;
    if arguments.claim_tenants && !is_own {
        let text = format!("--claim-tenants: these settings are those of the cell {}", cells.name);
        return Err(CommandError::usage(text).into());
    }
    block_on(async {
        let mut database = cells.directory_settings(&administration.postgres);
        // That of the tables' owner.
        database.any_login = true;
        let directory = boot::connect_directory(&database).await?;
        let failed = |error| boot::directory_failed(&database, error);
        let listed = list_cells(&directory).await.map_err(failed)?;
        let before = listed.into_iter().find(|cell| cell.name == arguments.cell);
        let cell = merge_cell(arguments, before, is_own.then_some(&administration.kafka.topic_prefix))?;
        let mut owner = PgConnection::connect(cells.directory.reveal()).await?;
        set_cell(&mut owner, &cell, SystemClock.now()).await.map_err(failed)?;
        owner.close().await?;
        say!("{}\t{}", cell.name, cell.url);
        if arguments.claim_tenants { claim_all(&directory, &administration).await } else { Ok(Exit::Ready) }
    })
}

/// Returns the cell with what the arguments name, and the rest as before.
fn merge_cell(
    arguments: &Arguments,
    before: Option<Cell>,
    own_prefix: Option<&String>,
) -> Result<Cell, BoxError> {
    let lacks = |option: &str| CommandError::usage(format!("{option}: a new cell needs it"));
    let (url, prefix, region) = match before {
        Some(cell) => (Some(cell.url), Some(cell.topic_prefix), cell.region),
        None => (None, None, String::new()),
    };
    let prefix = arguments.topic_prefix.as_ref().or(own_prefix).cloned().or(prefix);
    Ok(Cell {
        name: arguments.cell.clone(),
        url: arguments.url.clone().or(url).ok_or_else(|| lacks("--url"))?,
        topic_prefix: prefix.ok_or_else(|| lacks("--topic-prefix"))?,
        region: arguments.region.clone().unwrap_or(region),
    })
}

/// Claims the names of all tenants of this cell.
async fn claim_all(directory: &Store, administration: &Administration) -> Outcome {
    let cell = &administration.cells.name;
    let store = boot::connect_database(&administration.postgres, &administration.hooks).await?;
    let (mut claimed, mut others) = (0, Vec::new());
    let mut after: Option<TenantId> = None;
    loop {
        let page = tenants::list_tenants(&store, after.as_ref(), TENANT_PAGE_ENTRIES).await?;
        for tenant in &page {
            let mut tx = store.tenant(&tenant.id).await?;
            let location = read_location(&mut tx).await?;
            tx.rollback().await?;
            // Another cell has those that arrive or have moved.
            if location
                .is_some_and(|location| matches!(location.place, TenantPlace::Arriving | TenantPlace::Moved))
            {
                continue;
            }
            match claim_tenant(directory, &tenant.id, cell).await? {
                owner if owner == *cell => claimed += 1,
                owner => others.push((tenant.id.clone(), owner)),
            }
        }
        after = page.last().map(|tenant| tenant.id.clone());
        if page.len() < TENANT_PAGE_ENTRIES as usize {
            break;
        }
    }
    say!("tenants of the cell {cell} in the directory: {claimed}");
    for (tenant, owner) in &others {
        say!("the tenant {tenant} is in the cell {owner}, by the directory: requests of it go there");
    }
    Ok(if others.is_empty() { Exit::Ready } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(url: Option<&str>, topic_prefix: Option<&str>) -> Arguments {
        Arguments {
            configured: Configured { config: None },
            cell: "eu".to_owned(),
            url: url.map(str::to_owned),
            topic_prefix: topic_prefix.map(str::to_owned),
            region: None,
            claim_tenants: false,
        }
    }

    #[test]
    fn a_new_cell_needs_a_url_and_topics_and_a_known_one_keeps_what_is_not_named() {
        assert!(merge_cell(&arguments(None, Some("eu.")), None, None).is_err());
        assert!(merge_cell(&arguments(Some("http://a"), None), None, None).is_err());
        let own = "unslide.".to_owned();
        let new = merge_cell(&arguments(Some("http://a"), None), None, Some(&own)).unwrap();
        assert_eq!((new.url.as_str(), new.topic_prefix.as_str()), ("http://a", "unslide."));
        let known = Cell { region: "Frankfurt".to_owned(), ..new };
        let changed = merge_cell(&arguments(Some("http://b"), None), Some(known), None).unwrap();
        assert_eq!((changed.url.as_str(), changed.region.as_str()), ("http://b", "Frankfurt"));
    }

    #[test]
    fn a_name_is_a_slug() {
        assert!(parse_name("eu-1").is_ok());
        for bad in ["", "e", "EU", "eu_1", "-eu"] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }
}
