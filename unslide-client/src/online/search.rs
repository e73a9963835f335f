//! `unslide search`: finds reports, groups, apps and versions by an id or a text.

use crate::prelude::*;
use clap::ValueEnum;
use unslide_cli::listing::{filter_given, item_text, with_query};

/// The switch of a tenant for ids of persons.
const PERSON_SEARCH: &str = "/v1/person-search";

/// Arguments of the command `unslide search`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:read. The id of anything that was sent or uploaded finds that entry, and so does the short id of a
group. A session's id finds its reports. The ids of devices, installations and users are searched if the tenant has turned that on: see
`unslide settings person-search`.

Examples:
  unslide search 2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59
  unslide search Cart.total
  unslide search SHOP-1A2B
  unslide search 2.4.1 --app com.example.shop
  unslide search customer-4711 --json")]
pub struct SearchArguments {
    #[command(flatten)]
    server: ApiServer,
    /// An id, or a part of a name or text
    text: String,
    /// Bundle identifier of the app
    #[arg(long)]
    app: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Prints the matches of a text.
pub fn run(arguments: SearchArguments) -> Outcome {
    let query = filter_given([("q", Some(arguments.text)), ("app", arguments.app)]);
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let found: Value = client.get(&with_query("/v1/search", &query)?).await?;
        if arguments.json {
            Console::get().print_json(&found)?;
            return Ok(Exit::Ready);
        }
        print_matches(&found);
        Ok(Exit::Ready)
    })
}

fn print_matches(found: &Value) {
    let items = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        let persons = match found["person_search"] == true {
            true => "",
            false => "; ids of devices, installations and users are not searched",
        };
        note!("nothing matches{persons}");
        return;
    }
    let mut table = Table::new(&["KIND", "ID", "BY", "APP", "VERSION", "AT", "TITLE"]);
    items.iter().for_each(|item| table.add_row(match_row(item)));
    table.print();
}

fn match_row(item: &Value) -> [String; 7] {
    ["kind", "id", "found_by", "app", "version", "at", "title"].map(|name| item_text(item, name))
}

/// Arguments of the command `unslide settings person-search`.
#[derive(Args)]
#[command(after_help = "\
A tenant decides whether people may search reports and sessions by the id of a device, an installation or a user. Only hashes of these
ids are stored, so that a search needs the whole id.

Examples:
  unslide settings person-search
  unslide settings person-search on")]
pub struct PersonSearchArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Turn it on or off; without it the switch is shown
    switch: Option<PersonSearchSwitch>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PersonSearchSwitch {
    On,
    Off,
}

/// Shows or changes whether ids of persons are searched.
pub async fn switch_person_search(arguments: &PersonSearchArguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    let state: Value = match arguments.switch {
        None => client.get(PERSON_SEARCH).await?,
        Some(switch) => {
            client.put(PERSON_SEARCH, &json!({ "enabled": switch == PersonSearchSwitch::On })).await?
        }
    };
    if arguments.json {
        Console::get().print_json(&state)?;
        return Ok(Exit::Ready);
    }
    let word = if state["enabled"] == true { "on" } else { "off" };
    say!("the search by ids of devices, installations and users is {word}");
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_which_field_has_the_text() {
        let item = json!({"kind": "report", "id": "5", "title": "EXC_CRASH", "app": "shop", "version": "1.0",
            "at": "2026-11-20T09:00:00Z", "found_by": "user", "page": "/console/reports/5"});
        let row = match_row(&item);
        assert_eq!(row, ["report", "5", "user", "shop", "1.0", "2026-11-20T09:00:00Z", "EXC_CRASH"]);
        let app = match_row(&json!({"kind": "app", "id": "shop", "title": "shop"}));
        assert_eq!(app[4..], ["", "", "shop"]);
    }
}
