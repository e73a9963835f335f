//! `unslide reprocess`: stored reports symbolicated again.

use crate::prelude::*;
use serde::Deserialize;
use std::time::Duration;
use unslide_cli::{can_ask, confirm_action};
use unslide_model::{Clock as _, DebugId, SystemClock};
use unslide_model::{Moment, format_time};

/// The pause between two looks while waiting.
const STATUS_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of the command `unslide reprocess`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app
    #[arg(long)]
    app: Option<String>,
    /// Version of the app, such as 2.4.1
    #[arg(long = "app-version", value_name = "VERSION")]
    app_version: Option<String>,
    /// Build number of the app
    #[arg(long)]
    build: Option<String>,
    /// Arrived from here on: RFC 3339, or how long ago, such as 90m, 6h or 2d
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// Arrived before here, as --from; before now where absent
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
    /// A frame refers to the image with this debug id
    #[arg(long)]
    debug_id: Option<DebugId>,
    /// All reports of the tenant: needed where nothing else says which; on a terminal it asks first
    #[arg(long)]
    all: bool,
    /// Do not ask before all reports are symbolicated again
    #[arg(long, requires = "all")]
    yes: bool,
    /// Count the reports and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until every report has its answer
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

#[derive(Deserialize)]
struct Counted {
    count: u64,
}

#[derive(Deserialize)]
struct Reprocess {
    id: String,
    status: String,
    answered: bool,
    count: u64,
    asked: u64,
    under_way: u64,
    better: u64,
    unchanged: u64,
    gone: u64,
}

/// Asks for the reports, and says what came of it.
pub fn run(arguments: &Arguments) -> Outcome {
    let texts = [&arguments.app, &arguments.app_version, &arguments.build];
    let times = [arguments.from, arguments.to];
    let named = texts.iter().any(|text| text.is_some()) || times.iter().any(Option::is_some);
    let is_narrow = named || arguments.debug_id.is_some();
    if !arguments.all && !is_narrow {
        return Err(CommandError::usage("say which reports, or --all").into());
    }
    if !is_narrow && !arguments.dry_run {
        // In a script --all is the answer.
        let yes = arguments.yes || !can_ask();
        confirm_action("This symbolicates all reports of the tenant again.", yes)?;
    }
    let now = SystemClock.now_micros() / 1_000;
    let [from, to] = times.map(|time| time.map(|moment| format_time(moment.to_millis(now))));
    let body = json!({
        "app": arguments.app, "version": arguments.app_version, "build": arguments.build, "from": from,
        "to": to, "debug_id": arguments.debug_id, "dry_run": arguments.dry_run, "all": !is_narrow,
    });
    block_on(async {
        let client = Client::new(&arguments.server)?;
        if arguments.dry_run {
            let counted: Counted = client.post("/v1/reprocess", &body).await?;
            say!("{} reports fit", counted.count);
            return Ok(Exit::Ready);
        }
        // Sent once: a second one would ask for everything a second time.
        let mut made: Reprocess = client.post("/v1/reprocess", &body).await?;
        say!("{}  {} reports fit", made.id, made.count);
        if !arguments.wait {
            return Ok(Exit::Ready);
        }
        while !made.answered {
            tokio::time::sleep(STATUS_POLL_INTERVAL).await;
            made = client.get(&format!("/v1/reprocess/{}", made.id)).await?;
        }
        say!(
            "{}: {} asked, {} under way before, {} better, {} unchanged, {} gone",
            made.status,
            made.asked,
            made.under_way,
            made.better,
            made.unchanged,
            made.gone
        );
        Ok(if made.status == "done" { Exit::Ready } else { Exit::Failed })
    })
}
