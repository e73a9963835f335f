//! `unslide reports`: lists and shows stored reports.

pub mod show;

use crate::prelude::*;
use unslide_cli::listing::{ListForm, Listing, filter_given, item_text};
use unslide_model::{Clock, GroupRef, Moment, SystemClock};

/// Arguments of the command `unslide reports`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
The key needs the scope reports:read. Without a command the reports are listed.

Examples:
  unslide reports --app com.example.shop --app-version 2.4.1
  unslide reports --group SHOP-1A2B --limit 5
  unslide reports --search Cart.total
  unslide reports --app com.example.shop --model iPhone16,1 --os 18.3.1 --from 24h
  unslide reports show 2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59
  unslide reports --app com.example.shop --csv > reports.csv"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<ReportsAction>,
    #[command(flatten)]
    list: ListArguments,
}

#[derive(Subcommand)]
enum ReportsAction {
    /// List stored reports, the newest first
    List(Box<ListArguments>),
    /// Show a report as a log in Apple's form, or the enriched report as JSON
    Show(show::ShowReportArguments),
}

/// Arguments of the command `unslide reports list`.
#[derive(Args)]
struct ListArguments {
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
    /// Arrived at this time or later: a day such as yesterday or 2026-11-20, a time, or a duration before now such as 12h or 1w
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// Arrived before this time, as --from
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
    /// The crash's type, such as mach, signal or nsexception
    #[arg(long = "type", visible_alias = "kind", value_name = "TYPE")]
    crash_type: Option<String>,
    /// Reports of this group: its id or its short id
    #[arg(long, value_name = "ID")]
    group: Option<GroupRef>,
    /// Reports of groups with this text in a function, a file, the reason or the title
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// How far symbolication got: complete, partial or none
    #[arg(long)]
    status: Option<String>,
    /// A key of the app with its value, such as plan=pro, or a state that MetricKit reports
    #[arg(long, value_name = "NAME=VALUE")]
    key: Option<String>,
    /// true: only crashes, which the app did not survive; false: only other reports
    #[arg(long, value_name = "BOOL")]
    fatal: Option<bool>,
    /// true: only reports that figures count, each crash once
    #[arg(long, value_name = "BOOL")]
    counted: Option<bool>,
    /// The machine, such as iPhone16,1
    #[arg(long)]
    model: Option<String>,
    /// The operating system's version, with or without its name
    #[arg(long, value_name = "VERSION")]
    os: Option<String>,
    /// A frame refers to the image with this debug id
    #[arg(long, value_name = "UUID")]
    debug_id: Option<String>,
    #[command(flatten)]
    form: ListForm,
}

/// Lists reports, newest first, or shows one.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.action {
        Some(ReportsAction::Show(arguments)) => show::run(&arguments),
        Some(ReportsAction::List(arguments)) => list_reports(*arguments),
        None => list_reports(arguments.list),
    }
}

fn list_reports(arguments: ListArguments) -> Outcome {
    let now = SystemClock.now_micros() / 1_000;
    let group = arguments.group.map(|group| group.to_string());
    let query = filter_given([
        ("app", arguments.app),
        ("version", arguments.app_version),
        ("build", arguments.build),
        ("from", arguments.from.map(|from| from.as_text(now))),
        ("to", arguments.to.map(|to| to.as_text(now))),
        ("type", arguments.crash_type),
        ("group", group.clone()),
        ("q", arguments.search),
        ("status", arguments.status),
        ("key", arguments.key),
        ("fatal", arguments.fatal.map(|only| only.to_string())),
        ("counted", arguments.counted.map(|only| only.to_string())),
        ("model", arguments.model),
        ("os_version", arguments.os),
        ("debug_id", arguments.debug_id),
    ]);
    let listing = Listing {
        path: "/v1/reports",
        query,
        limit: 50,
        head: &["ID", "RECEIVED", "APP", "VERSION", "APP SYMBOLS", "DEVICE", "REASON"],
        row,
        empty: "no report matches",
    };
    block_on(async {
        let client = Client::new(&arguments.server)?;
        // A mistyped group has no reports, which looks like a group without some.
        if let Some(group) = group {
            client.get::<Value>(&format!("/v1/groups/{group}")).await?;
        }
        arguments.form.print_list(listing, &client).await
    })
}

fn row(report: &Value) -> [String; 7] {
    let device = [item_text(report, "model"), item_text(report, "os_version")].join(" ").trim().to_owned();
    let reason = report["reason"].as_str().or_else(|| report["summary"]["exception"].as_str());
    [
        item_text(report, "id"),
        item_text(report, "received_at"),
        item_text(report, "app"),
        item_text(report, "version"),
        describe_app_symbols(report).to_owned(),
        device,
        reason.unwrap_or_else(|| report["type"].as_str().unwrap_or_default()).to_owned(),
    ]
}

/// Returns how far the symbolication of the app's own frames got, in the words of the console. Frames of the system do not
/// count: an app's team cannot complete them.
fn describe_app_symbols(report: &Value) -> &'static str {
    let count = |name: &str| report["frames"][name].as_u64().unwrap_or(0);
    match (count("own"), count("own_symbolicated")) {
        (0, _) => "no app frames",
        (own, done) if done >= own && report["symbols_missing"] != true => "complete",
        (_, 0) => "missing",
        _ => "partial",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_app_alone_decide_about_its_symbols() {
        let symbols = |own: u64, done: u64, missing: bool| {
            let frames = json!({"total": 9, "own": own, "own_symbolicated": done});
            row(&json!({"status": "partial", "symbols_missing": missing, "frames": frames}))[4].clone()
        };
        assert_eq!([symbols(6, 6, false), symbols(6, 6, true)], ["complete", "partial"]);
        assert_eq!(
            [symbols(6, 0, true), symbols(6, 2, false), symbols(0, 0, false)],
            ["missing", "partial", "no app frames"]
        );
    }
}
