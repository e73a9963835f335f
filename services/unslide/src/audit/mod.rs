//! `unslide audit`.

mod table;

use crate::boot;
use crate::cli::Configured;
use crate::configuration;
use crate::failure::{BoxError, Outcome, show};
use crate::moment::{self, Moment};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use unslide_model::{Clock as _, SystemClock, TenantId};
use unslide_stream::audit::{Audit, Window};

/// The exit code where something is lost, doubled or contradictory.
const WRONG: u8 = 1;
/// The exit code where nothing can be said.
const UNDONE: u8 = 2;

/// Arguments of `unslide audit`.
#[derive(Args)]
#[command(after_help = "Exit code 0: every report that came in has exactly one outcome or is on its way. \
1: something is lost, doubled, or told in two ways. 2: the audit could not be done.")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Audit what came in from here on: RFC 3339, or how long ago, such as 90m, 6h or 2d. Without it
    /// everything whose outcomes cannot have been deleted by retention
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// Audit what came in before here: as --from
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
    /// Show one tenant only, and what expired before anybody read whose it was. The whole is audited
    /// all the same
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Seconds to wait for transactions that are open
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

/// Reads the topics and prints the balance.
pub fn run(arguments: &Arguments) -> Outcome {
    match audit(arguments) {
        Ok(audit) => {
            if arguments.json {
                println!("{}", serde_json::to_string_pretty(&document(&audit))?);
            } else {
                print!("{}", table::render(&audit));
            }
            Ok(if audit.balance.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
        }
        Err(error) => {
            show(error.as_ref());
            Ok(ExitCode::from(UNDONE))
        }
    }
}

fn audit(arguments: &Arguments) -> Result<Audit, BoxError> {
    let settings = configuration::kafka(&arguments.configured)?;
    let now = SystemClock.now_micros() / 1_000;
    let window = Window {
        from: arguments.from.map(|moment| moment.millis(now)),
        to: arguments.to.map(|moment| moment.millis(now)),
    };
    if let (Some(from), Some(to)) = (window.from, window.to)
        && from >= to
    {
        return Err("--from is not before --to".into());
    }
    // Shown on a terminal only.
    let bar = ProgressBar::new_spinner();
    let told = bar.clone();
    let audit = boot::block_on(async {
        let patience = Duration::from_secs(arguments.wait);
        let progress = move |at: unslide_stream::audit::Progress<'_>| {
            told.set_message(format!("{} records read, now {}", at.records, at.topic));
            told.tick();
        };
        Ok(unslide_stream::audit::run(&settings, window, now, patience, progress).await?)
    });
    bar.finish_and_clear();
    let mut audit = audit?;
    if let Some(tenant) = &arguments.tenant {
        audit.balance.retain_tenant(tenant.as_str());
    }
    Ok(audit)
}

fn document(audit: &Audit) -> serde_json::Value {
    let time = |millis: Option<i64>| millis.map(moment::text);
    json!({
        "clean": audit.balance.is_clean(),
        "from": time(audit.window.from),
        "from_because": audit.because,
        "to": time(audit.window.to),
        "records_read": audit.read,
        "total": audit.balance.total(),
        "rows": audit.balance.rows,
        "findings": audit.balance.findings,
        "contradictions": audit.balance.contradictions,
        "notes": audit.balance.notes,
    })
}
