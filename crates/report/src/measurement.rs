//! Numbers with a unit as `NSMeasurementFormatter` writes them: `1,300 kB`, `20 sec`, `1.190.070毫秒`. The system formats
//! them for the device's language and region, even in the JSON of MetricKit.

/// Units as devices in several languages write them, with our symbols. A unit that is missing here is not guessed.
const WRITTEN_UNITS: &[(&str, &str)] = &[
    ("ns", "ns"),
    ("\u{b5}s", "us"),
    ("\u{3bc}s", "us"),
    ("us", "us"),
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
    ("second", "s"),
    ("seconds", "s"),
    ("Sek.", "s"),
    ("с", "s"),
    ("сек", "s"),
    ("秒", "s"),
    ("초", "s"),
    ("m", "min"),
    ("min", "min"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("Min.", "min"),
    ("мин", "min"),
    ("分钟", "min"),
    ("分", "min"),
    ("분", "min"),
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

/// ISO 3166 codes of regions that write a comma before decimals (Unicode CLDR).
const COMMA_REGIONS: [&str; 57] = [
    "AL", "AM", "AR", "AT", "AZ", "BA", "BE", "BG", "BO", "BR", "BY", "CL", "CO", "CR", "CZ", "DE", "DK",
    "DZ", "EC", "EE", "ES", "FI", "FR", "GE", "GR", "HR", "HU", "ID", "IS", "IT", "KG", "KZ", "LT", "LU",
    "LV", "MA", "MD", "ME", "MK", "NL", "NO", "PL", "PT", "PY", "RO", "RS", "RU", "SE", "SI", "SK", "TN",
    "TR", "UA", "UY", "UZ", "VE", "VN",
];
/// Codes of regions that write a point before decimals. For other regions an ambiguous number is not guessed. Canada
/// and Switzerland are missing because the language decides there.
const POINT_REGIONS: [&str; 28] = [
    "AE", "AU", "BD", "CN", "EG", "GB", "GH", "HK", "IE", "IL", "IN", "JP", "KE", "KR", "LK", "MM", "MO",
    "MX", "MY", "NG", "NP", "NZ", "PH", "PK", "SG", "TH", "TW", "US",
];

/// A number from a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RegionalNumber {
    /// The number has only one reading.
    Clear(f64),
    /// The only separator may separate thousands or decimals, and the region's custom is not known.
    Unclear {
        /// The number if the separator is one of thousands.
        thousands: f64,
        /// The number if the separator is one of decimals.
        decimal: f64,
    },
}

/// Returns the number in a text and its unit as our symbol. Returns `None` if either is not understood. `region`
/// resolves ambiguous numbers: `1.234` is more than a thousand in Germany.
#[must_use]
pub fn parse_measurement(text: &str, region: &str) -> Option<(RegionalNumber, &'static str)> {
    let text = text.trim();
    let is_unit = |c: char| c.is_alphabetic();
    let (number, symbol) = text.split_at_checked(text.find(is_unit)?)?;
    let symbol = symbol.trim();
    let bare = symbol.trim_end_matches('.');
    let known = WRITTEN_UNITS.iter().find(|(written, _)| *written == symbol || *written == bare)?;
    Some((number_of(number, region)?, known.1))
}

/// Parses a number with the separators of the region, unless the number itself shows which they are.
fn number_of(text: &str, region: &str) -> Option<RegionalNumber> {
    let is_space = |c: char| c.is_whitespace() || matches!(c, '\'' | '’' | '٬');
    let text: String = text.chars().filter(|c| !is_space(*c)).collect();
    let separators: Vec<(usize, char)> =
        text.char_indices().filter(|(_, c)| matches!(c, '.' | ',')).collect();
    let decimal = match separators.as_slice() {
        [] => None,
        [(at, only)] => {
            // A number with separated thousands does not begin with 0.
            let groups = text.len() - at - 1 == 3 && (1..=3).contains(at) && !text.starts_with('0');
            match groups {
                true if COMMA_REGIONS.contains(&region) => (*only == ',').then_some(*at),
                true if POINT_REGIONS.contains(&region) => (*only == '.').then_some(*at),
                true => {
                    let (thousands, decimal) = (plain_number(&text, None)?, plain_number(&text, Some(*at))?);
                    return Some(RegionalNumber::Unclear { thousands, decimal });
                }
                false => Some(*at),
            }
        }
        [(_, first), .., (at, last)] => (first != last).then_some(*at),
    };
    plain_number(&text, decimal).map(RegionalNumber::Clear)
}

/// Parses a number with the decimal separator at `decimal`, and ignores all other separators.
fn plain_number(text: &str, decimal: Option<usize>) -> Option<f64> {
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
    fn a_region_decides_what_a_number_does_not() {
        use RegionalNumber::{Clear, Unclear};
        for (text, region, expected) in [
            ("1.234 ms", "DE", Clear(1_234.0)),
            ("1.234 ms", "US", Clear(1.234)),
            ("1.234 ms", "", Unclear { thousands: 1_234.0, decimal: 1.234 }),
            ("0.234 ms", "DE", Clear(0.234)),
            ("1.234,5 ms", "", Clear(1_234.5)),
            ("1.234.567 ms", "", Clear(1_234_567.0)),
            ("12,5 мс", "", Clear(12.5)),
        ] {
            assert_eq!(parse_measurement(text, region), Some((expected, "ms")), "{text} {region}");
        }
        assert_eq!(parse_measurement("20 Sek.", "").unwrap().1, "s");
        assert_eq!(parse_measurement("20 сек.", "").unwrap().1, "s");
        assert_eq!(parse_measurement("5 fortnights", "US"), None);
    }
}
