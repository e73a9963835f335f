//! Defers records of a tenant that uses more than its share of a reader. Their range is stored together with
//! the position, and a second reader stores the records in the remaining time. So other tenants do not wait
//! for a flood.
//!
//! Reports of a tenant that the database does not know are deferred too. Only symbolizers write reports, and
//! they know their tenants. So the database was restored to a moment before the tenant was created. The
//! reports are stored once it is created again.
//!
//! So are records of a tenant that is moving to another cell or is there. The second reader stores them if the tenant stays or has
//! arrived, and passes them on to the other cell if it has moved.

mod cell_writer;
mod known_tenants;
mod losses;
mod owner;
pub mod reader;

use crate::failure::IndexerError;
use crate::pipeline::resources::Resources;
use crate::records::{Content, Item, Parsed};
use crate::topics::Positions;
use known_tenants::KnownTenants;
pub use owner::OwnerRules;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{TenantId, cost};
use unslide_runtime::fairness::FairShares;
use unslide_store::deferred::{self, LocatedRange};
use unslide_store::place::TenantPlace;
use unslide_store::tenants::{self, TenantStanding};
use unslide_stream::{Headers, Record, RecordRef, TopicPartition};

/// Time constant after which a reader counts as busy: a flood delays other tenants about this long before it
/// is deferred.
const BUSY_REACTION: Duration = Duration::from_millis(500);

/// Returns the shares of a new reader. One is kept free, so that a tenant that begins to send finds no
/// backlog of another.
pub fn new_shares() -> FairShares {
    FairShares::with_reserve(BUSY_REACTION)
}

/// Decides which records of a reader are deferred.
pub struct Deferral {
    resources: Resources,
    rules: OwnerRules,
    /// The first deferred record of each tenant in each partition, unless it is known to be stored.
    waiting: Option<BTreeMap<TopicPartition, BTreeMap<TenantId, i64>>>,
    known: KnownTenants,
    /// Tenants that are named by records and do not exist.
    unknown: BTreeSet<TenantId>,
    /// Tenants with deferred records that another cell may be serving.
    elsewhere: BTreeSet<TenantId>,
}

impl Deferral {
    /// Creates the state for one session of a reader: between two sessions, another reader may have had its
    /// partitions.
    pub fn new(resources: &Resources) -> Deferral {
        Deferral {
            resources: resources.clone(),
            rules: OwnerRules::new(resources),
            waiting: None,
            known: KnownTenants::default(),
            unknown: BTreeSet::new(),
            elsewhere: BTreeSet::new(),
        }
    }

    /// Reads which deferred records still wait, unless there are none: only the reader that moves a position
    /// adds some.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn refresh_waiting(&mut self, positions: &Positions) -> Result<(), IndexerError> {
        if self.waiting.as_ref().is_some_and(BTreeMap::is_empty) {
            return Ok(());
        }
        let mut waiting = BTreeMap::<TopicPartition, BTreeMap<TenantId, i64>>::new();
        self.elsewhere.clear();
        for located in deferred::list_located_ranges(&self.resources.store, &topic_names(positions)).await? {
            let LocatedRange { range, location } = located;
            if location.place != TenantPlace::Here {
                self.elsewhere.insert(range.tenant.clone());
            }
            let place: TopicPartition = (range.topic.as_str().into(), range.partition);
            if positions.get(&place).is_some_and(|position| position.topic_id == range.topic_id) {
                waiting.entry(place).or_default().insert(range.tenant, range.from);
            }
        }
        let tenants = waiting.values().flat_map(BTreeMap::keys);
        self.unknown = self.known.find_unknown(&self.resources.store, tenants).await?;
        self.waiting = Some(waiting);
        Ok(())
    }

    /// Returns true if deferred records may still wait.
    pub fn has_waiting(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.is_empty())
    }

    /// Returns the first offset of a partition that is not stored. That is `next_offset`, or the first
    /// deferred record that may wait and that belongs to an existing tenant of this cell.
    pub fn stored_to(&self, place: &TopicPartition, next_offset: i64) -> i64 {
        let waiting = self.waiting.as_ref().and_then(|waiting| waiting.get(place));
        let is_stored_here =
            |tenant: &TenantId| !self.unknown.contains(tenant) && !self.elsewhere.contains(tenant);
        let of_tenants = waiting.into_iter().flatten().filter(|(tenant, _)| is_stored_here(tenant));
        of_tenants.map(|(_, first)| *first).fold(next_offset, i64::min)
    }

    /// Decides which of these records are deferred, and for which tenant. Deferred records keep only their
    /// position and time. While a tenant has a deferred record in a partition, all its later records there
    /// are deferred too, because the revisions of a report are stored in their order.
    ///
    /// # Errors
    /// Returns an error if the database or the CPU pool fails.
    pub async fn decide_deferrals(
        &mut self,
        records: Vec<Record>,
        positions: &Positions,
    ) -> Result<(Vec<Record>, BTreeMap<RecordRef, TenantId>), IndexerError> {
        self.refresh_waiting(positions).await?;
        let (mut records, owners) = self.rules.find_owners(&self.resources.host, records).await?;
        self.look_up(&owners).await?;
        let now = self.resources.host.clock.monotonic_micros();
        let (mut deferred, mut active) = (BTreeMap::new(), BTreeMap::new());
        for (record, owner) in records.iter_mut().zip(owners) {
            let Some(tenant) = owner else { continue };
            let place = (Arc::clone(&record.at.topic), record.at.partition);
            let waits = self.is_waiting(&place, &tenant);
            if !waits
                && !self.unknown.contains(&tenant)
                && !self.elsewhere.contains(&tenant)
                && (self.resources.shares.try_take(&tenant, now, cost_units(record))
                    || !self.is_active(&mut active, &tenant).await?)
            {
                continue;
            }
            let waiting = self.waiting.get_or_insert_default().entry(place).or_default();
            waiting.entry(tenant.clone()).or_insert(record.at.offset);
            (record.key, record.value, record.headers) = (None, None, Headers::new());
            deferred.insert(record.at.clone(), tenant);
        }
        Ok((records, deferred))
    }

    /// Finds the owners that do not exist.
    async fn look_up(&mut self, owners: &[Option<TenantId>]) -> Result<(), IndexerError> {
        if !matches!(self.resources.content, Content::Reports) {
            return Ok(());
        }
        let named = owners.iter().flatten().filter(|tenant| !self.unknown.contains(*tenant));
        let unknown = self.known.find_unknown(&self.resources.store, named).await?;
        for tenant in &unknown {
            let topic = &self.resources.topics.shared;
            tracing::warn!(kafka.topic = topic, %tenant, "reports wait: their tenant does not exist, make it again");
        }
        self.unknown.extend(unknown);
        Ok(())
    }

    /// Defers the records of a tenant in a partition from an offset on.
    pub fn defer_from(&mut self, place: TopicPartition, tenant: &TenantId, offset: i64) {
        let waiting = self.waiting.get_or_insert_default().entry(place).or_default();
        let first = waiting.entry(tenant.clone()).or_insert(offset);
        *first = offset.min(*first);
    }

    /// Defers a record that was read, if an earlier one of its tenant in the partition is deferred. A record that cannot be
    /// stored stays as it is.
    pub fn defer_behind(&self, item: &mut Item) {
        let place = (Arc::clone(&item.at.topic), item.at.partition);
        let waiting = self.waiting.as_ref().and_then(|waiting| waiting.get(&place));
        let first = item.tenant.as_ref().and_then(|tenant| waiting?.get(tenant));
        if item.is_stored() && first.is_some_and(|first| item.at.offset >= *first) {
            item.parsed = Parsed::Deferred;
        }
    }

    fn is_waiting(&self, place: &TopicPartition, tenant: &TenantId) -> bool {
        let waiting = self.waiting.as_ref().and_then(|waiting| waiting.get(place));
        waiting.is_some_and(|tenants| tenants.contains_key(tenant))
    }

    /// Returns true if records of this tenant can be stored. `known` has the tenants that were looked up for
    /// this batch.
    async fn is_active(
        &self,
        known: &mut BTreeMap<TenantId, bool>,
        tenant: &TenantId,
    ) -> Result<bool, IndexerError> {
        if let Some(active) = known.get(tenant) {
            return Ok(*active);
        }
        let mut tx = self.resources.store.tenant(tenant).await?;
        let standing = tenants::read_standing(&mut tx).await?;
        tx.rollback().await?;
        let active = matches!(standing, Some(TenantStanding::Active | TenantStanding::Suspended));
        known.insert(tenant.clone(), active);
        Ok(active)
    }
}

/// Returns the names of the topics of these positions.
fn topic_names(positions: &Positions) -> Vec<String> {
    let mut topics: Vec<String> = positions.keys().map(|(topic, _)| topic.to_string()).collect();
    topics.dedup();
    topics
}

/// Returns the cost units of a record.
pub fn cost_units(record: &Record) -> u64 {
    cost::units_for_record(record.value.as_ref().map_or(0, bytes::Bytes::len))
}
