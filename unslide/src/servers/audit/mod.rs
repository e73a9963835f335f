//! `unslide audit`.

mod table;

use crate::configuration;
use crate::configuration::Configured;
use crate::prelude::*;
use indicatif::ProgressBar;
use std::time::Duration;
use unslide_audit::{Audit, AuditProgress, Window};
use unslide_cli::quantity;
use unslide_model::{Clock as _, Moment, SystemClock, TenantId, format_time};

/// Arguments of `unslide audit`: the period, the tenant and the output.
#[derive(Args)]
#[command(after_help = "\
Exit code 0 means that every report has exactly one outcome or is still in process.")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Audit records that arrived at this time or later: RFC 3339, or how long ago, such as 90m, 6h or 2d.
    /// Without it everything of which retention cannot have deleted outcomes
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// Audit records that arrived before this time: as --from
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
    /// Show only this tenant, and records that expired before a worker read their tenant. All tenants are
    /// audited in any case
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// How long to wait for transactions that are open, such as 90s or 5min
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = quantity::seconds)]
    wait: u32,
}

/// Reads the topics and prints the balance.
pub fn run(arguments: &Arguments) -> Outcome {
    let audit = run_audit(arguments)?;
    if arguments.json {
        Console::get().print_json(&audit_to_json(&audit))?;
    } else {
        Console::get().say_lines(table::render_audit(&audit).trim_end());
    }
    Ok(if audit.summary.is_clean() { Exit::Ready } else { Exit::Unbalanced })
}

fn run_audit(arguments: &Arguments) -> Result<Audit, BoxError> {
    let settings = configuration::load_kafka(&arguments.configured)?;
    let now = SystemClock.now_micros() / 1_000;
    let window = Window {
        from: arguments.from.map(|moment| moment.to_millis(now)),
        to: arguments.to.map(|moment| moment.to_millis(now)),
    };
    if let (Some(from), Some(to)) = (window.from, window.to)
        && from >= to
    {
        return Err(CommandError::usage("--from is not before --to").into());
    }
    // Shown on a terminal only.
    let bar = ProgressBar::new_spinner();
    let told = bar.clone();
    let audit = block_on(async {
        let patience = Duration::from_secs(arguments.wait.into());
        let progress = move |at: AuditProgress<'_>| {
            told.set_message(format!("{} records read, now {}", at.records, at.topic));
            told.tick();
        };
        let audit = unslide_audit::run_audit(&settings, window, now, patience, progress).await;
        Ok(audit.map_err(|error| boot::kafka_failed(&settings, error))?)
    });
    bar.finish_and_clear();
    let mut audit = audit?;
    if let Some(tenant) = &arguments.tenant {
        audit.summary.retain_tenant(tenant.as_str());
    }
    Ok(audit)
}

fn audit_to_json(audit: &Audit) -> serde_json::Value {
    let time = |millis: Option<i64>| millis.map(format_time);
    json!({
        "clean": audit.summary.is_clean(),
        "from": time(audit.window.from),
        "from_because": audit.because,
        "to": time(audit.window.to),
        "records_read": audit.read,
        "total": audit.summary.total(),
        "rows": audit.summary.rows,
        "findings": audit.summary.findings,
        "contradictions": audit.summary.contradictions,
        "notes": audit.summary.notes,
    })
}
