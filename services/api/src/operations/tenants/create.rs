//! `POST /v1/tenants`.

use super::change::LimitsChange;
use super::{ChangedTenant, wait_announced};
use crate::operations::prelude::*;
use crate::requests::input::{Json, is_text};
use crate::storage::claims::TenantClaims;
use http::StatusCode;
use unslide_model::TenantId;
use unslide_store::{audit, tenants};
use unslide_stream::admin;

/// A tenant to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    /// Its slug: `a-z`, `0-9` and `-`, 2 to 40 characters.
    #[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$", example = "acme")]
    pub id: TenantId,
    /// Its name for people; the slug if absent.
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// Limits of the tenant; the service's defaults if absent.
    #[serde(default)]
    pub limits: LimitsChange,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, Conflict);

/// Create a tenant
///
/// Answers when the broker has the new tenant, so that the workers can read it. Creates the tenant's topics
/// if tenants have topics of their own.
#[utoipa::path(post, path = "/v1/tenants", tag = "tenants", operation_id = "create_tenant",
    request_body = NewTenant,
    responses((status = 201, description = "The tenant was made.", body = ChangedTenant), Failures),
    security(("key" = ["operator"])))]
pub async fn create_tenant(
    State(broker): State<Arc<Broker>>,
    State(claims): State<Arc<TenantClaims>>,
    access: Access<Operator>,
    Json(new): Json<NewTenant>,
) -> Result<(StatusCode, axum::Json<ChangedTenant>), Problem> {
    let name = new.name.unwrap_or_else(|| new.id.to_string());
    if !is_text(&name, 200) {
        return Err(Problem::new(Kind::InvalidBody, "name: 1 to 200 bytes, no control characters"));
    }
    claims.claim_name(&new.id).await?;
    let taken = || Problem::new(Kind::Conflict, format!("the slug {} is taken", new.id));
    if broker.settings.tenant_topics {
        let mut tx = broker.storage.store.tenant(&new.id).await?;
        let found = tenants::get(&mut tx).await?;
        tx.rollback().await?;
        if found.is_some() {
            return Err(taken());
        }
        // Created before the tenant, because an existing tenant can be sent to. Topics without a tenant do no
        // harm.
        admin::create_tenant_topics(&broker.settings, &new.id).await?;
    }
    let mut tx = broker.storage.store.tenant(&new.id).await?;
    let mut limits = tenants::QuotaLimits::default();
    new.limits.apply_to(&mut limits);
    let made = tenants::create_tenant(&mut tx, &name, &limits).await?;
    let (tenant, announcement) = made.ok_or_else(taken)?;
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "tenant.create", new.id.as_str(), &serde_json::json!({})).await?;
    tx.commit().await?;
    let announced = wait_announced(&broker.storage, &tenant.id, announcement).await?;
    Ok((StatusCode::CREATED, axum::Json(ChangedTenant { tenant, announced })))
}
