//! `unslide key`: the keys of a tenant, through the API. With a configuration of the services the program `unslide` reaches
//! the database itself.

mod shown;

pub use shown::{API_KIND, describe_key, print_key, print_keys};

use crate::features::list_key_kinds;
use crate::prelude::*;
use reqwest::Method;
use unslide_cli::listing::item_text;
use unslide_cli::{ClientKeyKind, confirm_action};
use unslide_model::{Clock, KeyPreset, Moment, Scope, SystemClock, TenantId};

/// Keys that the core makes and lists.
const API_KEYS: ClientKeyKind = ClientKeyKind { name: API_KIND, path: "/v1/keys", is_public: false };
/// Keys that are asked for with one request.
const PAGE_ENTRIES: usize = 200;

/// The subcommands of `unslide key`.
#[derive(Subcommand)]
#[command(after_help = "\
The API needs a key with the scope tenant:admin: see `unslide login`. It makes keys with scopes that this key has itself. With
--config of the services and --tenant the database is asked instead, which makes the first key of a tenant.

Examples:
  unslide key create --preset pipeline --name \"build pipeline\" --expires 365d
  unslide key create --kind public --app com.example.shop,com.example.shop.*
  unslide key list
  unslide key revoke 7d444840-9dc0-41d1-b245-5ffdce74fad2")]
pub enum Command {
    /// Make a key; its text is shown once and never again
    Create(CreateArguments),
    /// List a tenant's keys of every kind, without their secrets: when each ends and was used last
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
    /// Kind of the key: `api`, or another. An unknown one gives the list
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
    fn to_body(&self, kind: &ClientKeyKind) -> Result<Value, CommandError> {
        if kind.name != API_KIND && (self.preset.is_some() || !self.scope.is_empty()) {
            let text =
                format!("--preset, --scope: only an API key has scopes; a {} key does one thing", kind.name);
            return Err(CommandError::usage(text));
        }
        let apps: Vec<&str> = self.app.iter().map(|app| app.trim()).collect();
        if kind.is_public {
            if apps.is_empty() {
                let text = "--app is missing: the bundle identifiers of the apps that carry the key, such as \
                            com.example.shop or com.example.shop.*";
                return Err(CommandError::usage(text));
            }
            if self.expires.is_some() {
                let text =
                    "--expires: a public key never ends, as apps carry it; `unslide key revoke` ends it";
                return Err(CommandError::usage(text));
            }
            return Ok(json!({"name": self.name, "apps": apps}));
        }
        let app = match apps.as_slice() {
            [] => None,
            [app] => Some(app),
            _ => {
                return Err(CommandError::usage(format!(
                    "--app: a key of the kind {} is for one app, or for every app",
                    kind.name
                )));
            }
        };
        let mut body = json!({"name": self.name, "expires_at": self.end_text()});
        if let Some(app) = app {
            body["app"] = json!(app);
        }
        match self.preset {
            _ if kind.name != API_KIND => {}
            Some(preset) => body["preset"] = preset.as_str().into(),
            None if self.scope.is_empty() => {
                let presets = KeyPreset::ALL.map(KeyPreset::as_str).join(", ");
                let scopes = Scope::ALL.map(Scope::as_str).join(", ");
                let text = format!(
                    "--preset ({presets}) or --scope ({scopes}) is missing: it says what the key can do"
                );
                return Err(CommandError::usage(text));
            }
            None => body["scopes"] = self.scope.iter().map(|scope| scope.as_str()).collect(),
        }
        Ok(body)
    }
}

/// Returns the kinds of keys: API keys, and those of features.
fn list_kinds() -> impl Iterator<Item = &'static ClientKeyKind> {
    std::iter::once(&API_KEYS).chain(list_key_kinds())
}

/// Returns the kind of this name.
fn find_kind(name: &str) -> Result<&'static ClientKeyKind, CommandError> {
    list_kinds().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = list_kinds().map(|kind| kind.name).collect();
        CommandError::usage(format!("--kind {name}: there are {}", names.join(", ")))
    })
}

/// Refuses another tenant than that of the key: keys of other tenants are for operators.
async fn check_tenant(client: &Client, tenant: Option<&TenantId>) -> Result<(), BoxError> {
    let Some(tenant) = tenant else { return Ok(()) };
    let own: Value = client.get("/v1/key").await?;
    if item_text(&own, "tenant") == tenant.as_str() {
        return Ok(());
    }
    let text = format!(
        "the key is of the tenant {}, so it has no keys of {tenant}: sign in with a key of {tenant}, or give --config",
        item_text(&own, "tenant")
    );
    Err(CommandError::usage(text).into())
}

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
    let kind = find_kind(&arguments.kind)?;
    let body = arguments.to_body(kind)?;
    let client = Client::new(&arguments.server)?;
    check_tenant(&client, arguments.tenant.as_ref()).await?;
    let made: Value = client.post(kind.path, &body).await?;
    // The text of a public key is a member of its record.
    say!("{}", item_text(&made, if kind.is_public { "key" } else { "text" }));
    if Console::get().is_closed() {
        let text = "the key was made, but standard output is closed: find it with `unslide key list` and revoke it with \
                    `unslide key revoke`";
        return Err(text.into());
    }
    Ok(Exit::Ready)
}

/// Returns the tenant's keys of a kind, until `is_last` is true of one.
async fn read_keys(
    client: &Client,
    kind: &ClientKeyKind,
    is_last: impl Fn(&Value) -> bool,
) -> Result<Vec<Value>, BoxError> {
    let now = Moment::For(0).as_text(SystemClock.now_micros() / 1_000);
    let (mut keys, mut cursor) = (Vec::new(), None);
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let mut page: Value = client.get(&format!("{}?limit={PAGE_ENTRIES}{after}", kind.path)).await?;
        let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        keys.extend(items.into_iter().map(|item| describe_key(kind.name, item, &now)));
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || keys.iter().any(&is_last) {
            return Ok(keys);
        }
    }
}

async fn list_keys(arguments: &ListArguments) -> Outcome {
    let kinds = match &arguments.kind {
        Some(name) => vec![find_kind(name)?],
        None => list_kinds().collect(),
    };
    let client = Client::new(&arguments.server)?;
    check_tenant(&client, arguments.tenant.as_ref()).await?;
    let mut keys = Vec::new();
    for kind in kinds {
        keys.extend(read_keys(&client, kind, |_| false).await?);
    }
    print_keys(&keys, arguments.json)
}

/// Finds a key by its id, and its kind: an API key has a UUID.
async fn find_key(client: &Client, id: &str) -> Result<(&'static ClientKeyKind, Value), BoxError> {
    let uuid = unslide_cli::parse_entry_id(id).ok();
    let id = uuid.as_deref().unwrap_or(id);
    if uuid.is_none() && (id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let text = format!("{id}: not the id of a key: `unslide key list` shows them");
        return Err(CommandError::usage(text).into());
    }
    let is_it = |key: &Value| key["id"] == id;
    for kind in list_kinds().filter(|kind| (kind.name == API_KIND) == uuid.is_some()) {
        let found = read_keys(client, kind, is_it).await?.into_iter().find(is_it);
        if let Some(key) = found {
            return Ok((kind, key));
        }
    }
    let text = format!("there is no key {id}: `unslide key list` shows the tenant's keys");
    Err(CommandError::missing(text).into())
}

async fn show_key(arguments: &ShowArguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    check_tenant(&client, arguments.tenant.as_ref()).await?;
    let (kind, mut key) = find_key(&client, &arguments.id).await?;
    if kind.is_public {
        let detail: Value = client.get(&format!("{}/{}", kind.path, item_text(&key, "id"))).await?;
        key["text"] = detail["key"].clone();
    }
    print_key(&key, arguments.json)
}

async fn revoke_key(arguments: &RevokeArguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    check_tenant(&client, arguments.tenant.as_ref()).await?;
    let (kind, key) = find_key(&client, &arguments.id).await?;
    let id = item_text(&key, "id");
    let path = format!("{}/{id}", kind.path);
    if kind.name == API_KIND {
        let made = if arguments.cascade { " and every key that descends from it" } else { "" };
        confirm_action(&format!("This revokes the key {id}{made}. It cannot be undone."), arguments.yes)?;
        let revoked: Value = client.delete_and_read(&format!("{path}?cascade={}", arguments.cascade)).await?;
        let number = |member: &str| revoked[member].as_u64().unwrap_or(0);
        let descendants = (number("descendants_revoked"), number("descendants_in_force"));
        say!("{}", describe_revoked(arguments.cascade, descendants));
        return Ok(Exit::Ready);
    }
    if arguments.cascade {
        return Err(CommandError::usage("--cascade: only API keys make keys").into());
    }
    let loss = if kind.is_public { LOSS_OF_APPS } else { "" };
    confirm_action(&format!("This revokes the {} key {id}.{loss}", kind.name), arguments.yes)?;
    if kind.is_public {
        client.send_json::<Value>(Method::PATCH, &path, &json!({"state": "closed"})).await?;
    } else {
        client.delete(&path).await?;
    }
    say!("revoked");
    Ok(Exit::Ready)
}

/// What a question about a public key adds.
pub const LOSS_OF_APPS: &str = " Apps that carry it lose what they send from then on.";

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

    fn create(preset: Option<KeyPreset>, scope: &[Scope], apps: &[&str]) -> CreateArguments {
        CreateArguments {
            server: ApiServer::default(),
            tenant: None,
            name: "ci".to_owned(),
            kind: API_KIND.to_owned(),
            scope: scope.to_vec(),
            preset,
            app: apps.iter().map(|app| (*app).to_owned()).collect(),
            expires: "90d".parse().ok(),
        }
    }

    #[test]
    fn a_new_key_has_a_preset_or_scopes_and_ends_in_the_future() {
        let body = create(Some(KeyPreset::Pipeline), &[], &[]).to_body(&API_KEYS).unwrap();
        assert_eq!((&body["preset"], &body["scopes"]), (&json!("pipeline"), &Value::Null));
        assert!(item_text(&body, "expires_at") > Moment::For(0).as_text(SystemClock.now_micros() / 1_000));
        let shop = ["com.example.shop"];
        let body = create(None, &[Scope::ReportsRead], &shop).to_body(&API_KEYS).unwrap();
        assert_eq!((&body["scopes"], &body["app"]), (&json!(["reports:read"]), &json!("com.example.shop")));
        let error = create(None, &[], &shop).to_body(&API_KEYS).unwrap_err().to_string();
        assert!(error.contains("--preset (pipeline") && error.contains("--scope (symbols:write"), "{error}");
        let two = ["com.example.shop", "com.example.bank"];
        let error = create(None, &[Scope::ReportsRead], &two).to_body(&API_KEYS).unwrap_err().to_string();
        assert!(error.contains("for one app"), "{error}");
    }

    #[test]
    fn keys_of_other_kinds_have_no_scopes_and_a_public_one_names_its_apps() {
        let public = ClientKeyKind { name: "public", path: "/v1/public-keys", is_public: true };
        let names = ClientKeyKind { name: "names", path: "/v1/names-keys", is_public: false };
        let refused = |arguments: &CreateArguments, kind, wrong: &str| {
            let error = arguments.to_body(kind).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        };
        let apps = ["com.example.shop", "com.example.shop.*"];
        refused(&create(None, &[], &[]), &public, "--app is missing");
        refused(&create(None, &[], &apps), &public, "--expires: a public key never ends");
        refused(&create(None, &[Scope::ReportsRead], &apps), &public, "only an API key has scopes");
        let endless = CreateArguments { expires: None, ..create(None, &[], &apps) };
        assert_eq!(endless.to_body(&public).unwrap(), json!({"name": "ci", "apps": apps}));
        let body = create(None, &[], &apps[..1]).to_body(&names).unwrap();
        assert!(
            body["app"] == apps[0] && body["expires_at"].is_string() && body.get("scopes").is_none(),
            "{body}"
        );
    }

    #[test]
    fn an_unknown_kind_gives_the_list() {
        assert_eq!(find_kind("api").unwrap().path, "/v1/keys");
        let error = find_kind("apple").unwrap_err().to_string();
        assert!(error.starts_with("--kind apple: there are api, "), "{error}");
    }
}
