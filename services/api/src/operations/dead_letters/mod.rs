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
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::dead_letters::{
    self, DeadLetterCursor, DeadLetterFilter, DeadLetterId, StoredDeadLetter, TopicOffset,
};
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

/// A record that could not be processed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DeadLetter {
    /// Its id: where it lies in the dead-letter topic.
    #[schema(value_type = String, example = "8f0c6d3f2a524e0ab1c7d9e2f3a4b5c6-0-17")]
    pub id: String,
    /// The tenant that it belongs to; absent where there is none.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// When it arrived in the dead-letter topic.
    #[serde(with = "time::serde::rfc3339")]
    pub arrived_at: OffsetDateTime,
    /// Why it is dead: a word that does not change.
    #[schema(example = "not_json")]
    pub reason: String,
    /// What exactly was wrong.
    pub detail: String,
    /// How often it was tried, where that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The first record of its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<TopicOffset>,
    /// The record that it was made from: another one after retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<TopicOffset>,
    /// Which report of the source it is, from 0, where that held an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_index: Option<u32>,
    /// How many reports the source held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_count: Option<u32>,
    /// Bytes of the value; absent for a record without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u64>,
    /// How often it was replayed.
    pub replays: u32,
    /// When it was replayed last.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub replayed_at: Option<OffsetDateTime>,
    /// The key that replayed it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_by: Option<String>,
    /// The record that the last replay wrote: topic, partition and offset.
    #[schema(example = "crash.reports/3/4711")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_as: Option<String>,
}

impl From<StoredDeadLetter> for DeadLetter {
    fn from(letter: StoredDeadLetter) -> DeadLetter {
        let StoredDeadLetter { found, replays, replayed } = letter;
        let (replayed_at, replayed_by, replayed_as) = match replayed {
            Some(replay) => (Some(replay.at), Some(replay.by), Some(replay.placed_as)),
            None => (None, None, None),
        };
        DeadLetter {
            id: found.id.to_string(),
            tenant: found.tenant,
            arrived_at: found.arrived_at,
            reason: found.reason,
            detail: found.detail,
            attempt: found.attempt,
            origin: found.origin,
            source: found.source,
            source_index: found.index.map(|(index, _)| index),
            source_count: found.index.map(|(_, count)| count),
            value_bytes: found.value_bytes,
            replays,
            replayed_at,
            replayed_by,
            replayed_as,
        }
    }
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
    ) -> Result<Vec<StoredDeadLetter>, StoreError> {
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

    async fn find(&self, tx: &mut TenantTx, id: &DeadLetterId) -> Result<StoredDeadLetter, Problem> {
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
