//! The values of measurements in the unit of a metric.

use super::MetricUnit;
use super::name::is_countable;
use unslide_report::RegionalNumber;

/// Returns the value of a text in `unit`. Returns `None` if the number or its unit is not understood, or is
/// of another kind. `region` decides if the text is ambiguous: `1.234` is more than a thousand in Germany.
#[must_use]
pub fn parse_measurement_in_unit(text: &str, unit: MetricUnit, region: &str) -> Option<f64> {
    let (RegionalNumber::Clear(number), known) = unslide_report::parse_measurement(text, region)? else {
        return None;
    };
    let value = number * unit.conversion_factor(known)?;
    is_countable(value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_read_as_regions_write_them() {
        use MetricUnit::{Bytes, Milliseconds, MillisecondsPerSecond};
        for (text, unit, region, value) in [
            ("20 sec", Milliseconds, "US", Some(20_000.0)),
            ("1,300 kB", Bytes, "US", Some(1_300_000.0)),
            ("1.300 kB", Bytes, "DE", Some(1_300_000.0)),
            ("1,300 kB", Bytes, "DE", Some(1_300.0)),
            ("1.300 kB", Bytes, "US", Some(1_300.0)),
            ("1\u{202f}300 ko", Bytes, "FR", Some(1_300_000.0)),
            ("1’300 kB", Bytes, "CH", Some(1_300_000.0)),
            ("1,190,070毫秒", Milliseconds, "CN", Some(1_190_070.0)),
            ("22,665千字节", Bytes, "CN", Some(22_665_000.0)),
            ("1.190.070 ms", Milliseconds, "US", Some(1_190_070.0)),
            ("1.234,5 ms", Milliseconds, "US", Some(1_234.5)),
            ("12.5 s", Milliseconds, "DE", Some(12_500.0)),
            ("1,000 ms per s", MillisecondsPerSecond, "US", Some(1_000.0)),
            ("0秒", Milliseconds, "", Some(0.0)),
            ("1,300 kB", Bytes, "VN", Some(1_300.0)),
            ("1.300 kB", Bytes, "CA", None),
            ("1.3 kB", Bytes, "", Some(1_300.0)),
            ("5 sec", Bytes, "US", None),
            ("5 fortnights", Milliseconds, "US", None),
            ("5", Milliseconds, "US", None),
            ("sec", Milliseconds, "US", None),
            ("-5 sec", Milliseconds, "US", None),
            ("1e5 sec", Milliseconds, "US", None),
            ("٣ sec", Milliseconds, "EG", None),
        ] {
            assert_eq!(parse_measurement_in_unit(text, unit, region), value, "{text} {region}");
        }
        assert_eq!(parse_measurement_in_unit(&format!("{} s", "9".repeat(310)), Milliseconds, "US"), None);
    }
}
