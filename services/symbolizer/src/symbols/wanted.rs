//! What reports want of object storage.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use unslide_artifacts::Hint;
use unslide_model::{DebugId, Scoped, TenantId};
use unslide_symbolicate::{Analysis, Plan};

/// A symcache that a report wants, or a derived object beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    pub id: Scoped<DebugId>,
    /// True if the image's path belongs to the operating system.
    pub system: bool,
    /// The newest generations that the requester knows of.
    pub at_least: Generations,
    /// The name of the derived object; `None` for the symcache.
    pub derived: Option<&'static str>,
}

/// Lower limits for the generations of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generations {
    /// Generation of the tenant's own symbols.
    pub tenant: Option<u64>,
    /// Generation of the system's symbols.
    pub system: Option<u64>,
}

impl Generations {
    pub(super) fn to_hint(self) -> Hint {
        Hint { tenant: self.tenant, system: self.system }
    }
}

impl Wanted {
    /// Returns the symcaches that a report of one tenant needs, and the derived objects of the image with the crash
    /// that its analyses read.
    pub fn for_report(
        tenant: &TenantId,
        plan: &Plan<'_, '_>,
        analyses: &[Analysis],
        at_least: impl Fn(&DebugId) -> Generations,
    ) -> Vec<Wanted> {
        let needs = plan.list_needs();
        let symcaches = needs.iter().map(|need| Wanted {
            id: tenant.scope(need.debug_id),
            system: need.system,
            at_least: at_least(&need.debug_id),
            derived: None,
        });
        let mut wanted: Vec<Wanted> = symcaches.collect();
        let names: BTreeSet<&str> =
            analyses.iter().flat_map(|analysis| analysis.derived).map(|object| object.name).collect();
        if let Some(id) = plan.find_crashed_image().filter(|_| !names.is_empty()) {
            let (id, at_least) = (tenant.scope(id), at_least(&id));
            let derived = |name| Wanted { id: id.clone(), system: false, at_least, derived: Some(name) };
            wanted.extend(names.into_iter().map(derived));
        }
        wanted
    }
}

/// Removes duplicates and takes one of each tenant's in turn; each tenant's own keep their order. So the few
/// of one tenant don't wait behind the many of another.
pub(super) fn in_turn(wanted: Vec<Wanted>) -> Vec<Wanted> {
    let mut seen = HashSet::with_capacity(wanted.len());
    let mut order: Vec<VecDeque<Wanted>> = Vec::new();
    let mut places: HashMap<TenantId, usize> = HashMap::new();
    for one in wanted {
        if seen.insert(one.clone()) {
            let place = *places.entry(one.id.tenant.clone()).or_insert_with(|| {
                order.push(VecDeque::new());
                order.len() - 1
            });
            order[place].push_back(one);
        }
    }
    let mut turns = Vec::with_capacity(seen.len());
    while turns.len() < seen.len() {
        turns.extend(order.iter_mut().filter_map(VecDeque::pop_front));
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: fairness
    #[test]
    fn the_few_of_one_tenant_do_not_wait_behind_the_many_of_another() {
        let wanted = |slug: &str, n: u8| Wanted {
            id: TenantId::new(slug).unwrap().scope(DebugId([n; 16])),
            system: false,
            at_least: Generations::default(),
            derived: None,
        };
        let mut all: Vec<Wanted> = (0..100).map(|n| wanted("noisy", n)).collect();
        all.extend([wanted("quiet", 1), wanted("noisy", 3), wanted("quiet", 2), wanted("third", 9)]);
        let turns = in_turn(all);
        assert_eq!(turns.len(), 103, "each once");
        let first: Vec<_> = turns.iter().take(6).map(|w| w.id.tenant.as_str()).collect();
        assert_eq!(first, ["noisy", "quiet", "third", "noisy", "quiet", "noisy"]);
        let noisy: Vec<u8> =
            turns.iter().filter(|w| w.id.tenant.as_str() == "noisy").map(|w| w.id.id.0[0]).collect();
        assert!(noisy.is_sorted(), "a tenant's own keep their order");
    }
}
