//! The values of measurements in the unit of a metric.

use super::name::is_countable;
use super::samples::{MOST_BUCKETS, PayloadBuilder, Sample};
use super::sent_item::{countable, whole_count};
use super::{MetricName, MetricUnit};
use serde_json::Value;
use unslide_report::RegionalNumber;

/// Characters of the name of an unknown metric that are recorded.
const UNREAD_NAME_CHARS: usize = 60;

/// Reads one measurement. If a part of it is not understood, none of it counts.
pub(super) fn read_measurement(sent: &Value, into: &mut PayloadBuilder) {
    match parse_measurement(sent) {
        Ok((metric, samples)) => match into.add_samples(&samples) {
            true => into.measured_of(metric),
            false => into.unread.record(&format!("measurements.{metric}.histogram")),
        },
        Err(key) => into.unread.record(&format!("measurements{key}")),
    }
}

/// Returns the metric of a measurement and its samples.
///
/// # Errors
/// Returns the path of the member that is not understood.
fn parse_measurement(sent: &Value) -> Result<(MetricName, Vec<Sample>), String> {
    let get = |key: &str| sent.get(key).filter(|value| !value.is_null());
    let Some(name) = get("name").and_then(Value::as_str) else { return Err(".name".to_owned()) };
    let known = MetricName::parse(name).filter(|metric| !metric.is_of_requests() && !metric.is_derived());
    let Some(metric) = known else {
        let name: String = name.chars().take(UNREAD_NAME_CHARS).collect();
        return Err(format!(".{name}"));
    };
    let factor = get("unit").and_then(Value::as_str).and_then(|unit| metric.unit().conversion_factor(unit));
    let Some(factor) = factor else { return Err(format!(".{metric}.unit")) };
    let in_unit = |value: f64| Some(value * factor).filter(|value| is_countable(*value));
    let (samples, member) = match (get("value"), get("histogram")) {
        (Some(value), None) => {
            let value = countable(value).and_then(in_unit);
            (value.map(|value| vec![Sample { metric, value, count: 1 }]), ".value")
        }
        (None, Some(buckets)) => {
            let bucket = |bucket: &Value| {
                let bound = |key: &str| bucket.get(key).and_then(Value::as_f64);
                let value = in_unit(f64::midpoint(bound("from")?, bound("to")?))?;
                Some(Sample { metric, value, count: whole_count(bucket.get("count")?)? })
            };
            let buckets = buckets.as_array().filter(|buckets| buckets.len() <= MOST_BUCKETS);
            (buckets.and_then(|buckets| buckets.iter().map(bucket).collect()), ".histogram")
        }
        _ => (None, ""),
    };
    samples.map(|samples| (metric, samples)).ok_or_else(|| format!(".{metric}{member}"))
}

/// Converts a number with a unit, such as `1,300 kB`, to `unit`. `region` decides how an ambiguous number is read:
/// `1.234` is more than a thousand in Germany. Returns `None` if the text has no known unit or one of another
/// kind, if the region leaves the number ambiguous, and if the value is out of range.
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
