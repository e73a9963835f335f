//! Converts rows of the outbox to records on Kafka.

use crate::failure::JobFailure;
use std::collections::BTreeMap;
use unslide_artifacts::keys::for_segment;
use unslide_model::{ReportId, TenantId};
use unslide_proto::report::{Need, RecordRef, Resymbolicate, SegmentRef, resymbolicate};
use unslide_proto::symbol::{SymbolEvent, TenantConfig, TenantLimits, TenantState};
use unslide_proto::topics::TopicNames;
use unslide_proto::{Message as _, headers, keys};
use unslide_store::Store;
use unslide_store::groups::rules;
use unslide_store::outbox::{self, Message, Unsent};
use unslide_store::place;
use unslide_store::requests::{self, RequestSource};
use unslide_store::segments::ReportBody;
use unslide_store::tenants::analyses::{self, AnalysisSwitches};
use unslide_store::tenants::{self, TenantRecord, TenantStanding};
use unslide_stream::OutRecord;

/// Returns the records for messages, in their order. A record is `None` if the requested report no longer
/// exists.
pub(crate) async fn build_records(
    store: &Store,
    topics: &TopicNames,
    unsent: &[Unsent],
) -> Result<Vec<Option<OutRecord>>, JobFailure> {
    let mut asked: BTreeMap<&TenantId, Vec<(ReportId, u32)>> = BTreeMap::new();
    for unsent in unsent {
        if let Message::Resymbolicate { report_id, variant, .. } = &unsent.message {
            asked.entry(unsent.tenant()?).or_default().push((*report_id, *variant));
        }
    }
    let look_ups = asked.into_iter().map(async |(tenant, reports)| {
        let mut tx = store.tenant(tenant).await?;
        let sources = requests::find_sources(&mut tx, &reports).await?;
        tx.rollback().await?;
        Ok::<_, JobFailure>((tenant, sources))
    });
    let sources = futures::future::try_join_all(look_ups).await?.into_iter().collect();
    let tenants = read_changed_tenants(store, unsent).await?;
    unsent.iter().map(|unsent| build_record(topics, unsent, &sources, &tenants)).collect()
}

/// A tenant that messages are about, with its own grouping rules.
struct ChangedTenant {
    tenant: TenantRecord,
    rules: String,
    analysis_switches: AnalysisSwitches,
    /// The prefix of the topics of the cell that serves it now.
    moved_to: Option<String>,
}

/// Returns the current state of the tenants that messages are about. So a relay that repeats an old message
/// never reverts the topic to an older state. A change that is not committed yet has a message of its own.
async fn read_changed_tenants(
    store: &Store,
    unsent: &[Unsent],
) -> Result<BTreeMap<TenantId, ChangedTenant>, JobFailure> {
    let mut tenants = BTreeMap::new();
    for unsent in unsent.iter().filter(|unsent| matches!(unsent.message, Message::TenantConfig { .. })) {
        let mut tx = store.tenant(unsent.tenant()?).await?;
        let tenant = tenants::get(&mut tx).await?;
        let rules = rules::get(&mut tx).await?.map(|rules| rules.text).unwrap_or_default();
        let analysis_switches = analyses::read_switches(&mut tx).await?;
        let moved_to = place::read_location(&mut tx).await?.and_then(|location| location.moved_to);
        tx.rollback().await?;
        let tenant =
            tenant.ok_or_else(|| JobFailure::Again("a message of a tenant that is not there".into()))?;
        tenants.insert(tenant.id.clone(), ChangedTenant { tenant, rules, analysis_switches, moved_to });
    }
    Ok(tenants)
}

/// Stored reports that are requested again.
type Sources<'t> = BTreeMap<&'t TenantId, BTreeMap<(ReportId, u32), RequestSource>>;

fn build_record(
    topics: &TopicNames,
    unsent: &Unsent,
    sources: &Sources<'_>,
    tenants: &BTreeMap<TenantId, ChangedTenant>,
) -> Result<Option<OutRecord>, JobFailure> {
    let owner = &unsent.owner;
    let record = match &unsent.message {
        Message::SymbolEvent { debug_id, generation, quality, symcache_version, deleted, at_micros } => {
            let event = SymbolEvent {
                tenant: owner.tenant().map(ToString::to_string).unwrap_or_default(),
                debug_id: debug_id.0.to_vec().into(),
                generation: *generation,
                quality: u32::try_from(quality.rank()).unwrap_or_default(),
                symcache_version: *symcache_version,
                deleted: *deleted,
                at_micros: *at_micros,
            };
            OutRecord::for_topic(topics.symbol_events.as_str(), event.encode_to_vec())
                .key(keys::for_symbols(owner.tenant(), debug_id))
        }
        Message::TenantConfig { .. } => {
            let tenant = tenants.get(unsent.tenant()?);
            let Some(ChangedTenant { tenant, rules, analysis_switches, moved_to }) = tenant else {
                return Ok(None);
            };
            let state = match tenant.state {
                TenantStanding::Active => TenantState::Active,
                TenantStanding::Suspended => TenantState::Suspended,
                TenantStanding::Deleted => TenantState::Deleted,
            };
            let limits = &tenant.limits;
            let config = TenantConfig {
                tenant: tenant.id.to_string(),
                version: tenant.version,
                state: state.into(),
                limits: Some(TenantLimits {
                    units_per_second: limits.units_per_second,
                    report_bytes: limits.report_bytes,
                    upload_bytes: limits.upload_bytes,
                    symbol_bytes: limits.symbol_bytes,
                    retention_days: limits.retention_days,
                }),
                at_micros: outbox::to_micros(tenant.updated_at),
                grouping_rules: rules.clone(),
                analysis_switches: analysis_switches.clone(),
                moved_to: moved_to.clone(),
            };
            OutRecord::for_topic(topics.tenant_config.as_str(), config.encode_to_vec())
                .key(keys::for_tenant(&tenant.id))
        }
        Message::Resymbolicate { .. } => match build_request(topics, unsent, sources)? {
            Some(record) => record,
            None => return Ok(None),
        },
    };
    let version = env!("CARGO_PKG_VERSION");
    let record = match owner.tenant() {
        Some(tenant) => record.header(headers::TENANT, tenant.to_string()),
        None => record,
    };
    Ok(Some(record.header(headers::UNSLIDE_VERSION, version)))
}

/// Returns a request that contains the stored report, or its position in object storage, so that the worker
/// needs no database.
fn build_request(
    topics: &TopicNames,
    unsent: &Unsent,
    sources: &Sources<'_>,
) -> Result<Option<OutRecord>, JobFailure> {
    let Message::Resymbolicate { report_id, variant, revision, supersedes, needs, requested_at_micros } =
        &unsent.message
    else {
        return Ok(None);
    };
    let tenant = unsent.tenant()?;
    let source = sources.get(tenant).and_then(|of| of.get(&(*report_id, *variant)));
    let Some(source) = source else { return Ok(None) };
    let need = |need: &outbox::NeededSymbols| Need {
        debug_id: need.debug_id.0.to_vec().into(),
        generation: need.generation,
        system: need.system,
    };
    let body = match &source.body {
        ReportBody::Inline(compressed) => resymbolicate::Body::InlineLz4(compressed.clone().into()),
        ReportBody::Segment(place) => resymbolicate::Body::Segment(SegmentRef {
            key: for_segment(tenant, place.day, place.segment).to_string(),
            offset: place.offset,
            length: place.length,
            body_key: place.key.0.to_vec().into(),
            revision: source.revision,
        }),
    };
    let traceparent = source.traceparent.clone().unwrap_or_default();
    let request = Resymbolicate {
        tenant: tenant.to_string(),
        report_id: report_id.0.to_vec().into(),
        revision: *revision,
        supersedes: *supersedes,
        body: Some(body),
        needs: needs.iter().map(need).collect(),
        requested_at_micros: *requested_at_micros,
        origin: source.origin.as_ref().map(|origin| RecordRef {
            topic: origin.topic.clone(),
            partition: origin.partition,
            offset: origin.offset,
        }),
        traceparent: traceparent.clone(),
        variant: *variant,
        content_hash: source.content_hash.0.to_vec().into(),
    };
    let key = keys::for_report(&tenant.scope(*report_id));
    let mut record = OutRecord::for_topic(topics.resymbolicate.as_str(), request.encode_to_vec())
        .key(key)
        .header(headers::REPORT_ID, report_id.to_string())
        .header(headers::REVISION, revision.to_string())
        .header(headers::REQUESTED_AT, requested_at_micros.to_string());
    if *variant != 0 {
        record = record.header(headers::VARIANT, variant.to_string());
    }
    if let Some(key) = source.sender_key {
        record = record.header(headers::SENDER_KEY, key.to_string());
    }
    if !traceparent.is_empty() {
        record = record.header(headers::TRACEPARENT, traceparent);
    }
    Ok(Some(record))
}
