//! JSX elements, and templates.

use super::level::{Level, LevelKind, NameRange};
use super::lexer::{PreviousToken, TemplatePart};
use super::scanner::ScopeScanner;

impl ScopeScanner<'_> {
    pub(super) fn read_template(&mut self) -> Option<()> {
        match self.lexer.template_part()? {
            TemplatePart::Expression => self.push(Level::new(LevelKind::Expression)),
            TemplatePart::End => {
                self.pop()?;
                self.previous = PreviousToken::Operand;
                Some(())
            }
        }
    }

    /// Reads a part of a tag: `<Name key="text" key={`, `/>`, `>`, `</Name>`.
    pub(super) fn read_tag(&mut self) -> Option<()> {
        self.lexer.skip_trivia()?;
        let at = self.lexer.at;
        let LevelKind::Element { is_closing } = self.top().kind else { return None };
        match self.lexer.byte_at(at) {
            b'>' => {
                self.lexer.at += 1;
                if is_closing {
                    self.pop()?;
                    return self.end_element();
                }
                self.top().kind = LevelKind::Children;
            }
            b'/' if self.lexer.byte_at(at + 1) == b'>' && self.lexer.byte_at(at - 1) != b'<' => {
                self.lexer.at += 2;
                self.pop()?;
                self.previous = PreviousToken::Operand;
            }
            b'/' => {
                self.lexer.at += 1;
                self.top().kind = LevelKind::Element { is_closing: true };
            }
            b'{' => {
                self.lexer.at += 1;
                let name = self.top().key.take();
                self.push(Level::new(LevelKind::Expression))?;
                self.value_name = name;
            }
            quote @ (b'"' | b'\'') => {
                let rest = self.lexer.text.as_bytes().get(at + 1..)?;
                self.lexer.at += memchr::memchr(quote, rest)? + 2;
                self.top().key = None;
            }
            // Either type arguments, or an element as a value.
            b'<' if self.top().key.is_some_and(|name| name.end == at) => {
                self.lexer.at += 1 + self.lexer.type_arguments_length(at + 1)?;
            }
            b'<' => {
                self.lexer.at += 1;
                return self.push(Level::new(LevelKind::Element { is_closing: false }));
            }
            b'=' | b'.' | b':' | b'-' => self.lexer.at += 1,
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..) => {
                self.lexer.skip_word();
                self.top().key = Some(NameRange { start: at, end: self.lexer.at });
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads the text between tags.
    pub(super) fn read_children(&mut self) -> Option<()> {
        let rest = self.lexer.text.as_bytes().get(self.lexer.at..)?;
        self.lexer.at += memchr::memchr2(b'<', b'{', rest)? + 1;
        if self.lexer.byte_at(self.lexer.at - 1) == b'{' {
            return self.push(Level::new(LevelKind::Expression));
        }
        self.push(Level::new(LevelKind::Element { is_closing: false }))
    }

    /// Ends an element after its closing tag.
    pub(super) fn end_element(&mut self) -> Option<()> {
        if self.top().kind != LevelKind::Children {
            return None;
        }
        self.pop()?;
        self.previous = PreviousToken::Operand;
        Some(())
    }
}
