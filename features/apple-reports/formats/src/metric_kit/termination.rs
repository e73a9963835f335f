//! MetricKit's text on why the system ended a process.

use crate::ips::{namespace_name, namespace_number};

/// A namespace and a code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Termination {
    pub namespace: Option<String>,
    pub code: Option<u64>,
}

impl Termination {
    /// Returns the number of the namespace, if its meaning matters.
    pub fn namespace_number(&self) -> Option<u64> {
        self.namespace.as_deref().and_then(namespace_number)
    }

    /// Reads `Namespace SIGNAL, Code 0xb`, or `FRONTBOARD 2343432205 <RBSTerminateContext| domain:10 code:0x8BADF00D …>`:
    /// the code in the brackets counts more than the number before them. Also reads the text in the brackets alone. Another
    /// text has neither.
    pub fn parse_text(text: &str) -> Termination {
        if let Some(rest) = text.strip_prefix("domain:") {
            let code = rest.split_once(" code:").and_then(|(_, code)| parse_number(code));
            let namespace = parse_number(rest).and_then(namespace_name).map(str::to_owned);
            return Termination { namespace, code };
        }
        let inside = text.split_once('<').and_then(|(_, inside)| inside.split_once("code:"));
        let inside = inside.and_then(|(_, code)| parse_number(code));
        let rest = text.strip_prefix("Namespace ").unwrap_or(text);
        let mut words = rest.split([' ', ',']).filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        let is_namespace = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        if !is_namespace(first) {
            return Termination { namespace: None, code: inside };
        }
        let code = words.find(|word| *word != "Code").and_then(parse_number);
        Termination { namespace: Some(first.to_owned()), code: inside.or(code) }
    }
}

/// Reads a number at the beginning of a text, hexadecimal after `0x`.
fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    u64::from_str_radix(digits.get(..end)?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_in_brackets_counts_first() {
        let read = |text| {
            let Termination { namespace, code } = Termination::parse_text(text);
            (namespace.unwrap_or_default(), code)
        };
        assert_eq!(read("Namespace SIGNAL, Code 0xb"), ("SIGNAL".to_owned(), Some(11)));
        let watchdog = "FRONTBOARD 2343432205 <RBSTerminateContext| domain:10 code:0x8BADF00D explanation:x>";
        assert_eq!(read(watchdog), ("FRONTBOARD".to_owned(), Some(0x8BAD_F00D)));
        let other = "RUNNINGBOARD 1 <RBSTerminateContext| domain:10 code:0xDEAD10CC>";
        assert_eq!(read(other), ("RUNNINGBOARD".to_owned(), Some(0xDEAD_10CC)));
        let alone = "domain:10 code:0x8BADF00D explanation:[scene-update watchdog transgression]";
        assert_eq!(read(alone), ("SPRINGBOARD".to_owned(), Some(0x8BAD_F00D)));
        assert_eq!(read("SPRINGBOARD 5"), ("SPRINGBOARD".to_owned(), Some(5)));
        assert_eq!(read("Swift runtime failure: nil"), (String::new(), None));
        assert_eq!(read(""), (String::new(), None));
    }
}
