//! Dead letters: records that a stage could not process. A tenant's administrator sees the tenant's own; an
//! operator sees all, and also those without a tenant.
//!
//! Each operation exists twice, under `/v1/dead-letters` and `/v1/operator/dead-letters`: see
//! [`DeadLetterScope`].

mod body;
pub mod get;
pub mod list;
pub mod replay;
mod replay_many;
mod topic;

pub use list::FILTER_BYTES;

use crate::openapi::for_operators;
use crate::operations::prelude::*;
use crate::requests::access::Reach;
use crate::requests::input::check_texts;
use crate::storage::transactions::Tx;
use unslide_model::TenantId;
use unslide_store::TenantTx;
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterId, DeadLetterReach};
use unslide_store::keys::Principal;

/// The routes of this folder: of a tenant's dead letters, and of all.
pub fn dead_letter_routes() -> OperationRouter {
    OperationRouter::new().nest("/v1", own_routes()).merge(for_operators(
        "/v1/operator",
        Reach::All,
        own_routes(),
    ))
}

fn own_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(list::list_dead_letters))
        .routes(routes!(get::get_dead_letter))
        .routes(routes!(body::get_dead_letter_body))
        .routes(routes!(replay::replay_dead_letter))
        .routes(routes!(replay_many::replay_dead_letters))
}

/// The dead letters that a request may see: the tenant's own, or any.
pub struct DeadLetterScope<'a> {
    principal: &'a Principal,
    reach: DeadLetterReach<'a>,
}

impl<'a> DeadLetterScope<'a> {
    /// Returns the dead letters that the key may see. An operator's are filtered by `tenant`.
    ///
    /// # Errors
    /// [`Kind::InsufficientScope`] for a key of one app, because the app of a dead letter is not known.
    /// [`Kind::InvalidParameter`] if a caller who is no operator names a tenant.
    pub fn for_request(
        access: &'a Access<TenantAdmin>,
        tenant: Option<&'a str>,
    ) -> Result<DeadLetterScope<'a>, Problem> {
        access.require_every_app("dead letters are of no app")?;
        let reach = match access.reach {
            Some(Reach::All) => DeadLetterReach::All { tenant },
            _ if tenant.is_some() => {
                return Err(Problem::new(Kind::InvalidParameter, "tenant: for operators only"));
            }
            _ => DeadLetterReach::Own,
        };
        check_texts(Kind::InvalidParameter, FILTER_BYTES, [("tenant", tenant)])?;
        Ok(DeadLetterScope { principal: &access.principal, reach })
    }

    fn tenant(&self) -> &TenantId {
        &self.principal.tenant
    }

    async fn begin_transaction(&self, storage: &Storage) -> Result<Tx<TenantTx>, Problem> {
        match self.reach {
            DeadLetterReach::Own => storage.tenant(self.tenant()).await,
            // Operators do not wait for tenants to release connections.
            DeadLetterReach::All { .. } => Ok(storage.store.tenant(self.tenant()).await?.into()),
        }
    }

    async fn find_dead_letter(&self, tx: &mut TenantTx, id: &DeadLetterId) -> Result<DeadLetter, Problem> {
        let found = dead_letters::get(tx, self.reach, id).await?;
        found.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such dead letter"))
    }
}
