//! Numbers with a unit as `NSMeasurementFormatter` writes them: `1,300 kB`, `20 sec`, `1.190.070毫秒`. The system formats
//! them for the device's language and region, also in the JSON of MetricKit.

use super::MetricUnit;
use super::name::is_countable;

/// Units as devices in several languages write them, with ours. A unit that is not here is not guessed.
const UNITS: [(&str, &str); 39] = [
    ("ms", "ms"),
    ("msec", "ms"),
    ("мс", "ms"),
    ("毫秒", "ms"),
    ("ミリ秒", "ms"),
    ("밀리초", "ms"),
    ("s", "s"),
    ("sec", "s"),
    ("secs", "s"),
    ("seg", "s"),
    ("Sek.", "s"),
    ("с", "s"),
    ("сек", "s"),
    ("сек.", "s"),
    ("秒", "s"),
    ("초", "s"),
    ("min", "min"),
    ("hr", "h"),
    ("byte", "B"),
    ("bytes", "B"),
    ("B", "B"),
    ("字节", "B"),
    ("バイト", "B"),
    ("바이트", "B"),
    ("kB", "kB"),
    ("KB", "kB"),
    ("ko", "kB"),
    ("кБ", "kB"),
    ("КБ", "kB"),
    ("千字节", "kB"),
    ("キロバイト", "kB"),
    ("킬로바이트", "kB"),
    ("MB", "MB"),
    ("Mo", "MB"),
    ("МБ", "MB"),
    ("兆字节", "MB"),
    ("GB", "GB"),
    ("ms per s", "ms/s"),
    ("ms/s", "ms/s"),
];

/// Regions, as ISO 3166 names them, where a comma stands before decimals (Unicode CLDR).
const COMMA_REGIONS: [&str; 57] = [
    "AL", "AM", "AR", "AT", "AZ", "BA", "BE", "BG", "BO", "BR", "BY", "CL", "CO", "CR", "CZ", "DE", "DK",
    "DZ", "EC", "EE", "ES", "FI", "FR", "GE", "GR", "HR", "HU", "ID", "IS", "IT", "KG", "KZ", "LT", "LU",
    "LV", "MA", "MD", "ME", "MK", "NL", "NO", "PL", "PT", "PY", "RO", "RS", "RU", "SE", "SI", "SK", "TN",
    "TR", "UA", "UY", "UZ", "VE", "VN",
];
/// Regions where a point does. Of others a number that could be either is not guessed, nor of Canada and Switzerland,
/// where the language decides.
const POINT_REGIONS: [&str; 28] = [
    "AE", "AU", "BD", "CN", "EG", "GB", "GH", "HK", "IE", "IL", "IN", "JP", "KE", "KR", "LK", "MM", "MO",
    "MX", "MY", "NG", "NP", "NZ", "PH", "PK", "SG", "TH", "TW", "US",
];

/// The value of a text in `unit`; `None` where the number or its unit is not understood, or is of another kind.
/// `region` decides what neither does: `1.234` is more than a thousand in Germany.
#[must_use]
pub fn measurement(text: &str, unit: MetricUnit, region: &str) -> Option<f64> {
    let text = text.trim();
    let is_unit = |c: char| c.is_alphabetic();
    let (number, symbol) = text.split_at(text.find(is_unit)?);
    let symbol = symbol.trim();
    let known = UNITS.iter().find(|(written, _)| *written == symbol).map(|(_, known)| *known)?;
    let value = number_of(number, region)? * unit.factor(known)?;
    is_countable(value).then_some(value)
}

/// A number whose separators are those of the region, unless they tell themselves what they are.
fn number_of(text: &str, region: &str) -> Option<f64> {
    let is_space = |c: char| c.is_whitespace() || matches!(c, '\'' | '’' | '٬');
    let text: String = text.chars().filter(|c| !is_space(*c)).collect();
    let separators: Vec<(usize, char)> =
        text.char_indices().filter(|(_, c)| matches!(c, '.' | ',')).collect();
    let decimal = match separators.as_slice() {
        [] => None,
        [(at, only)] => {
            let groups = text.len() - at - 1 == 3 && (1..=3).contains(at);
            match groups {
                true if COMMA_REGIONS.contains(&region) => (*only == ',').then_some(*at),
                true if POINT_REGIONS.contains(&region) => (*only == '.').then_some(*at),
                true => return None,
                false => Some(*at),
            }
        }
        [(_, first), .., (at, last)] => (first != last).then_some(*at),
    };
    let plain: String = text
        .char_indices()
        .filter_map(|(at, c)| match c {
            '.' | ',' => (Some(at) == decimal).then_some('.'),
            digit => Some(digit),
        })
        .collect();
    let digits = plain.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.parse().ok().filter(|_| digits && !plain.is_empty())
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
            assert_eq!(measurement(text, unit, region), value, "{text} {region}");
        }
        assert_eq!(measurement(&format!("{} s", "9".repeat(310)), Milliseconds, "US"), None);
    }
}
