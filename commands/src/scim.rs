//! `unslide scim`: the users and groups that the identity provider of a tenant has sent.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::Value;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, ClientKeyKind, Console, Exit, FeatureCommand, Outcome, block_on, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand {
        follows: "sso",
        command: Arguments::command,
        run,
        key_kind: Some(ClientKeyKind { name: "scim", path: "/v1/scim-tokens", is_public: false }),
    }],
    ..ClientFeature::new("scim")
};

/// Show how many users and groups the identity provider has sent by SCIM
#[derive(Parser)]
#[command(
    name = "scim",
    after_help = "\
The key needs the scope tenant:admin. A token for the identity provider is a key of its own kind, and the key that makes it needs
each scope but operator.

Examples:
  unslide key create --kind scim --name Okta
  unslide key list --kind scim
  unslide scim"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        let state: Value = Client::new(&arguments.server)?.get("/v1/scim").await?;
        if arguments.json {
            Console::get().print_json(&state)?;
            return Ok(Exit::Ready);
        }
        say!("base URL   {} at the address of the service", item_text(&state, "path"));
        say!("users      {}, of whom {} are active", state["users"], state["active_users"]);
        say!("groups     {}", state["groups"]);
        if state["unmatched_users"] != 0 {
            say!(
                "problem    {} users have no externalId: nothing ends when these people leave",
                state["unmatched_users"]
            );
        }
        Ok(Exit::Ready)
    })
}
