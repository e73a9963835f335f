//! Dead letters: records that could not be processed. A tenant's administrator sees the tenant's own;
//! an operator sees all, also those without a tenant.
//!
//! Each operation is there twice, under `/v1/dead-letters` and `/v1/operator/dead-letters`: see
//! [`DeadLetterScope`].

mod body;
pub mod get;
pub mod list;
pub mod replay;
mod replay_many;
mod topic;

pub use list::LONGEST;

use crate::limits::transactions::Tx;
use crate::openapi::for_operators;
use crate::operations::prelude::*;
use crate::requests::access::Reach;
use crate::requests::input::check_texts;
use unslide_model::TenantId;
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId};
use unslide_store::keys::Principal;
use unslide_store::{StoreError, TenantTx};

/// The routes of this folder: of a tenant's dead letters, and of all.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().nest("/v1", own_routes()).merge(for_operators(
        "/v1/operator",
        Reach::All,
        own_routes(),
    ))
}

fn own_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list_dead_letters))
        .routes(routes!(get::get_dead_letter))
        .routes(routes!(body::get_dead_letter_body))
        .routes(routes!(replay::replay_dead_letter))
        .routes(routes!(replay_many::replay_dead_letters))
}

/// Whose dead letters a request is about: the tenant's own, or any.
pub struct DeadLetterScope<'a> {
    principal: &'a Principal,
    any: bool,
}

impl<'a> DeadLetterScope<'a> {
    /// What the key may see.
    ///
    /// # Errors
    /// [`Kind::InsufficientScope`] for a key of one app: which app a dead letter is of is not known.
    pub fn of(access: &'a Access<TenantAdmin>) -> Result<DeadLetterScope<'a>, Problem> {
        access.of_every_app("dead letters are of no app")?;
        Ok(DeadLetterScope { principal: &access.principal, any: access.reach == Some(Reach::All) })
    }

    /// Checks that the request may name this tenant.
    fn check_tenant(&self, tenant: Option<&str>) -> Result<(), Problem> {
        if tenant.is_some() && !self.any {
            return Err(Problem::new(Kind::InvalidParameter, "tenant: for operators only"));
        }
        check_texts(Kind::InvalidParameter, LONGEST, [("tenant", tenant)])
    }

    fn tenant(&self) -> &TenantId {
        &self.principal.tenant
    }

    async fn begin(&self, api: &Api) -> Result<Tx<TenantTx>, Problem> {
        // Operators do not wait until tenants give connections back.
        if self.any {
            Ok(api.store.tenant(self.tenant()).await?.into())
        } else {
            api.tenant(self.tenant()).await
        }
    }

    async fn list(
        &self,
        tx: &mut TenantTx,
        filter: &DeadLetterFilter,
        tenant: Option<&str>,
        after: Option<&DeadLetterCursor>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        if self.any {
            dead_letters::list_any(tx, filter, tenant, after, limit).await
        } else {
            dead_letters::list(tx, filter, after, limit).await
        }
    }

    async fn count(
        &self,
        tx: &mut TenantTx,
        filter: &DeadLetterFilter,
        tenant: Option<&str>,
    ) -> Result<u64, StoreError> {
        if self.any {
            dead_letters::count_any(tx, filter, tenant).await
        } else {
            dead_letters::count(tx, filter).await
        }
    }

    async fn find(&self, tx: &mut TenantTx, id: &DeadLetterId) -> Result<DeadLetter, Problem> {
        let found =
            if self.any { dead_letters::get_any(tx, id).await? } else { dead_letters::get(tx, id).await? };
        found.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such dead letter"))
    }

    async fn replayed(
        &self,
        tx: &mut TenantTx,
        id: &DeadLetterId,
        placed_as: &str,
    ) -> Result<(), StoreError> {
        let by = self.principal.key_id.to_string();
        if self.any {
            dead_letters::replayed_any(tx, id, &by, placed_as).await
        } else {
            dead_letters::replayed(tx, id, &by, placed_as).await
        }
    }
}
