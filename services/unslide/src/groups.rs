//! `unslide groups`: the bugs that reports are about.

use crate::boot;
use crate::client::{ApiServer, Client};
use crate::failure::Outcome;
use crate::listing::{Listing, given, text};
use clap::{Args, ValueEnum};
use serde_json::Value;

/// Arguments of `unslide groups`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:read.

Examples:
  unslide groups --app com.example.shop
  unslide groups --app com.example.shop --app-version 2.4.1 --sort reports
  unslide groups --search Cart")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier
    #[arg(long)]
    app: Option<String>,
    /// Groups with reports of this version
    #[arg(long = "app-version", value_name = "VERSION")]
    app_version: Option<String>,
    /// What happened, such as crash or hang
    #[arg(long)]
    kind: Option<String>,
    /// Title or culprit contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// What the list goes by, the largest first
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// The most groups to list
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Sort {
    #[default]
    LastSeen,
    FirstSeen,
    Reports,
}

/// Lists groups.
pub fn run(arguments: Arguments) -> Outcome {
    let sort = arguments.sort.to_possible_value().map(|sort| sort.get_name().to_owned());
    let query = given([
        ("app", arguments.app),
        ("version", arguments.app_version),
        ("kind", arguments.kind),
        ("q", arguments.search),
        ("sort", sort),
    ]);
    let listing = Listing {
        path: "/v1/groups",
        query,
        limit: arguments.limit,
        head: &["ID", "REPORTS", "LAST SEEN", "VERSIONS", "TITLE", "CULPRIT"],
        row,
    };
    boot::block_on(async { listing.print(&Client::new(&arguments.server)?, arguments.json).await })
}

fn row(group: &Value) -> [String; 6] {
    let (first, last) = (text(group, "first_version"), text(group, "last_version"));
    let versions = if first == last { first } else { format!("{first}..{last}") };
    let provisional = if group["provisional"] == true { " (provisional: symbols are missing)" } else { "" };
    [
        text(group, "id"),
        group["reports"].to_string(),
        text(group, "last_seen"),
        versions,
        text(group, "title") + provisional,
        text(group, "culprit"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_versions_and_says_what_is_provisional() {
        let group = serde_json::json!({"id": "5", "reports": 3, "last_seen": "2026-11-20T09:00:00Z",
            "first_version": "1.0", "last_version": "1.2", "title": "Hang", "provisional": true});
        let row = row(&group);
        assert_eq!(row[..4], ["5", "3", "2026-11-20T09:00:00Z", "1.0..1.2"]);
        assert!(row[4].starts_with("Hang (provisional"));
    }
}
