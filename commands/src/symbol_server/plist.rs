//! The answer in the form that lldb's script contract wants: an XML property list with a dictionary for each UUID.

use super::cache::CachedDsym;
use std::fmt::Write as _;

/// The answer for one UUID.
#[derive(Debug)]
pub struct PlistEntry {
    uuid: String,
    values: Vec<(&'static str, String)>,
}

impl PlistEntry {
    /// Answers with the path of a dSYM and its architecture.
    pub fn found(uuid: String, dsym: &CachedDsym) -> PlistEntry {
        let path = dsym.dwarf.to_string_lossy().into_owned();
        let values = vec![("DBGArchitecture", dsym.architecture.to_owned()), ("DBGDSYMPath", path)];
        PlistEntry { uuid, values }
    }

    /// Answers with the reason why there is none, for people.
    pub fn failed(uuid: String, reason: &str) -> PlistEntry {
        PlistEntry { uuid, values: vec![("DBGError", reason.to_owned())] }
    }
}

/// Writes the answers as one property list.
pub fn write_plist(entries: &[PlistEntry]) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n",
    );
    for entry in entries {
        // Writing to a string has no error.
        let _ = writeln!(text, "\t<key>{}</key>\n\t<dict>", escape_xml(&entry.uuid));
        for (key, value) in &entry.values {
            let _ = writeln!(text, "\t\t<key>{key}</key>\n\t\t<string>{}</string>", escape_xml(value));
        }
        text.push_str("\t</dict>\n");
    }
    text.push_str("</dict>\n</plist>\n");
    text
}

/// Escapes a text for XML. Control characters have no form there.
fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_dictionary_for_each_uuid() {
        let dsym = CachedDsym { dwarf: "/cache/a & b.dSYM/app".into(), architecture: "arm64" };
        let text = write_plist(&[
            PlistEntry::found("A".to_owned(), &dsym),
            PlistEntry::failed("B".to_owned(), "there is <none>\u{1b}"),
        ]);
        assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"), "{text}");
        assert!(
            text.contains(
                "<key>A</key>\n\t<dict>\n\t\t<key>DBGArchitecture</key>\n\t\t<string>arm64</string>"
            )
        );
        assert!(text.contains("<key>DBGDSYMPath</key>\n\t\t<string>/cache/a &amp; b.dSYM/app</string>"));
        assert!(text.contains("<key>DBGError</key>\n\t\t<string>there is &lt;none&gt;\u{fffd}</string>"));
        assert!(text.ends_with("</dict>\n</plist>\n"));
    }
}
