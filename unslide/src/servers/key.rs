//! `unslide key`.

use crate::configuration::Configured;
use crate::features::{KEY_MAKERS, NAMES_KEY_MAKERS};
use crate::prelude::*;
use crate::servers::tenant::{check_tenant, with_database};
use crate::servers::{key_erase, key_show, key_test};
use time::{Duration, OffsetDateTime};
use unslide_api::entropy::Entropy;
use unslide_cli::confirm_action;
use unslide_client::moment::Moment;
use unslide_feature::{KeyRequest, MakeKey};
use unslide_model::{KeyPreset, Scope, TenantId};
use unslide_store::accounts::create_key;
use unslide_store::keys::{self, NewApiKey};
use unslide_store::{Store, Uuid, audit};

/// The columns of `key list`.
const KEY_COLUMNS: [&str; 9] =
    ["ID", "KEY", "STATE", "EXPIRES", "LAST USED", "MADE BY", "SCOPES", "APP", "NAME"];
/// Keys that are asked for with one question.
const KEY_PAGE_ENTRIES: u32 = 500;

/// The subcommands of `unslide key`.
#[derive(Subcommand)]
pub enum Command {
    /// Make a key; its text is shown once and never again
    Create {
        #[command(flatten)]
        configured: Configured,
        /// The tenant that gets the key
        #[arg(long)]
        tenant: TenantId,
        /// Name of the key, for people
        #[arg(long, default_value = "made on the command line")]
        name: String,
        /// Scopes that the key grants, separated by commas
        #[arg(long, value_delimiter = ',', required_unless_present_any = ["public", "names", "preset"])]
        scope: Vec<Scope>,
        /// Purpose of the key instead of scopes: pipeline uploads symbols; app (with --app) and gateway send what apps report;
        /// reader sees everything and changes nothing; triager also works on groups
        #[arg(long, conflicts_with_all = ["scope", "public", "names"])]
        preset: Option<KeyPreset>,
        /// The only app (bundle identifier) that the key is valid for; with --public one or more, separated by commas
        #[arg(long)]
        app: Option<String>,
        /// Make a key for the URL in an app, which sends reports and does nothing else. `prefix.*` covers all apps below
        #[arg(long, requires = "app", conflicts_with_all = ["scope", "expires"])]
        public: bool,
        /// Make a key for the URL that a profiler reads names of functions from; it never gives a dSYM. It expires after 90
        /// days unless --expires says otherwise
        #[arg(long, conflicts_with_all = ["scope", "public"])]
        names: bool,
        /// When the key expires: a time (RFC 3339), or days from now such as 90d; never if absent
        #[arg(long, value_name = "WHEN")]
        expires: Option<Moment>,
    },
    /// List a tenant's keys, without their secrets: when each ends and was used last
    List {
        #[command(flatten)]
        configured: Configured,
        /// The tenant that has the keys
        #[arg(long)]
        tenant: TenantId,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show a public key: its state, the versions of apps that use it, and the reports that closing it would lose
    Show(key_show::Arguments),
    /// Revoke a key. This cannot be undone; on a terminal it asks first
    Revoke {
        #[command(flatten)]
        configured: Configured,
        /// The tenant that has the key
        #[arg(long)]
        tenant: TenantId,
        /// The key's id, as `key list` shows it
        id: Uuid,
        /// Also revoke the keys that it made, that these made, and so on, of every tenant
        #[arg(long)]
        cascade: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Erase the reports and runs that apps sent with a public key in a range of time, through the API; on a terminal it asks
    /// first
    Erase(key_erase::Arguments),
    /// Send a test report to the URL of an app, and print its outcome
    Test(key_test::Arguments),
}

/// Returns the expiry of a key that lasts for a while from `now`, or until a time.
fn resolve_expiry(end: Moment, now: OffsetDateTime) -> Result<OffsetDateTime, CommandError> {
    let end = match end {
        Moment::At(millis) => OffsetDateTime::UNIX_EPOCH.checked_add(Duration::milliseconds(millis)),
        Moment::For(millis) => now.checked_add(Duration::milliseconds(millis)),
    };
    let end = end.ok_or_else(|| CommandError::usage("--expires: too far away"))?;
    if end <= now { Err(CommandError::usage("--expires: in the past")) } else { Ok(end) }
}

/// Runs a command on keys.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Create { configured, tenant, name, app: Some(apps), public: true, .. } => {
            with_database(&configured, async |store, _| {
                let apps: Vec<String> = apps.split(',').map(|app| app.trim().to_owned()).collect();
                let request = KeyRequest { name: &name, apps: &apps, expires_at: None };
                make_feature_key(&store, &tenant, KEY_MAKERS.first().map(|maker| maker.make), request).await
            })
        }
        Command::Create { configured, tenant, name, app, expires, names: true, .. } => {
            with_database(&configured, async |store, _| {
                let now = store.clock().now();
                let expires_at = expires.map(|end| resolve_expiry(end, now)).transpose()?;
                let apps: Vec<String> = app.into_iter().collect();
                let request = KeyRequest { name: &name, apps: &apps, expires_at };
                make_feature_key(&store, &tenant, NAMES_KEY_MAKERS.first().copied(), request).await
            })
        }
        Command::Create { configured, tenant, name, scope, preset, app, expires, .. } => {
            let scope = choose_scopes(scope, preset, app.as_deref())?;
            if app.is_some() && scope.contains(&Scope::Operator) {
                return Err(
                    CommandError::usage("a key for one app cannot use operations of operators").into()
                );
            }
            with_database(&configured, async |store, _| {
                check_tenant(&store, &tenant).await?;
                let now = store.clock().now();
                let expires_at = expires.map(|end| resolve_expiry(end, now)).transpose()?;
                let new = NewApiKey { name, scopes: scope, app, expires_at };
                let entropy = Entropy::default().generate_key()?;
                let text = create_key(&store, &tenant, &new, &entropy).await?;
                say!("{}", text.reveal());
                if Console::get().is_closed() {
                    return Err("the key was created, but standard output is closed: find it with `unslide key list` and revoke it with \
                                `unslide key revoke`"
                        .into());
                }
                Ok(Exit::Ready)
            })
        }
        Command::List { configured, tenant, json } => {
            with_database(&configured, async |store, _| list_keys(&store, &tenant, json).await)
        }
        Command::Revoke { configured, tenant, id, cascade, yes } => {
            with_database(&configured, async |store, _| revoke_key(&store, &tenant, id, cascade, yes).await)
        }
        Command::Show(arguments) => key_show::run(&arguments),
        Command::Erase(arguments) => key_erase::run(&arguments),
        Command::Test(arguments) => key_test::run(&arguments),
    }
}

/// Returns the scopes of a new key: those of the command line, or of a preset.
fn choose_scopes(
    scopes: Vec<Scope>,
    preset: Option<KeyPreset>,
    app: Option<&str>,
) -> Result<Vec<Scope>, CommandError> {
    match preset {
        Some(preset) if preset.needs_app() && app.is_none() => Err(CommandError::usage(format!(
            "a key with the preset {preset} is for one app: add --app BUNDLE_IDENTIFIER"
        ))),
        Some(preset) => Ok(preset.scopes().to_vec()),
        None => Ok(scopes),
    }
}

async fn list_keys(store: &Store, tenant: &TenantId, as_json: bool) -> Outcome {
    check_tenant(store, tenant).await?;
    let mut tx = store.tenant(tenant).await?;
    let now = store.clock().now();
    let mut table = Table::new(&KEY_COLUMNS);
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = keys::list_keys(&mut tx, None, after, KEY_PAGE_ENTRIES).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.created_at, last.id));
        for key in page {
            let state = match key.expires_at {
                _ if key.revoked_at.is_some() => "revoked",
                Some(end) if end <= now => "expired",
                _ => "in force",
            };
            let mut shown = serde_json::to_value(&key)?;
            shown["state"] = state.into();
            let or = |member: &str, absent: &str| shown[member].as_str().unwrap_or(absent).to_owned();
            let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
            table.add_row([
                key.id.to_string(),
                format!("unslide_{}_…", key.prefix),
                state.to_owned(),
                or("expires_at", "never"),
                or("last_used_at", "never"),
                or("made_by", "the command line"),
                scopes.join(","),
                or("app", "every app"),
                key.name,
            ]);
            all.push(shown);
        }
    }
    if as_json {
        Console::get().print_json(&all)?;
    } else {
        table.print();
    }
    Ok(Exit::Ready)
}

/// Makes a key of a feature for a URL and prints it.
async fn make_feature_key(
    store: &Store,
    tenant: &TenantId,
    make: Option<MakeKey>,
    request: KeyRequest<'_>,
) -> Outcome {
    check_tenant(store, tenant).await?;
    let make = make.ok_or("this program makes no such keys")?;
    say!("{}", make(store, tenant, request).await?);
    Ok(Exit::Ready)
}

/// Revokes a key, with `cascade` also those that it created. Asks before unless `yes`.
async fn revoke_key(store: &Store, tenant: &TenantId, id: Uuid, cascade: bool, yes: bool) -> Outcome {
    check_tenant(store, tenant).await?;
    let made = if cascade { " and every key that descends from it, of every tenant" } else { "" };
    confirm_action(&format!("This revokes the key {id} of {tenant}{made}. It cannot be undone."), yes)?;
    let mut tx = store.tenant(tenant).await?;
    let (actor, detail) = ("command line", json!({ "cascade": cascade }));
    let revoked = if cascade {
        keys::revoke_with_made(&mut tx, id, None, None, actor).await?
    } else {
        keys::revoke_key(&mut tx, id, None).await?.then_some(0)
    };
    let Some(revoked) = revoked else {
        let text = format!("{tenant} has no key {id}; `unslide key list --tenant {tenant}` shows its keys");
        return Err(CommandError::missing(text).into());
    };
    audit::append_entry(&mut tx, actor, "key.revoke", &id.to_string(), &detail).await?;
    let in_force = keys::count_made(&mut tx, id, None).await?;
    let left = if cascade { keys::list_left(&mut tx, id).await? } else { Vec::new() };
    tx.commit().await?;
    match (cascade, in_force) {
        (true, _) => say!("revoked, with {revoked} keys that descend from it"),
        (false, 0) => say!("revoked"),
        (false, _) => {
            say!("revoked; {in_force} keys that descend from it are in force: --cascade revokes them");
        }
    }
    for change in left {
        let more = if change.more > 0 { format!(" and {} more", change.more) } else { String::new() };
        say!("stays: {} of {}{more}", change.action, change.subjects.join(", "));
    }
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_decides_the_scopes_and_may_need_an_app() {
        let pipeline = choose_scopes(Vec::new(), Some(KeyPreset::Pipeline), None).unwrap();
        assert_eq!(pipeline, [Scope::SymbolsWrite, Scope::SymbolsRead]);
        assert!(choose_scopes(Vec::new(), Some(KeyPreset::App), None).is_err());
        let app = choose_scopes(Vec::new(), Some(KeyPreset::App), Some("com.example.shop")).unwrap();
        assert_eq!(app, [Scope::ReportsWrite]);
        assert_eq!(choose_scopes(vec![Scope::ReportsRead], None, None).unwrap(), [Scope::ReportsRead]);
    }

    #[test]
    fn a_key_ends_at_a_time_or_after_some_days() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let at = |text: &str| resolve_expiry(text.parse().map_err(CommandError::usage)?, now);
        assert_eq!(at("90d").unwrap(), now + Duration::days(90));
        assert_eq!(at("2030-01-01T00:00:00Z").unwrap().unix_timestamp(), 1_893_456_000);
        for wrong in ["", "d", "0d", "-1d", "90", "soon", "2001-01-01T00:00:00Z", "4294967295d"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
