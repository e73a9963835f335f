//! `unslide cells`.

mod run;
mod set;

use crate::configuration::{Configured, load_cells};
use crate::prelude::*;
use std::collections::BTreeMap;
use unslide_store::Store;
use unslide_store::cells::{find_changed_tenants, list_cells};

/// Tenants that are read with one statement.
const TENANT_PAGE_ENTRIES: u32 = 10_000;

/// The subcommands of `unslide cells`.
#[derive(Subcommand)]
pub enum Command {
    /// List the cells of the directory, with the number of their tenants
    List {
        #[command(flatten)]
        configured: Configured,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Add a cell to the directory, or change it
    Set(set::Arguments),
    /// Run a command of this program for each cell, with its settings file in `cells.files`
    Run(run::Arguments),
}

/// Runs a command on cells.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::List { configured, json } => {
            let settings = load_cells(&configured)?;
            block_on(async {
                let directory = connect_directory(&settings).await?;
                print_cells(&directory, json).await
            })
        }
        Command::Set(arguments) => set::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
    }
}

/// Connects to the directory of cells.
async fn connect_directory(settings: &unslide_door::Config) -> Result<Store, BoxError> {
    Ok(boot::connect_directory(&settings.cells.directory_settings(&settings.postgres)).await?)
}

async fn print_cells(directory: &Store, as_json: bool) -> Outcome {
    let cells = list_cells(directory).await?;
    let mut tenants: BTreeMap<String, u64> = BTreeMap::new();
    let mut version = 0;
    loop {
        let page = find_changed_tenants(directory, version, TENANT_PAGE_ENTRIES).await?;
        for entry in &page {
            *tenants.entry(entry.cell.clone()).or_default() += 1;
            version = version.max(entry.version);
        }
        if page.len() < TENANT_PAGE_ENTRIES as usize {
            break;
        }
    }
    let count = |name: &str| tenants.get(name).copied().unwrap_or_default();
    if as_json {
        let shown = cells.iter().map(|cell| {
            let mut shown = serde_json::to_value(cell)?;
            shown["tenants"] = count(&cell.name).into();
            Ok(shown)
        });
        Console::get().print_json(&shown.collect::<Result<Vec<Value>, serde_json::Error>>()?)?;
        return Ok(Exit::Ready);
    }
    let mut table = Table::new(&["CELL", "TENANTS", "REGION", "TOPIC PREFIX", "URL"]);
    for cell in cells {
        let number = count(&cell.name).to_string();
        table.add_row([cell.name, number, cell.region, cell.topic_prefix, cell.url]);
    }
    table.print();
    Ok(Exit::Ready)
}
