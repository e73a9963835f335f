//! `POST /v1/tenants`.

use super::{Tenant, TenantLimits};
use crate::access::{Access, Operator};
use crate::input::Json;
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unslide_model::TenantId;
use unslide_store::{audit, outbox, tenants};
use utoipa::ToSchema;

/// A tenant to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    /// Its slug: `a-z`, `0-9` and `-`, 2 to 40 characters.
    #[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$", example = "acme")]
    pub id: TenantId,
    /// Its name for people; the slug where absent.
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// What it may use.
    #[serde(default)]
    pub limits: TenantLimits,
}

/// A tenant that was made.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CreatedTenant {
    /// The tenant.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// True once the workers can know it: reports sent to Kafka from now on find it. False where
    /// that takes longer than this request waited; it will happen all the same.
    pub announced: bool,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, Conflict);

/// Create a tenant
///
/// Answers when the workers can know it.
#[utoipa::path(post, path = "/v1/tenants", tag = "tenants", operation_id = "create_tenant",
    request_body = NewTenant,
    responses((status = 201, description = "The tenant was made.", body = CreatedTenant), Failures),
    security(("key" = ["operator"])))]
pub async fn create_tenant(
    State(api): State<Api>,
    access: Access<Operator>,
    Json(new): Json<NewTenant>,
) -> Result<(StatusCode, axum::Json<CreatedTenant>), Problem> {
    let name = new.name.unwrap_or_else(|| new.id.to_string());
    if name.is_empty() || name.len() > 200 {
        return Err(Problem::new(Kind::InvalidBody, "name: 1 to 200 bytes"));
    }
    let mut tx = api.store.tenant(&new.id).await?;
    let made = tenants::create(&mut tx, &name, &new.limits.into()).await?;
    let (tenant, announcement) =
        made.ok_or_else(|| Problem::new(Kind::Conflict, format!("the slug {} is taken", new.id)))?;
    let actor = access.principal.key_id.to_string();
    audit::append(&mut tx, &actor, "tenant.create", new.id.as_str(), &serde_json::json!({})).await?;
    tx.commit().await?;
    let wait = Duration::from_secs(api.limits.announce_seconds);
    let announced = outbox::wait_sent(&api.store, &tenant.id, announcement, wait).await?;
    Ok((StatusCode::CREATED, axum::Json(CreatedTenant { tenant: tenant.into(), announced })))
}
