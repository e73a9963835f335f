//! One frame of a text: index, image, address, and the place in the image or the function.

/// The fewest digits of an address in the column of addresses.
const ADDRESS_DIGITS: usize = 6;
/// Names that say that a function is not known.
const UNKNOWN_NAMES: [&str; 4] = ["<redacted>", "_mh_execute_header", "__mh_execute_header", "???"];

/// A frame as the text has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextFrame {
    /// The line in the text, from 1.
    pub line: u32,
    /// The name of the image, which may be cut.
    pub image: String,
    pub address: u64,
    /// The load address of the image, if the text prints it.
    pub base: Option<u64>,
    /// The name of the function, if the text has one.
    pub symbol: Option<String>,
    /// The distance from the beginning of the function.
    pub symbol_offset: Option<u64>,
}

impl TextFrame {
    /// Reads a line with an index, such as `3   Shop   0x0000000104a04028 main + 40 (main.swift:12)`.
    pub fn parse_line(text: &str, line: u32) -> Option<TextFrame> {
        let text = text.trim();
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == text.len() || !rest.starts_with([' ', '\t']) {
            return None;
        }
        TextFrame::parse_without_index(rest, line)
    }

    /// Reads a line without an index: image, address and place.
    pub fn parse_without_index(text: &str, line: u32) -> Option<TextFrame> {
        let (image, address, place) = split_at_address(text)?;
        let mut frame = TextFrame { line, image: image.trim().to_owned(), address, ..TextFrame::default() };
        frame.read_place(place.trim());
        Some(frame)
    }

    /// Reads the text after the address.
    fn read_place(&mut self, place: &str) {
        if let Some((base, rest)) =
            place.split_once(" + ").and_then(|(base, rest)| Some((parse_hex(base)?, rest)))
        {
            self.base = Some(base).filter(|base| *base > 0 && *base <= self.address);
            // Some writers add the function in parentheses.
            if let Some(named) = rest.split_once(" (").and_then(|(_, named)| named.strip_suffix(')')) {
                self.read_function(named);
            }
            return;
        }
        self.read_function(place);
    }

    fn read_function(&mut self, text: &str) {
        let text = without_source(text);
        let (text, offset) = split_offset(text);
        let (text, offset) = match without_image(text) {
            Some(inner) if offset.is_none() => split_offset(inner),
            Some(inner) => (inner, offset),
            None => (text, offset),
        };
        let name = text.trim();
        let is_unknown =
            name.is_empty() || UNKNOWN_NAMES.contains(&name) || name.starts_with("__lldb_unnamed");
        if !is_unknown {
            self.symbol = Some(name.to_owned());
            self.symbol_offset = offset;
        }
    }
}

/// Returns the texts before and after the first address, and the address. Names of images have blanks, too.
fn split_at_address(text: &str) -> Option<(&str, u64, &str)> {
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let at = from + rest.find("0x")?;
        from = at + 2;
        let (before, word) = text.split_at_checked(at)?;
        // Words are short: looking for their end only here keeps the work linear.
        if !before.ends_with([' ', '\t']) {
            continue;
        }
        let end = word.find(char::is_whitespace).unwrap_or(word.len());
        let (address, after) = word.split_at_checked(end)?;
        let is_column = address.len() >= ADDRESS_DIGITS + 2;
        if let Some(address) = parse_hex(address).filter(|_| is_column) {
            return Some((before, address, after));
        }
    }
}

/// Cuts the place in the source off: ` (File.swift:12)`, ` (:-1)` or ` (File.m:0)`.
fn without_source(text: &str) -> &str {
    let Some((before, inside)) = text.rsplit_once(" (") else { return text };
    let position = inside.strip_suffix(')').and_then(|inside| inside.rsplit_once(':'));
    let is_line = |line: &str| {
        let digits = line.strip_prefix('-').unwrap_or(line);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if position.is_some_and(|(_, line)| is_line(line)) { before } else { text }
}

/// Splits ` + 12` at the end off. Names of operators contain ` + `, too.
fn split_offset(text: &str) -> (&str, Option<u64>) {
    let split = text.rsplit_once(" + ");
    let offset = split.and_then(|(name, offset)| Some((name, offset.trim().parse().ok()?)));
    offset.map_or((text, None), |(name, offset)| (name, Some(offset)))
}

/// Cuts ` (in Image)` off.
fn without_image(text: &str) -> Option<&str> {
    let (before, inside) = text.rsplit_once(" (in ")?;
    inside.ends_with(')').then_some(before)
}

/// Parses a hexadecimal number that begins with `0x`.
pub fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.trim().strip_prefix("0x")?;
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> (String, u64, Option<u64>, Option<String>, Option<u64>) {
        let frame = TextFrame::parse_line(text, 1).unwrap();
        (frame.image, frame.address, frame.base, frame.symbol, frame.symbol_offset)
    }

    #[test]
    fn every_form_of_a_place_is_read() {
        let unnamed = |image: &str, address, base| (image.to_owned(), address, base, None, None);
        let name =
            |symbol: &str, offset| ("Shop".to_owned(), 0x1_0000_2000, None, Some(symbol.to_owned()), offset);
        for (text, expected) in [
            (
                "0   App Namespace      0x0000000102268e70 0x10211c000 + 1363568",
                unnamed("App Namespace", 0x1_0226_8e70, Some(0x1_0211_c000)),
            ),
            ("2   ???                0x0000000054485244 0x0 + 0", unnamed("???", 0x5448_5244, None)),
            ("3\tUIKit\t0x00001234 <redacted> + 148", unnamed("UIKit", 0x1234, None)),
            ("3   Shop 0x0000000100002000 main + 40", name("main", Some(40))),
            ("3   Shop 0x0000000100002000 operator+(A, B) + 12", name("operator+(A, B)", Some(12))),
            ("3   Shop 0x0000000100002000 -[A(B) c:] + 4 (A+B.m:7)", name("-[A(B) c:]", Some(4))),
            ("3   Shop 0x0000000100002000 $s4Shop4CartV + 4 (Cart.swift:0)", name("$s4Shop4CartV", Some(4))),
            ("3   Shop 0x0000000100002000 trap + 8 (:-1)", name("trap", Some(8))),
            (
                "3   Shop 0x0000000100002000 closure #1 in a(_:) (Cart.swift:12)",
                name("closure #1 in a(_:)", None),
            ),
            ("3   Shop 0x0000000100002000 main (in Shop) (main.m:14)", name("main", None)),
            ("3   Shop 0x0000000100002000 main (in Shop) + 128", name("main", Some(128))),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
        let both = named("3   Shop 0x0000000100002000 0x100000000 + 8192 (main + 4)");
        assert_eq!(
            both,
            ("Shop".to_owned(), 0x1_0000_2000, Some(0x1_0000_0000), Some("main".to_owned()), Some(4))
        );
    }

    #[test]
    fn other_lines_are_no_frames() {
        for text in
            ["", "0", "Thread 0:", "0x0000000100002000 main", "3 Shop", "3 Shop 0x12 main", "x 0x100002000"]
        {
            assert_eq!(TextFrame::parse_line(text, 1), None, "{text}");
        }
    }
}
