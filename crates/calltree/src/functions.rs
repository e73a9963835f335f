//! Functions, independent of their callers: how much each uses without the functions that it calls.

use super::{CallFrame, CallTree, FrameOrigin};
use std::cmp::Reverse;

/// A function with all its calls together.
#[derive(Clone, Debug)]
pub struct FunctionTotals {
    /// The function.
    pub frame: CallFrame,
    /// The weight without the functions that it calls.
    pub own: u64,
    /// The weight with the functions that it calls; a recursion counts once.
    pub total: u64,
}

impl CallTree {
    /// Returns the functions with the most own weight, at most `most`, those of equal weight by name.
    #[must_use]
    pub fn list_functions(&self, most: usize) -> Vec<FunctionTotals> {
        let mut totals = vec![(0_u64, 0_u64); self.frames.len()];
        // How often each function is open on the way to the node at hand.
        let mut open = vec![0_u32; self.frames.len()];
        let mut steps = vec![(CallTree::ROOT, false)];
        while let Some((index, done)) = steps.pop() {
            let node = self.node(index);
            let frame = node.frame as usize;
            if done {
                open[frame] -= 1;
                continue;
            }
            let (own, total) = &mut totals[frame];
            *own = own.saturating_add(self.own_amount(index).weight);
            if open[frame] == 0 {
                *total = total.saturating_add(node.total.weight);
            }
            open[frame] += 1;
            steps.push((index, true));
            steps.extend(node.children.iter().map(|child| (*child, false)));
        }
        let functions = self.frames.iter().zip(totals);
        let mut functions: Vec<FunctionTotals> = functions
            .filter(|(frame, (own, _))| frame.origin != FrameOrigin::Label && *own > 0)
            .map(|(frame, (own, total))| FunctionTotals { frame: frame.clone(), own, total })
            .collect();
        functions.sort_by(|a, b| {
            let by = |one: &FunctionTotals| (Reverse(one.own), Reverse(one.total));
            by(a).cmp(&by(b)).then_with(|| a.frame.name.cmp(&b.frame.name))
        });
        functions.truncate(most);
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;

    #[test]
    fn a_function_has_the_weight_of_all_its_calls_and_a_recursion_counts_once() {
        let tree = tree(&[("main;a;b;a", 4), ("main;b", 3), ("other;a", 2)]);
        let shown: Vec<(String, u64, u64)> = tree
            .list_functions(10)
            .into_iter()
            .map(|one| (one.frame.name.to_string(), one.own, one.total))
            .collect();
        let of = |name: &str, own, total| (name.to_owned(), own, total);
        assert_eq!(shown, [of("a", 6, 6), of("b", 3, 7)]);
        assert_eq!(tree.list_functions(1).len(), 1);
    }
}
