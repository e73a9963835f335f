//! The comparison of two builds: which functions were edited, and whether the builds can be compared at all.

use crate::changed_function::{ChangeState, FunctionChange};
use crate::difference::{FunctionDifference, compare_functions};
use crate::edit_judge::EditJudge;
use crate::function_change::{describe_gone, describe_new, describe_pair};
use crate::function_table::{CompareError, ComparedCode, FunctionTable, normalise_symbol};
use crate::outcome::{BuildCounts, BuildOutcome};
use crate::pairing::Pairing;
use crate::stack::StackFunction;
use std::collections::{BTreeMap, HashMap};
use unslide_symbolicate::symcache::SymCache;

/// The fewest functions by which builds are judged as a whole.
const JUDGED_FUNCTIONS: usize = 5;
/// Shares of functions, in percent, above which builds differ by more than their source: of all that differ, and of those with
/// the same lines and other bytes.
const DIFFERING_PERCENT: usize = 40;
const RESIZED_PERCENT: usize = 15;
/// The same share if no function has moved in its file.
const UNMOVED_PERCENT: usize = 5;
/// Functions that are too few to judge by: with other bytes, and of any difference if no function has moved.
const FEW_RESIZED: usize = 2;
const FEW_UNMOVED: usize = 3;
/// If no function of a build was edited, those with other bytes were, if they are at most one in this number.
const EDITED_WITHOUT_LINES: usize = 12;

/// Two builds with what differs between their functions.
pub struct BuildComparison<'s> {
    before: FunctionTable<'s>,
    after: FunctionTable<'s>,
    pairing: Pairing,
    /// What differs of each function of the build after that has a counterpart, and what follows.
    differences: BTreeMap<u32, (FunctionDifference, ChangeState)>,
    outcome: BuildOutcome,
    counts: BuildCounts,
}

impl<'s> BuildComparison<'s> {
    /// Compares two builds.
    ///
    /// # Errors
    /// Returns an error if a symcache is larger than a comparison holds.
    pub fn from_symcaches(
        before_cache: &'s SymCache,
        after_cache: &'s SymCache,
    ) -> Result<BuildComparison<'s>, CompareError> {
        let before = FunctionTable::from_symcache(before_cache)?;
        let after = FunctionTable::from_symcache(after_cache)?;
        let pairing = Pairing::from_tables(&before, &after);
        let mut differences = BTreeMap::new();
        for (index, (function, other)) in (0..).zip(after.functions.iter().zip(&pairing.before)) {
            if let Some(other) = other.and_then(|other| before.get(other)) {
                let found = compare_functions([&before, &after], &pairing, [other, function]);
                differences.insert(index, (found, ChangeState::Same));
            }
        }
        let counts = BuildCounts {
            before: before.functions.len(),
            after: after.functions.len(),
            ..BuildCounts::default()
        };
        let outcome = BuildOutcome::Compared;
        let mut comparison = BuildComparison { before, after, pairing, differences, outcome, counts };
        comparison.judge_functions();
        comparison.judge_builds(before_cache.cpu() == after_cache.cpu());
        Ok(comparison)
    }

    /// Returns whether the builds can be compared. If not, nothing else here says anything about the source.
    #[must_use]
    pub fn outcome(&self) -> BuildOutcome {
        self.outcome
    }

    /// Returns the numbers of functions.
    #[must_use]
    pub fn counts(&self) -> BuildCounts {
        self.counts
    }

    /// Returns what became of the functions of a stack of the build after, each once, in the order of the stack.
    #[must_use]
    pub fn find_in_stack(&self, stack: &[StackFunction<'_>]) -> Vec<FunctionChange> {
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        for (place, function) in stack.iter().enumerate() {
            places.entry(normalise_symbol(function.symbol.raw())).or_insert(place);
        }
        let mut found: BTreeMap<usize, FunctionChange> = BTreeMap::new();
        for (index, function) in (0..).zip(&self.after.functions) {
            let Some(place) = places.get(function.key.symbol) else { continue };
            let Some(change) = self.describe(index) else { continue };
            // Of code of one function in several files, that which differs says more.
            let is_known = found.get(place).is_some_and(|known| known.state <= change.state);
            if !is_known {
                found.insert(*place, change);
            }
        }
        found.into_values().collect()
    }

    /// Returns what became of the functions with a linkage name, or with a readable name that has or begins with this one before its
    /// parameters.
    #[must_use]
    pub fn find_by_name(&self, name: &str) -> Vec<FunctionChange> {
        let wanted = normalise_symbol(name.as_bytes());
        self.find_changes(|symbol, readable| {
            symbol == wanted
                || readable == name
                || readable.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<']))
        })
    }

    /// Returns the functions that were edited, are new or gone or have other bytes, the edited ones first, at most `limit`.
    #[must_use]
    pub fn list_changes(&self, limit: usize) -> Vec<FunctionChange> {
        let is_listed = |state: ChangeState| matches!(state, ChangeState::Changed | ChangeState::Resized);
        let differing = self.differences.iter().filter(|(_, (_, state))| is_listed(*state));
        let mut listed: Vec<_> = differing.map(|(index, (_, state))| (*state, *index)).collect();
        listed.sort_unstable();
        let changed = listed.into_iter().take(limit).filter_map(|(_, index)| self.describe(index));
        let new = (0..).zip(&self.pairing.before).filter(|(_, pair)| pair.is_none());
        let gone = (0..).zip(&self.pairing.after).filter(|(index, pair)| {
            pair.is_none() && self.before.get(*index).is_some_and(|function| function.size > 0)
        });
        let new = new.filter_map(|(index, _)| self.describe(index));
        let gone = gone.filter_map(|(index, _)| self.describe_gone(index));
        changed.chain(new).chain(gone).take(limit).collect()
    }

    fn find_changes(&self, is_wanted: impl Fn(&[u8], &str) -> bool) -> Vec<FunctionChange> {
        let mut found: Vec<FunctionChange> = Vec::new();
        for (index, function) in (0..).zip(&self.after.functions) {
            if is_wanted(function.key.symbol, &function.name.decode()) {
                found.extend(self.describe(index));
            }
        }
        for (index, function) in (0..).zip(&self.before.functions) {
            let is_gone = self.pairing.after.get(index as usize).is_some_and(Option::is_none);
            if is_gone && is_wanted(function.key.symbol, &function.name.decode()) {
                found.extend(self.describe_gone(index));
            }
        }
        // Code of one function in several files: that which differs says more.
        found.sort_by_key(|change| change.state);
        found
    }

    fn describe(&self, index: u32) -> Option<FunctionChange> {
        let function = self.after.get(index)?;
        let Some((difference, state)) = self.differences.get(&index) else {
            let is_known = self.before.is_folded(function.name.raw());
            return Some(describe_new(&self.after, function, is_known));
        };
        let other = self.pairing.before.get(index as usize).copied().flatten()?;
        let pair = [self.before.get(other)?, function];
        Some(describe_pair([&self.before, &self.after], pair, difference, *state))
    }

    fn describe_gone(&self, index: u32) -> Option<FunctionChange> {
        let function = self.before.get(index)?;
        let is_known = self.after.is_folded(function.name.raw());
        Some(describe_gone(&self.before, function, is_known))
    }

    /// Decides of each function whether it was edited.
    fn judge_functions(&mut self) {
        let states = EditJudge::new(&self.before, &self.after, &self.pairing, &self.differences).judge_all();
        for (index, state) in states {
            if let Some((_, known)) = self.differences.get_mut(&index) {
                *known = state;
            }
        }
    }

    /// Counts the functions, and decides whether the builds differ by more than their source.
    fn judge_builds(&mut self, is_same_cpu: bool) {
        let mut by_state: BTreeMap<ChangeState, usize> = BTreeMap::new();
        let mut with_lines = 0;
        for (index, (_, state)) in &self.differences {
            let function = self.after.get(*index);
            if function.is_some_and(|one| !self.after.rows_of(one, ComparedCode::All).is_empty()) {
                with_lines += 1;
                *by_state.entry(*state).or_default() += 1;
            }
        }
        let count = |state| by_state.get(&state).copied().unwrap_or_default();
        let (changed, resized) = (count(ChangeState::Changed), count(ChangeState::Resized));
        let judged = with_lines - count(ChangeState::Affected);
        let is_most = |part: usize, percent: usize| part * 100 > judged * percent;
        let is_enough = with_lines >= JUDGED_FUNCTIONS;
        // Lines above the first edit of a file stay, and those below it move: that no function has moved is rare.
        let is_moved = |(found, _): &(FunctionDifference, ChangeState)| {
            found.code == ComparedCode::Own && found.is_moved
        };
        let is_unmoved = !self.differences.values().any(is_moved);
        let fewest = self.before.functions.len().min(self.after.functions.len());
        self.outcome = if !is_same_cpu {
            BuildOutcome::OtherCpu
        } else if self.before.has_no_lines() || self.after.has_no_lines() {
            BuildOutcome::NoLines
        } else if fewest >= JUDGED_FUNCTIONS && self.differences.len() * 2 < fewest {
            BuildOutcome::OtherProgram
        } else if is_enough
            && (is_most(changed + resized, DIFFERING_PERCENT)
                || resized > FEW_RESIZED && is_most(resized, RESIZED_PERCENT)
                || is_unmoved
                    && changed + resized > FEW_UNMOVED
                    && is_most(changed + resized, UNMOVED_PERCENT))
        {
            BuildOutcome::OtherFlags
        } else {
            BuildOutcome::Compared
        };
        let are_edited = changed == 0 && resized * EDITED_WITHOUT_LINES <= with_lines;
        if are_edited {
            for (_, state) in self.differences.values_mut() {
                if *state == ChangeState::Resized {
                    *state = ChangeState::Changed;
                }
            }
        }
        let is_unpaired = |pair: &&Option<u32>| pair.is_none();
        self.counts.changed = if are_edited { resized } else { changed };
        self.counts.resized = if are_edited { 0 } else { resized };
        self.counts.new = self.pairing.before.iter().filter(is_unpaired).count();
        let has_code = |index: u32| self.before.get(index).is_some_and(|function| function.size > 0);
        let gone = (0..).zip(&self.pairing.after).filter(|(index, pair)| pair.is_none() && has_code(*index));
        self.counts.gone = gone.count();
    }
}
