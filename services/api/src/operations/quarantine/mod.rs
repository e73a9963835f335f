//! Quarantined records: outputs that the indexer could not store and skipped. Operators see those of
//! all tenants and of none.

mod get;
mod list;
mod replay;

use crate::operations::prelude::*;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::Uuid;
use unslide_store::dead_letters::TopicOffset;
use unslide_store::quarantine::{Quarantined, ReplayRequest};

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::operator_list_quarantined))
        .routes(routes!(get::operator_get_quarantined))
        .routes(routes!(replay::operator_replay_quarantined))
}

/// A record that the indexer could not store.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuarantinedRecord {
    /// Its id.
    pub id: Uuid,
    /// The tenant that it belongs to; absent where it names none that exists.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Where it lies in Kafka.
    pub place: TopicOffset,
    /// Why it could not be stored: a word that does not change.
    #[schema(example = "constraint_violation")]
    pub reason: String,
    /// What exactly happened.
    pub detail: String,
    /// When the indexer skipped it.
    #[serde(with = "time::serde::rfc3339")]
    pub quarantined_at: OffsetDateTime,
    /// The last replay; absent where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<QuarantineReplay>,
}

/// A replay of a quarantined record.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuarantineReplay {
    /// `requested` while the indexer has not done it; then `stored`, `failed`, or `past_retention` where
    /// the topic does not hold the record any more.
    #[schema(example = "stored")]
    pub status: String,
    /// What exactly happened, where the record was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    /// The key that asked for it.
    pub requested_by: String,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<OffsetDateTime>,
}

impl From<ReplayRequest> for QuarantineReplay {
    fn from(replay: ReplayRequest) -> QuarantineReplay {
        QuarantineReplay {
            status: replay.end.map_or("requested", |(status, _)| status.as_str()).to_owned(),
            detail: replay.detail,
            requested_at: replay.requested_at,
            requested_by: replay.requested_by,
            ended_at: replay.end.map(|(_, at)| at),
        }
    }
}

impl From<Quarantined> for QuarantinedRecord {
    fn from(Quarantined { id, record, quarantined_at, replay }: Quarantined) -> QuarantinedRecord {
        QuarantinedRecord {
            id,
            tenant: record.tenant,
            place: TopicOffset { topic: record.topic, partition: record.partition, offset: record.offset },
            reason: record.reason,
            detail: record.detail,
            quarantined_at,
            replay: replay.map(QuarantineReplay::from),
        }
    }
}
