//! `unslide own-keys`: lists the keys that an app sets, and the values of one.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser};
use serde_json::Value;
use unslide_cli::listing::{app_path, filter_given, item_text, with_query};
use unslide_cli::{
    ApiServer, Client, ClientFeature, Console, Exit, FeatureCommand, Outcome, Table, block_on, note,
};
use unslide_model::GroupRef;

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "groups", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("own-keys")
};

/// List the keys that an app sets, such as plans and flags, and the values of one
#[derive(Parser)]
#[command(
    name = "own-keys",
    after_help = "\
The key needs the scope reports:read. The newest 10,000 reports are counted.

Examples:
  unslide own-keys --app com.example.shop
  unslide own-keys plan --app com.example.shop --app-version 4.2.0
  unslide own-keys plan --app com.example.shop --group SHOP-1A2B
  unslide reports --app com.example.shop --key plan=pro"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// The key whose values are listed; the keys of the app if absent
    key: Option<String>,
    /// Bundle identifier of the app
    #[arg(long)]
    app: String,
    /// The only version to count
    #[arg(long = "app-version", visible_alias = "version", value_name = "VERSION", conflicts_with = "group")]
    app_version: Option<String>,
    /// The only group to count: its id or its short id
    #[arg(long, value_name = "ID")]
    group: Option<GroupRef>,
    #[command(flatten)]
    form: PrintForm,
}

#[derive(Args)]
struct PrintForm {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Print the list as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print the list as JSON objects, one a line
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    ndjson: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { server, key, app, app_version, group, form } = Arguments::from_arg_matches(matches)?;
    let parts: Vec<&str> = std::iter::once("keys").chain(key.as_deref()).collect();
    let path = app_path(&app, &parts)?;
    let mut query = filter_given([("version", app_version), ("group", group.map(|group| group.to_string()))]);
    let file = [(form.csv, "csv"), (form.ndjson, "ndjson")].into_iter().find(|(is_wanted, _)| *is_wanted);
    query.extend(file.map(|(_, format)| ("format", format.to_owned())));
    let path = with_query(&path, &query)?;
    block_on(async {
        let client = Client::new(&server)?;
        if file.is_some() {
            let print = |piece: &[u8]| {
                Console::get().write_bytes(piece);
                !Console::get().is_closed()
            };
            client.get_pieces(&path, print).await?;
            return Ok(Exit::Ready);
        }
        let found: Value = client.get(&path).await?;
        match (form.json, key) {
            (true, _) => Console::get().print_json(&found)?,
            (false, None) => print_keys(&found),
            (false, Some(_)) => print_values(&found),
        }
        Ok(Exit::Ready)
    })
}

fn print_keys(found: &Value) {
    let mut table = Table::new(&["KEY", "VALUES", "SHARE", "REPORTS"]);
    for key in listed_items(found) {
        let share = format!("{} %", key["share"]);
        table.add_row([item_text(key, "name"), key["values"].to_string(), share, key["reports"].to_string()]);
    }
    table.print();
    note!("counted in the newest {} reports", found["sample"]);
    if found["other_keys"].as_i64().unwrap_or(0) > 0 {
        note!("{} other keys are not listed", found["other_keys"]);
    }
}

fn print_values(found: &Value) {
    let mut table = Table::new(&["VALUE", "SHARE", "REPORTS"]);
    for value in listed_items(found) {
        let share = format!("{} %", value["share"]);
        table.add_row([item_text(value, "value"), share, value["reports"].to_string()]);
    }
    table.print();
    note!("{} of the newest {} reports have the key", found["reports"], found["sample"]);
    if let Some(other) = found["other"].as_object() {
        note!("{} other values are in {} reports", other["values"], other["reports"]);
    }
}

fn listed_items(found: &Value) -> impl Iterator<Item = &Value> {
    found["items"].as_array().into_iter().flatten()
}
