//! `unslide symbols backfill`: what a change of the symcache's format leaves to be done.

use crate::boot;
use crate::configuration::{Configured, administration};
use crate::failure::{BoxError, Exit, Outcome};
use crate::output::say;
use crate::servers::tenant::there;
use clap::Args;
use serde_json::json;
use unslide_model::{Owner, TenantId};
use unslide_store::jobs::{self, JobKind, Work};
use unslide_store::{Settings, Store, audit, objects, tenants};
use unslide_symbolicate::symcache::VERSION;

/// Tenants of one question.
const PAGE: u32 = 500;

/// Arguments of `unslide symbols backfill`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// One tenant; all, and the operating systems' symbols, where absent
    #[arg(long)]
    tenant: Option<TenantId>,
}

/// Adds a job for each tenant that has something to be built anew. Begun again it adds none where
/// one is not over.
///
/// # Errors
/// Where the configuration is wrong or the database fails.
pub fn run(arguments: &Arguments) -> Outcome {
    let settings = administration(&arguments.configured, false)?.postgres;
    boot::block_on(backfill(&settings, arguments.tenant.as_ref()))
}

async fn backfill(settings: &Settings, only: Option<&TenantId>) -> Outcome {
    let store = boot::database(settings).await?;
    if let Some(tenant) = only {
        there(&store, tenant).await?;
        begin(&store, &tenant.into()).await?;
        return Ok(Exit::Ready);
    }
    begin(&store, &Owner::System).await?;
    let mut after = None;
    loop {
        let page = tenants::list(&store, after.as_ref(), PAGE).await?;
        for tenant in &page {
            begin(&store, &Owner::from(&tenant.id)).await?;
        }
        match page.last() {
            Some(last) if page.len() == usize::try_from(PAGE)? => after = Some(last.id.clone()),
            _ => return Ok(Exit::Ready),
        }
    }
}

/// Begins with an owner, and prints what there is to do.
async fn begin(store: &Store, owner: &Owner) -> Result<(), BoxError> {
    say!("{}\t{}", owner.as_str(), add_job(store, owner).await?);
    Ok(())
}

async fn add_job(store: &Store, owner: &Owner) -> Result<&'static str, BoxError> {
    let mut tx = store.owner(owner).await?;
    if jobs::is_waiting(&mut tx, JobKind::Backfill).await? {
        return Ok("under way");
    }
    if objects::outdated(&mut tx, VERSION, None, 1).await?.is_empty() {
        return Ok("up to date");
    }
    jobs::add(&mut tx, &Work::Backfill { version: VERSION, after: None }).await?;
    let detail = json!({ "version": VERSION });
    audit::append(&mut tx, "command line", "symbols.backfill", owner.as_str(), &detail).await?;
    tx.commit().await?;
    Ok("begun")
}
