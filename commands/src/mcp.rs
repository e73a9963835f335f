//! `unslide mcp`: the protocol on standard input and output, for a client that starts this program.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use http::Method;
use rmcp::ServiceExt;
use serde_json::Value;
use std::sync::Arc;
use unslide_cli::{ApiServer, Client, ClientFeature, Exit, FeatureCommand, Outcome, block_on};
use unslide_mcp_tools::{ApiAnswer, ApiRequest, CallApi, McpServer};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand {
        follows: "reports",
        command: Arguments::command,
        run: run_command,
        key_kind: None,
    }],
    ..ClientFeature::new("mcp")
};

/// Serve tools of the Model Context Protocol on standard input and output
#[derive(Parser)]
#[command(
    name = "mcp",
    after_help = "\
The key needs the scope reports:read, and with --write groups:write. A client starts this command itself:
  {\"command\": \"unslide\", \"args\": [\"mcp\"], \"env\": {\"UNSLIDE_URL\": \"https://…\", \"UNSLIDE_API_KEY\": \"…\"}}"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Let the client resolve, assign and comment on groups. Texts of devices may try to make it do so: use it only with a client
    /// that asks before each call
    #[arg(long)]
    write: bool,
}

fn run_command(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    let client = Client::new(&arguments.server)?;
    block_on(async move {
        let server = McpServer::new(Arc::new(ApiClient(client)), arguments.write);
        let running = server.serve(rmcp::transport::stdio()).await?;
        running.waiting().await?;
        Ok(Exit::Ready)
    })
}

/// Sends requests to the API of a service.
struct ApiClient(Client);

impl CallApi for ApiClient {
    fn send_request(&self, request: ApiRequest) -> ApiAnswer<'_> {
        Box::pin(async move {
            let ApiRequest { method, path, body } = request;
            let answer = if method == Method::GET {
                let bytes = self.0.get_bytes(&path, "application/json, text/markdown;q=0.9").await;
                bytes.map(|bytes| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
            } else {
                let changed: Result<Value, _> =
                    self.0.send_json(method, &path, &body.unwrap_or_default()).await;
                changed.map(|changed| changed.to_string())
            };
            answer.map_err(|error| error.to_string())
        })
    }
}
