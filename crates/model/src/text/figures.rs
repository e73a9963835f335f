//! Shares, sizes and durations as people read them: rounded half up to the digits that are shown.

/// Denominators and parts up to this value can be compared without overflow.
const COMPARABLE: u64 = 1 << 57;
const MEBIBYTE: u64 = 1 << 20;

/// Returns `part` of `whole` in units of 1/`units`, rounded half up. A share of nothing is 0.
#[must_use]
pub fn round_share(part: u64, whole: u64, units: u32) -> u64 {
    let (part, whole) = (u128::from(part) * u128::from(units), u128::from(whole.max(1)));
    u64::try_from((2 * part + whole) / (2 * whole)).unwrap_or(u64::MAX)
}

/// Works as [`round_share`], but returns all units only if the part is the whole: 99.999 % does not become 100 %.
#[must_use]
pub fn round_share_below_whole(part: u64, whole: u64, units: u32) -> u64 {
    let rounded = round_share(part, whole, units);
    if part < whole { rounded.min(u64::from(units).saturating_sub(1)) } else { rounded }
}

/// Returns a share in percent with one decimal, such as `66.7 %`.
#[must_use]
pub fn format_percent(part: u64, whole: u64) -> String {
    let tenths = round_share(part, whole, 1_000);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Returns a fraction in units of 1/`units`, rounded half up, and all units only for 1 itself.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0 to units")]
pub fn round_fraction_below_whole(fraction: f64, units: u32) -> u64 {
    let rounded = round_half_up(fraction.clamp(0.0, 1.0) * f64::from(units)) as u64;
    if fraction < 1.0 { rounded.min(u64::from(units).saturating_sub(1)) } else { rounded }
}

/// Returns hundredths of a percent as text, such as `99.96 %`.
#[must_use]
pub fn format_hundredths_of_percent(hundredths: u64) -> String {
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Returns a fraction in percent with two decimals, such as `99.96 %`: all of it only for 1 itself.
#[must_use]
pub fn format_fraction(fraction: f64) -> String {
    format_hundredths_of_percent(round_fraction_below_whole(fraction, 10_000))
}

/// Rounds half up. A product within a rounding error below the tie counts as the tie: as a double, 1.005 is
/// 1.00499999999999989.
fn round_half_up(scaled: f64) -> f64 {
    (scaled + 0.5 + scaled * f64::EPSILON).floor()
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The part.
    pub part: u64,
    /// The whole.
    pub whole: u64,
}

impl Share {
    /// Halves both numbers until products of two of them fit.
    fn to_comparable(self) -> (i128, i128) {
        let (mut part, mut whole) = (self.part, self.whole.max(1));
        while part.max(whole) >= COMPARABLE {
            (part, whole) = (part / 2, (whole / 2).max(1));
        }
        (part.into(), whole.into())
    }
}

/// Returns by how many thousandths a share has grown. Rounds the difference half away from zero, not the two shares.
#[must_use]
pub fn round_growth(before: Share, after: Share) -> i64 {
    let (part_before, whole_before) = before.to_comparable();
    let (part_after, whole_after) = after.to_comparable();
    let difference = part_after * whole_before - part_before * whole_after;
    let whole = (whole_before * whole_after).unsigned_abs();
    let rounded =
        i64::try_from((2_000 * difference.unsigned_abs() + whole) / (2 * whole)).unwrap_or(i64::MAX);
    if difference < 0 { -rounded } else { rounded }
}

/// Returns thousandths as percentage points without a sign, such as `12.9`.
#[must_use]
pub fn format_points(thousandths: i64) -> String {
    let points = thousandths.unsigned_abs();
    format!("{}.{}", points / 10, points % 10)
}

/// Returns a number with this many decimals, rounded half up. `{:.1}` rounds a tie to the even digit.
#[must_use]
pub fn format_decimals(value: f64, decimals: u8) -> String {
    let scale = 10_f64.powi(decimals.into());
    let rounded = round_half_up(value.abs() * scale) / scale;
    let sign = if value < 0.0 && rounded > 0.0 { "-" } else { "" };
    format!("{sign}{rounded:.*}", decimals.into())
}

/// Returns a number with this many significant digits, rounded half up, and without an exponent.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an exponent of a double, and clamped"
)]
pub fn format_significant(value: f64, digits: u8) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let decimals = i32::from(digits) - 1 - value.abs().log10().floor() as i32;
    if decimals > 0 {
        return format_decimals(value, decimals.min(20) as u8);
    }
    let scale = 10_f64.powi(-decimals);
    format!("{:.0}", (value / scale).signum() * round_half_up((value / scale).abs()) * scale)
}

/// Returns bytes with one decimal in the largest unit that leaves a number of at least one, such as `3.3 MiB`.
#[must_use]
pub fn format_bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")];
    let tenths = |unit: u64| round_share(size, unit, 10);
    // A size that rounds up to 1024.0 of a unit is 1.0 of the next.
    let fitting = UNITS.iter().find(|(unit, _)| tenths(*unit) < 10_240).unwrap_or(&UNITS[2]);
    match size {
        0..1_024 => format!("{size} B"),
        _ => format!("{}.{} {}", tenths(fitting.0) / 10, tenths(fitting.0) % 10, fitting.1),
    }
}

/// Returns bytes in whole mebibytes.
#[must_use]
pub fn round_mebibytes(size: u64) -> u64 {
    round_share(size, MEBIBYTE, 1)
}

/// Returns a time in the unit that leaves a number of at least one, such as `2.3 s` or `2 min 30 s`.
#[must_use]
pub fn format_duration(millis: u64) -> String {
    let (tenths, seconds) = (round_share(millis, 1_000, 10), round_share(millis, 1_000, 1));
    match (millis, tenths) {
        (0..1_000, _) => format!("{millis} ms"),
        (_, 0..1_200) => format!("{}.{} s", tenths / 10, tenths % 10),
        _ if seconds < 7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(before: (u64, u64), after: (u64, u64)) -> i64 {
        let share = |of: (u64, u64)| Share { part: of.0, whole: of.1 };
        round_growth(share(before), share(after))
    }

    #[test]
    fn shares_are_rounded_half_up() {
        for (part, whole, text) in [
            (2, 3, "66.7 %"),
            (1, 3, "33.3 %"),
            (1, 2_000, "0.1 %"),
            (49, 100_000, "0.0 %"),
            (1, 16, "6.3 %"),
            (9_995, 10_000, "100.0 %"),
            (0, 0, "0.0 %"),
            (u64::MAX, u64::MAX, "100.0 %"),
        ] {
            assert_eq!(format_percent(part, whole), text, "{part} of {whole}");
        }
    }

    #[test]
    fn all_is_said_of_all_alone() {
        assert_eq!(round_share_below_whole(9_996, 10_000, 1_000), 999);
        assert_eq!(round_share_below_whole(9_994, 10_000, 1_000), 999);
        assert_eq!(round_share_below_whole(u64::MAX - 1, u64::MAX, 10_000), 9_999);
        assert_eq!(round_share_below_whole(7, 7, 10_000), 10_000);
        assert_eq!(round_share_below_whole(93_756, 100_000, 10_000), 9_376);
        assert_eq!(
            [0.999_999_9, 1.0, 0.937_55, -0.1].map(|share| round_fraction_below_whole(share, 10_000)),
            [9_999, 10_000, 9_376, 0]
        );
        assert_eq!(format_hundredths_of_percent(9_906), "99.06 %");
        assert_eq!([0.999_999_9, 1.0].map(format_fraction), ["99.99 %", "100.00 %"]);
    }

    #[test]
    fn growth_is_rounded_once() {
        assert_eq!(growth((30, 100), (60, 140)), 129);
        assert_eq!(growth((60, 140), (30, 100)), -129);
        assert_eq!(growth((1, 3), (1, 3)), 0);
        assert_eq!(growth((0, 1), (1, 2_000)), 1);
        assert_eq!(growth((1, 2_000), (0, 1)), -1);
        assert_eq!(growth((0, 0), (3, 3)), 1_000);
        assert_eq!(growth((u64::MAX, u64::MAX), (u64::MAX / 2, u64::MAX)), -500);
        assert_eq!((format_points(-129), format_points(4)), ("12.9".to_owned(), "0.4".to_owned()));
    }

    #[test]
    fn decimals_are_rounded_half_up() {
        for (value, decimals, text) in [
            (0.25, 1, "0.3"),
            (2.5, 0, "3"),
            (1.005, 2, "1.01"),
            (66.666, 1, "66.7"),
            (-0.04, 1, "0.0"),
            (-0.25, 1, "-0.3"),
            (0.0, 2, "0.00"),
        ] {
            assert_eq!(format_decimals(value, decimals), text, "{value}");
        }
    }

    #[test]
    fn significant_digits_are_rounded_half_up() {
        for (value, text) in [
            (99_741.3, "99700"),
            (199_352_871.0, "199000000"),
            (199_500_000.0, "200000000"),
            (12.345, "12.3"),
            (0.001_236, "0.00124"),
            (-1_005.0, "-1010"),
            (7.0, "7.00"),
            (0.0, "0"),
        ] {
            assert_eq!(format_significant(value, 3), text, "{value}");
        }
    }

    #[test]
    fn sizes_are_rounded_and_carried_to_the_next_unit() {
        for (size, text) in [
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_536, "1.5 KiB"),
            (1_587, "1.5 KiB"),
            (1_588, "1.6 KiB"),
            ((1 << 20) - 52, "1023.9 KiB"),
            ((1 << 20) - 51, "1.0 MiB"),
            (3_418_358, "3.3 MiB"),
            ((1 << 30) - 1, "1.0 GiB"),
            (u64::MAX, "17179869184.0 GiB"),
        ] {
            assert_eq!(format_bytes(size), text, "{size}");
        }
        assert_eq!([524_287, 524_288, 1 << 30].map(round_mebibytes), [0, 1, 1_024]);
    }

    #[test]
    fn durations_are_rounded_and_carried_to_the_next_unit() {
        for (millis, text) in [
            (999, "999 ms"),
            (2_349, "2.3 s"),
            (2_350, "2.4 s"),
            (119_949, "119.9 s"),
            (119_950, "2 min 0 s"),
            (150_499, "2 min 30 s"),
            (150_500, "2 min 31 s"),
            (179_500, "3 min 0 s"),
            (7_199_000, "119 min 59 s"),
            (93_600_000, "26 h 0 min"),
        ] {
            assert_eq!(format_duration(millis), text, "{millis}");
        }
    }
}
