//! `unslide sentry-token`: an API key as Sentry's clients expect it.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::Value;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Exit, FeatureCommand, Outcome, block_on, say,
};
use unslide_model::{Clock, SystemClock};
use unslide_uploaders_formats::{SentryTokenClaim, write_sentry_token};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "upload", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("uploaders")
};

/// Print the API key as a token for SENTRY_AUTH_TOKEN, which also carries the tenant and the URL of the API
#[derive(Parser)]
#[command(
    name = "sentry-token",
    after_help = "\
Uploads need a key with the scopes symbols:write and symbols:read. The URL is the one by which build machines reach the API.

Examples:
  unslide sentry-token --profile pipeline
  UNSLIDE_API_KEY=$(unslide key create --preset pipeline) unslide sentry-token --url https://crashes.example.com"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { server } = Arguments::from_arg_matches(matches)?;
    let login = server.find_login()?;
    let key: Value = block_on(async { Ok(Client::new(&server)?.get("/v1/key").await?) })?;
    let tenant = key["tenant"].as_str().unwrap_or_default();
    let claim = SentryTokenClaim { tenant, url: &login.url, issued_at: SystemClock.now().unix_timestamp() };
    let token = write_sentry_token(login.key.reveal(), &claim)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    say!("{token}");
    Ok(Exit::Ready)
}
