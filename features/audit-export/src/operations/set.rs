//! `PUT /v1/audit-log/receivers` sets a receiver of the audit log.

use super::{EVERY_APP, RECEIVERS_LIMIT, ShownReceiver};
use crate::sending::read_authority;
use crate::settings::AUDIT_EXPORT_SECTION;
use crate::store::{self, NewReceiverRow, ReceiverRow};
use crate::target::{AuditReceiverKind, ReceiverTarget, SEALING_KEY, TargetOwner};
use crate::{AuditExport, AuditExportExtension};
use axum::extract::State;
use axum::{Extension, Json};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems};
use unslide_api::feature::webhook_signature::{WebhookSigner, generate_webhook_secret};
use unslide_model::{Secret, TenantId};
use unslide_runtime::egress::{check_host, check_url};
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// The most bytes of an address, and of the certificates of an authority.
const ADDRESS_BYTES_LIMIT: usize = 500;
const AUTHORITY_BYTES_LIMIT: usize = 32 << 10;
/// The port of syslog over TLS.
const USUAL_SYSLOG_PORT: u16 = 6_514;

/// A receiver of the audit log to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAuditReceiver {
    /// Its name in this tenant: lower case letters, digits and `-`. The name of one that is set changes it.
    #[schema(min_length = 1, max_length = 40, example = "siem")]
    pub name: String,
    /// The protocol of its requests.
    pub kind: AuditReceiverKind,
    /// The URL of a webhook, or `host:port` of a server of syslog over TLS; port 6514 if there is none.
    #[schema(value_type = String, min_length = 1, max_length = 500, example = "siem.example.com:6514")]
    pub address: Secret,
    /// The secret that signs webhooks: `whsec_` and 24 to 64 bytes in base64. If absent, the one of the same address stays, or one is made
    /// and shown once.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 100)]
    pub secret: Option<Secret>,
    /// For syslog: certificates in PEM of the authority that has to have signed the server's. Absent: those that the service trusts.
    #[serde(default)]
    #[schema(max_length = 32768)]
    pub authority: Option<String>,
    /// `true` sends the log from its first entry on. Otherwise a new receiver begins with the next entry, and one that is set goes on.
    #[serde(default)]
    pub from_start: bool,
}

/// Set a receiver of the audit log
///
/// It gets each entry from now on in order, at least once, with its id: by a request that is signed as Standard Webhooks has it, or by
/// syslog (RFC 5424) over TLS. The first one is the entry about this change. What it does not take waits, and is sent again.
#[utoipa::path(put, path = "/v1/audit-log/receivers", tag = "audit-export", operation_id = "set_audit_receiver",
    request_body = NewAuditReceiver,
    responses((status = 200, description = "The receiver is set.", body = ShownReceiver), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_audit_receiver(
    State(storage): State<Arc<Storage>>,
    Extension(audit_export): AuditExportExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewAuditReceiver>,
) -> Result<Json<ShownReceiver>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    check_new(&new).map_err(wrong)?;
    let tenant = access.tenant();
    let Some(sealer) = &audit_export.sealer else {
        let detail =
            format!("This service keeps no receivers of audit logs. The operator sets {SEALING_KEY}.");
        return Err(wrong(detail));
    };
    let mut tx = storage.tenant(tenant).await?;
    let known = store::lock_receivers(&mut tx).await?;
    let former = known.iter().find(|row| row.name == new.name);
    if former.is_none() && known.len() >= RECEIVERS_LIMIT {
        let detail = format!("the tenant has {RECEIVERS_LIMIT} receivers of its audit log: remove one first");
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    let (target, new_secret) = read_target(&audit_export, tenant, &new, former)?;
    let row = NewReceiverRow {
        name: new.name.clone(),
        kind: new.kind,
        shown_address: target.shown_address(),
        sealed_target: sealer.seal_target(tenant, &target).map_err(Problem::internal)?,
        position: new.from_start.then_some(0),
    };
    store::set_receiver(&mut tx, &row).await?;
    let detail = json!({"kind": row.kind, "address": row.shown_address, "from_start": new.from_start});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "audit_receiver.set", &new.name, &detail).await?;
    let (rows, last) = (store::list_receivers(&mut tx).await?, audit::last_position(&mut tx).await?);
    let row = rows.into_iter().find(|row| row.name == new.name);
    let row = row.ok_or_else(|| Problem::internal("the receiver is gone"))?;
    tx.commit().await?;
    let mut shown = ShownReceiver::from_row(row, last);
    shown.new_secret = new_secret.map(|secret| secret.reveal().to_owned());
    Ok(Json(shown))
}

/// Returns the target of a request, and its secret if it was made here.
fn read_target(
    audit_export: &AuditExport,
    tenant: &TenantId,
    new: &NewAuditReceiver,
    former: Option<&ReceiverRow>,
) -> Result<(ReceiverTarget, Option<Secret>), Problem> {
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    let allowed = &audit_export.client.receivers;
    let in_address = |error: String| wrong(format!("address: {error}"));
    if new.kind == AuditReceiverKind::Syslog {
        let (host, port) = read_host(new.address.reveal()).map_err(in_address)?;
        check_host(&host, port, allowed, AUDIT_EXPORT_SECTION).map_err(in_address)?;
        let authority = new.authority.clone().filter(|pem| !pem.trim().is_empty()).unwrap_or_default();
        if !authority.is_empty() {
            read_authority(&authority).map_err(|error| wrong(format!("authority: {error}")))?;
        }
        return Ok((ReceiverTarget::Syslog { host, port, authority }, None));
    }
    let url = check_url(&new.address, allowed, AUDIT_EXPORT_SECTION).map_err(in_address)?;
    if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err(in_address("a URL without a fragment, a user and a password".to_owned()));
    }
    let given = new.secret.clone().filter(|secret| !secret.is_empty());
    let (secret, made) = match given.or_else(|| find_secret(audit_export, tenant, new, former)) {
        Some(secret) => (secret, None),
        None => {
            let no_bytes = || Problem::internal("the operating system gives no random bytes");
            let secret = generate_webhook_secret().ok_or_else(no_bytes)?;
            (secret.clone(), Some(secret))
        }
    };
    WebhookSigner::from_secret(&secret).map_err(wrong)?;
    Ok((ReceiverTarget::Webhook { url: new.address.clone(), secret }, made))
}

/// Returns the secret that is set for the same URL. It signs nothing for another one.
fn find_secret(
    audit_export: &AuditExport,
    tenant: &TenantId,
    new: &NewAuditReceiver,
    former: Option<&ReceiverRow>,
) -> Option<Secret> {
    let row = former.filter(|row| row.kind == new.kind)?;
    let owner = TargetOwner { tenant, kind: row.kind, shown_address: &row.shown_address };
    match audit_export.open_sealed(owner, &row.sealed_target).ok()? {
        ReceiverTarget::Webhook { url, secret } if url.reveal() == new.address.reveal() => Some(secret),
        _ => None,
    }
}

/// Reads `host:port`. An address of IP version 6 is in brackets.
fn read_host(text: &str) -> Result<(String, u16), String> {
    let wrong = || "host:port of a server, such as siem.example.com:6514".to_owned();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (text, USUAL_SYSLOG_PORT),
    };
    let host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').ok_or_else(wrong)?,
        None if host.contains(':') => return Err(wrong()),
        None => host,
    };
    ServerName::try_from(host).map_err(|_| wrong())?;
    Ok((host.to_owned(), port))
}

fn check_new(new: &NewAuditReceiver) -> Result<(), String> {
    let is_name = (1..=40).contains(&new.name.len())
        && new.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        return Err("name: 1 to 40 lower case letters, digits and -".to_owned());
    }
    if !is_text(new.address.reveal(), ADDRESS_BYTES_LIMIT) {
        return Err(format!("address: 1 to {ADDRESS_BYTES_LIMIT} bytes, no control characters"));
    }
    if new.authority.as_ref().is_some_and(|pem| pem.len() > AUTHORITY_BYTES_LIMIT) {
        return Err(format!("authority: at most {AUTHORITY_BYTES_LIMIT} bytes"));
    }
    let is_given = |text: Option<&str>| text.is_some_and(|text| !text.trim().is_empty());
    match new.kind {
        AuditReceiverKind::Webhook if is_given(new.authority.as_deref()) => {
            Err("authority: it is for syslog; webhooks trust the authorities that the service trusts"
                .to_owned())
        }
        AuditReceiverKind::Syslog if is_given(new.secret.as_ref().map(Secret::reveal)) => {
            Err("secret: syslog has none; the connection is encrypted".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port_and_an_address_of_version_6_brackets() {
        for (text, host, port) in [
            ("siem.example.com", "siem.example.com", 6_514),
            ("siem.example.com:1514", "siem.example.com", 1_514),
            ("10.0.0.1:6514", "10.0.0.1", 6_514),
            ("[fd00::1]:443", "fd00::1", 443),
            ("[fd00::1]", "fd00::1", 6_514),
        ] {
            assert_eq!(read_host(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in ["", ":6514", "fd00::1", "a:b", "a:70000", "a b:1", "https://a", "[fd00::1:6514"] {
            assert!(read_host(text).is_err(), "{text}");
        }
    }
}
