//! `unslide tenant`.

use crate::boot;
use crate::cli::Configured;
use crate::configuration::administration;
use crate::failure::{BoxError, Outcome};
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{SystemClock, TenantId};
use unslide_store::{Settings, Store, audit, outbox, tenants};

/// Tenants that are listed with one question.
const PAGE: u32 = 500;

/// The commands on tenants.
#[derive(Subcommand)]
pub enum Command {
    /// Make a tenant, and wait until the workers can know it
    Create {
        #[command(flatten)]
        configured: Configured,
        /// Its slug: a-z, 0-9 and '-'; never changed
        tenant: TenantId,
        /// Its name for people; the slug where absent
        #[arg(long)]
        name: Option<String>,
        /// Seconds to wait until a builder has announced it
        #[arg(long, default_value_t = 30)]
        wait: u64,
    },
    /// Make a tenant's own input and output topics, which services find by themselves
    Topics {
        #[command(flatten)]
        configured: Configured,
        /// The tenant
        tenant: TenantId,
    },
    /// List the tenants
    List {
        #[command(flatten)]
        configured: Configured,
    },
}

/// Runs a command on tenants.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Create { configured, tenant, name, wait } => {
            let settings = administration(&configured, false)?.postgres;
            boot::block_on(create(&settings, &tenant, name.as_deref(), Duration::from_secs(wait)))
        }
        Command::Topics { configured, tenant } => {
            let settings = administration(&configured, true)?.kafka;
            boot::block_on(topics(&settings, &tenant))
        }
        Command::List { configured } => {
            let settings = administration(&configured, false)?.postgres;
            boot::block_on(list(&settings))
        }
    }
}

async fn create(settings: &Settings, tenant: &TenantId, name: Option<&str>, wait: Duration) -> Outcome {
    let store = Store::connect(settings, Arc::new(SystemClock)).await?;
    let Some(announcement) = make(&store, tenant, name).await? else {
        return Err(format!("the tenant {tenant} exists already").into());
    };
    println!("{tenant}");
    if outbox::wait_sent(&store, tenant, announcement, wait).await? {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "unslide: the tenant is made, but no builder has announced it to the workers within {} s; \
         its reports are refused until one runs",
        wait.as_secs()
    );
    Ok(ExitCode::FAILURE)
}

/// Makes a tenant. Gives the number of its announcement; `None` where it exists already.
///
/// # Errors
/// Where the database fails.
pub async fn make(store: &Store, tenant: &TenantId, name: Option<&str>) -> Result<Option<i64>, BoxError> {
    let mut tx = store.tenant(tenant).await?;
    let name = name.unwrap_or(tenant.as_str());
    let Some((_, announcement)) = tenants::create(&mut tx, name, &tenants::Limits::default()).await? else {
        return Ok(None);
    };
    audit::append(&mut tx, "command line", "tenant.create", tenant.as_str(), &json!({})).await?;
    tx.commit().await?;
    Ok(Some(announcement))
}

async fn topics(settings: &unslide_stream::Settings, tenant: &TenantId) -> Outcome {
    if !settings.tenant_topics {
        return Err("`kafka.tenant_topics` is off: no service would read the topics".into());
    }
    for (topic, created) in unslide_stream::admin::create_tenant_topics(settings, tenant).await? {
        println!("topic {topic}: {}", created.as_str());
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(settings: &Settings) -> Outcome {
    let store = Store::connect(settings, Arc::new(SystemClock)).await?;
    let mut after = None;
    loop {
        let page = tenants::list(&store, after.as_ref(), PAGE).await?;
        for tenant in &page {
            println!("{}\t{}\t{}", tenant.id, tenant.state.as_str(), tenant.name);
        }
        match page.last() {
            Some(last) if page.len() == usize::try_from(PAGE)? => after = Some(last.id.clone()),
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
}
