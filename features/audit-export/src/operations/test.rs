//! `POST /v1/audit-log/receivers/{name}/test`.

use super::{EVERY_APP, no_receiver};
use crate::sending::{AuditExchange, SentEntries};
use crate::target::TargetOwner;
use crate::{AuditExportExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, Path, Problem, TenantAdmin, problems};
use unslide_store::Uuid;
use unslide_store::audit::AuditEntry;
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Units of a test, as many as those of ten reports.
const TEST_UNITS: usize = 10;

/// A test of a receiver: what was sent, without the secret, and what was answered.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AuditReceiverTest {
    /// True if the receiver has taken the entry.
    pub ok: bool,
    /// The request, or the message of syslog.
    #[schema(example = "POST https://siem.example.com/…")]
    pub sent: String,
    /// The status of the answer; absent without an answer, and for syslog.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 204)]
    pub status: Option<u16>,
    /// What the answer says, or why there is none.
    #[schema(example = "The receiver has taken the entry")]
    pub answer: String,
}

/// Test a receiver of the audit log
///
/// Sends an entry `audit_log.test` that is not in the log, and returns what was sent and answered.
#[utoipa::path(post, path = "/v1/audit-log/receivers/{name}/test", tag = "audit-export", operation_id = "test_audit_receiver",
    params(("name" = String, Path, description = "The receiver's name.", max_length = 40)),
    responses((status = 200, description = "What was sent and answered.", body = AuditReceiverTest), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_audit_receiver(
    State(storage): State<Arc<Storage>>,
    Extension(audit_export): AuditExportExtension,
    access: Access<TenantAdmin>,
    Path(name): Path<String>,
) -> Result<Json<AuditReceiverTest>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let tenant = access.tenant();
    Charge::for_reports(&storage.capacity, tenant, access.principal.limits.units_per_second)?
        .charge_reports(TEST_UNITS)?;
    let mut tx = storage.tenant(tenant).await?;
    let (rows, at) = (store::list_receivers(&mut tx).await?, tx.now());
    // The next step waits for the receiver, and must not hold a connection.
    tx.rollback();
    let row = rows.into_iter().find(|row| row.name == name).ok_or_else(no_receiver)?;
    let entry = AuditEntry {
        // Its time: each test has another id.
        id: Uuid::from_u128(at.unix_timestamp_nanos().unsigned_abs()),
        at,
        actor: access.principal.key_id.to_string(),
        name: None,
        action: "audit_log.test".to_owned(),
        subject: name,
        detail: json!({}),
        position: None,
    };
    let owner = TargetOwner { tenant, kind: row.kind, shown_address: &row.shown_address };
    let target = match audit_export.open_sealed(owner, &row.sealed_target) {
        Ok(target) => target,
        Err(answer) => {
            return Ok(Json(AuditReceiverTest { ok: false, sent: String::new(), status: None, answer }));
        }
    };
    let entries = SentEntries { tenant, entries: &[entry], at };
    let AuditExchange { sent, status, outcome } = audit_export.client.deliver(&target, &entries).await;
    let (ok, answer) = match outcome {
        Ok(()) => (true, "The receiver has taken the entry".to_owned()),
        Err(failure) => (false, failure.text),
    };
    Ok(Json(AuditReceiverTest { ok, sent, status, answer }))
}
