//! `unslide symbols backfill`: adds the work that a change of symcaches needs.

use crate::configuration::Configured;
use crate::prelude::*;
use crate::servers::tenant::{check_tenant, with_database};
use unslide_cli::confirm_action;
use unslide_model::{Owner, TenantId};
use unslide_store::jobs::{self, Work};
use unslide_store::{Store, audit, objects, tenants};
use unslide_symbolicate::symcache::SYMCACHE_VERSION;

const TENANT_PAGE_ENTRIES: u32 = 500;

/// The name of the command below `unslide symbols`.
pub const NAME: &str = "backfill";

/// Rebuild symcaches in an older format than this release writes, or all; reaches the database itself
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// One tenant; all, and the operating systems' symbols, where absent: on a terminal that is asked first
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Build all symcaches anew, also those of this format: a later release reads more out of a dSYM, such as classes.
    /// Reports and captures with symbols that changed are looked at again
    #[arg(long)]
    all: bool,
    /// Do not ask before symcaches of all tenants are built anew
    #[arg(long, conflicts_with = "tenant")]
    yes: bool,
}

/// Adds a job for each tenant that has something to rebuild. If it is run again, it adds none for a tenant
/// with an unfinished job.
///
/// # Errors
/// Returns an error if the configuration is wrong or the database fails.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.tenant.is_none() {
        let which = if arguments.all { "all symcaches" } else { "symcaches of an older format" };
        confirm_action(&format!("This builds {which} of every tenant anew."), arguments.yes)?;
    }
    with_database(&arguments.configured, async |store, _| backfill_owners(&store, arguments).await)
}

async fn backfill_owners(store: &Store, arguments: &Arguments) -> Outcome {
    let all = arguments.all;
    if let Some(tenant) = &arguments.tenant {
        check_tenant(store, tenant).await?;
        add_owner_job(store, &tenant.into(), all).await?;
        return Ok(Exit::Ready);
    }
    add_owner_job(store, &Owner::System, all).await?;
    let mut after = None;
    loop {
        let page = tenants::list_tenants(store, after.as_ref(), TENANT_PAGE_ENTRIES).await?;
        for tenant in &page {
            add_owner_job(store, &Owner::from(&tenant.id), all).await?;
        }
        match page.last() {
            Some(last) if page.len() == usize::try_from(TENANT_PAGE_ENTRIES)? => {
                after = Some(last.id.clone());
            }
            _ => return Ok(Exit::Ready),
        }
    }
}

/// Begins with an owner, and prints what there is to do.
async fn add_owner_job(store: &Store, owner: &Owner, all: bool) -> Result<(), BoxError> {
    say!("{}\t{}", owner.as_str(), add_job(store, owner, all).await?);
    Ok(())
}

async fn add_job(store: &Store, owner: &Owner, all: bool) -> Result<&'static str, BoxError> {
    let mut tx = store.owner(owner).await?;
    if jobs::backfill_is_waiting(&mut tx, all).await? {
        return Ok("under way");
    }
    if objects::to_rebuild(&mut tx, SYMCACHE_VERSION, all, None, 1).await?.is_empty() {
        return Ok("up to date");
    }
    jobs::add_job(&mut tx, &Work::Backfill { version: SYMCACHE_VERSION, all, after: None }).await?;
    let detail = json!({ "version": SYMCACHE_VERSION, "all": all });
    audit::append_entry(&mut tx, "command line", "symbols.backfill", owner.as_str(), &detail).await?;
    tx.commit().await?;
    Ok("begun")
}
