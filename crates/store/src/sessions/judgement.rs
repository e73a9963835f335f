//! The judgement of a session's end: the assumed reason and its evidence, as they are stored and shown.

use super::SessionArrival;
use crate::column::json_column;
use crate::queries::health::memory_limits::{self, system_version};
use crate::{Result, TenantTx};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::ended::{Confidence, EndEvidence, EndRule, EndedRun, EvidenceKind};
use utoipa::ToSchema;

/// The rule that has decided how a session ended, how sure that is, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionJudgement {
    /// The rule that has decided.
    #[schema(value_type = String, example = "exclusion")]
    pub rule: EndRule,
    /// How sure it is: `low`, `medium` or `high`.
    #[schema(value_type = String, example = "medium")]
    pub confidence: Confidence,
    /// What speaks for lack of memory; empty for an end of another kind.
    #[schema(max_items = 4)]
    pub evidence: Vec<SessionEvidence>,
    /// The footprint where it was far below the learned limit. It lowers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<SessionEvidence>,
}

/// A fact about the memory of a session at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionEvidence {
    /// `footprint`, `learned_limit`, `memory_pressure` or `jetsam`.
    #[schema(value_type = String, example = "learned_limit")]
    pub kind: EvidenceKind,
    /// For people.
    #[schema(example = "92 % of 2048 MiB")]
    pub value: String,
}

json_column!(SessionJudgement);

impl From<&EndedRun> for SessionJudgement {
    fn from(ended: &EndedRun) -> SessionJudgement {
        let evidence = |one: &EndEvidence| {
            // Postgres stores no NUL.
            SessionEvidence { kind: one.kind, value: one.value.replace('\0', "") }
        };
        SessionJudgement {
            rule: ended.rule,
            confidence: ended.confidence,
            evidence: ended.evidence.iter().map(evidence).collect(),
            against: ended.against.as_ref().map(evidence),
        }
    }
}

/// The memory limits that the sessions of a batch are judged by, from reports and other sessions: each with
/// its app, device model and version of the system.
#[derive(Debug, Default)]
pub(super) struct LearnedLimits<'a>(BTreeMap<[&'a str; 3], Option<u64>>);

impl<'a> LearnedLimits<'a> {
    /// Reads those of the sessions with an end that they can judge.
    pub(super) async fn read(
        tx: &mut TenantTx,
        arrivals: &[&'a SessionArrival],
    ) -> Result<LearnedLimits<'a>> {
        let asking = arrivals.iter().filter(|arrival| arrival.event.asks_for_limit());
        let asked: BTreeSet<[&str; 3]> = asking.filter_map(|arrival| made_on(arrival)).collect();
        let asked: Vec<[&str; 3]> = asked.into_iter().collect();
        let limits = memory_limits::learned(tx, &asked).await?;
        Ok(LearnedLimits(asked.into_iter().zip(limits).collect()))
    }

    /// Returns the limit of a session's device and system.
    pub(super) fn of(&self, arrival: &SessionArrival) -> Option<u64> {
        self.0.get(&made_on(arrival)?).copied().flatten()
    }
}

/// Returns the app, the device model and the version of the system of a session.
fn made_on(arrival: &SessionArrival) -> Option<[&str; 3]> {
    let event = &arrival.event;
    let (device, os) = (event.device.as_deref()?, event.os.as_deref()?);
    Some([&event.app, device, system_version(os)?])
}
