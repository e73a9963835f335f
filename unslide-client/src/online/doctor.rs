//! `unslide doctor`: can this machine use the API with this key?

use crate::features::FEATURES;
use crate::prelude::*;
use serde::Deserialize;
use time::Duration;
use unslide_cli::{AnsweringServer, ApiLogin, ClientError, CoreCommand};
use unslide_model::{Clock, Scope, SystemClock, format_causes};

/// The largest difference between two clocks that is not worth a warning.
const CLOCK_DIFFERENCE: Duration = Duration::minutes(1);

/// Says what a key with this scope can do.
fn describe_ability(scope: Scope) -> &'static str {
    match scope {
        Scope::SymbolsWrite => "upload symbols",
        Scope::SymbolsRead => "ask for symbols and symbolicate",
        Scope::SymbolsDownload => "download dSYMs",
        Scope::ReportsWrite => "send reports",
        Scope::ReportsRead => "query reports, groups and versions",
        Scope::GroupsWrite => "resolve, assign and merge groups",
        Scope::TenantAdmin => "manage the tenant's keys and settings",
        Scope::Operator => "manage every tenant",
    }
}

/// Arguments of the command `unslide doctor`.
#[derive(Args)]
#[command(
    mut_arg("retry_for", |retry_for| retry_for.default_value("0s")),
    after_help = "\
It changes nothing.

Examples:
  unslide doctor
  unslide doctor --profile staging
  unslide doctor --scope symbols:write"
)]
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

/// Tries the address, the clock and the key.
pub fn run(arguments: &Arguments) -> Outcome {
    let checked = block_on(async { Ok(check_api(arguments).await) })?;
    Ok(checked.unwrap_or_else(|error| {
        say!("missing: {}", format_causes(&error));
        error.exit_code()
    }))
}

/// Tries the API with the key.
///
/// # Errors
/// Returns an error if there is no address or key, or if the API does not take them.
async fn check_api(arguments: &Arguments) -> Result<Exit, ClientError> {
    let login = arguments.server.find_login()?;
    let ApiLogin { url, url_source, key_source, .. } = login.clone();
    let client = Client::new(&arguments.server)?;
    if client.is_insecure() {
        say!("warning: the API's address begins with http://, so others on the way can read the key");
    }
    let server = client.get_server().await?;
    say!("ok: the API at {url} (from {url_source}) answers: unslide {}", server.version);
    compare_with_server(&server);
    let key: OwnKey = client.get("/v1/key").await?;
    print_key(&key, &key_source.to_string());
    if key.has_scope(Scope::ReportsRead) {
        for add_line in FEATURES.iter().filter_map(|feature| feature.add_line) {
            match add_line(&client, CoreCommand::Doctor).await {
                Ok(Some(line)) => say!("{line}"),
                Ok(None) => {}
                Err(error) => say!("warning: {}", format_causes(error.as_ref())),
            }
        }
    }
    let missing = arguments.scope.iter().filter(|scope| !key.has_scope(**scope));
    let missing: Vec<&str> = missing.map(|scope| scope.as_str()).collect();
    if missing.is_empty() {
        return Ok(Exit::Ready);
    }
    let options: Vec<String> = missing.iter().map(|scope| format!("--scope {scope}")).collect();
    say!(
        "missing: the key has not the scope {0}. An administrator of {1} makes one that has it: unslide key create {2}",
        missing.join(" and "),
        key.tenant,
        options.join(" ")
    );
    Ok(Exit::NotAllowed)
}

fn compare_with_server(server: &AnsweringServer) {
    let own = env!("CARGO_PKG_VERSION");
    if server.version != own {
        say!(
            "warning: this command is of the version {own} and may not understand every answer: install {}",
            server.version
        );
    }
    let Some(date) = server.date else { return };
    let ahead = SystemClock.now() - date;
    if ahead.abs() <= CLOCK_DIFFERENCE {
        say!("ok: the clock of this machine is that of the API");
        return;
    }
    let side = if ahead.is_positive() { "ahead of" } else { "behind" };
    say!(
        "warning: the clock of this machine is {} s {side} the API's: set both by NTP",
        ahead.abs().whole_seconds()
    );
}

fn print_key(key: &OwnKey, source: &str) {
    let app = key.app.as_ref().map(|app| format!(", for the app {app} alone")).unwrap_or_default();
    let end = key.expires_at.as_ref().map(|end| format!(", until {end}")).unwrap_or_default();
    say!("ok: the key (from {source}) is in force: of the tenant {}{app}{end}", key.tenant);
    if key.suspended {
        say!("warning: the tenant is suspended: it can read and delete, and nothing else");
    }
    for scope in Scope::ALL {
        let may = if key.has_scope(scope) { "can" } else { "cannot" };
        say!("it {may} {} ({scope})", describe_ability(scope));
    }
}
