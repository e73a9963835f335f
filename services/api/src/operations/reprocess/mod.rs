//! Stored reports symbolicated again on demand.

mod create;
mod get;

use crate::operations::prelude::*;
use time::OffsetDateTime;
use unslide_model::DebugId;
use unslide_store::{Uuid, reprocess};

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create::create_reprocess)).routes(routes!(get::get_reprocess))
}

/// A reprocess and its progress.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reprocess {
    /// Its id.
    pub id: Uuid,
    /// `running` while reports are gone through, `done` when all were, or `failed`. Answers may still
    /// come after that: see `answered`.
    #[schema(value_type = String)]
    pub status: reprocess::ReprocessStatus,
    /// True once every request has its answer.
    pub answered: bool,
    /// Bundle identifier that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Version that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Build that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Begin of the arrival times that were asked for.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub from: Option<OffsetDateTime>,
    /// End of the arrival times: reports that came later are left alone.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub to: Option<OffsetDateTime>,
    /// Debug id that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub debug_id: Option<DebugId>,
    /// Reports that fitted when it began.
    pub count: u64,
    /// Reports gone through.
    pub looked: u64,
    /// Reports asked for.
    pub asked: u64,
    /// Reports that were asked for already, for another reason.
    pub under_way: u64,
    /// Answers with a new revision.
    pub better: u64,
    /// Answers that nothing got better.
    pub unchanged: u64,
    /// Reports that were not there any more.
    pub gone: u64,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it changed last.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

impl From<reprocess::ReprocessRun> for Reprocess {
    fn from(found: reprocess::ReprocessRun) -> Reprocess {
        let reprocess::ReprocessFilter { app, version, build, from, to, debug_id } = found.wanted;
        let ended = found.better + found.unchanged + found.gone;
        Reprocess {
            id: found.id,
            status: found.status,
            answered: found.status != reprocess::ReprocessStatus::Running && ended >= found.asked,
            app,
            version,
            build,
            from,
            to,
            debug_id,
            count: found.matched,
            looked: found.looked,
            asked: found.asked,
            under_way: found.under_way,
            better: found.better,
            unchanged: found.unchanged,
            gone: found.gone,
            created_at: found.created_at,
            updated_at: found.updated_at,
        }
    }
}
