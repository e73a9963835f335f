//! Marks before the lines of a text: quotes of mails and issue trackers, and the indentation of code.

use super::text_head;

/// Characters that stand before each line of a quote.
const QUOTE_MARKS: [u8; 2] = [b'>', b'|'];
/// The fewest quoted lines of a quote, and their share of the lines that are not empty.
const LEAST_LINES: usize = 2;
const LEAST_SHARE: usize = 4;

/// Removes the quote marks before the lines of a text, and the lines above the quote. Returns `None` if few
/// lines are quoted.
pub fn without_quotes(text: &[u8]) -> Option<Vec<u8>> {
    QUOTE_MARKS.iter().find_map(|mark| without_mark(text, *mark))
}

fn without_mark(text: &[u8], mark: u8) -> Option<Vec<u8>> {
    let lines = || text.split_inclusive(|byte| *byte == b'\n');
    let (mut quoted, mut all) = (0, 0);
    for line in text_head(text)
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_start)
        .filter(|line| !line.is_empty())
    {
        all += 1;
        quoted += usize::from(line.first() == Some(&mark));
    }
    if quoted < LEAST_LINES || quoted * LEAST_SHARE < all {
        return None;
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut is_quote = false;
    for line in lines() {
        is_quote |= line.trim_ascii_start().first() == Some(&mark);
        // The text above the quote may look like the beginning of another document.
        let mut rest = if is_quote { line } else { b"\n" };
        while let Some(inner) = rest.trim_ascii_start().strip_prefix(&[mark]) {
            rest = inner.strip_prefix(b" ").unwrap_or(inner);
        }
        plain.extend_from_slice(rest);
    }
    Some(plain)
}

/// Removes the indentation that all lines of a text have. Returns `None` if a line has none.
pub fn without_indent(text: &[u8]) -> Option<Vec<u8>> {
    let lines = || text.split_inclusive(|byte| *byte == b'\n');
    let blanks = |line: &[u8]| line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let head = text_head(text).split(|byte| *byte == b'\n');
    let filled = head.filter(|line| !line.trim_ascii().is_empty());
    let least = filled.map(blanks).min().filter(|least| *least > 0)?;
    let mut plain = Vec::with_capacity(text.len());
    for line in lines() {
        plain.extend_from_slice(line.get(least.min(blanks(line))..).unwrap_or_default());
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_quotes_are_removed_and_indentation_stays() {
        assert_eq!(without_quotes(b"see:\n> a\n>   b\n>\n> > c\n").unwrap(), b"\na\n  b\n\nc\n");
        assert_eq!(without_quotes(b"| a\n| b\n").unwrap(), b"a\nb\n");
        for other in [&b"a\n> b\n"[..], b"> a", b"a\nb\n", b""] {
            assert_eq!(without_quotes(other), None);
        }
        let many = format!("{}> b\n> c\n", "a\n".repeat(20));
        assert_eq!(without_quotes(many.as_bytes()), None);
    }

    #[test]
    fn the_indentation_of_all_lines_is_removed() {
        assert_eq!(without_indent(b"    a\n      b\n\n    c").unwrap(), b"a\n  b\n\nc");
        assert_eq!(without_indent(b"a\n  b\n"), None);
        assert_eq!(without_indent(b"\n\n"), None);
    }
}
