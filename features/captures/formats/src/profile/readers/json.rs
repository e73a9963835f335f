//! JSON as a row of tokens, without recursion: call trees nest an object in an object for each frame, deeper
//! than parsers that build values go.

use serde::de::IgnoredAny;
use std::borrow::Cow;

/// A token of the document.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    Object,
    Array,
    /// The end of an object or an array.
    End,
    Key(Cow<'a, str>),
    Text(Cow<'a, str>),
    Number(&'a str),
    Bool(bool),
    Null,
}

/// The tokens of a document with checked grammar.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// For each open container whether it is an object.
    objects: Vec<bool>,
    key_next: bool,
}

impl<'a> Tokens<'a> {
    /// Creates the tokens of one JSON value.
    ///
    /// # Errors
    /// Returns an error if the text is no JSON value.
    pub(super) fn new(text: &'a str) -> Result<Tokens<'a>, serde_json::Error> {
        // Ignored values are checked, and take no stack.
        let IgnoredAny = serde_json::from_str(text)?;
        Ok(Tokens { text, at: 0, objects: Vec::new(), key_next: false })
    }

    fn read_string(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match bytes.get(self.at)? {
                b'\\' => self.at += 2,
                b'"' => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let inside = self.text.get(start + 1..self.at - 1)?;
        if !inside.contains('\\') {
            return Some(Cow::Borrowed(inside));
        }
        // Half a surrogate pair is no text.
        let decoded = serde_json::from_str(self.text.get(start..self.at)?);
        Some(Cow::Owned(decoded.unwrap_or_else(|_| inside.to_owned())))
    }

    fn read_word(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let word = rest.split([',', ']', '}', ' ', '\n', '\r', '\t']).next().unwrap_or(rest);
        self.at += word.len();
        word
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            match *bytes.get(self.at)? {
                b',' => {
                    self.key_next = self.objects.last() == Some(&true);
                    self.at += 1;
                }
                b':' | b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                opening @ (b'{' | b'[') => {
                    self.key_next = opening == b'{';
                    self.objects.push(self.key_next);
                    self.at += 1;
                    return Some(if self.key_next { Token::Object } else { Token::Array });
                }
                b'}' | b']' => {
                    self.objects.pop();
                    self.at += 1;
                    return Some(Token::End);
                }
                b'"' => {
                    let text = self.read_string()?;
                    let is_key = std::mem::take(&mut self.key_next);
                    return Some(if is_key { Token::Key(text) } else { Token::Text(text) });
                }
                _ => {
                    return Some(match self.read_word() {
                        "true" => Token::Bool(true),
                        "false" => Token::Bool(false),
                        "null" => Token::Null,
                        number => Token::Number(number),
                    });
                }
            }
        }
    }
}

/// Parses a number of 64 bits without sign, which may be a float that is an integer.
pub(super) fn parse_unsigned(number: &str) -> Option<u64> {
    number.parse().ok().or_else(|| {
        let float: f64 = number.parse().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is an integer in range"
        )]
        (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_texts_are_told_apart() {
        let text = r#" {"a": ["b", 1.5e3, {}], "c\u0041": null, "": true} "#;
        let tokens: Vec<Token<'_>> = Tokens::new(text).unwrap().collect();
        let expected = [
            Token::Object,
            Token::Key("a".into()),
            Token::Array,
            Token::Text("b".into()),
            Token::Number("1.5e3"),
            Token::Object,
            Token::End,
            Token::End,
            Token::Key("cA".into()),
            Token::Null,
            Token::Key("".into()),
            Token::Bool(true),
            Token::End,
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn depth_takes_no_stack() {
        let deep = format!("{}{}", "[{\"a\":".repeat(200_000), "0}]".to_owned() + &"}]".repeat(199_999));
        assert_eq!(Tokens::new(&deep).unwrap().count(), 200_000 * 5 + 1);
        assert!(Tokens::new(deep.strip_prefix('[').unwrap()).is_err());
    }

    #[test]
    fn numbers_above_two_to_the_53_keep_their_bits() {
        assert_eq!(parse_unsigned("18446744073709551615"), Some(u64::MAX));
        assert_eq!(
            (parse_unsigned("4.3e9"), parse_unsigned("-1"), parse_unsigned("0.5")),
            (Some(4_300_000_000), None, None)
        );
    }
}
