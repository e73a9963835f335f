//! Decides which functions were edited. A difference that another function causes, because it is inlined or holds the code, is none
//! of a function's own.

use crate::changed_function::ChangeState;
use crate::difference::{DifferenceKind, FunctionDifference};
use crate::function_table::FunctionTable;
use crate::pairing::Pairing;
use std::collections::{BTreeMap, BTreeSet};

/// Inlined calls in each other that are followed.
const DEPTH_LIMIT: usize = 300;

/// The functions of the build after with what differs.
type Differences = BTreeMap<u32, (FunctionDifference, ChangeState)>;

/// Whether a function was edited, and whether one that is inlined into it was.
#[derive(Clone, Copy, Debug, Default)]
struct Edit {
    is_edited: bool,
    holds_edited: bool,
}

/// Decides which functions were edited.
pub(crate) struct EditJudge<'c, 's> {
    before: &'c FunctionTable<'s>,
    after: &'c FunctionTable<'s>,
    pairing: &'c Pairing,
    differences: &'c Differences,
    /// Functions that are inlined into one whose lines differ, at any depth.
    within_edited: BTreeSet<u32>,
    edits: Vec<Option<Edit>>,
    /// Functions with other bytes, before those are left out that hold one of them.
    resized: BTreeSet<u32>,
    holds_resized: Vec<Option<bool>>,
}

impl<'c, 's> EditJudge<'c, 's> {
    pub(crate) fn new(
        before: &'c FunctionTable<'s>,
        after: &'c FunctionTable<'s>,
        pairing: &'c Pairing,
        differences: &'c Differences,
    ) -> EditJudge<'c, 's> {
        let mut judge = EditJudge {
            before,
            after,
            pairing,
            differences,
            within_edited: BTreeSet::new(),
            edits: vec![None; after.functions.len()],
            resized: BTreeSet::new(),
            holds_resized: vec![None; after.functions.len()],
        };
        judge.within_edited = judge.find_within_edited();
        judge
    }

    /// Returns what became of each function that both builds have.
    pub(crate) fn judge_all(mut self) -> Vec<(u32, ChangeState)> {
        for index in self.differences.keys() {
            self.judge_edit(*index, 0);
        }
        let is_resized = |(index, (found, _)): &(&u32, &(FunctionDifference, ChangeState))| {
            self.choose_state(**index, found) == ChangeState::Resized
        };
        self.resized = self.differences.iter().filter(is_resized).map(|(index, _)| *index).collect();
        let mut states = Vec::with_capacity(self.differences.len());
        for (index, (difference, _)) in self.differences {
            let state = self.choose_state(*index, difference);
            let is_caused = state == ChangeState::Resized && self.find_resized_within(*index, 0);
            states.push((*index, if is_caused { ChangeState::Affected } else { state }));
        }
        states
    }

    fn choose_state(&self, index: u32, difference: &FunctionDifference) -> ChangeState {
        let edit = self.get(index);
        let has_other_calls = !difference.new_calls.is_empty() || !difference.lost_calls.is_empty();
        let is_unedited = |owner: &u32| {
            let owner = self.get(*owner);
            !owner.is_edited && !owner.holds_edited
        };
        match difference.kind {
            DifferenceKind::Nothing => ChangeState::Same,
            _ if edit.is_edited => ChangeState::Changed,
            DifferenceKind::Lines | DifferenceKind::SomeLines => ChangeState::Affected,
            DifferenceKind::CodeOnly if edit.holds_edited || has_other_calls => ChangeState::Affected,
            DifferenceKind::CodeOnly if self.is_only_inlined(index) => {
                // What is around a copy may change its bytes: an edit changes those of all copies.
                let is_resized = !difference.has_equal_bytes && difference.resized_in.iter().any(is_unedited);
                if is_resized { ChangeState::Resized } else { ChangeState::Same }
            }
            DifferenceKind::CodeOnly if difference.has_other_bytes => ChangeState::Resized,
            DifferenceKind::CodeOnly => ChangeState::Affected,
        }
    }

    /// Returns true if a function with other bytes is inlined into this one, at any depth.
    fn find_resized_within(&mut self, index: u32, depth: usize) -> bool {
        match self.holds_resized.get(index as usize) {
            Some(Some(known)) => return *known,
            Some(None) if depth < DEPTH_LIMIT => {}
            _ => return false,
        }
        self.set_holding(index, false);
        let mut holds = false;
        for callee in self.list_callees(index) {
            holds |= self.resized.contains(&callee) || self.find_resized_within(callee, depth + 1);
        }
        self.set_holding(index, holds);
        holds
    }

    fn set_holding(&mut self, index: u32, holds: bool) {
        if let Some(place) = self.holds_resized.get_mut(index as usize) {
            *place = Some(holds);
        }
    }

    fn get(&self, index: u32) -> Edit {
        self.edits.get(index as usize).copied().flatten().unwrap_or_default()
    }

    fn is_only_inlined(&self, index: u32) -> bool {
        self.after.get(index).is_some_and(|function| function.size == 0)
    }

    /// Judges the functions that are inlined into a function, and then the function.
    fn judge_edit(&mut self, index: u32, depth: usize) -> Edit {
        match self.edits.get(index as usize) {
            Some(Some(known)) => return *known,
            Some(None) if depth < DEPTH_LIMIT => {}
            _ => return Edit::default(),
        }
        // A recursion that is inlined into itself ends here.
        self.set(index, Edit::default());
        let mut edit = Edit::default();
        for callee in self.list_callees(index) {
            let inner = self.judge_edit(callee, depth + 1);
            edit.holds_edited |= inner.is_edited || inner.holds_edited;
        }
        let difference = self.differences.get(&index).map(|(found, _)| found);
        edit.is_edited = match difference.map_or(DifferenceKind::Nothing, |found| found.kind) {
            // An edit nearly always leaves more or fewer lines, and the optimiser of what is inlined seldom does.
            DifferenceKind::Lines => {
                !edit.holds_edited || difference.is_some_and(|found| found.lines_more != 0)
            }
            DifferenceKind::SomeLines => {
                let lies_in_edited = self.is_only_inlined(index) && self.within_edited.contains(&index);
                !edit.holds_edited && !lies_in_edited
            }
            DifferenceKind::CodeOnly | DifferenceKind::Nothing => false,
        };
        self.set(index, edit);
        edit
    }

    fn set(&mut self, index: u32, edit: Edit) {
        if let Some(place) = self.edits.get_mut(index as usize) {
            *place = Some(edit);
        }
    }

    /// Lists the functions that either build inlines into a function, by their numbers in the build after.
    fn list_callees(&self, index: u32) -> BTreeSet<u32> {
        let Some((difference, _)) = self.differences.get(&index) else { return BTreeSet::new() };
        let code = difference.code;
        let mut callees = BTreeSet::new();
        if let Some(function) = self.after.get(index) {
            callees.extend(self.after.calls_of(function, code).iter().map(|call| call.callee));
        }
        let pair = self.pairing.before.get(index as usize).copied().flatten();
        if let Some(function) = pair.and_then(|pair| self.before.get(pair)) {
            let calls = self.before.calls_of(function, code);
            let pairs =
                calls.iter().map(|call| self.pairing.after.get(call.callee as usize).copied().flatten());
            callees.extend(pairs.flatten());
        }
        callees.remove(&index);
        callees
    }

    fn find_within_edited(&self) -> BTreeSet<u32> {
        let has_other_lines = |(_, (found, _)): &(&u32, &(FunctionDifference, ChangeState))| {
            found.kind == DifferenceKind::Lines
        };
        let mut left: Vec<u32> =
            self.differences.iter().filter(has_other_lines).map(|(index, _)| *index).collect();
        let mut found = BTreeSet::new();
        while let Some(index) = left.pop() {
            for callee in self.list_callees(index) {
                if found.insert(callee) {
                    left.push(callee);
                }
            }
        }
        found
    }
}
