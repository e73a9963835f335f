//! Texts of devices as data in Markdown: in code spans and in blocks with a fence that the text cannot end.

use crate::text::is_obeyed;
use std::fmt::Write;

/// The maximum number of characters of one quoted text.
const QUOTED_CHARS_LIMIT: usize = 400;
/// The minimum number of backticks of a fence.
const FENCE_BACKTICKS: usize = 3;

/// Returns a text of a device as a code span on one line. A renderer makes no link, image, heading or HTML of it.
#[must_use]
pub fn quote_text(text: &str) -> String {
    let shown = flatten_text(text);
    if shown.is_empty() {
        return "(empty)".to_owned();
    }
    let fence = "`".repeat(longest_run(&shown) + 1);
    // A renderer removes one space from both ends. It is needed beside a backtick, and keeps the spaces of the text.
    let at_edge = |c: char| c == '`' || c == ' ';
    let pad = if shown.starts_with(at_edge) || shown.ends_with(at_edge) { " " } else { "" };
    format!("{fence}{pad}{shown}{pad}{fence}")
}

/// Returns lines as a code block. Its fence is longer than any run of backticks in the lines.
#[must_use]
pub fn quote_lines<'l>(lines: impl IntoIterator<Item = &'l str>) -> String {
    let lines: Vec<String> = lines.into_iter().map(escape_invisible).collect();
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    let fence = "`".repeat(FENCE_BACKTICKS.max(longest + 1));
    let mut block = format!("{fence}text\n");
    for line in lines {
        block.push_str(&line);
        block.push('\n');
    }
    block + &fence
}

/// Returns the text on one line without invisible characters. Counts the characters that are left out.
#[must_use]
pub fn flatten_text(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(QUOTED_CHARS_LIMIT) else { return escape_invisible(text) };
    let (shown, rest) = text.split_at(end);
    let mut shown = escape_invisible(shown);
    let _ = write!(shown, "… ({} more characters)", rest.chars().count());
    shown
}

/// Escapes characters that a reader obeys or does not see, such as line ends, bidi controls and tags.
fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) || is_invisible(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns true for characters that are shown as nothing (`Default_Ignorable_Code_Point` of Unicode's
/// `DerivedCoreProperties.txt`, and interlinear annotations). Instructions can hide in them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_span() {
        assert_eq!(quote_text("plain"), "`plain`");
        assert_eq!(quote_text("a`b"), "``a`b``");
        assert_eq!(quote_text("``` x"), "```` ``` x ````");
        assert_eq!(quote_text("`"), "`` ` ``");
        assert_eq!(quote_text(" a "), "`  a  `");
        assert_eq!(quote_text(""), "(empty)");
    }

    #[test]
    fn a_text_has_one_line_without_hidden_characters() {
        assert_eq!(quote_text("a\n# b\r\n- c"), "`a\\n# b\\r\\n- c`");
        assert_eq!(quote_text("a\u{202e}b\u{2066}c\u{2028}d"), "`a\\u{202e}b\\u{2066}c\\u{2028}d`");
        assert_eq!(quote_text("a\u{200b}\u{feff}\u{e0041}b"), "`a\\u{200b}\\u{feff}\\u{e0041}b`");
    }

    #[test]
    fn a_line_cannot_end_its_block() {
        let block = quote_lines(["0  a", "1  ````", "2  b\n# c"]);
        assert_eq!(block, "`````text\n0  a\n1  ````\n2  b\\n# c\n`````");
        assert!(quote_lines(["a"]).starts_with("```text\n"));
    }

    /// Proves: bounded-input
    #[test]
    fn a_long_text_is_cut_and_the_rest_is_counted() {
        let long = "é".repeat(QUOTED_CHARS_LIMIT + 7);
        let shown = quote_text(&long);
        assert!(shown.ends_with("é… (7 more characters)`"), "{shown}");
        assert!(shown.chars().count() < QUOTED_CHARS_LIMIT + 40);
    }
}
