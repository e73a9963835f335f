//! `unslide leave-history`: brings all rows of reports back from ClickHouse.

use crate::configuration::{Configured, load_administration};
use crate::prelude::*;
use unslide_cli::confirm_action;
use unslide_history::History;
use unslide_model::TenantId;
use unslide_store::{Store, StoreError, history};

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
    /// Delete reports with rows that ClickHouse has lost, instead of failing at the first of them
    #[arg(long)]
    forget_lost: bool,
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
    let question = "This brings the rows of all tenants back into PostgreSQL. Indexers move them again unless history.after is raised first.";
    confirm_action(question, arguments.yes)?;
    block_on(async {
        let history = History::new(&administration.history)?;
        let store = boot::connect_database(&administration.postgres, &administration.hooks).await?;
        let store = store.with_history(Some(history));
        let mut after = None;
        loop {
            let page = history::list_moved_tenants(&store, after.as_ref(), TENANT_PAGE_ENTRIES).await?;
            for tenant in &page {
                let Brought { rows, lost } = bring_back_rows(&store, tenant, arguments.forget_lost).await?;
                match lost {
                    0 => say!("{tenant}: {rows} rows"),
                    lost => say!(
                        "{tenant}: {rows} rows, {lost} reports deleted because ClickHouse has lost their rows"
                    ),
                }
            }
            after = page.last().cloned();
            if after.is_none() {
                say!(
                    "all rows are in PostgreSQL: remove the section history of every service, and restart it"
                );
                return Ok(Exit::Ready);
            }
        }
    })
}

/// The reports of a tenant that had their rows in ClickHouse.
struct Brought {
    rows: u64,
    lost: u64,
}

async fn bring_back_rows(store: &Store, tenant: &TenantId, forgets_lost: bool) -> Result<Brought, BoxError> {
    let mut tx = store.tenant(tenant).await?;
    let moved = history::count_moved(&mut tx).await?;
    tx.rollback().await?;
    let mut brought = Brought { rows: 0, lost: 0 };
    loop {
        let mut tx = store.tenant(tenant).await?;
        let rows = match history::bring_back_oldest(&mut tx, ROWS_LIMIT).await {
            // Its rows are erased in both places.
            Err(StoreError::TenantDeleted) => return Ok(brought),
            Err(StoreError::HistoryBehind { report_id, variant, .. }) if forgets_lost => {
                tx.rollback().await?;
                let mut tx = store.tenant(tenant).await?;
                brought.lost += u64::from(history::forget_lost(&mut tx, report_id, variant).await?);
                tx.commit().await?;
                continue;
            }
            rows => rows?,
        };
        tx.commit().await?;
        brought.rows += rows;
        if rows == 0 {
            return Ok(brought);
        }
        if brought.rows > moved {
            return Err(format!(
                "{tenant}: rows move to ClickHouse while they are brought back: raise history.after, restart all indexers, and run \
                 this again"
            )
            .into());
        }
    }
}
