//! Single-line and shortened text.

/// Returns a text as one line of at most `chars` characters. Removes NULs, replaces other control characters by
/// spaces, and trims the line. Cutting in two steps gives the same line as cutting once.
#[must_use]
pub fn one_line(text: &str, chars: usize) -> String {
    let line = text.chars().filter(|c| *c != '\0').map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = line.skip_while(|c| c.is_whitespace()).take(chars).collect();
    while line.ends_with(char::is_whitespace) {
        line.pop();
    }
    line
}

/// Returns the start of a text, in at most `most` bytes, without splitting a character.
#[must_use]
pub fn first_bytes(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_after_what_does_not_show_is_gone() {
        assert_eq!(one_line("\0 \u{1}a\0b\nc\u{7f} ", 300), "ab c");
        assert_eq!(one_line("\t  abc def", 4), "abc");
        assert_eq!(one_line(" \0\n", 4), "");
        assert_eq!(one_line("äöü", 2), "äö");
        let long = format!("\u{1}\0 {}", "x".repeat(400));
        assert_eq!(one_line(&one_line(&long, 350), 300), one_line(&long, 300));
    }

    #[test]
    fn the_first_bytes_are_whole_characters() {
        for (most, start) in [(0, ""), (1, "a"), (2, "a"), (3, "aö"), (6, "aö"), (7, "aö👜"), (100, "aö👜")]
        {
            assert_eq!(first_bytes("aö👜", most), start);
        }
    }
}
