//! `unslide tenant`.

use crate::configuration::{Administration, Configured, load_administration};
use crate::prelude::*;
use std::time::Duration;
use unslide_cli::listing::item_text;
use unslide_cli::{confirm_action, quantity};
use unslide_model::TenantId;
use unslide_store::accounts::create_tenant;
use unslide_store::cells::claim_tenant;
use unslide_store::figures::FigureOrder;
use unslide_store::tenants::{self, QuotaLimits, TenantRecord, TenantStanding};
use unslide_store::{Store, audit, erasure, outbox, usage};

mod moving;
mod usage_table;

/// Tenants that are listed with one question.
const TENANT_PAGE_ENTRIES: u32 = 500;
/// Between two looks at an erasing.
const ERASURE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The subcommands of `unslide tenant`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a tenant, and wait until the broker has it for the workers
    Create {
        #[command(flatten)]
        one: One,
        /// Its name for people; the slug if absent
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        limits: LimitArguments,
    },
    /// Create a tenant's own input and output topics; services discover them without a restart
    Topics {
        #[command(flatten)]
        configured: Configured,
        /// Slug of the tenant that gets the topics
        tenant: TenantId,
    },
    /// List all tenants with their states
    List {
        #[command(flatten)]
        configured: Configured,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// List what each tenant uses beside its limits, the loudest or fullest first
    Usage {
        #[command(flatten)]
        configured: Configured,
        /// First in the list: the most `reports` of the last hour, `deferred` records or bytes of `symbols`, or the most `full`
        #[arg(long, value_name = "FIGURE", default_value = "reports", value_parser = usage_table::read_order)]
        sort: FigureOrder,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show a tenant as JSON: its state, limits and usage, and the progress of its erasure
    Show {
        #[command(flatten)]
        configured: Configured,
        /// Slug of the tenant, as in the list
        tenant: TenantId,
    },
    /// Stop serving a tenant: it can look and delete, but not send; reports that still come on Kafka are dead letters, to be replayed
    Suspend(One),
    /// Serve a suspended tenant again
    Resume(One),
    /// Change the limits of a tenant; limits that are not named stay
    Limits {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        limits: LimitArguments,
    },
    /// Move a tenant to another cell with everything that it has; run it again after an interruption
    Move(moving::Arguments),
    /// Delete a tenant and all its data. This cannot be undone; on a terminal it asks first
    Delete {
        #[command(flatten)]
        configured: Configured,
        /// Its slug, which is never given again
        tenant: TenantId,
        /// Count what would be removed, and remove nothing
        #[arg(long, conflicts_with_all = ["yes", "wait"])]
        dry_run: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Wait until none of its data is left, and print the proof
        #[arg(long)]
        wait: bool,
        /// How long to wait with --wait, such as 90s or 2h
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = quantity::seconds)]
        at_most: u32,
    },
}

/// One tenant, and how long to wait for a change of it to be announced.
#[derive(Args)]
pub struct One {
    #[command(flatten)]
    configured: Configured,
    /// Its slug: a-z, 0-9 and '-'; never changed
    tenant: TenantId,
    /// How long to wait until a builder has announced it, such as 90s or 5min
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = quantity::seconds)]
    wait: u32,
}

/// Limits of a tenant; 0 means the service's default.
#[derive(Args, Clone, Copy)]
pub struct LimitArguments {
    /// Cost units a second: one for each report, and one for each 64 KiB of its unpacked bytes
    #[arg(long, value_name = "NUMBER")]
    units_per_second: Option<u32>,
    /// The size of one report, such as 20MB
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    report_bytes: Option<u64>,
    /// The size of one symbol upload, such as 2GB
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    upload_bytes: Option<u64>,
    /// The size of all stored symbols, such as 100GB
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    symbol_bytes: Option<u64>,
    /// Days that reports are kept
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<u32>,
    /// Days that the bodies of reports are kept, if fewer
    #[arg(long, value_name = "DAYS")]
    body_days: Option<u32>,
}

impl LimitArguments {
    fn with_defaults(self, limits: &QuotaLimits) -> QuotaLimits {
        QuotaLimits {
            units_per_second: self.units_per_second.unwrap_or(limits.units_per_second),
            report_bytes: self.report_bytes.unwrap_or(limits.report_bytes),
            upload_bytes: self.upload_bytes.unwrap_or(limits.upload_bytes),
            symbol_bytes: self.symbol_bytes.unwrap_or(limits.symbol_bytes),
            retention_days: self.retention_days.unwrap_or(limits.retention_days),
            body_days: self.body_days.unwrap_or(limits.body_days),
        }
    }
}

/// Runs a command on tenants.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Create { one, name, limits } => {
            with_database(&one.configured, async |store, administration| {
                claim_name(&administration, &one.tenant).await?;
                let kafka = administration.kafka;
                if kafka.tenant_topics && find_tenant(&store, &one.tenant).await?.is_none() {
                    // Before the tenant is there: one that is there can be sent to.
                    unslide_stream::admin::create_tenant_topics(&kafka, &one.tenant)
                        .await
                        .map_err(|error| boot::kafka_failed(&kafka, error))?;
                }
                let limits = limits.with_defaults(&QuotaLimits::default());
                let announcement = create_tenant(&store, &one.tenant, name.as_deref(), &limits).await?;
                let Some(announcement) = announcement else { return refuse_taken(&store, &one.tenant).await };
                say!("{}", one.tenant);
                wait_announced(&store, &one, announcement).await
            })
        }
        Command::Topics { configured, tenant } => {
            let settings = load_administration(&configured, true)?.kafka;
            block_on(create_topics(&settings, &tenant))
        }
        Command::List { configured, json } => {
            with_database(&configured, async |store, _| list_tenants(&store, json).await)
        }
        Command::Usage { configured, sort, json } => {
            with_database(&configured, async |store, administration| {
                usage_table::print_usage(&store, sort, administration.tenants.symbol_bytes, json).await
            })
        }
        Command::Show { configured, tenant } => {
            with_database(&configured, async |store, _| show_tenant(&store, &tenant).await)
        }
        Command::Suspend(one) => change_tenant(&one, |tenant| tenant.state = TenantStanding::Suspended),
        Command::Resume(one) => change_tenant(&one, |tenant| tenant.state = TenantStanding::Active),
        Command::Limits { one, limits } => {
            change_tenant(&one, |tenant| tenant.limits = limits.with_defaults(&tenant.limits))
        }
        Command::Move(arguments) => moving::run(&arguments),
        Command::Delete { configured, tenant, dry_run, yes, wait, at_most } => {
            with_database(&configured, async |store, _| {
                if find_tenant(&store, &tenant).await?.is_none() {
                    return Err(no_tenant(&tenant));
                }
                if dry_run {
                    return count_removal(&store, &tenant).await;
                }
                let what = format!(
                    "This deletes the tenant {tenant} with all its reports, symbols and keys. It cannot be undone."
                );
                confirm_action(&what, yes)?;
                delete_tenant(&store, &tenant, wait.then_some(Duration::from_secs(at_most.into()))).await
            })
        }
    }
}

/// Works with the database of an installation.
///
/// # Errors
/// Returns an error if the configuration is wrong, or if the database cannot be reached.
pub fn with_database(
    configured: &Configured,
    work: impl AsyncFnOnce(Store, Administration) -> Outcome,
) -> Outcome {
    let administration = load_administration(configured, false)?;
    block_on(async {
        let store = boot::connect_database(&administration.postgres, &administration.hooks).await?;
        work(store, administration).await
    })
}

async fn wait_announced(store: &Store, one: &One, announcement: i64) -> Outcome {
    if outbox::wait_sent(store, &one.tenant, announcement, Duration::from_secs(one.wait.into())).await? {
        return Ok(Exit::Ready);
    }
    note!(
        "the change is stored, but no builder has announced it to the workers within {} s; they use the old \
         state until one runs",
        one.wait
    );
    Ok(Exit::Failed)
}

/// Claims the slug of a new tenant in the directory, if this is one cell of several.
async fn claim_name(administration: &Administration, slug: &TenantId) -> Result<(), BoxError> {
    let cells = &administration.cells;
    if !cells.is_on() {
        return Ok(());
    }
    let settings = cells.directory_settings(&administration.postgres);
    let directory = boot::connect_directory(&settings).await?;
    let owner = claim_tenant(&directory, slug, &cells.name).await;
    let owner = owner.map_err(|error| boot::directory_failed(&settings, error))?;
    if owner == cells.name {
        return Ok(());
    }
    Err(format!("the slug {slug} is taken: the cell {owner} has a tenant of that name; choose another")
        .into())
}

/// Returns the error for a slug that is taken.
async fn refuse_taken(store: &Store, slug: &TenantId) -> Outcome {
    Err(match find_tenant(store, slug).await? {
        Some(tenant) if tenant.state == TenantStanding::Deleted => {
            format!("the tenant {slug} was deleted, and its slug cannot be used again: choose another")
        }
        _ => format!("the tenant {slug} exists already; `unslide tenant show {slug}` shows it"),
    }
    .into())
}

async fn find_tenant(store: &Store, slug: &TenantId) -> Result<Option<TenantRecord>, BoxError> {
    let mut tx = store.tenant(slug).await?;
    let found = tenants::get(&mut tx).await?;
    tx.rollback().await?;
    Ok(found)
}

async fn create_topics(settings: &unslide_stream::Settings, tenant: &TenantId) -> Outcome {
    if !settings.tenant_topics {
        return Err("`kafka.tenant_topics` is off: no service would read the topics".into());
    }
    let created = unslide_stream::admin::create_tenant_topics(settings, tenant).await;
    for (topic, created) in created.map_err(|error| boot::kafka_failed(settings, error))? {
        say!("topic {topic}: {}", created.as_str());
    }
    Ok(Exit::Ready)
}

fn change_tenant(one: &One, change: impl FnOnce(&mut tenants::TenantRecord)) -> Outcome {
    with_database(&one.configured, async |store, _| {
        let mut tx = store.tenant(&one.tenant).await?;
        let mut tenant = tenants::lock_tenant(&mut tx).await?.ok_or_else(|| no_tenant(&one.tenant))?;
        if tenant.state == TenantStanding::Deleted {
            return Err(format!("the tenant {} was deleted, which cannot be undone", one.tenant).into());
        }
        change(&mut tenant);
        let changed = tenants::change_tenant(&mut tx, &tenant.name, tenant.state, &tenant.limits).await?;
        let (changed, announcement) = changed.ok_or("the tenant was deleted")?;
        let detail = json!({ "version": changed.version, "state": changed.state, "limits": changed.limits });
        audit::append_entry(&mut tx, "command line", "tenant.change", one.tenant.as_str(), &detail).await?;
        tx.commit().await?;
        say!("{}\t{}", changed.id, changed.state.as_str());
        wait_announced(&store, one, announcement).await
    })
}

/// Checks that a tenant exists.
///
/// # Errors
/// Returns an error if there is no such tenant, or if it was deleted.
pub async fn check_tenant(store: &Store, slug: &TenantId) -> Result<(), BoxError> {
    let found = find_tenant(store, slug).await?;
    if found.is_none_or(|tenant| tenant.state == TenantStanding::Deleted) {
        Err(no_tenant(slug))
    } else {
        Ok(())
    }
}

fn no_tenant(slug: &TenantId) -> BoxError {
    CommandError::missing(format!("there is no tenant {slug}; `unslide tenant list` shows the tenants"))
        .into()
}

async fn count_removal(store: &Store, slug: &TenantId) -> Outcome {
    let mut tx = store.tenant(slug).await?;
    let count = erasure::count_removal(&mut tx).await?;
    tx.rollback().await?;
    for (table, rows) in &count.would_remove {
        say!("{table}\t{rows} rows would be removed");
    }
    say!("object storage\tall objects of the tenant would be removed");
    if !count.complete {
        note!("the count stopped at a limit: there are more rows");
    }
    Ok(Exit::Ready)
}

async fn delete_tenant(store: &Store, slug: &TenantId, wait: Option<Duration>) -> Outcome {
    let mut tx = store.tenant(slug).await?;
    let Some((tenant, announcement)) = erasure::begin_erasure(&mut tx).await? else {
        return Err(no_tenant(slug));
    };
    if announcement.is_some() {
        audit::append_entry(&mut tx, "command line", "tenant.delete", slug.as_str(), &json!({})).await?;
    }
    tx.commit().await?;
    say!("{}\t{}", tenant.id, tenant.state.as_str());
    let Some(wait) = wait else { return Ok(Exit::Ready) };
    let end = tokio::time::Instant::now() + wait;
    loop {
        let mut tx = store.tenant(slug).await?;
        let erasure = erasure::get(&mut tx).await?.ok_or("the database has no record of the deletion")?;
        tx.rollback().await?;
        let rows: u64 = erasure.removed.values().sum();
        if erasure.finished_at.is_some() {
            for (table, rows) in &erasure.removed {
                say!("{table}\t{rows} rows removed");
            }
            say!("object storage\t{} objects removed, {} bytes", erasure.objects, erasure.object_bytes);
            let left: u64 = erasure.remaining.iter().flat_map(|left| left.values()).sum();
            say!("left\t{left}");
            return Ok(Exit::Ready);
        }
        if tokio::time::Instant::now() >= end {
            note!(
                "the tenant is deleted, but not all its data was removed within {} s ({rows} rows and \
                 {} objects were); a builder continues",
                wait.as_secs(),
                erasure.objects
            );
            return Ok(Exit::Failed);
        }
        tokio::time::sleep(ERASURE_POLL_INTERVAL).await;
    }
}

async fn show_tenant(store: &Store, slug: &TenantId) -> Outcome {
    let mut tx = store.tenant(slug).await?;
    let tenant = tenants::get(&mut tx).await?.ok_or_else(|| no_tenant(slug))?;
    let used = usage::get(&mut tx).await?;
    let erasure = erasure::get(&mut tx).await?;
    tx.rollback().await?;
    let mut shown = serde_json::to_value(&tenant)?;
    shown["usage"] = serde_json::to_value(used)?;
    shown["erasure"] = serde_json::to_value(erasure)?;
    Console::get().print_json(&shown)?;
    Ok(Exit::Ready)
}

async fn list_tenants(store: &Store, as_json: bool) -> Outcome {
    let mut table = Table::new(&["TENANT", "STATE", "CREATED", "NAME"]);
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = tenants::list_tenants(store, after.as_ref(), TENANT_PAGE_ENTRIES).await?;
        let more = page.len() == usize::try_from(TENANT_PAGE_ENTRIES)?;
        after = page.last().map(|last| last.id.clone());
        for tenant in page {
            let shown = serde_json::to_value(tenant)?;
            table.add_row(["id", "state", "created_at", "name"].map(|member| item_text(&shown, member)));
            all.push(shown);
        }
        if !more {
            break;
        }
    }
    if as_json {
        Console::get().print_json(&all)?;
    } else {
        table.print();
    }
    Ok(Exit::Ready)
}
