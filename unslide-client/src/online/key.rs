//! `unslide key`: the keys of a tenant, through the API. With a configuration of the services the program `unslide` reaches
//! the database itself.

use crate::prelude::*;
use unslide_cli::confirm_action;
use unslide_cli::listing::{Listing, item_text};

use unslide_model::{Clock, KeyPreset, Moment, Scope, SystemClock, TenantId};

/// The kind of keys that are made and listed here.
const API_KIND: &str = "api";

/// The subcommands of `unslide key`.
#[derive(Subcommand)]
#[command(after_help = "\
The API needs a key with the scope tenant:admin: see `unslide login`. It makes keys with scopes that this key has itself. With
--config of the services the database is asked instead, which makes the first key of a tenant and keys of every kind.

Examples:
  unslide key create --preset pipeline --name \"build pipeline\" --expires 365d
  unslide key list
  unslide key revoke 7d444840-9dc0-41d1-b245-5ffdce74fad2")]
pub enum Command {
    /// Make a key; its text is shown once and never again
    Create(CreateArguments),
    /// List a tenant's keys, without their secrets: when each ends and was used last
    List(ListArguments),
    /// Show a key: its state, what it is for, and its text if that is no secret
    Show(ShowArguments),
    /// Revoke a key. This cannot be undone; on a terminal it asks first
    Revoke(RevokeArguments),
}

/// Arguments of `unslide key create`.
#[derive(Args)]
pub struct CreateArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The tenant that gets the key [default: that of the key that asks]
    #[arg(long)]
    pub tenant: Option<TenantId>,
    /// Name of the key, for people
    #[arg(long, default_value = "made on the command line")]
    pub name: String,
    /// Kind of the key: `api`, or with --config one that a feature adds. An unknown one gives the list
    #[arg(long, default_value = API_KIND)]
    pub kind: String,
    /// Scopes that an API key grants, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub scope: Vec<Scope>,
    /// Purpose of the key instead of scopes: pipeline uploads symbols; app (with --app) and gateway send what apps report;
    /// reader sees everything and changes nothing; triager also works on groups
    #[arg(long, conflicts_with = "scope")]
    pub preset: Option<KeyPreset>,
    /// The only app (bundle identifier) that the key is for; some kinds take several, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub app: Vec<String>,
    /// When the key expires: a day, a time, or a duration from now such as 90d; if absent, the kind decides, an API key never
    #[arg(long, value_name = "WHEN")]
    pub expires: Option<Moment>,
}

/// Arguments of `unslide key list`.
#[derive(Args)]
pub struct ListArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The tenant that has the keys [default: that of the key that asks]
    #[arg(long)]
    pub tenant: Option<TenantId>,
    /// Only keys of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `unslide key show`.
#[derive(Args)]
pub struct ShowArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The tenant that has the key [default: that of the key that asks]
    #[arg(long)]
    pub tenant: Option<TenantId>,
    /// The key's id, as `key list` shows it
    pub id: String,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `unslide key revoke`.
#[derive(Args)]
pub struct RevokeArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The tenant that has the key [default: that of the key that asks]
    #[arg(long)]
    pub tenant: Option<TenantId>,
    /// The key's id, as `key list` shows it
    pub id: String,
    /// Also revoke the keys that an API key made, that these made, and so on
    #[arg(long)]
    pub cascade: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

impl CreateArguments {
    /// Returns when the key ends, in the form of the API: a duration goes into the future.
    fn end_text(&self) -> Option<String> {
        let now = SystemClock.now_micros() / 1_000;
        let end = match self.expires? {
            Moment::For(millis) => Moment::For(-millis),
            other => other,
        };
        Some(end.as_text(now))
    }

    /// Returns the new key in the form of the API.
    fn to_body(&self) -> Result<Value, CommandError> {
        check_kind(&self.kind)?;
        let app = match self.app.as_slice() {
            [] => None,
            [app] => Some(app.trim()),
            _ => return Err(CommandError::usage("--app: an API key is for one app, or for every app")),
        };
        let mut body = json!({"name": self.name, "app": app, "expires_at": self.end_text()});
        match self.preset {
            Some(preset) => body["preset"] = preset.as_str().into(),
            None => body["scopes"] = self.scope.iter().map(|scope| scope.as_str()).collect(),
        }
        Ok(body)
    }
}

/// Refuses a kind that has operations of its own.
fn check_kind(kind: &str) -> Result<(), CommandError> {
    if kind == API_KIND {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "--kind {kind}: the console and the API (POST /v1/{kind}-keys) make and list these keys; this command does with --config"
    )))
}

/// Returns the path of the keys of a tenant. Those of another tenant than the key's own are for operators.
async fn keys_path(client: &Client, tenant: Option<&TenantId>) -> Result<&'static str, BoxError> {
    let Some(tenant) = tenant else { return Ok(KEYS) };
    let own: Value = client.get("/v1/key").await?;
    if item_text(&own, "tenant") == tenant.as_str() {
        return Ok(KEYS);
    }
    let text = format!(
        "the key is of the tenant {}, so it has no keys of {tenant}: sign in with a key of {tenant}, or give --config",
        item_text(&own, "tenant")
    );
    Err(CommandError::usage(text).into())
}

const KEYS: &str = "/v1/keys";

/// Runs a command on keys through the API.
pub fn run(command: Command) -> Outcome {
    block_on(async {
        match command {
            Command::Create(arguments) => create_key(&arguments).await,
            Command::List(arguments) => list_keys(&arguments).await,
            Command::Show(arguments) => show_key(&arguments).await,
            Command::Revoke(arguments) => revoke_key(&arguments).await,
        }
    })
}

async fn create_key(arguments: &CreateArguments) -> Outcome {
    let body = arguments.to_body()?;
    let client = Client::new(&arguments.server)?;
    let path = keys_path(&client, arguments.tenant.as_ref()).await?;
    let made: Value = client.post(path, &body).await?;
    say!("{}", item_text(&made, "text"));
    if Console::get().is_closed() {
        let text = "the key was made, but standard output is closed: find it with `unslide key list` and revoke it with \
                    `unslide key revoke`";
        return Err(text.into());
    }
    Ok(Exit::Ready)
}

async fn list_keys(arguments: &ListArguments) -> Outcome {
    check_kind(arguments.kind.as_deref().unwrap_or(API_KIND))?;
    let client = Client::new(&arguments.server)?;
    let listing = Listing {
        path: keys_path(&client, arguments.tenant.as_ref()).await?,
        query: Vec::new(),
        limit: usize::MAX,
        head: &["ID", "KEY", "STATE", "EXPIRES", "LAST USED", "MADE BY", "SCOPES", "APP", "NAME"],
        row,
        empty: "the tenant has no key",
    };
    listing.print_items(&client, arguments.json).await
}

fn row(key: &Value) -> [String; 9] {
    let or = |name: &str, absent: &str| key[name].as_str().unwrap_or(absent).to_owned();
    [
        item_text(key, "id"),
        format!("unslide_{}_…", item_text(key, "prefix")),
        describe_state(key).to_owned(),
        or("expires_at", "never"),
        or("last_used_at", "never"),
        or("made_by", "the command line"),
        list_scopes(key),
        or("app", "every app"),
        item_text(key, "name"),
    ]
}

fn list_scopes(key: &Value) -> String {
    let scopes = key["scopes"].as_array().into_iter().flatten();
    scopes.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn describe_state(key: &Value) -> &'static str {
    let now = Moment::For(0).as_text(SystemClock.now_micros() / 1_000);
    match (key["revoked_at"].is_string(), key["expires_at"].as_str()) {
        (true, _) => "revoked",
        (false, Some(end)) if end <= now.as_str() => "expired",
        (false, _) => "in force",
    }
}

async fn show_key(arguments: &ShowArguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    let path = keys_path(&client, arguments.tenant.as_ref()).await?;
    let mut cursor = None;
    let key = loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page: Value = client.get(&format!("{path}?limit=200{after}")).await?;
        let mut found = page["items"].as_array().into_iter().flatten();
        if let Some(key) = found.find(|key| key["id"] == arguments.id.as_str()) {
            break key.clone();
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            let text =
                format!("there is no key {}: `unslide key list` shows the tenant's keys", arguments.id);
            return Err(CommandError::missing(text).into());
        }
    };
    if arguments.json {
        Console::get().print_json(&key)?;
        return Ok(Exit::Ready);
    }
    let [id, _, state, expires, last_used, _, scopes, app, name] = row(&key);
    say!("{name}, {state}, for {app}");
    unslide_cli::print_facts(&[
        ("id", id),
        ("scopes", scopes),
        ("expires", expires),
        ("last used", last_used),
    ]);
    Ok(Exit::Ready)
}

async fn revoke_key(arguments: &RevokeArguments) -> Outcome {
    let id = unslide_cli::parse_entry_id(&arguments.id)
        .map_err(|why| CommandError::usage(format!("{}: {why}", arguments.id)))?;
    let client = Client::new(&arguments.server)?;
    let path = keys_path(&client, arguments.tenant.as_ref()).await?;
    let made = if arguments.cascade { " and every key that descends from it" } else { "" };
    confirm_action(&format!("This revokes the key {id}{made}. It cannot be undone."), arguments.yes)?;
    let revoked: Value =
        client.delete_and_read(&format!("{path}/{id}?cascade={}", arguments.cascade)).await?;
    let number = |member: &str| revoked[member].as_u64().unwrap_or(0);
    let descendants = (number("descendants_revoked"), number("descendants_in_force"));
    say!("{}", describe_revoked(arguments.cascade, descendants));
    Ok(Exit::Ready)
}

/// Describes what a revocation did: how many keys that descend from the key it revoked, and how many are in force.
#[must_use]
pub fn describe_revoked(is_cascade: bool, descendants: (u64, u64)) -> String {
    match (is_cascade, descendants) {
        (true, (revoked, _)) => format!("revoked, with {revoked} keys that descend from it"),
        (false, (_, 0)) => "revoked".to_owned(),
        (false, (_, left)) => {
            format!("revoked; {left} keys that descend from it are in force: --cascade revokes them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(preset: Option<KeyPreset>, kind: &str) -> CreateArguments {
        CreateArguments {
            server: ApiServer::default(),
            tenant: None,
            name: "ci".to_owned(),
            kind: kind.to_owned(),
            scope: vec![Scope::ReportsRead],
            preset,
            app: vec!["com.example.shop".to_owned()],
            expires: "90d".parse().ok(),
        }
    }

    #[test]
    fn a_new_key_has_a_preset_or_scopes_and_ends_in_the_future() {
        let body = create(Some(KeyPreset::Pipeline), "api").to_body().unwrap();
        assert_eq!((&body["preset"], &body["scopes"]), (&json!("pipeline"), &Value::Null));
        assert!(item_text(&body, "expires_at") > Moment::For(0).as_text(SystemClock.now_micros() / 1_000));
        let body = create(None, "api").to_body().unwrap();
        assert_eq!((&body["scopes"], &body["app"]), (&json!(["reports:read"]), &json!("com.example.shop")));
        let error = create(None, "public").to_body().unwrap_err().to_string();
        assert!(error.contains("POST /v1/public-keys") && error.contains("--config"), "{error}");
    }

    #[test]
    fn a_row_says_whether_a_key_is_in_force() {
        let state = |key: Value| describe_state(&key);
        assert_eq!(state(json!({"revoked_at": "2026-11-20T09:00:00Z"})), "revoked");
        assert_eq!(state(json!({"expires_at": "2001-01-01T00:00:00Z"})), "expired");
        assert_eq!(state(json!({"expires_at": null})), "in force");
    }
}
