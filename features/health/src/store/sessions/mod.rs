//! Sessions of apps: each is stored once, however often its events come. The same transaction counts them by
//! app, version and day, and by hour.

mod days;
mod end;
mod event;
mod flags;
mod hours;
mod known;
mod learned_limits;
mod person;
mod termination;

pub use days::{read_sketch, sketch_hash};
pub use event::{MAX_EVENT_BYTES, SessionEvent};
pub use flags::SessionFlags;
pub use person::find_sessions;
pub use termination::TerminationEvidence;
pub use unslide_model::ended::EndReason;

pub(super) use known::set_memory_exceptions;

use crate::store::hours::counted_hour;
use crate::store::memory_exceptions::{self, RunPeriod};
use days::CountedSession;
pub use days::SessionDeltas;
use end::SessionEnd;
use known::complete_known;
use learned_limits::LearnedLimits;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, Duration};
use unslide_model::AppSignal;
use unslide_proto::event::{EventArrival, GatewayEvent};
use unslide_store::app_signals::{self, SignalDrops, UNSAMPLED_WEIGHT, WeightRounder};
use unslide_store::gateway_events::{EventOutcome, is_too_old};
use unslide_store::key_erasures::{self, KeyedArrival};
use unslide_store::persons::{self, ArrivedPerson, PersonKey, PersonKind, hash_person};
use unslide_store::sql::{json_bytes, json_time};
use unslide_store::{Result, TenantTx};

/// A session event that came from the topic.
pub type SessionArrival = EventArrival<SessionEvent>;

/// App, id and day: what a session is found by.
pub type SessionKey = (String, String, Date);

/// The facts of one session from the events of a batch.
struct Told<'a> {
    first: &'a SessionArrival,
    /// Which event of the batch was the first.
    place: usize,
    /// Which one had the last facts of the end.
    completing: usize,
    end: SessionEnd,
    /// The flags of the first event that has some.
    flags: Option<SessionFlags>,
    /// The session's weight; `None` if it is not kept, unless it was before.
    weight: Option<i32>,
    /// True if it also represents sessions that were not sent or not kept.
    is_sampled: bool,
}

/// Stores a tenant's session events in the order of their offsets, and returns the outcome of each.
/// Partitions of the days have to exist (see [`unslide_store::partitions`]); sessions that began before the day
/// `keep_from` are not stored.
///
/// Rows are locked in one order everywhere: sessions by their keys, then counts of days and of hours by theirs.
pub async fn store(
    tx: &mut TenantTx,
    arrivals: &[&SessionArrival],
    keep_from: Date,
) -> Result<Vec<EventOutcome>> {
    let limits = LearnedLimits::read(tx, arrivals).await?;
    let mut outcomes = vec![EventOutcome::Duplicate; arrivals.len()];
    let mut erased = persons::find_erased(tx, &list_persons(arrivals)).await?;
    erased.extend(key_erasures::find_erased(tx, &list_keyed(arrivals)).await?);
    let mut told: BTreeMap<SessionKey, Told<'_>> = BTreeMap::new();
    for (place, arrival) in arrivals.iter().copied().enumerate() {
        let (event, day) = (&arrival.event, arrival.event.event_day());
        if erased.contains(&place) {
            outcomes[place] = EventOutcome::Deleted;
            continue;
        }
        if is_too_old(&arrival.event, arrival.received_at, keep_from) {
            outcomes[place] = EventOutcome::Expired;
            continue;
        }
        let end = SessionEnd::from_event(event, limits.for_session(arrival));
        match told.get_mut(&(event.app.clone(), event.id.clone(), day)) {
            Some(known) => {
                let completed = known.end.clone().completed(end);
                if completed != known.end {
                    known.completing = place;
                }
                known.end = completed;
                known.flags = known.flags.take().or_else(|| event.read_flags());
            }
            None => {
                let key = (event.app.clone(), event.id.clone(), day);
                let flags = event.read_flags();
                let new = Told {
                    first: arrival,
                    place,
                    completing: place,
                    end,
                    flags,
                    weight: None,
                    is_sampled: false,
                };
                told.insert(key, new);
            }
        }
    }
    if told.is_empty() {
        return Ok(outcomes);
    }
    weigh(tx, &mut told, &mut outcomes).await?;
    let mut deltas = SessionDeltas::default();
    let ended = list_bad_ends(&told);
    let has_joins = memory_exceptions::prepare_joins(tx, &ended).await?;
    insert_new(tx, &mut told, &mut outcomes, &mut deltas).await?;
    complete_known(tx, &told, &mut outcomes, &mut deltas).await?;
    if has_joins {
        memory_exceptions::join_exceptions(tx, &ended, &mut deltas).await?;
    }
    add_deltas(tx, &deltas).await?;
    app_signals::count_dropped(tx, &dropped(arrivals, &outcomes)).await?;
    Ok(outcomes)
}

/// Adds to the counts of days and of hours.
pub(super) async fn add_deltas(tx: &mut TenantTx, deltas: &SessionDeltas) -> Result<()> {
    days::add(tx, &deltas.days).await?;
    hours::add(tx, &deltas.hours).await
}

/// Returns the sessions that a memory exception may be about.
fn list_bad_ends(told: &BTreeMap<SessionKey, Told<'_>>) -> Vec<RunPeriod> {
    let ended = told.iter().filter(|(_, told)| told.end.may_be_memory_exception());
    ended
        .map(|((app, id, _), told)| {
            let event = &told.first.event;
            let day_later = event.started_at.checked_add(Duration::DAY).unwrap_or(event.started_at);
            RunPeriod {
                app: app.clone(),
                version: event.version.clone(),
                device: event.device.clone(),
                // Reports write the ids of runs in lower case.
                session: Some(id.clone()),
                first: event.started_at,
                last: told.end.at.unwrap_or(day_later),
            }
        })
        .collect()
}

/// Sets the weight of each session, and the outcome of those that are not kept.
async fn weigh(
    tx: &mut TenantTx,
    told: &mut BTreeMap<SessionKey, Told<'_>>,
    outcomes: &mut [EventOutcome],
) -> Result<()> {
    let apps: BTreeSet<&str> = told.keys().map(|key| key.0.as_str()).collect();
    let signals = app_signals::read_for_apps(tx, &apps).await?;
    let mut rounder = WeightRounder::default();
    for ((app, id, _), told) in told.iter_mut() {
        let event = &told.first.event;
        if !signals.for_app(app).sessions {
            outcomes[told.place] = EventOutcome::SwitchedOff;
            continue;
        }
        told.is_sampled = event.weight() > UNSAMPLED_WEIGHT;
        let weight = rounder.round_weight(event.weight(), id);
        told.weight = Some(i32::try_from(weight).unwrap_or(i32::MAX));
    }
    Ok(())
}

/// Counts the sessions that were not kept, by app.
fn dropped(arrivals: &[&SessionArrival], outcomes: &[EventOutcome]) -> SignalDrops {
    let mut drops = SignalDrops::new();
    for (arrival, outcome) in arrivals.iter().zip(outcomes) {
        if *outcome == EventOutcome::SwitchedOff {
            *drops.entry((arrival.event.app.clone(), AppSignal::Sessions)).or_default() += 1;
        }
    }
    drops
}

/// Returns the persons of events: the session, its installation and its user.
fn list_persons(arrivals: &[&SessionArrival]) -> Vec<ArrivedPerson> {
    let mut persons = Vec::new();
    for (place, arrival) in arrivals.iter().enumerate() {
        let event = &arrival.event;
        let ids = [
            (PersonKind::Session, Some(&event.id)),
            (PersonKind::Installation, event.installation.as_ref()),
            (PersonKind::User, event.user.as_ref()),
        ];
        persons.extend(ids.into_iter().filter_map(|(kind, id)| {
            let key = PersonKey::from_id(kind, id?);
            Some(ArrivedPerson { place, key, received_at: arrival.received_at })
        }));
    }
    persons
}

/// Returns the events that apps sent with public keys.
fn list_keyed(arrivals: &[&SessionArrival]) -> Vec<KeyedArrival> {
    let keyed = arrivals.iter().enumerate().filter_map(|(place, arrival)| {
        let (key, version) = (arrival.sender_key?, arrival.event.version.clone());
        Some(KeyedArrival { place, key, version, received_at: arrival.received_at })
    });
    keyed.collect()
}

/// Inserts the sessions that do not exist yet, and leaves the existing ones in `told`.
async fn insert_new(
    tx: &mut TenantTx,
    told: &mut BTreeMap<SessionKey, Told<'_>>,
    outcomes: &mut [EventOutcome],
    deltas: &mut SessionDeltas,
) -> Result<()> {
    let now = tx.now();
    let rows = told.iter().filter_map(|(key, told)| Some(new_row(key, told, told.weight?)));
    for (app, id, day) in insert(tx, rows.collect()).await? {
        let Some(new) = told.remove(&(app.clone(), id, day)) else { continue };
        outcomes[new.completing] = EventOutcome::Completed;
        outcomes[new.place] = EventOutcome::New;
        let event = &new.first.event;
        let key = (app, event.version.clone(), day);
        if let Some(installation) = &event.installation {
            let (installation, user) = (hash_person(installation), event.user.as_deref().map(hash_person));
            let weight = new.weight.unwrap_or(1).into();
            let user = user.as_ref().map(<[u8; 16]>::as_slice);
            let session = CountedSession { installation: &installation, user, weight };
            deltas.change(key, counted_hour(event.started_at, now), |delta| {
                delta.begun(session, new.is_sampled);
                delta.ended(session, &SessionEnd::default(), &new.end);
            });
        } else {
            let counts = (event.sessions.unwrap_or(0), event.crashed.unwrap_or(0));
            deltas.change(key, None, |delta| delta.counted(counts.0.into(), counts.1.into()));
        }
    }
    Ok(())
}

/// Returns the row of a session as JSON, without its tenant.
fn new_row(key: &SessionKey, told: &Told<'_>, weight: i32) -> Value {
    let (app, id, day) = key;
    let (event, end) = (&told.first.event, &told.end);
    json!({
        "app": app,
        "session_id": id,
        "day": day.to_string(),
        "version": event.version,
        "installation": event.installation.as_deref().map(|id| json_bytes(&hash_person(id))),
        "user_hash": event.user.as_deref().map(|user| json_bytes(&hash_person(user))),
        "os": event.os,
        "device": event.device,
        "started_at": json_time(event.started_at),
        "ended_at": end.at.map(json_time),
        "end_reason": end.reason.map(EndReason::as_str),
        "foreground": end.foreground,
        "pid": event.pid,
        "received_at": json_time(told.first.received_at),
        "counted": event.sessions,
        "counted_crashed": event.sessions.map(|_| event.crashed.unwrap_or(0)),
        "weight": weight,
        "judgement": end.judgement,
        "memory_limit": end.memory_limit,
        "sender_key": told.first.sender_key.map(|key| key.to_string()),
        "flags": told.flags,
    })
}

/// Returns the keys of the sessions that were not there.
async fn insert(tx: &mut TenantTx, rows: Value) -> Result<Vec<SessionKey>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"INSERT INTO sessions (tenant, app, session_id, day, version, installation, user_hash, os, device, started_at,
                                 ended_at, end_reason, foreground, received_at, counted, counted_crashed, weight,
                                 judgement, memory_limit, sender_key, pid, flags)
           SELECT $1, n.app, n.session_id, n.day, n.version, n.installation, n.user_hash, n.os, n.device, n.started_at,
                  n.ended_at, n.end_reason, n.foreground, n.received_at, n.counted, n.counted_crashed, n.weight,
                  n.judgement, n.memory_limit, n.sender_key, n.pid, n.flags
           FROM jsonb_populate_recordset(NULL::sessions, $2) AS n
           ORDER BY n.app COLLATE "C", n.session_id COLLATE "C", n.day
           ON CONFLICT (tenant, app, session_id, day) DO NOTHING
           RETURNING app, session_id, day"#,
        tenant,
        rows
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.app, row.session_id, row.day)).collect())
}
