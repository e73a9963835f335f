//! Which memory exception belongs to which session: pure, from the pairs that fit.

use crate::store::sessions::SessionKey;
use std::collections::BTreeMap;
use unslide_store::ids;

ids! {
    /// A memory exception: the id of its report.
    MemoryExceptionId;
}

/// The id and the variant of the report.
pub(super) type ExceptionId = (MemoryExceptionId, i32);

unslide_model::words! {
    /// Whether an exception is joined with a session, or why not.
    pub enum JoinOutcome {
        Joined = "joined",
        /// No session fits the exception.
        None = "none",
        /// Several sessions fit, or several exceptions fit the session.
        Several = "several",
    }
}

/// An exception with a session that fits it, if one does.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) exception: ExceptionId,
    pub(super) session: Option<SessionKey>,
    /// True if the exception names this session.
    pub(super) names_session: bool,
    /// True if both name the same process.
    pub(super) same_pid: bool,
}

impl Pair {
    /// Returns how strong the evidence is.
    fn strength(&self) -> u8 {
        match (self.names_session, self.same_pid) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}

/// Decides on each exception: the only session with the strongest evidence is joined with it. A session ends once, so that of
/// several exceptions only one with stronger evidence than all others has it.
pub(super) fn decide(pairs: &[Pair]) -> BTreeMap<ExceptionId, (JoinOutcome, Option<SessionKey>)> {
    let mut fitting: BTreeMap<ExceptionId, Vec<(u8, &SessionKey)>> = BTreeMap::new();
    for pair in pairs {
        let sessions = fitting.entry(pair.exception).or_default();
        sessions.extend(pair.session.as_ref().map(|session| (pair.strength(), session)));
    }
    let mut decided = BTreeMap::new();
    let mut wanted: BTreeMap<&SessionKey, Vec<(u8, ExceptionId)>> = BTreeMap::new();
    for (exception, sessions) in &fitting {
        let best = sessions.iter().map(|(strength, _)| *strength).max();
        let mut strongest = sessions.iter().filter(|(strength, _)| Some(*strength) == best);
        let outcome = match (strongest.next(), strongest.next()) {
            (None, _) => JoinOutcome::None,
            (Some((strength, session)), None) => {
                wanted.entry(session).or_default().push((*strength, *exception));
                continue;
            }
            _ => JoinOutcome::Several,
        };
        decided.insert(*exception, (outcome, None));
    }
    for (session, mut exceptions) in wanted {
        exceptions.sort_unstable_by(|a, b| b.cmp(a));
        let is_only = exceptions.len() == 1 || exceptions[0].0 > exceptions[1].0;
        for (place, (_, exception)) in exceptions.into_iter().enumerate() {
            let joined = (JoinOutcome::Joined, Some(session.clone()));
            decided
                .insert(exception, if is_only && place == 0 { joined } else { (JoinOutcome::Several, None) });
        }
    }
    decided
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;
    use unslide_store::Uuid;

    fn pair(exception: u128, session: &str, names_session: bool, same_pid: bool) -> Pair {
        let session =
            (!session.is_empty()).then(|| ("app".to_owned(), session.to_owned(), date!(2026 - 11 - 20)));
        Pair {
            exception: (MemoryExceptionId::from_uuid(Uuid::from_u128(exception)), 0),
            session,
            names_session,
            same_pid,
        }
    }

    fn outcomes(pairs: &[Pair]) -> Vec<(u128, &'static str, Option<String>)> {
        let decided = decide(pairs);
        let of = |((id, _), (outcome, session)): (ExceptionId, (JoinOutcome, Option<SessionKey>))| {
            (id.uuid().as_u128(), outcome.as_str(), session.map(|session| session.1))
        };
        decided.into_iter().map(of).collect()
    }

    #[test]
    fn an_exception_joins_the_only_session_that_fits() {
        let joined = |id, session: &str| (id, "joined", Some(session.to_owned()));
        let one = outcomes(&[pair(1, "a", false, false), pair(2, "", false, false)]);
        assert_eq!(one, [joined(1, "a"), (2, "none", None)]);
        let two = [pair(1, "a", false, false), pair(1, "b", false, false)];
        assert_eq!(outcomes(&two), [(1, "several", None)]);
        // The process decides, if one session alone names it.
        assert_eq!(outcomes(&[pair(1, "a", false, false), pair(1, "b", false, true)]), [joined(1, "b")]);
        let both = [pair(1, "a", false, true), pair(1, "b", false, true)];
        assert_eq!(outcomes(&both), [(1, "several", None)]);
    }

    #[test]
    fn a_session_ends_once() {
        let equal = [pair(1, "a", false, false), pair(2, "a", false, false)];
        assert_eq!(outcomes(&equal), [(1, "several", None), (2, "several", None)]);
        let named = [pair(1, "a", false, true), pair(2, "a", true, false), pair(3, "a", false, false)];
        let expected = [(1, "several", None), (2, "joined", Some("a".to_owned())), (3, "several", None)];
        assert_eq!(outcomes(&named), expected);
    }
}
