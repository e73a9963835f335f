//! The report that represents a group.

use std::cmp::Reverse;

/// Chooses the report that represents a group, among its newest ones. Each is given by whether all frames of the app are
/// symbolicated, and by their number. Returns its index and the reason.
pub fn choose_report(newest: &[(bool, u32)]) -> Option<(usize, &'static str)> {
    if let Some(at) = newest.iter().position(|(is_complete, _)| *is_complete) {
        return Some((at, if at == 0 { "the newest one" } else { "the newest one with all symbols" }));
    }
    let (at, (_, symbolicated)) =
        newest.iter().enumerate().max_by_key(|(at, (_, symbolicated))| (*symbolicated, Reverse(*at)))?;
    let why = match (at, symbolicated) {
        (0, _) | (_, 0) => "the newest one",
        _ => "of the newest ones the one with the most symbolicated frames of the app",
    };
    Some((at, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_with_all_symbols_stands_for_a_group_else_the_one_with_most() {
        let at = |newest: &[(bool, u32)]| choose_report(newest).map(|(at, _)| at);
        assert_eq!(at(&[(false, 9), (false, 0), (true, 3), (true, 4)]), Some(2));
        assert_eq!(at(&[(false, 0), (false, 5), (false, 7), (false, 7)]), Some(2));
        assert_eq!(choose_report(&[(false, 0), (false, 0)]), Some((0, "the newest one")));
        assert_eq!(at(&[]), None);
    }
}
