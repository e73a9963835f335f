//! `unslide key` with a configuration of the services: the keys in the database.

use crate::configuration::Configured;
use crate::features::FEATURES;
use crate::prelude::*;
use crate::servers::tenant::{check_tenant, with_database};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_api::entropy::Entropy;
use unslide_cli::confirm_action;
use unslide_client::key::{
    Command, CreateArguments, LOSS_OF_APPS, ListArguments, RevokeArguments, ShowArguments, describe_key,
    describe_revoked, print_key, print_keys,
};
use unslide_feature::collect_key_kinds;
use unslide_model::{KeyPreset, Moment, Scope, TenantId};
use unslide_store::accounts::create_key_of_kind;
use unslide_store::keys::{
    self, API_KEYS, KeyFilter, KeyKind, KeyRecord, NewKey, find_record, revoke_record,
};
use unslide_store::{Store, audit};

/// Keys that are asked for with one question.
const KEY_PAGE_ENTRIES: u32 = 500;

/// Returns the expiry of a key that lasts for a while from `now`, or until a time.
fn resolve_expiry(end: Moment, now: OffsetDateTime) -> Result<OffsetDateTime, CommandError> {
    let end = match end {
        Moment::At(millis) => OffsetDateTime::UNIX_EPOCH.checked_add(Duration::milliseconds(millis)),
        Moment::For(millis) => now.checked_add(Duration::milliseconds(millis)),
        Moment::DaysAgo(_) => Some(OffsetDateTime::UNIX_EPOCH),
    };
    let end = end.ok_or_else(|| CommandError::usage("--expires: too far away"))?;
    if end <= now { Err(CommandError::usage("--expires: in the past")) } else { Ok(end) }
}

/// Runs a command on keys in the database.
pub fn run(command: Command, configured: &Configured) -> Outcome {
    match command {
        Command::Create(arguments) => {
            let CreateArguments { tenant, name, kind, scope, preset, app, expires, .. } = arguments;
            let tenant = require_tenant(tenant)?;
            let scopes = choose_scopes(scope, preset, app.first().map(String::as_str))?;
            if !app.is_empty() && scopes.contains(&Scope::Operator) {
                return Err(
                    CommandError::usage("a key for one app cannot use operations of operators").into()
                );
            }
            with_database(configured, async |store, _| {
                let kind = find_kind(&kind)?;
                check_tenant(&store, &tenant).await?;
                let now = store.clock().now();
                let expires_at = expires.map(|end| resolve_expiry(end, now)).transpose()?;
                let apps = app.iter().map(|app| app.trim().to_owned()).collect();
                let new = kind.check_new(NewKey { name, scopes, apps, expires_at }, now);
                let new = new.map_err(CommandError::usage)?;
                create_key(&store, &tenant, kind, &new).await
            })
        }
        Command::List(ListArguments { tenant, kind, json, .. }) => {
            let tenant = require_tenant(tenant)?;
            with_database(configured, async |store, _| {
                let kind = kind.map(|kind| find_kind(&kind)).transpose()?;
                list_keys(&store, &tenant, kind, json).await
            })
        }
        Command::Show(ShowArguments { tenant, id, json, .. }) => {
            let tenant = require_tenant(tenant)?;
            with_database(configured, async |store, _| show_key(&store, &tenant, &id, json).await)
        }
        Command::Revoke(RevokeArguments { tenant, id, cascade, yes, .. }) => {
            let tenant = require_tenant(tenant)?;
            with_database(configured, async |store, _| {
                check_tenant(&store, &tenant).await?;
                let key = find_key(&store, &tenant, &id).await?;
                if key.kind == API_KEYS.name {
                    return revoke_api_key(&store, &tenant, &key, cascade, yes).await;
                }
                if cascade {
                    return Err(CommandError::usage("--cascade: only API keys make keys").into());
                }
                revoke_other_key(&store, &tenant, find_kind(&key.kind)?, &key, yes).await
            })
        }
    }
}

/// The database has the keys of every tenant.
fn require_tenant(tenant: Option<TenantId>) -> Result<TenantId, CommandError> {
    tenant.ok_or_else(|| {
        CommandError::usage("--tenant is missing: the configuration is of a service with several tenants")
    })
}

/// Returns the kind of this name.
fn find_kind(name: &str) -> Result<&'static KeyKind, CommandError> {
    let kinds = collect_key_kinds(FEATURES);
    kinds.iter().copied().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        CommandError::usage(format!("--kind {name}: there are {}", names.join(", ")))
    })
}

/// Creates a key and prints its text.
async fn create_key(store: &Store, tenant: &TenantId, kind: &'static KeyKind, new: &NewKey) -> Outcome {
    let entropy = Entropy::default().generate_key()?;
    let text = create_key_of_kind(store, tenant, kind, new, &entropy).await?;
    say!("{}", text.reveal());
    if Console::get().is_closed() {
        return Err("the key was created, but standard output is closed: find it with `unslide key list` and revoke it with \
                    `unslide key revoke`"
            .into());
    }
    Ok(Exit::Ready)
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

/// Returns a key as the command prints it.
fn shown_key(key: &KeyRecord, now: OffsetDateTime) -> Result<Value, BoxError> {
    let mut record = serde_json::to_value(key)?;
    record["id"] = key.shown_id().into();
    Ok(describe_key(&key.kind, record, &now.format(&Rfc3339)?))
}

async fn list_keys(
    store: &Store,
    tenant: &TenantId,
    kind: Option<&'static KeyKind>,
    as_json: bool,
) -> Outcome {
    check_tenant(store, tenant).await?;
    let mut tx = store.tenant(tenant).await?;
    let now = store.clock().now();
    let filter = KeyFilter { kind, ..KeyFilter::default() };
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let page = keys::list_records(&mut tx, filter, after, KEY_PAGE_ENTRIES).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.created_at, last.id));
        for key in &page {
            shown.push(shown_key(key, now)?);
        }
    }
    print_keys(&shown, as_json)
}

/// Returns the key with an id.
async fn find_key(store: &Store, tenant: &TenantId, id: &str) -> Result<KeyRecord, BoxError> {
    let mut tx = store.tenant(tenant).await?;
    let found = find_record(&mut tx, KeyFilter::default(), id).await?;
    tx.rollback().await?;
    let text = format!("{tenant} has no key {id}; `unslide key list --tenant {tenant}` shows its keys");
    Ok(found.ok_or_else(|| CommandError::missing(text))?)
}

async fn show_key(store: &Store, tenant: &TenantId, id: &str, as_json: bool) -> Outcome {
    check_tenant(store, tenant).await?;
    let key = find_key(store, tenant, id).await?;
    let mut shown = shown_key(&key, store.clock().now())?;
    // No list has the text, so that no export holds it.
    if let Some(text) = &key.key_text {
        shown["text"] = text.as_str().into();
    }
    print_key(&shown, as_json)
}

/// Revokes a key that makes no keys. Asks before unless `yes`.
async fn revoke_other_key(
    store: &Store,
    tenant: &TenantId,
    kind: &'static KeyKind,
    key: &KeyRecord,
    yes: bool,
) -> Outcome {
    let id = key.shown_id();
    let what = kind.title;
    let loss = if kind.is_public { LOSS_OF_APPS } else { "" };
    confirm_action(&format!("This revokes the {what} {id} of {tenant}.{loss}"), yes)?;
    let mut tx = store.tenant(tenant).await?;
    revoke_record(&mut tx, kind, &id, None).await?;
    let action = format!("{}.revoke", kind.action);
    audit::append_entry(&mut tx, "command line", &action, &id, &json!({})).await?;
    tx.commit().await?;
    say!("revoked");
    Ok(Exit::Ready)
}

/// Revokes an API key, with `cascade` also those that it created. Asks before unless `yes`.
async fn revoke_api_key(
    store: &Store,
    tenant: &TenantId,
    key: &KeyRecord,
    cascade: bool,
    yes: bool,
) -> Outcome {
    let id = key.id;
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
    say!("{}", describe_revoked(cascade, (revoked, in_force)));
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
