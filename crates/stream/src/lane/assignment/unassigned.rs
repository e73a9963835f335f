//! Partitions that Kafka has assigned to no member of the group.
//!
//! Partitions move in two steps: one member gives some up and joins again, and then another gets them. A
//! worker that is killed between the two and started again is found by its name (KIP-345) and gets the
//! partitions that it was to keep (KIP-429): it has no partition to give up, and the second step never comes.
//! So a lane checks its group some time after each change.

use crate::lane::Processor;
use crate::lane::assignment::membership;
use crate::lane::engine::{Engine, STORE_ATTEMPT_TIMEOUT};
use bytes::Buf;
use rdkafka::consumer::Consumer;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The state of a group after its members have received their assignments.
const STABLE: &str = "Stable";

/// Members of a group and their partitions, when it is divided.
struct GroupShares {
    /// The member ids.
    members: Vec<String>,
    /// Partitions of each topic that members have.
    assigned: BTreeMap<Arc<str>, usize>,
}

impl<P: Processor> Engine<P> {
    /// Leaves the group and joins again if partitions are unassigned and this member is the one to do it:
    /// that divides all of them again.
    pub(in crate::lane) fn check_for_unassigned(&mut self) {
        if self.checks.unassigned_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        // Checks again later after any result, until no partition is missing.
        self.checks.unassigned_at = Some(Instant::now() + self.lane.timings.session);
        let Some(GroupShares { members, assigned }) = self.group_shares() else { return };
        let Some(totals) = self.count_partitions(assigned.keys()) else { return };
        let unassigned: usize =
            totals.iter().map(|(topic, total)| total.saturating_sub(assigned[topic])).sum();
        if unassigned == 0 {
            self.checks.unassigned_at = None;
            return;
        }
        let own = membership::member_id(&self.consumer);
        if members.iter().min() == Some(&own) {
            tracing::warn!(
                partitions = unassigned,
                "partitions of the group are unassigned: joining it again"
            );
            let joined = {
                let _call = self.control.watch.enter_call("join the group again");
                membership::leave_group(&self.consumer);
                self.consumer.subscribe(&self.lane.list_subscriptions())
            };
            if let Err(error) = joined {
                self.begin_expulsion(&error);
            }
        }
    }

    /// Returns the partitions of this lane's group's members; `None` while the group is being divided, or
    /// cannot be asked.
    fn group_shares(&self) -> Option<GroupShares> {
        let _call = self.control.watch.enter_call("look at the group");
        let name = self.lane.group_name(&self.settings);
        let groups = match self.consumer.fetch_group_list(Some(&name), STORE_ATTEMPT_TIMEOUT) {
            Ok(groups) => groups,
            Err(e) => {
                tracing::debug!(error = %e, "the group's members are not known yet");
                return None;
            }
        };
        let group = groups.groups().iter().find(|group| group.name() == name && group.state() == STABLE)?;
        let mut assigned: BTreeMap<Arc<str>, usize> =
            self.lane.topics.iter().map(|topic| (topic.as_str().into(), 0)).collect();
        for member in group.members() {
            for (topic, partitions) in assigned_partitions(member.assignment().unwrap_or_default())? {
                *assigned.entry(topic.into()).or_default() += partitions;
            }
        }
        let members = group.members().iter().map(|member| member.id().to_owned()).collect();
        Some(GroupShares { members, assigned })
    }
}

/// Returns the number of partitions of each topic in a member's assignment, as Kafka's
/// `ConsumerProtocolAssignment`: a version, and an array of topics, each a name and an array of partitions.
/// `None` if it is no such assignment.
fn assigned_partitions(mut bytes: &[u8]) -> Option<Vec<(String, usize)>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    bytes.try_get_i16().ok()?;
    let mut topics = Vec::new();
    for _ in 0..bytes.try_get_i32().ok()? {
        let length = usize::try_from(bytes.try_get_i16().ok()?).ok()?;
        let (name, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        let partitions = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
        bytes = bytes.get(partitions.checked_mul(size_of::<i32>())?..)?;
        topics.push((String::from_utf8(name.to_vec()).ok()?, partitions));
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_counted_by_topic() {
        let bytes = b"\0\x01\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x03\0\x02bc\0\0\0\0\xff\xff\xff\xff";
        assert_eq!(assigned_partitions(bytes), Some(vec![("a".into(), 2), ("bc".into(), 0)]));
        assert_eq!(assigned_partitions(b""), Some(Vec::new()));
        for length in 1..bytes.len() - 4 {
            assert_eq!(assigned_partitions(&bytes[..length]), None, "{length}");
        }
    }
}
