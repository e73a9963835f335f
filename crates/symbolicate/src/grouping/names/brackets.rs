//! Splitting of names at their brackets.

/// Splits a text at the first `wanted` outside all brackets. `wanted` must not begin with a bracket.
pub(super) fn split_outside<'t>(text: &'t str, wanted: &str) -> Option<(&'t str, &'t str)> {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'<' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b')' | b'>' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && bytes.get(at..).is_some_and(|rest| rest.starts_with(wanted.as_bytes())) => {
                return Some((text.get(..at)?, text.get(at + wanted.len()..)?));
            }
            _ => {}
        }
    }
    None
}

/// Returns the parts between the commas that are outside all brackets.
pub(super) fn outside_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let split = split_outside(text, ",");
        rest = split.map(|(_, after)| after);
        Some(split.map_or(text, |(before, _)| before))
    })
}

/// Splits a text that begins with `open` after the matching closing bracket.
pub(super) fn split_brackets(text: &str, open: char, close: char) -> (&str, &str) {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close && before != '-' {
            depth -= 1;
            if depth == 0 {
                return text.split_at_checked(at + c.len_utf8()).unwrap_or((text, ""));
            }
        }
        before = c;
    }
    (text, "")
}
