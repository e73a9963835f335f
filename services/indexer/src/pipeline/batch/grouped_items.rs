//! Groups the items of a batch by how they are stored.

use crate::failure::Failure;
use crate::records::answers::Answered;
use crate::records::enriched::{ReadReport, Unreadable};
use crate::records::event::ReadEvent;
use crate::records::{Item, Parsed};
use crate::topics::Positions;
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::TenantId;
use unslide_store::dead_letters::DeadLetter;
use unslide_store::deferred::DeferredRange;
use unslide_store::resource_uses::UseStatement;
use unslide_stream::RecordRef;

/// Items of a batch, grouped by how they are stored.
pub(super) struct GroupedItems<'i> {
    pub(super) arrivals: BTreeMap<&'i TenantId, Vec<(&'i Item, &'i ReadReport)>>,
    /// By kind of topic and tenant.
    pub(super) events: BTreeMap<(&'static str, &'i TenantId), Vec<(&'i Item, &'i ReadEvent)>>,
    /// Sorted by tenant and report.
    pub(super) answers: BTreeSet<&'i Answered>,
    /// What symbolizers used.
    pub(super) uses: Vec<&'i UseStatement>,
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) unreadable: Vec<(&'i Item, Unreadable)>,
    pub(super) failed: Vec<(&'i Item, &'i Failure)>,
    pub(super) deferred: BTreeMap<(&'i str, i32, &'i TenantId), DeferredRange>,
}

impl<'i> GroupedItems<'i> {
    /// Groups `items`. `positions` has the ids of topics, which dead letters and deferred records are stored with;
    /// a record of a partition without a position is not deferred.
    pub(super) fn from_items(items: &'i [Item], positions: &Positions) -> GroupedItems<'i> {
        let mut grouped = GroupedItems {
            arrivals: BTreeMap::new(),
            events: BTreeMap::new(),
            answers: BTreeSet::new(),
            uses: Vec::new(),
            dead_letters: Vec::new(),
            unreadable: Vec::new(),
            failed: Vec::new(),
            deferred: BTreeMap::new(),
        };
        for item in items {
            match &item.parsed {
                Parsed::Report(enriched) => {
                    grouped.arrivals.entry(&enriched.tenant).or_default().push((item, &**enriched));
                }
                Parsed::Event(event) => {
                    let key = (event.topic.kind, &event.tenant);
                    grouped.events.entry(key).or_default().push((item, &**event));
                }
                Parsed::Answer(answer) => {
                    grouped.answers.insert(answer);
                }
                Parsed::DeadLetter(letter, ended) => {
                    grouped.answers.extend(ended);
                    let mut letter = DeadLetter::clone(letter);
                    let place = (item.at.topic.clone(), item.at.partition);
                    if let Some(position) = positions.get(&place) {
                        letter.id.topic_id.clone_from(&position.topic_id);
                    }
                    grouped.dead_letters.push(letter);
                }
                Parsed::Uses(statement) => grouped.uses.push(statement),
                Parsed::Deferred => grouped.defer_item(item, positions),
                Parsed::Nothing | Parsed::PassedOn => {}
                Parsed::Unreadable(why) => grouped.unreadable.push((item, why.clone())),
                Parsed::Failed(failure) => grouped.failed.push((item, failure)),
            }
        }
        grouped
    }

    /// Defers the items of these tenants in place of what else was to be done with them.
    pub(super) fn defer_tenants(
        &mut self,
        tenants: &BTreeSet<TenantId>,
        items: &'i [Item],
        positions: &Positions,
    ) {
        let is_of_them = |item: &&Item| item.tenant.as_ref().is_some_and(|tenant| tenants.contains(tenant));
        for item in items.iter().filter(is_of_them) {
            if !item.is_deferred() && !item.is_passed_on() {
                self.defer_item(item, positions);
            }
        }
    }

    fn defer_item(&mut self, item: &'i Item, positions: &Positions) {
        let RecordRef { topic, partition, offset } = &item.at;
        let position = positions.get(&(topic.clone(), *partition));
        let (Some(tenant), Some(position)) = (&item.tenant, position) else { return };
        let range = self.deferred.entry((&**topic, *partition, tenant)).or_insert_with(|| DeferredRange {
            tenant: tenant.clone(),
            topic: topic.to_string(),
            topic_id: position.topic_id.clone(),
            partition: *partition,
            from: *offset,
            to: *offset,
            records: 0,
            oldest_at: item.arrived_at,
        });
        range.to = offset + 1;
        range.records += 1;
        range.oldest_at = range.oldest_at.min(item.arrived_at);
    }
}
