//! The variables of the innermost frame in our report-level object, read back.

use crate::json::Value;

/// The maximum number of variables of a report.
const MOST_VARIABLES: usize = 256;
/// The maximum number of bytes of a value that are shown without an interpretation.
const MOST_SHOWN_BYTES: usize = 32;

/// A variable, with its value or the reason why there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurVariable {
    /// The inlined call of the innermost frame that it belongs to, 0 the innermost.
    pub call: u64,
    /// The function that declares it.
    pub function: String,
    /// Its name.
    pub name: String,
    /// The name of its type.
    pub type_name: String,
    /// Its value as text, or `None` if there is none.
    pub value: Option<String>,
    /// The reason why there is no value, in words.
    pub unavailable: Option<String>,
}

impl OurVariable {
    /// Returns the value, or the reason why there is none.
    #[must_use]
    pub fn describe_value(&self) -> String {
        match (&self.value, &self.unavailable) {
            (Some(value), _) => value.clone(),
            (None, Some(reason)) => format!("no value: {reason}"),
            (None, None) => "no value".to_owned(),
        }
    }
}

/// Reads the member `variables`. Ignores items of other forms.
pub(super) fn read_variables(value: Value<'_>) -> Vec<OurVariable> {
    value.items().into_iter().filter_map(read_variable).take(MOST_VARIABLES).collect()
}

fn read_variable(item: Value<'_>) -> Option<OurVariable> {
    let [call, function, name, type_name] = item.find_members(["call", "function", "name", "type"]);
    let [encoding, bytes, unavailable] = item.find_members(["encoding", "bytes", "unavailable"]);
    let text = |value: Option<Value<'_>>| value.and_then(Value::decode_string);
    let reason = text(unavailable).filter(|reason| is_reason(reason));
    Some(OurVariable {
        call: call.and_then(Value::as_unsigned).unwrap_or(0),
        function: text(function).unwrap_or_default(),
        name: text(name)?,
        type_name: text(type_name).unwrap_or_default(),
        value: text(bytes).map(|bytes| format_value(&text(encoding).unwrap_or_default(), &bytes)),
        unavailable: reason.map(|reason| reason.replace('_', " ")),
    })
}

fn is_reason(word: &str) -> bool {
    (1..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Returns a value as text. `digits` are its bytes in the order of memory, in hexadecimal digits; `?` is a digit that is
/// not known.
#[must_use]
pub fn format_value(encoding: &str, digits: &str) -> String {
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs.map(parse_byte).collect();
    let known = bytes.and_then(|bytes| format_known(encoding, &bytes));
    known.unwrap_or_else(|| format_digits(digits))
}

fn parse_byte(pair: &[u8]) -> Option<u8> {
    let &[high, low] = pair else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

fn format_known(encoding: &str, bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let number = bytes.iter().rev().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let unused = 128 - 8 * u32::try_from(bytes.len()).ok()?;
    let signed = number.cast_signed() << unused >> unused;
    let text = match encoding {
        "boolean" if number <= 1 => (number == 1).to_string(),
        "signed" => signed.to_string(),
        "unsigned" | "boolean" | "enumeration" => number.to_string(),
        "character" => match u8::try_from(number) {
            Ok(byte) if byte.is_ascii_graphic() => format!("{number} '{}'", char::from(byte)),
            _ => signed.to_string(),
        },
        "pointer" if number == 0 => "null".to_owned(),
        "pointer" => format!("{number:#x}"),
        "float" => match bytes.len() {
            4 => format!("{:?}", f32::from_bits(u32::try_from(number).ok()?)),
            8 => format!("{:?}", f64::from_bits(u64::try_from(number).ok()?)),
            _ => return None,
        },
        _ => return None,
    };
    Some(text)
}

/// Returns bytes as pairs of digits.
fn format_digits(digits: &str) -> String {
    let is_digit = |letter: &char| letter.is_ascii_hexdigit() || *letter == '?';
    let digits: Vec<char> = digits.chars().filter(is_digit).collect();
    let pairs: Vec<String> =
        digits.chunks(2).take(MOST_SHOWN_BYTES).map(|pair| pair.iter().collect()).collect();
    let more = if digits.len() > 2 * MOST_SHOWN_BYTES { " …" } else { "" };
    format!("bytes {}{more}", pairs.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadLimits, Report};

    #[test]
    fn values_are_read_by_their_encoding() {
        for (encoding, digits, expected) in [
            ("signed", "feffffff", "-2"),
            ("unsigned", "feffffff", "4294967294"),
            ("unsigned", "ffffffffffffffff", "18446744073709551615"),
            ("boolean", "01", "true"),
            ("boolean", "07", "7"),
            ("character", "41", "65 'A'"),
            ("character", "ff", "-1"),
            ("pointer", "0000000000000000", "null"),
            ("pointer", "0010000001000000", "0x100001000"),
            ("float", "0000803f", "1.0"),
            ("float", "000000000000f03f", "1.0"),
            ("composite", "0102??04", "bytes 01 02 ?? 04"),
            ("signed", "01??", "bytes 01 ??"),
            ("signed", "0", "bytes 0"),
            ("signed", "", "bytes "),
        ] {
            assert_eq!(format_value(encoding, digits), expected, "{encoding} {digits}");
        }
        assert!(format_value("composite", &"00".repeat(100)).ends_with(" …"));
    }

    /// Proves: bounded-input
    #[test]
    fn views_and_texts_show_variables_as_escaped_data() {
        let item = r#"{"call":0,"function":"f","name":"p\n# q","type":"T *","encoding":"pointer","bytes":"0000000000000000"}"#;
        let without = r#"{"call":1,"function":"g","name":"n","type":"int","unavailable":"optimised_out"}"#;
        let many = vec![without; 1_000].join(",");
        let text = format!(
            r#"{{"crash":{{"threads":[]}},"symbolication":{{"version":1,"engine":"unslide/0.1.0","variables":[{item},7,{{}},{many}]}}}}"#
        );
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        let view = crate::text::view::build_view(&report);
        assert_eq!(view.variables.len(), MOST_VARIABLES);
        assert_eq!(
            (view.variables[0].name.as_str(), view.variables[0].describe_value().as_str()),
            ("p\\n# q", "null")
        );
        assert_eq!(view.variables[1].describe_value(), "no value: optimised out");
        let log = crate::text::apple_log(&report);
        assert!(
            log.contains(
                "\nVariables of frame 0:\nf: p\\n# q (T *) = null\ng: n (int) = no value: optimised out\n"
            ),
            "{log}"
        );
        let style = crate::markdown::MarkdownStyle::Cited;
        let markdown = crate::markdown::markdown_report(&report, style);
        assert!(markdown.contains("- Variable `p\\n# q` (`T *`) in `f`: `null` ["), "{markdown}");
    }
}
