//! `unslide groups`: the bugs that reports are about, and their states.

pub mod rules;
mod show;

use crate::moment::Moment;
use crate::prelude::*;
use clap::ValueEnum;
use reqwest::Method;
use unslide_client::listing::{ListForm, Listing, filter_given, item_text};
use unslide_model::{Clock, SystemClock};
use unslide_store::Uuid;

/// Arguments of the command `unslide groups`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
The key needs the scope reports:read; to change groups, groups:write; for rules, tenant:admin. Without a command the groups are
listed.

Examples:
  unslide groups --app com.example.shop
  unslide groups --status open,regressed
  unslide groups --new-from 24h
  unslide groups show 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide groups resolve 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10 --in-version 2.4.2
  unslide groups --app com.example.shop --app-version 2.4.1 --sort reports
  unslide groups --sort growing
  unslide groups rules try grouping.rules
  unslide groups --search Cart
  unslide groups --status open --csv > groups.csv"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: ListArguments,
}

/// Arguments of the command `unslide groups list`.
#[derive(Args)]
struct ListArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app
    #[arg(long)]
    app: Option<String>,
    /// Groups with reports of this version; only these are counted
    #[arg(long = "app-version", value_name = "VERSION")]
    app_version: Option<String>,
    /// Groups with a first report of this version
    #[arg(long, value_name = "VERSION")]
    new_in: Option<String>,
    /// Groups with reports that arrived on this day (UTC) or later, such as 2026-11-20; only these are counted
    #[arg(long, value_name = "DAY")]
    from_day: Option<String>,
    /// Groups with reports that arrived on this day (UTC) or earlier; only these are counted
    #[arg(long, value_name = "DAY")]
    to_day: Option<String>,
    /// Groups with a report at this time or later: RFC 3339, or a duration before now such as 90m, 12h or 7d
    #[arg(long, value_name = "TIME")]
    seen_from: Option<Moment>,
    /// Groups with a first report that arrived at this time or later
    #[arg(long, value_name = "TIME")]
    new_from: Option<Moment>,
    /// What happened, such as crash or hang
    #[arg(long)]
    kind: Option<String>,
    /// true: groups with reports that lack symbols of the app; false: the others
    #[arg(long, value_name = "BOOL")]
    provisional: Option<bool>,
    /// open, regressed, resolved or ignored; several with commas between
    #[arg(long)]
    status: Option<String>,
    /// Assigned to this name; not assigned if empty
    #[arg(long)]
    assignee: Option<String>,
    /// A function, a file, the reason or the title contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Order of the list, the largest first
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    #[command(flatten)]
    form: ListForm,
}

#[derive(Clone, Copy, Default, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Sort {
    #[default]
    LastSeen,
    FirstSeen,
    Reports,
    /// More reports in the last 7 days than in the 7 before, the largest growth first; the first 50 or --limit
    Growing,
}

/// Commands on groups.
#[derive(Subcommand)]
enum Action {
    /// List groups of reports, one bug each
    List(Box<ListArguments>),
    /// Show a group: its counts, and the stack of its newest report
    Show(Target),
    /// Resolve a group: a new report of a later version opens it again
    Resolve {
        #[command(flatten)]
        target: Target,
        /// The version without the bug; if absent, any new report opens the group again
        #[arg(long, value_name = "VERSION")]
        in_version: Option<String>,
    },
    /// Ignore a group, whatever comes
    Ignore(Target),
    /// Open a group that was closed
    Reopen(Target),
    /// Assign a group to a person
    Assign {
        #[command(flatten)]
        target: Target,
        /// Name of the person; empty to assign it to no person
        assignee: String,
    },
    /// Merge several groups into one
    Merge {
        #[command(flatten)]
        target: Target,
        /// The ids of the groups to merge into it
        #[arg(required = true)]
        groups: Vec<Uuid>,
    },
    /// Take a merged group out again
    Split {
        #[command(flatten)]
        target: Target,
        /// The id of the merged group
        group: Uuid,
    },
    /// The rules by which the tenant's reports are grouped
    #[command(subcommand)]
    Rules(rules::RulesAction),
}

/// The group that something is done with.
#[derive(Args)]
pub struct Target {
    #[command(flatten)]
    server: ApiServer,
    /// The id of the group
    id: Uuid,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Lists groups, or changes one.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.action {
        Some(action) => block_on(run_action(action)),
        None => block_on(list_groups(arguments.list)),
    }
}

async fn run_action(action: Action) -> Outcome {
    let (target, path, body) = match action {
        Action::Resolve { target, in_version } => {
            let mut body = json!({"status": "resolved"});
            if let Some(version) = in_version {
                body["resolved_in"] = version.into();
            }
            (target, "", body)
        }
        Action::Ignore(target) => (target, "", json!({"status": "ignored"})),
        Action::Reopen(target) => (target, "", json!({"status": "open"})),
        Action::Assign { target, assignee } => (target, "", json!({"assignee": assignee})),
        Action::Merge { target, groups } => (target, "/merge", json!({"groups": groups})),
        Action::Split { target, group } => (target, "/split", json!({"group": group})),
        Action::Rules(action) => return rules::run(action).await,
        Action::List(arguments) => return list_groups(*arguments).await,
        Action::Show(target) => return show::show_group(&target).await,
    };
    let client = Client::new(&target.server)?;
    let address = format!("/v1/groups/{}{path}", target.id);
    let method = if path.is_empty() { Method::PATCH } else { Method::POST };
    let group: Value = client.send_json(method, &address, &body).await?;
    if target.json {
        Console::get().print_json(&group)?;
    } else if group.is_null() {
        say!("{}  done; the key may not read groups", target.id);
    } else {
        let count = group["reports"].as_u64().unwrap_or(0);
        let noun = if count == 1 { "report" } else { "reports" };
        say!("{}  {}  {count} {noun}  {}", target.id, format_state(&group), item_text(&group, "title"));
    }
    Ok(Exit::Ready)
}

async fn list_groups(arguments: ListArguments) -> Outcome {
    let now = SystemClock.now_micros() / 1_000;
    let sort = arguments.sort.to_possible_value().map(|sort| sort.get_name().to_owned());
    let query = filter_given([
        ("app", arguments.app),
        ("version", arguments.app_version),
        ("first_version", arguments.new_in),
        ("from_day", arguments.from_day),
        ("to_day", arguments.to_day),
        ("seen_from", arguments.seen_from.map(|time| time.as_text(now))),
        ("new_from", arguments.new_from.map(|time| time.as_text(now))),
        ("kind", arguments.kind),
        ("provisional", arguments.provisional.map(|only| only.to_string())),
        ("status", arguments.status),
        ("assignee", arguments.assignee),
        ("q", arguments.search),
        ("sort", sort),
    ]);
    let listing = Listing {
        path: "/v1/groups",
        query,
        limit: 50,
        head: &["ID", "STATE", "REPORTS", "DEVICES", "LAST SEEN", "VERSIONS", "TITLE", "CULPRIT"],
        row,
        empty: "no group matches",
    };
    arguments.form.print_list(listing, &Client::new(&arguments.server)?).await
}

/// Returns the status, with the version that it is about.
pub fn format_state(group: &Value) -> String {
    let status = item_text(group, "status");
    let version = match status.as_str() {
        "resolved" => item_text(group, "resolved_in"),
        "regressed" => item_text(group, "regressed_in"),
        _ => String::new(),
    };
    if version.is_empty() { status } else { format!("{status} in {version}") }
}

/// Returns the first and the last version with a report.
pub fn format_versions(group: &Value) -> String {
    let (first, last) = (item_text(group, "first_version"), item_text(group, "last_version"));
    if first == last { first } else { format!("{first}..{last}") }
}

fn row(group: &Value) -> [String; 8] {
    let provisional = if group["provisional"] == true { " (provisional: symbols are missing)" } else { "" };
    [
        item_text(group, "id"),
        format_state(group),
        match group["all_reports"].as_i64() {
            Some(all) => format!("{} of {all}", group["reports"]),
            None => group["reports"].to_string(),
        },
        group["affected_devices"].to_string(),
        item_text(group, "last_seen"),
        format_versions(group),
        item_text(group, "title") + provisional,
        item_text(group, "culprit"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_state_and_versions_and_says_what_is_provisional() {
        let group = serde_json::json!({"id": "5", "reports": 3, "affected_devices": 2, "last_seen": "2026-11-20T09:00:00Z",
            "first_version": "1.0", "last_version": "1.2", "title": "Hang", "provisional": true,
            "status": "regressed", "resolved_in": "1.1", "regressed_in": "1.2"});
        let of_version = serde_json::json!({"reports": 10, "all_reports": 216});
        assert_eq!(row(&of_version)[2], "10 of 216");
        let row = row(&group);
        assert_eq!(row[..6], ["5", "regressed in 1.2", "3", "2", "2026-11-20T09:00:00Z", "1.0..1.2"]);
        assert!(row[6].starts_with("Hang (provisional"));
    }
}
