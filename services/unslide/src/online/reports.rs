//! `unslide reports`: stored reports.

use crate::prelude::*;
use unslide_client::listing::{ListForm, Listing, filter_given, item_text};

/// Arguments of `unslide reports`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:read.

Examples:
  unslide reports --app com.example.shop --app-version 2.4.1
  unslide reports --group 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10 --limit 5
  unslide reports --search Cart.total
  unslide reports --app com.example.shop --model iPhone16,1 --os 18.3.1
  unslide reports --app com.example.shop --csv > reports.csv")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier
    #[arg(long)]
    app: Option<String>,
    /// Version
    #[arg(long = "app-version", value_name = "VERSION")]
    app_version: Option<String>,
    /// Reports of the group with this id
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Reports of groups where a function, a file, the reason or the title contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// How far symbolication got: complete, partial or none
    #[arg(long)]
    status: Option<String>,
    /// The machine, such as iPhone16,1
    #[arg(long)]
    model: Option<String>,
    /// The operating system's version, with or without its name
    #[arg(long, value_name = "VERSION")]
    os: Option<String>,
    #[command(flatten)]
    form: ListForm,
}

pub fn run(arguments: Arguments) -> Outcome {
    let query = filter_given([
        ("app", arguments.app),
        ("version", arguments.app_version),
        ("group", arguments.group),
        ("q", arguments.search),
        ("status", arguments.status),
        ("model", arguments.model),
        ("os_version", arguments.os),
    ]);
    let listing = Listing {
        path: "/v1/reports",
        query,
        limit: 50,
        head: &["ID", "RECEIVED", "APP", "VERSION", "STATUS", "DEVICE", "REASON"],
        row,
    };
    block_on(async { arguments.form.print_list(listing, &Client::new(&arguments.server)?).await })
}

fn row(report: &Value) -> [String; 7] {
    let device = [item_text(report, "model"), item_text(report, "os_version")].join(" ").trim().to_owned();
    let reason = report["reason"].as_str().or_else(|| report["summary"]["exception"].as_str());
    let lacks = if report["symbols_missing"] == true { ", symbols missing" } else { "" };
    [
        item_text(report, "id"),
        item_text(report, "received_at"),
        item_text(report, "app"),
        item_text(report, "version"),
        item_text(report, "status") + lacks,
        device,
        reason.unwrap_or_else(|| report["type"].as_str().unwrap_or_default()).to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_whose_app_lacks_symbols_says_so() {
        let status =
            |missing: bool| row(&json!({ "status": "partial", "symbols_missing": missing }))[4].clone();
        assert_eq!([status(true), status(false)], ["partial, symbols missing", "partial"]);
    }
}
