//! The report that represents a group.

use std::cmp::Reverse;

/// Chooses the report that represents a group, among its newest ones. Each is given by its status and the
/// number of its symbolicated frames. Returns its index and the reason.
pub fn choose_report(newest: &[(&str, u32)]) -> Option<(usize, &'static str)> {
    if let Some(at) = newest.iter().position(|(status, _)| *status == "complete") {
        return Some((at, if at == 0 { "the newest one" } else { "the newest one with all symbols" }));
    }
    let (at, (_, symbolicated)) =
        newest.iter().enumerate().max_by_key(|(at, (_, symbolicated))| (*symbolicated, Reverse(*at)))?;
    let why = match (at, symbolicated) {
        (0, _) | (_, 0) => "the newest one",
        _ => "of the newest ones the one with the most symbolicated frames",
    };
    Some((at, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_with_all_symbols_stands_for_a_group_else_the_one_with_most() {
        let at = |newest: &[(&str, u32)]| choose_report(newest).map(|(at, _)| at);
        assert_eq!(at(&[("partial", 9), ("none", 0), ("complete", 3), ("complete", 4)]), Some(2));
        assert_eq!(at(&[("none", 0), ("partial", 5), ("partial", 7), ("partial", 7)]), Some(2));
        assert_eq!(choose_report(&[("none", 0), ("none", 0)]), Some((0, "the newest one")));
        assert_eq!(at(&[]), None);
    }
}
