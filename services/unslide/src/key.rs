//! `unslide key`.

use crate::boot;
use crate::cli::Configured;
use crate::configuration::administration;
use crate::failure::{BoxError, Outcome};
use crate::tenant::there;
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_api::entropy::Entropy;
use unslide_model::{Scope, Secret, SystemClock, TenantId};
use unslide_store::keys::{self, NewKey};
use unslide_store::{Settings, Store, Uuid, audit};

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
        /// When it ends by itself: a time (RFC 3339), or days from now such as 90d; never where absent
        #[arg(long, value_name = "WHEN", value_parser = expiry)]
        expires: Option<Expiry>,
    },
    /// List a tenant's keys, without their secrets: when each ends and was used last
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

/// When a key is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    At(OffsetDateTime),
    Days(i64),
}

impl Expiry {
    fn after(self, now: OffsetDateTime) -> Result<OffsetDateTime, BoxError> {
        let end = match self {
            Expiry::At(at) => at,
            Expiry::Days(days) => now.checked_add(Duration::days(days)).ok_or("--expires: too far away")?,
        };
        if end <= now { Err("--expires: in the past".into()) } else { Ok(end) }
    }
}

fn expiry(text: &str) -> Result<Expiry, String> {
    let wrong = || "a time such as 2027-01-31T00:00:00Z, or days such as 90d".to_owned();
    match text.strip_suffix('d') {
        Some(days) => match days.parse() {
            Ok(days @ 1..=36_500) => Ok(Expiry::Days(days)),
            _ => Err(wrong()),
        },
        None => OffsetDateTime::parse(text, &Rfc3339).map(Expiry::At).map_err(|_| wrong()),
    }
}

/// Runs a command on keys.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Create { configured, tenant, name, scope, app, expires } => {
            if app.is_some() && scope.contains(&Scope::Operator) {
                return Err("a key for one app can't act for operators".into());
            }
            let settings = administration(&configured, false)?.postgres;
            boot::block_on(async {
                let store = Store::connect(&settings, Arc::new(SystemClock)).await?;
                there(&store, &tenant).await?;
                let now = store.clock().now();
                let expires_at = expires.map(|expires| expires.after(now)).transpose()?;
                let new = NewKey { name, scopes: scope, app, expires_at };
                let text = make(&store, &tenant, &new).await?;
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
pub async fn make(store: &Store, tenant: &TenantId, new: &NewKey) -> Result<Secret, BoxError> {
    let entropy = Entropy::default().key()?;
    let mut tx = store.tenant(tenant).await?;
    let (key, text) = keys::create(&mut tx, new, &entropy).await?;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let target = key.id.to_string();
    audit::append(&mut tx, "command line", "key.create", &target, &json!({ "scopes": scopes })).await?;
    tx.commit().await?;
    Ok(text)
}

async fn list(settings: &Settings, tenant: &TenantId) -> Outcome {
    let store = Store::connect(settings, Arc::new(SystemClock)).await?;
    there(&store, tenant).await?;
    let mut tx = store.tenant(tenant).await?;
    let now = store.clock().now();
    for key in keys::list(&mut tx).await? {
        let state = match key.expires_at {
            _ if key.revoked_at.is_some() => "revoked",
            Some(end) if end <= now => "expired",
            _ => "in force",
        };
        let at = |time: Option<OffsetDateTime>| match time {
            None => Ok("never".to_owned()),
            Some(time) => time.format(&Rfc3339),
        };
        let (ends, used) = (at(key.expires_at)?, at(key.last_used_at)?);
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let app = key.app.as_deref().unwrap_or("every app");
        println!(
            "{}\tunslide_{}_…\t{state}\texpires {ends}\tused {used}\t{}\t{app}\t{}",
            key.id,
            key.prefix,
            scopes.join(","),
            key.name
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn revoke(settings: &Settings, tenant: &TenantId, id: Uuid) -> Outcome {
    let store = Store::connect(settings, Arc::new(SystemClock)).await?;
    there(&store, tenant).await?;
    let mut tx = store.tenant(tenant).await?;
    if !keys::revoke(&mut tx, id, None).await? {
        return Err(
            format!("{tenant} has no key {id}; `unslide key list --tenant {tenant}` shows its keys").into()
        );
    }
    audit::append(&mut tx, "command line", "key.revoke", &id.to_string(), &json!({})).await?;
    tx.commit().await?;
    println!("revoked");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_ends_at_a_time_or_after_some_days() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let at = |text| expiry(text).map_err(BoxError::from).and_then(|expiry| expiry.after(now));
        assert_eq!(at("90d").unwrap(), now + Duration::days(90));
        assert_eq!(at("2030-01-01T00:00:00Z").unwrap().unix_timestamp(), 1_893_456_000);
        for wrong in ["", "d", "0d", "-1d", "90", "soon", "2001-01-01T00:00:00Z", "99999999d"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
