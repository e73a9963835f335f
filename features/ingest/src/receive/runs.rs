//! `POST /i/{key}/runs`: summaries of runs. Each becomes a session event in the topic of sessions.

use super::answer::Received;
use super::run_summary::{Converted, convert_summary};
use super::{
    ReceivedBody, answer_request, find_trace, make_records, name_sender, receive_body, refuse_app,
    send_within_rate, take_values,
};
use crate::Ingest;
use crate::key::CallerKey;
use crate::store::VersionUses;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::request::Parts;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::Broker;
use unslide_api::feature::Keys;
use unslide_api::feature::intake::{
    ReadBudget, RefusedElement, RefusedValue, WRONG_APP, read_body, split_values, unpack_body,
};
use unslide_api::feature::operation::{Kind, Problem};

/// The most bytes of a body, unpacked.
const MAX_UNPACKED_BYTES: u64 = 20 << 20;
/// The most summaries of a request.
const MAX_SUMMARIES: usize = 1_000;
/// Reason of a summary that cannot be read: that of a session event, because it goes to the same topic.
const BAD_SESSION: &str = "bad_session";

pub(super) async fn receive_runs(
    State(keys): State<Arc<Keys>>,
    State(broker): State<Arc<Broker>>,
    Extension(ingest): Extension<Arc<Ingest>>,
    key: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let text = key.map(|Path(text)| text).unwrap_or_default();
    let received = send_runs(&keys, &broker, &ingest, &text, &parts, body).await;
    answer_request(&ingest, &parts, received)
}

/// A summary of a request, in the order of the request.
struct ReadSummary {
    /// The bytes as they were sent.
    bytes: Bytes,
    read: Result<Converted, RefusedSummary>,
}

struct RefusedSummary {
    id: Option<String>,
    version: Option<String>,
    reason: &'static str,
    detail: String,
}

/// Sends an event for each summary to the broker, and a record for each that is refused.
async fn send_runs(
    keys: &Keys,
    broker: &Broker,
    ingest: &Ingest,
    text: &str,
    parts: &Parts,
    body: Body,
) -> Result<Received, Problem> {
    let ReceivedBody { key, bytes, budget, is_over_rate } =
        receive_body(keys, broker, ingest, text, parts, body).await?;
    let (reader, now) = (key.clone(), broker.storage.clock.now());
    let (summaries, budget) = read_body(&broker.capacity, &key.tenant, bytes, move |body| {
        read_summaries(&body, &reader, now, budget)
    })
    .await?;
    let values = summaries.iter().map(|summary| &summary.bytes);
    let is_over_rate = is_over_rate | take_values(&broker.capacity, ingest, &key, &budget.charge, values)?;
    let sender = name_sender(&key);
    let maker = make_records(broker, &key, find_trace(parts)?, &sender, &broker.topics.sessions);
    let record = |summary: &ReadSummary| match &summary.read {
        // A run that is not counted needs no record.
        Ok(converted) => {
            let event = converted.event.as_ref()?;
            Some(maker.make_event(event, &converted.run_id))
        }
        Err(refused) => Some(maker.make_refused(&RefusedValue {
            bytes: &summary.bytes,
            version: refused.version.as_deref(),
            reason: refused.reason,
            detail: &refused.detail,
        })),
    };
    let records: Vec<_> = summaries.iter().filter_map(record).collect();
    send_within_rate(broker, ingest, &key, records, is_over_rate).await?;
    let day = broker.storage.clock.now().date();
    for run in summaries.iter().filter_map(|summary| summary.read.as_ref().ok()) {
        ingest.versions.count_uses(
            (&key).into(),
            day,
            &run.app,
            &run.version,
            VersionUses { reports: 0, runs: 1 },
        );
    }
    let mut received = list_outcomes(&summaries);
    received.is_in_overflow = is_over_rate;
    let is_event = |summary: &&ReadSummary| summary.read.as_ref().is_ok_and(|run| run.event.is_some());
    broker.metrics.events("sessions", summaries.iter().filter(is_event).count());
    Ok(received)
}

fn read_summaries(
    body: &Bytes,
    key: &CallerKey,
    now: OffsetDateTime,
    mut budget: ReadBudget,
) -> Result<(Vec<ReadSummary>, ReadBudget), Problem> {
    let body = unpack_body(body, MAX_UNPACKED_BYTES, &mut budget.reserved, &mut budget.charge)?;
    let values = split_values(&body, MAX_SUMMARIES)?;
    if values.is_empty() {
        return Err(Problem::new(Kind::InvalidBody, "the body has no run summary"));
    }
    // The events are copies of about the same size.
    budget.reserved.reserve_more(body.len() as u64)?;
    let read = |bytes: Bytes| {
        let read = read_summary(&bytes, key, now);
        ReadSummary { bytes, read }
    };
    Ok((values.into_iter().map(read).collect(), budget))
}

fn read_summary(bytes: &[u8], key: &CallerKey, now: OffsetDateTime) -> Result<Converted, RefusedSummary> {
    let converted = convert_summary(bytes, now).map_err(|detail| RefusedSummary {
        id: None,
        version: None,
        reason: BAD_SESSION,
        detail,
    })?;
    match refuse_app(key, Some(&converted.app)) {
        Some(detail) => Err(RefusedSummary {
            id: Some(converted.run_id),
            version: Some(converted.version),
            reason: WRONG_APP,
            detail,
        }),
        None => Ok(converted),
    }
}

fn list_outcomes(summaries: &[ReadSummary]) -> Received {
    let mut received = Received::for_things("run summary", "run summaries");
    for (index, summary) in summaries.iter().enumerate() {
        match &summary.read {
            Ok(converted) => received.accepted.push(Some(converted.run_id.clone())),
            Err(refused) => received.refused.push(RefusedElement {
                index,
                id: refused.id.clone(),
                reason: refused.reason.to_owned(),
                detail: refused.detail.clone(),
            }),
        }
    }
    received
}
