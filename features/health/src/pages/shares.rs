//! Shares of sessions, for people.

use unslide_model::figures::{format_hundredths_of_percent, round_share, round_share_below_whole};

/// Returns the share without a crash in percent, with two decimals, never rounded up to all of it.
pub fn crash_free(crashed: i64, all: i64) -> Option<String> {
    let whole = u64::try_from(all).ok().filter(|all| *all > 0)?;
    let free = u64::try_from(all.saturating_sub(crashed)).unwrap_or(0);
    Some(format_hundredths_of_percent(round_share_below_whole(free, whole, 10_000)))
}

/// Returns sessions of a thousand, with one decimal.
pub fn per_thousand(some: i64, all: i64) -> String {
    let unsigned = |count: i64| u64::try_from(count).unwrap_or(0);
    let tenths = round_share(unsigned(some), unsigned(all), 10_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_rounded_up_to_all() {
        assert_eq!(crash_free(1, 1_000_000).as_deref(), Some("99.99 %"));
        assert_eq!(crash_free(2, 1_000).as_deref(), Some("99.80 %"));
        assert_eq!(crash_free(0, 3).as_deref(), Some("100.00 %"));
        assert_eq!(crash_free(0, 0), None);
        assert_eq!(crash_free(9, 3).as_deref(), Some("0.00 %"), "late counts may lack the sessions");
    }

    #[test]
    fn shares_are_rounded_half_up() {
        assert_eq!(crash_free(6_245, 100_000).as_deref(), Some("93.76 %"));
        assert_eq!(per_thousand(3_616, 100_000), "36.2");
        assert_eq!((per_thousand(1, 20_000), per_thousand(0, 0)), ("0.1".to_owned(), "0.0".to_owned()));
    }
}
