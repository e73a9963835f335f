//! Encodings of a text as a whole: UTF-16, and the escapes of HTML.

/// Escapes of HTML, and their characters. `&amp;` is the last one, because it makes others.
const HTML_ESCAPES: [(&str, &str); 7] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&#39;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];
/// Escapes that no log has: around a UUID, around a key of JSON, and before a quoted line.
const HTML_MARKS: [&str; 4] = ["&lt;", "{&quot;", "&gt; ", "&#34;"];

/// The order of the two bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

/// Returns the text of a document in UTF-16, by its byte order mark, or else by the NULs beside its first letters.
pub fn decode_utf_16(document: &[u8]) -> Option<Vec<u8>> {
    let (order, begin) = match document {
        [0xFF, 0xFE, ..] => (ByteOrder::Little, 2),
        [0xFE, 0xFF, ..] => (ByteOrder::Big, 2),
        [first, 0, second, 0, ..] if *first != 0 && *second != 0 => (ByteOrder::Little, 0),
        [0, first, 0, second, ..] if *first != 0 && *second != 0 => (ByteOrder::Big, 0),
        _ => return None,
    };
    let units = document.get(begin..)?.chunks(2).map(|unit| match (unit, order) {
        ([low, high], ByteOrder::Little) | ([high, low], ByteOrder::Big) => u16::from_le_bytes([*low, *high]),
        // A reader may have cut the NUL at the end.
        ([low, ..], _) => u16::from(*low),
        ([], _) => 0,
    });
    let text: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Some(text.into_bytes())
}

/// Replaces the escapes of HTML in a text. Returns `None` if it has none of those that show an export of HTML.
pub fn without_html(text: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'&', text)?;
    let text = String::from_utf8_lossy(text);
    if !HTML_MARKS.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let plain =
        HTML_ESCAPES.iter().fold(text.into_owned(), |text, (escape, plain)| text.replace(escape, plain));
    Some(plain.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_known_by_its_mark_or_by_its_nuls() {
        let little: Vec<u8> = "Lög 😀\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "Lög 😀\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let expected = Some("Lög 😀\n".as_bytes().to_vec());
        assert_eq!(decode_utf_16(&[b"\xFF\xFE", little.as_slice()].concat()), expected);
        assert_eq!(decode_utf_16(&[b"\xFE\xFF", big.as_slice()].concat()), expected);
        assert_eq!((decode_utf_16(&little), decode_utf_16(&big)), (expected.clone(), expected.clone()));
        assert_eq!(decode_utf_16(little.strip_suffix(b"\0").unwrap()), expected);
        for other in [&b"Log\n"[..], b"", b"\0\0\0\0", b"a\0"] {
            assert_eq!(decode_utf_16(other), None);
        }
    }

    #[test]
    fn escapes_of_html_are_replaced() {
        let escaped = b"Shop arm64 &lt;a1b2&gt; /a &amp;amp; b";
        assert_eq!(without_html(escaped).unwrap(), b"Shop arm64 <a1b2> /a &amp; b");
        assert_eq!(without_html(b"a && b & c"), None);
    }
}
