//! Marks of code blocks in issue trackers, chats and pages.

/// Beginnings of lines that open or close a block, up to the end of the mark.
const BLOCK_FENCES: [(&str, Option<char>); 12] = [
    ("```", None),
    ("~~~", None),
    ("{noformat", Some('}')),
    ("{code", Some('}')),
    ("{quote", Some('}')),
    ("{panel", Some('}')),
    ("[code", Some(']')),
    ("[/code", Some(']')),
    ("<pre", Some('>')),
    ("</pre", Some('>')),
    ("<code", Some('>')),
    ("</code", Some('>')),
];
/// The maximum size of a mark, in bytes.
const MARK_BYTES_LIMIT: usize = 200;

/// Returns the lines inside the first code block of a text; those around it are empty. A block that does not end reaches to
/// the end of the text. Returns `None` if there is no block.
pub fn inside_block(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut state = BlockState::Before;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let (content, ending) = split_ending(line);
        let rest = line_after_mark(content);
        match (state, rest) {
            (BlockState::Before, Some(rest)) => {
                state = BlockState::Inside;
                plain.extend_from_slice(rest);
                state = if is_closed(rest) { BlockState::After } else { state };
            }
            (BlockState::Inside, Some(rest)) if rest.trim_ascii().is_empty() => state = BlockState::After,
            (BlockState::Inside, _) => {
                plain.extend_from_slice(before_closing(content));
                state = if is_closed(content) { BlockState::After } else { state };
            }
            (BlockState::Before | BlockState::After, _) => {}
        }
        plain.extend_from_slice(ending);
    }
    (state != BlockState::Before).then_some(plain)
}

/// The place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    Before,
    Inside,
    After,
}

fn split_ending(line: &[u8]) -> (&[u8], &[u8]) {
    match line.strip_suffix(b"\n") {
        Some(content) => (content, b"\n"),
        None => (line, b""),
    }
}

/// Returns what follows a mark at the beginning of a line, which may be quoted. Returns `None` for any other line.
fn line_after_mark(line: &[u8]) -> Option<&[u8]> {
    let start = line.trim_ascii_start();
    let start = start.strip_prefix(b">").map_or(start, <[u8]>::trim_ascii_start);
    BLOCK_FENCES.iter().find_map(|(begin, end)| {
        let rest = start.strip_prefix(begin.as_bytes())?;
        let Some(end) = end else {
            // The name of a language may follow.
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"`~-+_.".contains(byte);
            let name = rest.trim_ascii();
            return if name.iter().all(is_name) { Some(&[][..]) } else { None };
        };
        let head = rest.get(..MARK_BYTES_LIMIT).unwrap_or(rest);
        let close = memchr::memchr(u8::try_from(*end).unwrap_or(b'}'), head)?;
        // `{code` begins no other word.
        let is_mark = rest.first().is_some_and(|byte| !byte.is_ascii_alphanumeric());
        rest.get(close + 1..).filter(|_| is_mark)
    })
}

/// Returns true if the block ends on the line on which it begins.
fn is_closed(rest: &[u8]) -> bool {
    before_closing(rest).len() < rest.len()
}

/// Returns a line without a mark at its end.
fn before_closing(line: &[u8]) -> &[u8] {
    let closings: [&[u8]; 5] = [b"```", b"{noformat}", b"{code}", b"</pre>", b"[/code]"];
    let trimmed = line.trim_ascii_end();
    closings.into_iter().find_map(|closing| trimmed.strip_suffix(closing)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_first_block_stay() {
        let read = |text: &str| inside_block(text.as_bytes()).map(|plain| String::from_utf8(plain).unwrap());
        for (text, expected) in [
            ("a\n```\nb\n```\nc\n```\nd\n```\n", "\n\nb\n\n\n\n\n\n"),
            ("~~~ log\r\nb\r\n~~~\r\n", "\nb\r\n\n"),
            ("{noformat}\nb\n{noformat}", "\nb\n"),
            ("{code:title=a b|c=d}b\nc{code}\nd", "b\nc\n"),
            ("<pre class=\"x\">b\nc</pre>\n", "b\nc\n"),
            ("```swift\nb", "\nb"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["a\nb\n", "{codes}\n", "``` a b\n", "", "{code"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
