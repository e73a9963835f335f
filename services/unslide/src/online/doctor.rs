//! `unslide doctor`: can this machine use the API with this key?

use crate::prelude::*;
use serde::Deserialize;
use time::Duration;
use unslide_client::AnsweringServer;
use unslide_model::{Clock, Scope, SystemClock};

/// The largest difference between two clocks that is not worth a warning.
const CLOCK_DIFFERENCE: Duration = Duration::minutes(1);

/// Says what a key with this scope can do.
fn describe_ability(scope: Scope) -> &'static str {
    match scope {
        Scope::SymbolsWrite => "upload symbols",
        Scope::SymbolsRead => "ask for symbols and symbolicate",
        Scope::ReportsWrite => "send reports",
        Scope::ReportsRead => "query reports, groups and versions",
        Scope::GroupsWrite => "resolve, assign and merge groups",
        Scope::TenantAdmin => "manage the tenant's keys and settings",
        Scope::Operator => "manage every tenant",
    }
}

/// Arguments of `unslide doctor`.
#[derive(Args)]
#[command(after_help = "\
It changes nothing. The command for a server is `unslide config check --connect`.

Examples:
  unslide doctor
  unslide doctor --scope symbols:write")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Fail unless the key has this scope, such as symbols:write for uploads; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<Scope>,
}

/// The key as the API describes it.
#[derive(Deserialize)]
struct OwnKey {
    tenant: String,
    suspended: bool,
    scopes: Vec<String>,
    app: Option<String>,
    expires_at: Option<String>,
}

impl OwnKey {
    fn has_scope(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|own| own == scope.as_str())
    }
}

/// Tries the address, the clock and the key, and says what the key is good for.
pub fn run(arguments: &Arguments) -> Outcome {
    block_on(async {
        let client = Client::new(&arguments.server)?;
        if client.is_insecure() {
            say!("warning: the API's address begins with http://, so others on the way can read the key");
        }
        let server = client.get_server().await?;
        say!("the API answers: unslide {}", server.version);
        warn_of_differences(&server);
        let key: OwnKey = client.get("/v1/key").await?;
        print_key(&key);
        let missing = arguments.scope.iter().filter(|scope| !key.has_scope(**scope));
        let missing: Vec<&str> = missing.map(|scope| scope.as_str()).collect();
        if missing.is_empty() {
            return Ok(Exit::Ready);
        }
        say!("missing: the key has not the scope {}; make one that has it", missing.join(" and "));
        Ok(Exit::NotAllowed)
    })
}

fn warn_of_differences(server: &AnsweringServer) {
    let own = env!("CARGO_PKG_VERSION");
    if server.version != own {
        say!("warning: this command is of the version {own} and may not understand every answer");
    }
    let Some(date) = server.date else { return };
    let ahead = SystemClock.now() - date;
    if ahead.abs() > CLOCK_DIFFERENCE {
        let side = if ahead.is_positive() { "ahead of" } else { "behind" };
        say!("warning: the clock of this machine is {} s {side} the API's", ahead.abs().whole_seconds());
    }
}

fn print_key(key: &OwnKey) {
    let app = key.app.as_ref().map(|app| format!(", for the app {app} alone")).unwrap_or_default();
    let end = key.expires_at.as_ref().map(|end| format!(", until {end}")).unwrap_or_default();
    say!("the key is in force: of the tenant {}{app}{end}", key.tenant);
    if key.suspended {
        say!("warning: the tenant is suspended: it can read and delete, and nothing else");
    }
    for scope in Scope::ALL {
        let may = if key.has_scope(scope) { "can" } else { "cannot" };
        say!("it {may} {} ({scope})", describe_ability(scope));
    }
}
