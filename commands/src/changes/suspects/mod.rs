//! `unslide suspects`: the commits that changed the functions of a crash, by the checkout on this machine.

mod answer;
mod checkout;
mod group_changes;
mod search;
mod source_file;

use answer::{GroupSuspects, print_groups};
use checkout::Checkout;
use clap::{ArgMatches, FromArgMatches, Parser};
use group_changes::AnsweredChanges;
use search::find_suspects;
use serde_json::{Value, json};
use std::path::PathBuf;
use unslide_cli::listing::{item_text, with_query};
use unslide_cli::{ApiServer, BoxError, Client, CommandError, Console, Exit, Outcome, block_on, note};
use unslide_model::GroupRef;

/// Bugs that are new in a version and looked at, those with the most reports.
const GROUPS_LIMIT: usize = 20;

/// Name the commits that changed the functions of a crash
#[derive(Parser)]
#[command(
    name = "suspects",
    after_help = "\
It runs in a checkout of the app's repository, with the commits of both builds: those that unslide upload named. For each function of
the stack that was edited between the last build without the bug and the first with it, git log names the commits that changed its
lines. Nothing of the checkout is sent. The key needs the scope reports:read.

Examples:
  unslide suspects SHOP-1A2B
  unslide suspects --since 2.4.1 --app com.example.shop --json
  unslide suspects SHOP-1A2B --checkout ../shop"
)]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Id or short id of the bug
    #[arg(required_unless_present = "since", conflicts_with = "since")]
    group: Option<GroupRef>,
    /// All bugs that are new in this version or came back in it, at most 20
    #[arg(long, value_name = "VERSION", requires = "app")]
    since: Option<String>,
    /// The app of the version (bundle identifier)
    #[arg(long, requires = "since")]
    app: Option<String>,
    /// A folder in the checkout
    #[arg(long, value_name = "PATH", default_value = ".")]
    checkout: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Finds the suspects, and prints them.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    let groups = block_on(async {
        let checkout = Checkout::find(&arguments.checkout).await.map_err(|error| {
            let folder = arguments.checkout.display();
            CommandError::caused(format!("{folder} is in no checkout that git can read"), error)
        })?;
        let client = Client::new(&arguments.server)?;
        let mut groups = Vec::new();
        for group in list_groups(&client, &arguments).await? {
            let changes: AnsweredChanges = client.get(&format!("/v1/groups/{group}/changes")).await?;
            groups.push(search_group(&checkout, group, changes).await?);
        }
        if arguments.json {
            Console::get().print_json(&json!({ "groups": groups }))?;
        } else {
            print_groups(&groups);
        }
        Ok(groups)
    })?;
    let lacks_commit = groups.iter().flat_map(|group| &group.images).any(|image| image.lacks_commit);
    Ok(if lacks_commit { Exit::Missing } else { Exit::Ready })
}

async fn list_groups(client: &Client, arguments: &Arguments) -> Result<Vec<GroupRef>, BoxError> {
    if let Some(group) = &arguments.group {
        return Ok(vec![group.clone()]);
    }
    let query = [
        ("app", arguments.app.clone().unwrap_or_default()),
        ("new_in", arguments.since.clone().unwrap_or_default()),
        ("sort", "reports".to_owned()),
        ("limit", GROUPS_LIMIT.to_string()),
    ];
    let page: Value = client.get(&with_query("/v1/groups", &query)?).await?;
    let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        note!("no bug is new in this version of the app");
    }
    if page["next_cursor"].is_string() {
        note!("more bugs are new in this version: these are the {GROUPS_LIMIT} with the most reports");
    }
    let name = |item: &Value| {
        let names = ["short_id", "id"].map(|name| item_text(item, name));
        names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
    };
    items.iter().map(|item| Ok(name(item).parse::<GroupRef>()?)).collect()
}

async fn search_group(
    checkout: &Checkout,
    group: GroupRef,
    changes: AnsweredChanges,
) -> Result<GroupSuspects, BoxError> {
    let AnsweredChanges { group: id, text, version, version_before, images } = changes;
    let mut found =
        GroupSuspects { group: group.to_string(), id, text, version, version_before, images: Vec::new() };
    for image in images {
        found.images.push(find_suspects(checkout, image).await?);
    }
    Ok(found)
}
