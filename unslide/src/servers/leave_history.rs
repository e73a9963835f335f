//! `unslide leave-history`: brings all rows of reports back from ClickHouse.

use crate::configuration::{Configured, load_administration};
use crate::prelude::*;
use unslide_cli::confirm_action;
use unslide_history::History;
use unslide_model::TenantId;
use unslide_store::{Store, history};

const TENANT_PAGE_ENTRIES: u32 = 500;
/// Rows that one transaction brings back.
const ROWS_LIMIT: u32 = 500;

/// Arguments of `unslide leave-history`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Do not ask before the rows of all tenants are brought back
    #[arg(long)]
    yes: bool,
}

/// Brings the rows of all tenants back into PostgreSQL. If it is run again, it goes on with the rest.
///
/// # Errors
/// Returns an error if the configuration names no ClickHouse, or a server fails.
pub fn run(arguments: &Arguments) -> Outcome {
    let administration = load_administration(&arguments.configured, false)?;
    if !administration.history.is_on() {
        say!("history.url is not set: no rows move to ClickHouse");
        return Ok(Exit::Usage);
    }
    let question = "This brings the rows of all tenants back into PostgreSQL. Indexers move them again unless history.after_days is raised first.";
    confirm_action(question, arguments.yes)?;
    block_on(async {
        let history = History::new(&administration.history)?;
        let store = boot::connect_database(&administration.postgres, &administration.hooks).await?;
        let store = store.with_history(Some(history));
        let mut after = None;
        loop {
            let page = history::list_moved_tenants(&store, after.as_ref(), TENANT_PAGE_ENTRIES).await?;
            for tenant in &page {
                let rows = bring_back_rows(&store, tenant).await?;
                say!("{tenant}: {rows} rows");
            }
            after = page.last().cloned();
            if after.is_none() {
                return Ok(Exit::Ready);
            }
        }
    })
}

async fn bring_back_rows(store: &Store, tenant: &TenantId) -> Result<u64, BoxError> {
    let mut rows = 0;
    loop {
        let mut tx = store.tenant(tenant).await?;
        let brought = history::bring_back_oldest(&mut tx, ROWS_LIMIT).await?;
        tx.commit().await?;
        rows += brought;
        if brought == 0 {
            return Ok(rows);
        }
    }
}
