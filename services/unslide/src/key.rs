//! `unslide key`.

use crate::boot;
use crate::cli::Configured;
use crate::configuration::administration;
use crate::failure::{BoxError, Outcome};
use clap::Subcommand;
use rand::TryRng;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use unslide_model::{Scope, Secret, SystemClock, TenantId};
use unslide_store::keys::{self, NewKey};
use unslide_store::{Settings, Store, Uuid, audit, tenants};

/// The commands on keys.
#[derive(Subcommand)]
pub enum Command {
    /// Make a key; its text is shown once and never again
    Create {
        #[command(flatten)]
        configured: Configured,
        /// Whose key
        #[arg(long)]
        tenant: TenantId,
        /// Its name for people
        #[arg(long, default_value = "made on the command line")]
        name: String,
        /// What it may do, with commas between
        #[arg(long, value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// The only app (bundle identifier) that it speaks for
        #[arg(long)]
        app: Option<String>,
    },
    /// List a tenant's keys, without their secrets
    List {
        #[command(flatten)]
        configured: Configured,
        /// Whose keys
        #[arg(long)]
        tenant: TenantId,
    },
    /// Revoke a key for good
    Revoke {
        #[command(flatten)]
        configured: Configured,
        /// Whose key
        #[arg(long)]
        tenant: TenantId,
        /// The key's id, as `key list` shows it
        id: Uuid,
    },
}

/// Runs a command on keys.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Create { configured, tenant, name, scope, app } => {
            let settings = administration(&configured, false)?.postgres;
            boot::block_on(async {
                let store = Store::connect(&settings, Arc::new(SystemClock)).await?;
                let mut tx = store.tenant(&tenant).await?;
                if tenants::get(&mut tx).await?.is_none() {
                    return Err(format!("there is no tenant {tenant}").into());
                }
                tx.rollback().await?;
                let text = make(&store, &tenant, &name, scope, app).await?;
                println!("{}", text.reveal());
                Ok(ExitCode::SUCCESS)
            })
        }
        Command::List { configured, tenant } => {
            let settings = administration(&configured, false)?.postgres;
            boot::block_on(list(&settings, &tenant))
        }
        Command::Revoke { configured, tenant, id } => {
            let settings = administration(&configured, false)?.postgres;
            boot::block_on(revoke(&settings, &tenant, id))
        }
    }
}

/// Makes a key and gives its text.
///
/// # Errors
/// Where the database or the source of randomness fails.
pub async fn make(
    store: &Store,
    tenant: &TenantId,
    name: &str,
    scopes: Vec<Scope>,
    app: Option<String>,
) -> Result<Secret, BoxError> {
    let mut entropy = [0; 30];
    rand::rngs::SysRng.try_fill_bytes(&mut entropy)?;
    let new = NewKey { name: name.to_owned(), scopes, app, expires_at: None };
    let mut tx = store.tenant(tenant).await?;
    let (key, text) = keys::create(&mut tx, &new, &entropy).await?;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let target = key.id.to_string();
    audit::append(&mut tx, "command line", "key.create", &target, &json!({ "scopes": scopes })).await?;
    tx.commit().await?;
    Ok(text)
}

async fn list(settings: &Settings, tenant: &TenantId) -> Outcome {
    let store = Store::connect(settings, Arc::new(SystemClock)).await?;
    let mut tx = store.tenant(tenant).await?;
    for key in keys::list(&mut tx).await? {
        let state = if key.revoked_at.is_some() { "revoked" } else { "in force" };
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        println!("{}\tunslide_{}_…\t{state}\t{}\t{}", key.id, key.prefix, scopes.join(","), key.name);
    }
    Ok(ExitCode::SUCCESS)
}

async fn revoke(settings: &Settings, tenant: &TenantId, id: Uuid) -> Outcome {
    let store = Store::connect(settings, Arc::new(SystemClock)).await?;
    let mut tx = store.tenant(tenant).await?;
    if !keys::revoke(&mut tx, id).await? {
        return Err(format!("{tenant} has no key {id}").into());
    }
    audit::append(&mut tx, "command line", "key.revoke", &id.to_string(), &json!({})).await?;
    tx.commit().await?;
    println!("revoked");
    Ok(ExitCode::SUCCESS)
}
