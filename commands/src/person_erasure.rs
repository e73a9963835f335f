//! `unslide erase`: erases what a tenant has of one person.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::json;
use unslide_cli::listing::{Listing, item_text};
use unslide_cli::{
    ApiServer, Client, ClientFeature, ErasureArguments, FeatureCommand, Outcome, SentErasure, block_on,
    describe_removed, run_erasure,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "reports", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("person-erasure")
};

const ERASURES_PATH: &str = "/v1/person-erasures";
/// Entries of the list of erasures.
const LIST_ENTRIES: usize = 50;

/// Erase everything of one user, installation or session, or list what was erased
#[derive(Parser)]
#[command(
    name = "erase",
    group = ArgGroup::new("person").required(true).args(["user", "installation", "session", "list"]),
    after_help = "\
The key needs the scope tenant:admin. Data that arrived before the command is deleted and not stored again; data that
arrives later is stored.

Examples:
  unslide erase --user u-17 --dry-run
  unslide erase --user u-17
  unslide erase --installation 0308d5c6e6b4e172 --yes --no-wait
  unslide erase --list"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Id of a user, as sessions or reports name it
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// Id of an installation, as sessions name it, or device_app_hash of reports
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    installation: Option<String>,
    /// Id of a session
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// List the erasures so far, the newest first
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    erasure: ErasureArguments,
}

impl Arguments {
    /// Returns the kind and the id of the person.
    fn person(&self) -> Option<(&'static str, &str)> {
        let persons =
            [("user", &self.user), ("installation", &self.installation), ("session", &self.session)];
        persons.into_iter().find_map(|(kind, id)| Some((kind, id.as_deref()?)))
    }
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        let client = Client::new(&arguments.server)?;
        match arguments.person() {
            Some((kind, id)) => erase(&client, &arguments, kind, id).await,
            None => list_erasures(&client, arguments.erasure.json).await,
        }
    })
}

async fn erase(client: &Client, arguments: &Arguments, kind: &str, id: &str) -> Outcome {
    let request = SentErasure {
        path: ERASURES_PATH,
        body: json!({ "kind": kind, "id": id }),
        question: &format!("This erases everything of the {kind} {id}."),
    };
    let reload = async |id: &str| Ok(client.get(&format!("{ERASURES_PATH}/{id}")).await?);
    run_erasure(client, &arguments.erasure, request, reload).await
}

async fn list_erasures(client: &Client, as_json: bool) -> Outcome {
    let listing = Listing {
        path: ERASURES_PATH,
        query: Vec::new(),
        limit: LIST_ENTRIES,
        head: &["ID", "KIND", "REQUESTED", "STATE", "REMOVED", "PERSON"],
        row: |erasure| {
            [
                item_text(erasure, "id"),
                item_text(erasure, "kind"),
                item_text(erasure, "requested_at"),
                item_text(erasure, "state"),
                describe_removed(erasure),
                item_text(erasure, "person_hash"),
            ]
        },
        empty: "no person was erased yet",
    };
    listing.print_items(client, as_json).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_one_person_or_lists_erasures() {
        let parse = |arguments: &[&str]| Arguments::try_parse_from([&["erase"], arguments].concat());
        let user = parse(&["--user", "u-17"]).ok();
        assert_eq!(user.as_ref().and_then(Arguments::person), Some(("user", "u-17")));
        assert!(parse(&["--list"]).is_ok_and(|arguments| arguments.person().is_none()));
        assert!(parse(&[]).is_err() && parse(&["--user", "a", "--session", "b"]).is_err());
    }
}
