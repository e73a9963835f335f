//! `POST /v1/dead-letters/{id}/replay`.

use super::DeadLetterScope;
use super::topic::DeadLetterReader;
use crate::operations::prelude::*;
use crate::requests::input::Json;
use axum::Extension;
use bytes::Bytes;
use serde_json::json;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_proto::trace::TraceContext;
use unslide_signatures::SignedPurpose;
use unslide_store::audit;
use unslide_store::dead_letters::{
    self, DeadLetter, DeadLetterId, DeadLetterStage, DeadLetterStatus, TopicOffset,
};
use unslide_stream::{Headers, OutRecord, Record};

/// Reasons of records that may end a worker's process.
pub const DANGEROUS: [&str; 2] = ["kills_worker", "panicked"];

/// Options of the replay of one dead letter.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayWish {
    /// True to replay what was replayed already.
    pub again: bool,
}

/// A replay that was done or asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Replayed {
    /// Id of the replayed dead letter.
    pub id: String,
    /// `replayed` if the broker has the new record; `requested` if the indexer is asked to store the record: the
    /// dead letter then says how that ended.
    #[schema(value_type = String, example = "replayed")]
    pub status: DeadLetterStatus,
    /// The new record, if there is one: topic, partition and offset.
    #[schema(example = "crash.reports/3/4711")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_as: Option<String>,
    /// A warning that the replay may fail again, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

problems!(Failures: InvalidParameter, InvalidBody, NotFound, AlreadyReplayed, TenantSuspended, TooLarge);

/// Replay a dead letter
///
/// Writes a record that could not be symbolicated once more to the topic that it came from, its key and value untouched, as
/// a new input with an outcome of its own. Asks the indexer to store a record that it skipped. A report that is stored
/// already is not stored twice.
#[utoipa::path(post, path = "/dead-letters/{id}/replay", tag = "dead letters",
    operation_id = "replay_dead_letter",
    params(("id" = String, Path, description = "The letter's id.")),
    request_body = ReplayWish,
    responses((status = 200, description = "The broker has the new record, or the indexer is asked.", body = Replayed), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn replay_dead_letter(
    State(broker): State<Arc<Broker>>,
    access: Access<TenantAdmin>,
    Extension(trace): Extension<TraceContext>,
    Path(id): Path<String>,
    Json(wish): Json<ReplayWish>,
) -> Result<axum::Json<Replayed>, Problem> {
    let id = parse_parameter("id", &id)?;
    let scope = DeadLetterScope::for_request(&access, None)?;
    // Another tenant's dead letter must look like a missing one, even in Kafka's errors.
    let mut tx = scope.begin_transaction(&broker.storage).await?;
    scope.find_dead_letter(&mut tx, &id).await?;
    tx.rollback();
    let topic = DeadLetterReader::open(&broker, scope.tenant()).await?;
    replay_and_record(&broker, &scope, &topic, &id, wish.again, trace).await.map(axum::Json)
}

/// Replays one dead letter and records it. The row is locked during the replay, so two concurrent calls
/// replay it once. If the process ends between the broker's answer and the commit, the replay is not
/// recorded: the next one adds a second input, as if an SDK had sent it twice.
///
/// # Errors
/// [`Kind::NotFound`], [`Kind::AlreadyReplayed`], or a server fails.
pub async fn replay_and_record(
    broker: &Arc<Broker>,
    scope: &DeadLetterScope<'_>,
    topic: &DeadLetterReader,
    id: &DeadLetterId,
    again: bool,
    trace: TraceContext,
) -> Result<Replayed, Problem> {
    let mut tx = scope.begin_transaction(&broker.storage).await?;
    let letter = scope.find_dead_letter(&mut tx, id).await?;
    if letter.status == DeadLetterStatus::Replayed && !again {
        let detail = "to replay it once more, say so: {\"again\": true}";
        return Err(Problem::new(Kind::AlreadyReplayed, detail));
    }
    // The indexer reads again what it skipped: the record is in its topic already.
    let replayed_as = match letter.stage {
        DeadLetterStage::Symbolize => Some(send_again(broker, &letter, topic, trace).await?),
        DeadLetterStage::Read | DeadLetterStage::Store => None,
    };
    let by = scope.principal.key_id.to_string();
    dead_letters::record_replay(&mut tx, scope.reach, id, &by, replayed_as.as_deref()).await?;
    let detail = json!({
        "stage": letter.stage, "reason": letter.reason, "as": replayed_as, "again": again, "of_tenant": letter.tenant,
    });
    audit::append_entry(&mut tx, &by, "dead_letter.replay", &id.to_string(), &detail).await?;
    tx.commit().await?;
    let status = replayed_as.as_ref().map_or(DeadLetterStatus::Requested, |_| DeadLetterStatus::Replayed);
    Ok(Replayed { id: id.to_string(), status, replayed_as, warning: replay_warning(&letter) })
}

/// Writes a dead letter's record as a new input. Returns its topic, partition and offset.
async fn send_again(
    broker: &Arc<Broker>,
    letter: &DeadLetter,
    topic: &DeadLetterReader,
    trace: TraceContext,
) -> Result<String, Problem> {
    let record = topic.read_record(letter).await?;
    let new = renew_input(broker, letter, record, trace).await?;
    let place = broker.producer.send_record(&new).await?;
    Ok(format!("{}/{}/{}", new.topic, place.partition, place.offset))
}

/// Makes a new input of the same bytes.
async fn renew_input(
    broker: &Arc<Broker>,
    letter: &DeadLetter,
    record: Record,
    trace: TraceContext,
) -> Result<OutRecord, Problem> {
    let mut kept = Headers::new();
    match (&letter.tenant, record.headers.get(headers::TENANT)) {
        (Some(tenant), _) => kept.push(headers::TENANT, tenant.to_string()),
        (None, Some(claimed)) => kept.push(headers::TENANT, claimed.clone()),
        (None, None) => {}
    }
    match (&letter.tenant, letter.source_index) {
        // No gateway has signed a single report of an array. The array was checked to be the tenant's before
        // any part of it became a dead letter.
        (Some(tenant), Some(_)) => {
            sign_record(broker, SignedPurpose::Record, tenant, record.value.clone(), &mut kept).await?;
        }
        // A gateway's signature is kept: the api does not speak for the gateway. The api signs that it sends
        // the record again, even for a tenant that is only claimed: workers hold both signatures to the same
        // tenant.
        (known, _) => {
            for name in SignedPurpose::Record.header_names() {
                if let Some(value) = record.headers.get(name) {
                    kept.push(name, value.clone());
                }
            }
            let claimed = || record.headers.get_tenant();
            if kept.get(headers::SIGNATURE).is_some()
                && let Some(tenant) = known.clone().or_else(claimed)
            {
                sign_record(broker, SignedPurpose::Replay, &tenant, record.value.clone(), &mut kept).await?;
            }
        }
    }
    if let Some(key) = record.headers.get(headers::SENDER_KEY) {
        kept.push(headers::SENDER_KEY, key.clone());
    }
    let at = &record.at;
    kept.push(headers::REPLAY_OF, format!("{}/{}/{}", at.topic, at.partition, at.offset));
    kept.push(headers::TRACEPARENT, trace.format_header());
    let topic = target_topic(broker, letter).into();
    Ok(OutRecord { topic, key: record.key, value: record.value, headers: kept })
}

/// Signs for a tenant if the api has a key.
async fn sign_record(
    broker: &Arc<Broker>,
    purpose: SignedPurpose,
    tenant: &TenantId,
    value: Option<Bytes>,
    headers: &mut Headers,
) -> Result<(), Problem> {
    if broker.signer.is_none() {
        return Ok(());
    }
    let (own, of, now) = (broker.clone(), tenant.clone(), broker.storage.clock.now_micros() / 1_000);
    // Hashing takes CPU time.
    let work = move || {
        let value = value.unwrap_or_default();
        own.signer.as_ref().map(|signer| signer.headers_for(purpose, &of, now, &value))
    };
    for (name, text) in broker.capacity.cpu.run_for(tenant, work).await?.into_iter().flatten() {
        headers.push(name, text);
    }
    Ok(())
}

/// Returns the first topic in the dead letter's history: an input, or the topic of requests. Returns the
/// shared input for any other topic.
fn target_topic(broker: &Broker, letter: &DeadLetter) -> String {
    let names = &broker.topics;
    let topic = |place: &Option<TopicOffset>| place.as_ref().map(|place| place.topic.clone());
    let (origin, source) = (topic(&letter.origin), topic(&letter.source));
    if [&origin, &source].into_iter().flatten().any(|topic| *topic == names.resymbolicate) {
        return names.resymbolicate.clone();
    }
    match origin {
        Some(topic) if broker.settings.tenant_topics && names.tenant_of_input(&topic).is_some() => topic,
        _ => names.input.clone(),
    }
}

fn replay_warning(letter: &DeadLetter) -> Option<String> {
    let text = match letter.reason.as_str() {
        "panicked" if letter.stage == DeadLetterStage::Store => {
            "the record makes this version of the indexer fail: replay it after an update"
        }
        "kills_worker" => {
            "the record ended the process of every worker that read it; if this version of the worker has the same fault, \
             it will end some more before it is a dead letter again, and its partition waits until then"
        }
        "panicked" => "the record makes this version of the worker fail: replay it after an update",
        "unknown_tenant" | "no_tenant" | "tenant_suspended" => {
            "the record becomes a dead letter again unless its tenant is known and active now"
        }
        "ambiguous_tenant" => {
            "the record named several tenants; the new one names none, and becomes a dead letter again if its topic names none"
        }
        _ => return None,
    };
    Some(text.to_owned())
}
