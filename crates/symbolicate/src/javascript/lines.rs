//! Lines of JavaScript, as bundlers count them.

/// Returns the lines of a source. JavaScript ends a line at LF, CR LF, CR, U+2028 and U+2029 (ECMA-262
/// §12.3).
pub(super) fn source_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = rest.find(is_line_end) else { return Some(std::mem::take(&mut rest)) };
        let (line, behind) = rest.split_at(end);
        let mut chars = behind.chars();
        if chars.next() == Some('\r') && chars.as_str().starts_with('\n') {
            chars.next();
        }
        rest = chars.as_str();
        Some(line)
    })
}

pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_of_javascript_ends_a_line() {
        let lines: Vec<_> = source_lines("a\nb\r\nc\rd\u{2028}e\u{2029}\n\rf").collect();
        assert_eq!(lines, ["a", "b", "c", "d", "e", "", "", "f"]);
        assert_eq!(source_lines("").count(), 0);
        assert_eq!(source_lines("a\n").count(), 1);
    }
}
