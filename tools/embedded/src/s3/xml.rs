//! The XML of requests and answers.

use hyper::header::HeaderValue;
use std::fmt::Write;
use xmlparser::{ElementEnd, Token, Tokenizer};

/// The content type of each answer in XML.
pub(super) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/xml");

/// A part that a client names to complete an upload.
#[derive(Debug, PartialEq)]
pub(super) struct NamedPart {
    pub(super) number: u32,
    pub(super) etag: String,
}

/// Returns a document with this root element.
pub(super) fn document(root: &str) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{root}")
}

/// Escapes a text for an element.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => {
                // Writing to a text does not fail.
                let _ = write!(escaped, "&#x{:X};", u32::from(control));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Reads the parts of the body of CompleteMultipartUpload. Returns None if it is malformed or has no part.
pub(super) fn read_parts(body: &[u8]) -> Option<Vec<NamedPart>> {
    let text = std::str::from_utf8(body).ok()?;
    let mut parts = Vec::new();
    let (mut element, mut number, mut etag) = ("", None, None);
    for token in Tokenizer::from(text) {
        match token.ok()? {
            Token::ElementStart { local, .. } => element = local.as_str(),
            Token::Text { text } if element == "PartNumber" => number = text.as_str().trim().parse().ok(),
            Token::Text { text } if element == "ETag" => {
                etag = Some(text.as_str().replace("&quot;", "").replace("&#34;", "").replace('"', ""));
            }
            Token::ElementEnd { end: ElementEnd::Close(_, name), .. } => {
                element = "";
                if name.as_str() == "Part" {
                    parts.push(NamedPart { number: number.take()?, etag: etag.take()? });
                }
            }
            _ => {}
        }
    }
    (!parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_with_quotes_in_each_form() {
        let body = br#"<?xml version="1.0"?><CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Part><ETag>&quot;aa&quot;</ETag><PartNumber>1</PartNumber></Part>
            <Part><PartNumber> 2 </PartNumber><ChecksumCRC32>AAAA</ChecksumCRC32><ETag>"bb"</ETag></Part>
            <Part><PartNumber>3</PartNumber><ETag>cc</ETag></Part></CompleteMultipartUpload>"#;
        let parts = read_parts(body).unwrap();
        let read: Vec<_> = parts.iter().map(|part| (part.number, part.etag.as_str())).collect();
        assert_eq!(read, [(1, "aa"), (2, "bb"), (3, "cc")]);
        for malformed in [
            &b"<A><Part><PartNumber>1</PartNumber></Part></A>"[..],
            b"<A><Part><PartNumber>-1</PartNumber><ETag>a</ETag></Part></A>",
            b"<A/>",
            b"<A",
            b"\xff",
            b"",
        ] {
            assert_eq!(read_parts(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_text_cannot_end_its_element() {
        assert_eq!(escape("a</Key>&\"\u{1}\u{e4}"), "a&lt;/Key&gt;&amp;&quot;&#x1;\u{e4}");
    }
}
