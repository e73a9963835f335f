//! Commands that people copy.

/// Returns a text as one word of a POSIX shell, quoted if necessary.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '/' | ':' | ',');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn what_a_shell_would_read_is_quoted() {
    for (text, word) in [
        ("Shop.app.dSYM", "Shop.app.dSYM"),
        ("", "''"),
        ("$(id) it's.dSYM", r"'$(id) it'\''s.dSYM'"),
        ("*.dSYM", "'*.dSYM'"),
        ("User:CN=api,O=Shop", "'User:CN=api,O=Shop'"),
        ("kafka-1:9092,kafka-2:9092", "kafka-1:9092,kafka-2:9092"),
    ] {
        assert_eq!(shell_word(text), word);
    }
}
