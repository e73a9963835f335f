//! `POST /v1/dead-letters/replay`.

use super::DeadLetterScope;
use super::list::build_filter;
use super::replay::{DANGEROUS, replay_and_record};
use super::topic::DeadLetterReader;
use crate::operations::prelude::*;
use crate::requests::input::Json;
use axum::Extension;
use std::time::Duration;
use tokio::time::Instant;
use unslide_proto::trace::TraceContext;
use unslide_store::dead_letters::{
    self, DeadLetterCursor, DeadLetterFilter, DeadLetterStage, DeadLetterStatus,
};

/// Maximum number of dead letters that one call replays.
const REPLAYS_LIMIT: u32 = 100;

/// Which dead letters to replay; never those with a replay already. A replay needs `stage`, `reason`, `from`, `to`, `tenant`
/// or `all`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayQuery {
    /// The stage that could not process them: `symbolize`, `read` or `store`.
    #[schema(value_type = Option<String>, example = "store")]
    pub stage: Option<DeadLetterStage>,
    /// Why they are dead. Dead letters that ended a worker are replayed only if this names the reason.
    #[schema(example = "unknown_tenant")]
    pub reason: Option<String>,
    /// Arrived at this time or later (RFC 3339).
    #[schema(format = DateTime)]
    pub from: Option<String>,
    /// Arrived before this time (RFC 3339).
    #[schema(format = DateTime)]
    pub to: Option<String>,
    /// Of this tenant, of none if empty: for operators only.
    pub tenant: Option<String>,
    /// True to replay every dead letter: without `stage`, `reason`, `from`, `to` and `tenant`.
    pub all: bool,
    /// True to count and do nothing.
    pub dry_run: bool,
    /// The most dead letters to replay, 1 to 100; 100 if absent.
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<u32>,
}

impl ReplayQuery {
    /// Checks that a request without a filter confirms that it replays everything.
    fn check_scope(&self) -> Result<(), Problem> {
        let texts = [&self.reason, &self.from, &self.to, &self.tenant];
        let is_narrow = self.stage.is_some() || texts.into_iter().any(Option::is_some);
        let detail = match (self.all, is_narrow) {
            (true, true) => {
                "all: replays every dead letter, so it goes without stage, reason, from, to and tenant"
            }
            (false, false) if !self.dry_run => {
                "name a stage, a reason, a time (from, to) or a tenant; to replay every dead letter, say so: {\"all\": true}"
            }
            _ => return Ok(()),
        };
        Err(Problem::new(Kind::InvalidBody, detail))
    }
}

/// Numbers of dead letters that a call replayed and left out.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ReplayedMany {
    /// Number of dead letters that matched when the call began.
    pub matched: u64,
    /// Replayed by this call or handed to the indexer, newest first.
    pub replayed: u64,
    /// Number of matches that the topic does not hold any more.
    pub gone: u64,
    /// Number of matches that were left out because they could end a worker.
    pub dangerous: u64,
    /// True if it ended before it had seen all: call again.
    pub more: bool,
}

problems!(Failures: InvalidParameter, InvalidBody, TenantSuspended, TooLarge);

/// Replay dead letters
///
/// Replays dead letters by filter, or counts them. A request without a filter must have `"all": true`. Each call replays a
/// limited number: call again while `more` is true.
#[utoipa::path(post, path = "/dead-letters/replay", tag = "dead letters",
    operation_id = "replay_dead_letters", request_body = ReplayQuery,
    responses((status = 200, description = "What was done.", body = ReplayedMany), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn replay_dead_letters(
    State(broker): State<Arc<Broker>>,
    access: Access<TenantAdmin>,
    Extension(trace): Extension<TraceContext>,
    Json(query): Json<ReplayQuery>,
) -> Result<axum::Json<ReplayedMany>, Problem> {
    let scope = DeadLetterScope::for_request(&access, query.tenant.as_deref())?;
    let limit @ 1..=REPLAYS_LIMIT = query.limit.unwrap_or(REPLAYS_LIMIT) else {
        return Err(Problem::new(Kind::InvalidBody, format!("limit: 1 to {REPLAYS_LIMIT}")));
    };
    query.check_scope()?;
    let named = query.reason.clone();
    let filter = DeadLetterFilter {
        stage: query.stage,
        status: Some(DeadLetterStatus::Waiting),
        ..build_filter(query.reason, query.from.as_deref(), query.to.as_deref())?
    };
    let mut tx = scope.begin_transaction(&broker.storage).await?;
    let matched = dead_letters::count_dead_letters(&mut tx, scope.reach, &filter).await?;
    tx.rollback();
    let mut done = ReplayedMany { matched, ..ReplayedMany::default() };
    if query.dry_run || matched == 0 {
        return Ok(axum::Json(done));
    }
    // Stops well before the request's time limit, so that a started replay can finish.
    let until = Instant::now() + Duration::from_secs(broker.capacity.limits.request_seconds) / 2;
    let topic = DeadLetterReader::open(&broker, scope.tenant()).await?;
    let mut after: Option<DeadLetterCursor> = None;
    loop {
        let mut tx = scope.begin_transaction(&broker.storage).await?;
        let letters =
            dead_letters::list_dead_letters(&mut tx, scope.reach, &filter, after.as_ref(), REPLAYS_LIMIT)
                .await?;
        tx.rollback();
        for letter in &letters {
            if done.replayed == u64::from(limit) || Instant::now() >= until {
                done.more = true;
                return Ok(axum::Json(done));
            }
            let reason = letter.reason.as_str();
            if DANGEROUS.contains(&reason) && named.as_deref() != Some(reason) {
                done.dangerous += 1;
                continue;
            }
            match replay_and_record(&broker, &scope, &topic, &letter.id, false, trace).await {
                Ok(_) => done.replayed += 1,
                Err(problem) if problem.kind() == Kind::NotFound => done.gone += 1,
                // Another request was faster.
                Err(problem) if problem.kind() == Kind::AlreadyReplayed => {}
                Err(problem) => return Err(problem),
            }
        }
        match letters.last() {
            Some(last) => after = Some(DeadLetterCursor::after_dead_letter(last)),
            None => return Ok(axum::Json(done)),
        }
    }
}
