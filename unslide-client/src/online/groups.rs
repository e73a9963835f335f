//! `unslide groups`: the bugs that reports are about, and their states.

mod change;
pub mod rules;
mod show;
mod views;

use crate::online::reports::show::ShowFormat;
use crate::prelude::*;
use change::{
    IgnoreArguments, Target, Targets, build_resolved, change_group, change_groups, comment_on_group,
};
use clap::ValueEnum;
use unslide_cli::listing::{ListForm, Listing, filter_given, item_text};
use unslide_model::{Clock, GroupRef, Moment, SystemClock, compare_versions};

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
  unslide groups --assignee ''
  unslide groups show SHOP-1A2B
  unslide groups resolve SHOP-1A2B SHOP-7C0Q --in-version 2.4.2
  unslide groups ignore SHOP-1A2B --more-reports 100
  unslide groups ignore SHOP-1A2B --until-next-version
  unslide groups comment SHOP-1A2B \"only on iPads\"
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
    /// Groups that are new in this version, or came back in it
    #[arg(long, value_name = "VERSION")]
    new_in: Option<String>,
    /// Groups with reports that arrived on this day (UTC) or later, such as 2026-11-20 or yesterday; only these are counted
    #[arg(long, value_name = "DAY")]
    from_day: Option<Moment>,
    /// Groups with reports that arrived on this day (UTC) or earlier; only these are counted
    #[arg(long, value_name = "DAY")]
    to_day: Option<Moment>,
    /// Groups with a report at this time or later: a day such as yesterday or 2026-11-20, a time, or a duration before now such as 12h or 1w
    #[arg(long, value_name = "TIME")]
    seen_from: Option<Moment>,
    /// Groups with a first report that arrived at this time or later; not those that came back: see --status regressed
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
    /// A label of the group, such as owner:@example/cart for the owner of its code
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
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
    Show {
        #[command(flatten)]
        target: Target,
        /// text; json, as --json; or markdown, for an issue
        #[arg(long, value_enum, default_value_t, conflicts_with = "json")]
        format: ShowFormat,
        /// Name the evidence of each sentence of Markdown in square brackets
        #[arg(long, requires = "format")]
        evidence: bool,
    },
    /// Resolve groups: a new report of a later version opens them again
    Resolve {
        #[command(flatten)]
        targets: Targets,
        /// The version without the bug; if absent, any new report opens the group again
        #[arg(long, value_name = "VERSION")]
        in_version: Option<String>,
        /// The version after the newest one has not the bug
        #[arg(long, conflicts_with = "in_version")]
        in_next_version: bool,
    },
    /// Ignore groups, for ever or until something
    Ignore {
        #[command(flatten)]
        targets: Targets,
        #[command(flatten)]
        until: IgnoreArguments,
    },
    /// Open groups that were closed
    Reopen(Targets),
    /// Take back the newest change of groups
    Undo(Targets),
    /// Assign a group to a person
    Assign {
        #[command(flatten)]
        target: Target,
        /// Name of the person; empty to assign it to no person
        assignee: String,
    },
    /// Comment on a group
    Comment {
        #[command(flatten)]
        target: Target,
        /// The comment, plain text
        text: String,
    },
    /// Link a group to a ticket in another system
    Ticket {
        #[command(flatten)]
        target: Target,
        /// Address of the ticket; empty to remove it
        ticket: String,
    },
    /// Merge several groups into one
    Merge {
        #[command(flatten)]
        target: Target,
        /// The ids or short ids of the groups to merge into it
        #[arg(required = true)]
        groups: Vec<GroupRef>,
    },
    /// Take a merged group out again
    Split {
        #[command(flatten)]
        target: Target,
        /// The id or the short id of the merged group
        group: GroupRef,
    },
    /// List the saved views of the key and of the tenant
    Views(views::ViewsArguments),
    /// The rules by which the tenant's reports are grouped
    #[command(subcommand)]
    Rules(rules::RulesAction),
}

/// Lists groups, or changes one.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.action {
        Some(action) => block_on(run_action(action)),
        None => block_on(list_groups(arguments.list)),
    }
}

async fn run_action(action: Action) -> Outcome {
    match action {
        Action::Resolve { targets, in_version, in_next_version } => {
            change_groups(targets, &build_resolved(in_version, in_next_version)).await
        }
        Action::Ignore { targets, until } => change_groups(targets, &until.to_body()).await,
        Action::Reopen(targets) => change_groups(targets, &json!({"status": "open"})).await,
        Action::Undo(targets) => change_groups(targets, &json!({"undo": true})).await,
        Action::Assign { target, assignee } => {
            change_group(&target, "", &json!({"assignee": assignee})).await
        }
        Action::Comment { target, text } => comment_on_group(&target, &text).await,
        Action::Ticket { target, ticket } => change_group(&target, "", &json!({"ticket_url": ticket})).await,
        Action::Merge { target, groups } => change_group(&target, "/merge", &json!({"groups": groups})).await,
        Action::Split { target, group } => change_group(&target, "/split", &json!({"group": group})).await,
        Action::Rules(action) => rules::run(action).await,
        Action::List(arguments) => list_groups(*arguments).await,
        Action::Show { target, format, evidence } => show::show_group(&target, format, evidence).await,
        Action::Views(arguments) => views::list_views(arguments).await,
    }
}

async fn list_groups(arguments: ListArguments) -> Outcome {
    let now = SystemClock.now_micros() / 1_000;
    let sort = arguments.sort.to_possible_value().map(|sort| sort.get_name().to_owned());
    let query = filter_given([
        ("app", arguments.app),
        ("version", arguments.app_version),
        ("new_in", arguments.new_in),
        ("from_day", arguments.from_day.map(|day| day.as_day(now))),
        ("to_day", arguments.to_day.map(|day| day.as_day(now))),
        ("seen_from", arguments.seen_from.map(|time| time.as_text(now))),
        ("new_from", arguments.new_from.map(|time| time.as_text(now))),
        ("kind", arguments.kind),
        ("provisional", arguments.provisional.map(|only| only.to_string())),
        ("status", arguments.status),
        ("assignee", arguments.assignee),
        ("label", arguments.label),
        ("q", arguments.search),
        ("sort", sort),
    ]);
    let listing = Listing {
        path: "/v1/groups",
        query,
        limit: 50,
        head: &["SHORT ID", "ID", "STATE", "REPORTS", "DEVICES", "LAST SEEN", "VERSIONS", "TITLE", "CULPRIT"],
        row,
        empty: "no group matches",
    };
    arguments.form.print_list(listing, &Client::new(&arguments.server)?).await
}

/// Returns the status, with the version or the limit that it is about.
pub fn format_state(group: &Value) -> String {
    let status = item_text(group, "status");
    let named = |word: &str, name: &str| match &group[name] {
        Value::String(text) if !text.is_empty() => Some(format!("{word} {text}")),
        Value::Number(number) => Some(format!("{word} {number}")),
        _ => None,
    };
    let about: Vec<String> = match status.as_str() {
        "resolved" => {
            [named("in", "resolved_in"), named("after", "resolved_after")].into_iter().flatten().collect()
        }
        "regressed" => named("in", "regressed_in").into_iter().collect(),
        "ignored" => {
            let reports = named("until", "ignored_until_reports").map(|text| format!("{text} reports"));
            let devices = named("until", "ignored_until_devices").map(|text| format!("{text} devices"));
            let after = named("until a version after", "ignored_after");
            [named("until", "ignored_until"), reports, devices, after].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    };
    if about.is_empty() { status } else { format!("{status} {}", about.join(" or ")) }
}

/// Returns the versions of the first and the last report, the older version first.
pub fn format_versions(group: &Value) -> String {
    let (mut first, mut last) = (item_text(group, "first_version"), item_text(group, "last_version"));
    if compare_versions(&first, &last).is_gt() {
        (first, last) = (last, first);
    }
    if first == last { first } else { format!("{first}..{last}") }
}

fn row(group: &Value) -> [String; 9] {
    let provisional = if group["provisional"] == true { " (provisional: symbols are missing)" } else { "" };
    [
        item_text(group, "short_id"),
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
        let group = serde_json::json!({"id": "5", "short_id": "A-0001", "reports": 3, "affected_devices": 2, "last_seen": "2026-11-20T09:00:00Z",
            "first_version": "1.0", "last_version": "1.2", "title": "Hang", "provisional": true,
            "status": "regressed", "resolved_in": "1.1", "regressed_in": "1.2"});
        let of_version = serde_json::json!({"reports": 10, "all_reports": 216});
        assert_eq!(row(&of_version)[3], "10 of 216");
        let row = row(&group);
        assert_eq!(
            row[..7],
            ["A-0001", "5", "regressed in 1.2", "3", "2", "2026-11-20T09:00:00Z", "1.0..1.2"]
        );
        assert!(row[7].starts_with("Hang (provisional"));
        let late = serde_json::json!({"first_version": "1.10", "last_version": "1.9"});
        assert_eq!(format_versions(&late), "1.9..1.10");
    }

    #[test]
    fn a_state_says_what_ends_it() {
        let ignored = serde_json::json!({"status": "ignored", "ignored_until": "2026-12-01T00:00:00Z", "ignored_until_devices": 9});
        assert_eq!(format_state(&ignored), "ignored until 2026-12-01T00:00:00Z or until 9 devices");
        let next = serde_json::json!({"status": "resolved", "resolved_after": "2.4.1"});
        assert_eq!(format_state(&next), "resolved after 2.4.1");
        assert_eq!(format_state(&serde_json::json!({"status": "open"})), "open");
    }
}
