//! `unslide symbols list`, `missing` and `delete`.

use crate::lookups::describe_lookup;
use crate::prelude::*;
use unslide_cli::confirm_action;
use unslide_cli::listing::{ListForm, Listing, filter_given, item_text};
use unslide_model::{Clock, DebugId, Moment, SystemClock};

/// Arguments of the command `unslide symbols list`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope symbols:read, with --system the scope operator.

Examples:
  unslide symbols list --from 7d
  unslide symbols list --status malformed
  unslide symbols list --debug-id 0f1e2d3c")]
pub struct SymbolListArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Name of the file, without its folder
    #[arg(long)]
    name: Option<String>,
    /// Architecture of the object, such as arm64
    #[arg(long)]
    arch: Option<String>,
    /// queued, building, ready, malformed, unsupported or too_complex
    #[arg(long)]
    status: Option<String>,
    /// A debug id, or how it begins
    #[arg(long, value_name = "UUID")]
    debug_id: Option<String>,
    /// First uploaded at this time or later: a day such as yesterday or 2026-11-20, a time, or a duration before now such as 12h or 1w
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// First uploaded before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
    /// The symbols of operating systems, which all tenants share
    #[arg(long)]
    system: bool,
    #[command(flatten)]
    form: ListForm,
}

/// Arguments of the command `unslide symbols missing`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:read. `unslide upload` takes the dSYMs with these ids, most easily as the .xcarchive of the build.

Examples:
  unslide symbols missing --app com.example.shop
  unslide symbols missing --app com.example.shop --app-version 2.4.1 --json")]
pub struct MissingArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of an app with reports that refer to the image
    #[arg(long)]
    app: Option<String>,
    /// Version of the app with such reports
    #[arg(long = "app-version", value_name = "VERSION")]
    app_version: Option<String>,
    /// List the operating system's images too
    #[arg(long)]
    system: bool,
    #[command(flatten)]
    form: ListForm,
}

/// Arguments of the command `unslide symbols delete`.
#[derive(Args)]
#[command(after_help = "The key needs the scope symbols:write, with --system the scope operator.")]
pub struct DeleteArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The debug id of the symbols
    debug_id: DebugId,
    /// The symbols of an operating system, which all tenants share
    #[arg(long)]
    system: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Lists the objects that were found in uploads, the newest first.
pub fn list_symbols(arguments: SymbolListArguments) -> Outcome {
    let now = SystemClock.now_micros() / 1_000;
    let query = filter_given([
        ("name", arguments.name),
        ("arch", arguments.arch),
        ("status", arguments.status),
        ("debug_id", arguments.debug_id),
        ("from", arguments.from.map(|from| from.as_text(now))),
        ("to", arguments.to.map(|to| to.as_text(now))),
    ]);
    let listing = Listing {
        path: if arguments.system { "/v1/system/symbols" } else { "/v1/symbols" },
        query,
        limit: 50,
        head: &["DEBUG ID", "UPLOADED", "NAME", "ARCH", "KIND", "BYTES", "STATUS", "REASON"],
        row: |object| {
            let status = match (object["active"] == true, item_text(object, "status")) {
                (true, status) if status == "ready" => "ready, in use".to_owned(),
                (_, status) => status,
            };
            [
                item_text(object, "debug_id"),
                item_text(object, "created_at"),
                item_text(object, "name"),
                item_text(object, "arch"),
                item_text(object, "kind"),
                object["size"].to_string(),
                status,
                item_text(object, "reason"),
            ]
        },
        empty: "no symbols match",
    };
    block_on(async { arguments.form.print_list(listing, &Client::new(&arguments.server)?).await })
}

/// Lists the debug ids that reports wait for, the most wanted first.
pub fn list_missing(arguments: MissingArguments) -> Outcome {
    let query = filter_given([
        ("app", arguments.app),
        ("version", arguments.app_version),
        ("system", arguments.system.then(|| "true".to_owned())),
    ]);
    let listing = Listing {
        path: "/v1/missing-symbols",
        query,
        limit: 50,
        head: &["DEBUG ID", "REPORTS", "LAST SEEN", "NAME", "ARCH", "APPS", "VERSIONS", "SOURCES"],
        row: |image| {
            [
                item_text(image, "debug_id"),
                image["reports"].to_string(),
                item_text(image, "last_seen"),
                item_text(image, "name"),
                item_text(image, "arch"),
                join_texts(&image["apps"]),
                join_texts(&image["versions"]),
                join_lookups(&image["lookups"]),
            ]
        },
        empty: "no report lacks symbols that an upload would bring",
    };
    block_on(async { arguments.form.print_list(listing, &Client::new(&arguments.server)?).await })
}

fn join_lookups(list: &Value) -> String {
    list.as_array().into_iter().flatten().map(describe_lookup).collect::<Vec<_>>().join("; ")
}

fn join_texts(list: &Value) -> String {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join(" ")
}

/// Deletes all symbols of a debug id.
pub fn delete_symbols(arguments: &DeleteArguments) -> Outcome {
    let id = arguments.debug_id;
    let whose = if arguments.system { " of all tenants" } else { "" };
    confirm_action(
        &format!("This deletes the symbols of {id}{whose}; stored reports keep their names."),
        arguments.yes,
    )?;
    let path = if arguments.system { "/v1/system/symbols" } else { "/v1/symbols" };
    block_on(async { Ok(Client::new(&arguments.server)?.delete(&format!("{path}/{id}")).await?) })?;
    say!("{id}  deleted");
    Ok(Exit::Ready)
}
