//! `/console/dead-letters/{id}`: a record that a stage could not process, its headers and first bytes.

use super::dead_letters::can_replay;
use crate::prelude::*;
use std::fmt::Write as _;
use unslide_api::feature::operation::TenantAdmin;
use unslide_api::feature::site::{BytesShown, open_letter};
use unslide_site::bytes;
use unslide_store::dead_letters::DeadLetter;

/// Maximum characters of a key, or of the name or value of a header.
const SHOWN_TEXT_LIMIT: usize = 500;
/// Bytes in a line of a value that is not text.
const HEX_LINE_BYTES: usize = 16;

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/dead_letter.html", askama = escaping)]
struct DeadLetterPage {
    shell: Shell,
    letter: DeadLetter,
    /// The reason why the record or its value is missing.
    lost: Option<String>,
    key: Option<String>,
    headers: Vec<(String, String)>,
    preview: Option<Preview>,
}

/// The beginning of a record's value.
struct Preview {
    text: String,
    /// The range of the value.
    part: String,
}

pub async fn render_page(
    State(broker): State<Arc<Broker>>,
    signed: SignedIn<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (found, first) = open_letter(&broker, &signed.access, &id).await?;
    let headers =
        found.headers.iter().map(|header| (truncate_text(&header.name), format_shown(&header.value)));
    render_html(&DeadLetterPage {
        shell: Shell::for_viewer(signed.viewer, "dead-letters", "Dead letter"),
        lost: found.lost,
        key: found.key.as_ref().map(format_shown),
        headers: headers.collect(),
        preview: first.map(|first| Preview::from_bytes(&first, found.letter.value_bytes)),
        letter: found.letter,
    })
}

impl Preview {
    /// Shows the first bytes of a value of `whole` bytes: as text if they are UTF-8, else in hexadecimal.
    fn from_bytes(first: &[u8], whole: Option<u64>) -> Preview {
        let read = first.len() as u64;
        let part = match whole.filter(|whole| *whole > read) {
            Some(whole) => format!("the first {} of {}", bytes(read), bytes(whole)),
            None => bytes(read),
        };
        let text = match std::str::from_utf8(first) {
            Ok(text) => text.to_owned(),
            // The last character is cut.
            Err(error) if error.error_len().is_none() => {
                String::from_utf8_lossy(first.get(..error.valid_up_to()).unwrap_or_default()).into_owned()
            }
            Err(_) => first.chunks(HEX_LINE_BYTES).map(format_hex_line).collect::<Vec<_>>().join("\n"),
        };
        Preview { text, part }
    }
}

fn format_hex_line(line: &[u8]) -> String {
    line.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x} ");
        text
    })
}

fn format_shown(of: &BytesShown) -> String {
    match of {
        BytesShown::Text(text) => truncate_text(text),
        BytesShown::Base64(text) => format!("base64: {}", truncate_text(text)),
    }
}

fn truncate_text(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_TEXT_LIMIT).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_text_or_hexadecimal_and_says_how_much_it_leaves_out() {
        let preview = |first: &[u8], whole| {
            let Preview { text, part } = Preview::from_bytes(first, whole);
            (text, part)
        };
        let of = |text: &str, part: &str| (text.to_owned(), part.to_owned());
        assert_eq!(preview(b"{\n\"a\": 1", Some(8)), of("{\n\"a\": 1", "8 B"));
        assert_eq!(preview("aä".as_bytes().split_at(2).0, Some(4_096)), of("a", "the first 2 B of 4.0 KiB"));
        assert_eq!(preview(b"\x1f\x8b\xff", None), of("1f 8b ff ", "3 B"));
        assert_eq!(preview(b"", Some(0)), of("", "0 B"));
        let lines = preview(&[0xff; 17], None).0;
        assert_eq!(lines.lines().map(str::len).collect::<Vec<_>>(), [48, 3]);
        assert_eq!(truncate_text(&"x".repeat(501)), format!("{}…", "x".repeat(500)));
    }
}
