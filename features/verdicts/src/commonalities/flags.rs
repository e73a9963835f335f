//! Flags of sessions, compared with the own keys of reports that have the same name.

use super::compared_values::ComparedValues;
use super::{ComparedFact, NotCompared};
use crate::store::{InstallationCounts, VALUES_OF_FLAG_LIMIT, ValueCount};
use std::collections::BTreeMap;

/// The share of installations with sessions that have to carry flags. If too few do, those that do are others than the rest.
const CARRYING_PERCENT: i64 = 90;
/// Flags that are compared, the most frequent ones.
const FLAGS_LIMIT: usize = 100;
/// Flags and own keys that are named as not compared.
const NAMED_LIMIT: usize = 20;
/// The name of all of them together.
const EVERY_FLAG: &str = "flags, own keys and locale";
const NO_FLAGS: &str = "sessions do not carry flags: send `flags` with a session";
const FEW_FLAGS: &str = "fewer than nine of ten installations have sessions with flags on these days: send `flags` with each session";
const TOO_MANY_VALUES: &str = "it has more than 50 values, as an id does";
const NOT_A_FLAG: &str = "reports have it as an own key, and sessions do not carry it: send it in `flags`";
const TOO_MANY_FLAGS: &str = "more than 100 flags are more frequent";

/// The values of one flag, or of one own key, with their counts.
struct NamedCounts<'c> {
    name: &'c str,
    counts: &'c [ValueCount],
}

impl NamedCounts<'_> {
    fn is_id(&self) -> bool {
        self.counts.first().is_some_and(|first| first.values > VALUES_OF_FLAG_LIMIT)
    }
}

/// Splits counts by their names, in their order: those of a name follow each other.
fn split_by_name(counts: &[ValueCount]) -> impl Iterator<Item = NamedCounts<'_>> {
    counts
        .chunk_by(|one, next| one.name == next.name)
        .filter_map(|counts| Some(NamedCounts { name: &counts.first()?.name, counts }))
}

/// Adds the values of flags that can be compared. Returns the flags and own keys that cannot, with the reason. `keys` counts the own keys
/// of the devices that met the bug. A device or an installation without the flag counts as one without it.
pub fn compare_flags(
    compared: &mut ComparedValues,
    crashed: u64,
    keys: &[ValueCount],
    all: &InstallationCounts,
) -> Vec<NotCompared> {
    if all.carrying_flags * 100 < all.all * CARRYING_PERCENT {
        let reason = if all.carrying_flags == 0 { NO_FLAGS } else { FEW_FLAGS };
        return vec![NotCompared::new(EVERY_FLAG, reason)];
    }
    let mut not_compared = Vec::new();
    let keys: BTreeMap<&str, NamedCounts<'_>> = split_by_name(keys).map(|key| (key.name, key)).collect();
    let flags: Vec<NamedCounts<'_>> = split_by_name(&all.flags).collect();
    for (place, flag) in flags.iter().enumerate() {
        let key = keys.get(flag.name);
        if place >= FLAGS_LIMIT {
            not_compared.push(NotCompared::new(flag.name, TOO_MANY_FLAGS));
            continue;
        }
        if flag.is_id() || key.is_some_and(NamedCounts::is_id) {
            not_compared.push(NotCompared::new(flag.name, TOO_MANY_VALUES));
            continue;
        }
        let with_bug = key.map(|key| key.counts).unwrap_or_default();
        let with_bug: BTreeMap<&str, u64> =
            with_bug.iter().map(|value| (value.value.as_str(), value.count.unsigned_abs())).collect();
        let totals = [crashed, all.carrying_flags.unsigned_abs()];
        compared.add_values((ComparedFact::Flag, Some(flag.name)), totals, &with_bug, flag.counts.iter());
    }
    let is_flag = |name: &str| flags.iter().any(|flag| flag.name == name);
    let other_keys = keys.keys().filter(|name| !is_flag(name));
    not_compared.extend(other_keys.map(|name| NotCompared::new(*name, NOT_A_FLAG)));
    not_compared.truncate(NAMED_LIMIT);
    not_compared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(name: &str, values: &[(&str, i64)]) -> Vec<ValueCount> {
        let different = values.len() as i64;
        let build = |(value, count): &(&str, i64)| ValueCount {
            name: name.to_owned(),
            value: (*value).to_owned(),
            count: *count,
            values: different,
        };
        values.iter().map(build).collect()
    }

    fn compare(
        keys: &[ValueCount],
        flags: Vec<ValueCount>,
        carrying_flags: i64,
    ) -> (Vec<String>, Vec<NotCompared>) {
        let all = InstallationCounts { all: 1_000, carrying_flags, flags, ..InstallationCounts::default() };
        let mut compared = ComparedValues::default();
        let not_compared = compare_flags(&mut compared, 412, keys, &all);
        (compared.find_common().into_iter().map(|value| value.text).collect(), not_compared)
    }

    #[test]
    fn a_flag_that_all_devices_with_the_bug_have_is_said_with_its_share() {
        let keys = [counts("checkout_v2", &[("true", 412)]), counts("plan", &[("pro", 40), ("free", 300)])];
        let flags = [
            counts("plan", &[("free", 880), ("pro", 100)]),
            counts("checkout_v2", &[("true", 310)]),
            counts("theme", &[("dark", 500), ("light", 500)]),
        ];
        let (texts, not_compared) = compare(&keys.concat(), flags.concat(), 1_000);
        assert_eq!(texts, ["flag checkout_v2: 412 of 412, of all installations 31 %"]);
        assert_eq!(not_compared, []);
    }

    #[test]
    fn a_value_says_its_flag_and_devices_without_a_flag_count() {
        let keys = counts("cart", &[("b", 300)]);
        let (texts, _) = compare(&keys, counts("cart", &[("a", 200), ("b", 200)]), 950);
        assert_eq!(texts, ["flag cart = b: 300 of 412, of all installations 21 %"]);
    }

    #[test]
    fn flags_are_not_compared_if_more_than_one_in_ten_sessions_has_none() {
        let keys = counts("checkout_v2", &[("true", 412)]);
        for (carrying, reason) in [(0, NO_FLAGS), (899, FEW_FLAGS)] {
            let (texts, not_compared) = compare(&keys, counts("checkout_v2", &[("true", 100)]), carrying);
            assert_eq!((texts.len(), not_compared), (0, vec![NotCompared::new(EVERY_FLAG, reason)]));
        }
        assert_eq!(compare(&keys, counts("checkout_v2", &[("true", 100)]), 900).0.len(), 1);
    }

    #[test]
    fn ids_and_own_keys_that_sessions_do_not_carry_are_named_with_the_reason() {
        let mut cart = counts("cart_id", &[("1", 1)]);
        cart[0].values = 51;
        let keys = [counts("cart_id", &[("1", 412)]), counts("screen", &[("cart", 412)])].concat();
        let (texts, not_compared) = compare(&keys, cart, 1_000);
        let expected = [NotCompared::new("cart_id", TOO_MANY_VALUES), NotCompared::new("screen", NOT_A_FLAG)];
        assert_eq!((texts.len(), not_compared), (0, expected.to_vec()));
    }

    /// Proves: bounded-input
    #[test]
    fn of_many_flags_the_most_frequent_are_compared() {
        let flags: Vec<ValueCount> =
            (0..150).flat_map(|n| counts(&format!("flag {n:03}"), &[("true", 500)])).collect();
        let keys: Vec<ValueCount> =
            (0..150).flat_map(|n| counts(&format!("flag {n:03}"), &[("true", 412)])).collect();
        let (texts, not_compared) = compare(&keys, flags, 1_000);
        assert_eq!((texts.len(), not_compared.len()), (10, NAMED_LIMIT));
        assert_eq!(not_compared[0], NotCompared::new("flag 100", TOO_MANY_FLAGS));
    }
}
