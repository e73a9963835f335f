//! Tokens of JavaScript, TypeScript, Flow and JSX.

use std::ops::Range;

/// Kind of a token. Keywords are identifiers: whether a word is a keyword depends on its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier, a keyword or a private name.
    Word,
    Number,
    Text,
    Regex,
    /// The quote that begins a template.
    Template,
    Open(u8),
    Close(u8),
    Comma,
    Semicolon,
    Colon,
    Question,
    Dot,
    OptionalDot,
    Arrow,
    Assign,
    Less,
    Greater,
    Increment,
    Not,
    Star,
    At,
    /// `|` or `&`, which types use too.
    TypeOperator,
    Operator,
    End,
}

/// The previous token, as far as it affects the meaning of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreviousToken {
    /// Start of a statement.
    Start,
    /// An expression follows.
    Operator,
    /// End of an expression.
    Operand,
    /// `}` of a block or of a function.
    BlockEnd,
    /// `)` of `if`, `for`, `while`, `switch`, `with` or `catch`.
    ControlEnd,
    Dot,
    Arrow,
    FunctionKeyword,
    ClassKeyword,
    ExportKeyword,
}

/// A token and its position in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceToken {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// True if a line ended before it.
    pub(super) is_first_of_line: bool,
}

/// The part of a template that follows.
pub(super) enum TemplatePart {
    End,
    Expression,
}

/// Reads the tokens of a text from start to end.
pub(super) struct Lexer<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    /// Bytes that [`Lexer::has_type_arguments`] may still scan.
    lookahead: usize,
}

/// The most bytes of type arguments that are scanned.
const MAX_TYPE_ARGUMENT_BYTES: usize = 300;

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        let at = if text.starts_with("#!") { line_end(text.as_bytes(), 0) } else { 0 };
        Lexer { text, at, lookahead: text.len().saturating_mul(8) }
    }

    pub(super) fn slice(&self, range: Range<usize>) -> &'t str {
        self.text.get(range).unwrap_or_default()
    }

    pub(super) fn byte_at(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// Skips spaces and comments. Returns true if a line ended there, None if a comment has no end.
    pub(super) fn skip_trivia(&mut self) -> Option<bool> {
        let bytes = self.text.as_bytes();
        let mut ended_line = false;
        loop {
            match self.byte_at(self.at) {
                b'\n' | b'\r' => {
                    ended_line = true;
                    self.at += 1;
                }
                b' ' | b'\t' | 0x0B | 0x0C => self.at += 1,
                b'/' if self.byte_at(self.at + 1) == b'/' => self.at = line_end(bytes, self.at),
                b'/' if self.byte_at(self.at + 1) == b'*' => {
                    let body = self.text.get(self.at + 2..)?;
                    let length = memchr::memmem::find(body.as_bytes(), b"*/")?;
                    ended_line |= memchr::memchr2(b'\n', b'\r', &body.as_bytes()[..length]).is_some();
                    self.at += length + 4;
                }
                0x80.. => {
                    let rest = self.text.get(self.at..)?;
                    let space = rest.chars().next().filter(|c| c.is_whitespace() || *c == '\u{FEFF}');
                    let Some(space) = space else { return Some(ended_line) };
                    ended_line |= matches!(space, '\u{2028}' | '\u{2029}');
                    self.at += space.len_utf8();
                }
                _ => return Some(ended_line),
            }
        }
    }

    /// Reads the next token; None if the text is not JavaScript. `may_be_regex` says whether a `/` can begin a
    /// regular expression.
    pub(super) fn next(&mut self, may_be_regex: bool) -> Option<SourceToken> {
        let is_first_of_line = self.skip_trivia()?;
        let start = self.at;
        let kind = self.scan_token(may_be_regex)?;
        Some(SourceToken { kind, start, end: self.at, is_first_of_line })
    }

    fn scan_token(&mut self, may_be_regex: bool) -> Option<TokenKind> {
        let next = |ahead: usize| self.byte_at(self.at + ahead);
        let byte = next(0);
        let (kind, length) = match byte {
            0 if self.at >= self.text.len() => (TokenKind::End, 0),
            b'(' | b'[' | b'{' => (TokenKind::Open(byte), 1),
            b')' | b']' | b'}' => (TokenKind::Close(byte), 1),
            b',' => (TokenKind::Comma, 1),
            b';' => (TokenKind::Semicolon, 1),
            b':' => (TokenKind::Colon, 1),
            b'@' => (TokenKind::At, 1),
            b'~' => (TokenKind::Operator, 1),
            b'`' => (TokenKind::Template, 1),
            b'"' | b'\'' => return self.scan_quoted(byte),
            b'0'..=b'9' => return Some(self.scan_number()),
            b'.' if next(1).is_ascii_digit() => return Some(self.scan_number()),
            b'.' if next(1) == b'.' && next(2) == b'.' => (TokenKind::Operator, 3),
            b'.' => (TokenKind::Dot, 1),
            b'?' if next(1) == b'.' && !next(2).is_ascii_digit() => (TokenKind::OptionalDot, 2),
            b'?' if next(1) == b'?' && next(2) == b'=' => (TokenKind::Assign, 3),
            b'?' if next(1) == b'?' => (TokenKind::Operator, 2),
            b'?' => (TokenKind::Question, 1),
            b'=' if next(1) == b'>' => (TokenKind::Arrow, 2),
            b'=' if next(1) == b'=' => (TokenKind::Operator, if next(2) == b'=' { 3 } else { 2 }),
            b'=' => (TokenKind::Assign, 1),
            b'!' if next(1) == b'=' => (TokenKind::Operator, if next(2) == b'=' { 3 } else { 2 }),
            b'!' => (TokenKind::Not, 1),
            b'<' if next(1) == b'=' || next(1) == b'<' => (TokenKind::Operator, 2),
            b'<' => (TokenKind::Less, 1),
            b'>' if next(1) == b'=' => (TokenKind::Operator, 2),
            b'>' => (TokenKind::Greater, 1),
            b'+' | b'-' if next(1) == byte => (TokenKind::Increment, 2),
            b'|' | b'&' if next(1) == byte && next(2) == b'=' => (TokenKind::Assign, 3),
            b'|' | b'&' if next(1) == byte => (TokenKind::Operator, 2),
            b'|' | b'&' if next(1) != b'=' => (TokenKind::TypeOperator, 1),
            b'*' if next(1) == b'*' => (TokenKind::Operator, if next(2) == b'=' { 3 } else { 2 }),
            b'*' if next(1) != b'=' => (TokenKind::Star, 1),
            b'+' | b'-' | b'*' | b'%' | b'^' | b'|' | b'&' => {
                (TokenKind::Operator, if next(1) == b'=' { 2 } else { 1 })
            }
            b'/' => {
                if may_be_regex {
                    self.at = self.regex_end()?;
                    return Some(TokenKind::Regex);
                }
                (TokenKind::Operator, if next(1) == b'=' { 2 } else { 1 })
            }
            b'#' | b'\\' | b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                self.at += usize::from(byte == b'#');
                self.skip_word();
                return Some(TokenKind::Word);
            }
            _ => return None,
        };
        self.at += length;
        Some(kind)
    }

    /// Skips the rest of a word. Characters beyond ASCII count as part of it unless they are spaces.
    pub(super) fn skip_word(&mut self) {
        while self.at < self.text.len() {
            let is_letter = match self.byte_at(self.at) {
                b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => true,
                b'\\' => {
                    // `\u{61}` or `\u0061`
                    let escape = self.text.as_bytes().get(self.at..).unwrap_or_default();
                    let length = escape.iter().take(12).position(|byte| *byte == b'}');
                    self.at += length.filter(|_| escape.get(2) == Some(&b'{')).unwrap_or(0);
                    true
                }
                0x80.. => !self.text.is_char_boundary(self.at) || !self.is_space(),
                _ => false,
            };
            if !is_letter {
                return;
            }
            self.at += 1;
        }
    }

    fn is_space(&self) -> bool {
        let next = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        next.is_some_and(|c| c.is_whitespace() || c == '\u{FEFF}')
    }

    fn scan_number(&mut self) -> TokenKind {
        self.at += 1;
        while matches!(self.byte_at(self.at), b'.' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9') {
            self.at += 1;
        }
        TokenKind::Number
    }

    fn scan_quoted(&mut self, quote: u8) -> Option<TokenKind> {
        self.at += 1;
        loop {
            match self.byte_at(self.at) {
                0 if self.at >= self.text.len() => return None,
                b'\n' | b'\r' => return None,
                b'\\' if self.byte_at(self.at + 1) == b'\r' && self.byte_at(self.at + 2) == b'\n' => {
                    self.at += 3;
                }
                b'\\' => self.at += 2,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return Some(TokenKind::Text);
                    }
                }
            }
        }
    }

    /// Returns the end of the regular expression that begins here.
    fn regex_end(&self) -> Option<usize> {
        let (mut at, mut in_class) = (self.at + 1, false);
        loop {
            match self.byte_at(at) {
                0 if at >= self.text.len() => return None,
                b'\n' | b'\r' => return None,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => break,
                _ => {}
            }
            at += 1;
        }
        at += 1;
        while self.byte_at(at).is_ascii_alphabetic() {
            at += 1;
        }
        Some(at)
    }

    /// Reads a part of a template up to its end or the next expression.
    pub(super) fn template_part(&mut self) -> Option<TemplatePart> {
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            self.at += memchr::memchr3(b'`', b'\\', b'$', rest)?;
            match (self.byte_at(self.at), self.byte_at(self.at + 1)) {
                (b'`', _) => {
                    self.at += 1;
                    return Some(TemplatePart::End);
                }
                (b'$', b'{') => {
                    self.at += 2;
                    return Some(TemplatePart::Expression);
                }
                (b'$', _) => self.at += 1,
                _ => self.at += 2,
            }
        }
    }

    /// Returns the next byte that is not a space, without moving.
    pub(super) fn peek_byte(&self) -> u8 {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        rest.iter().copied().find(|byte| !byte.is_ascii_whitespace()).unwrap_or(0)
    }

    /// True if a word follows on the same line.
    pub(super) fn is_before_word(&self) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let next = rest.iter().copied().find(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(0);
        next.is_ascii_alphabetic() || matches!(next, b'_' | b'$' | 0x80..)
    }

    /// True if a type follows, not an operator or the end.
    pub(super) fn is_before_type(&self) -> bool {
        let next = self.peek_byte();
        next.is_ascii_alphanumeric()
            || matches!(next, b'_' | b'$' | b'{' | b'[' | b'(' | b'"' | b'\'' | b'`' | 0x80..)
    }

    /// True if the `<` before this position begins type parameters and not an element: `<T,>`,
    /// `<T extends Cart>`.
    pub(super) fn is_before_type_parameters(&mut self) -> bool {
        let start = self.at;
        let skipped = self.skip_trivia();
        self.skip_word();
        let is_word = self.at > start;
        let skipped = skipped.and(self.skip_trivia());
        let is_parameter = self.byte_at(self.at) == b',' || self.slice(self.at..self.at + 8) == "extends ";
        self.at = start;
        is_word && is_parameter && skipped.is_some()
    }

    /// Returns the length of the type arguments after a `<`, including their `>`.
    pub(super) fn type_arguments_length(&self, from: usize) -> Option<usize> {
        let rest = self.text.as_bytes().get(from..)?;
        let mut angles = 1_usize;
        for (index, byte) in rest.iter().take(MAX_TYPE_ARGUMENT_BYTES).enumerate() {
            match byte {
                b'<' => angles += 1,
                b'>' if index > 0 && rest[index - 1] == b'=' => {}
                b'>' => angles -= 1,
                _ => {}
            }
            if angles == 0 {
                return Some(index + 1);
            }
        }
        None
    }

    /// True if the `<` before this position begins the type arguments of a call, as in
    /// `useState<Cart | null>(null)`.
    pub(super) fn has_type_arguments(&mut self) -> bool {
        let most = MAX_TYPE_ARGUMENT_BYTES.min(self.lookahead);
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let (mut angles, mut brackets) = (1_usize, 0_usize);
        for (index, byte) in rest.iter().take(most).enumerate() {
            let before = if index == 0 { b'<' } else { rest[index - 1] };
            match byte {
                b'<' => angles += 1,
                b'>' if before == b'=' => {}
                b'>' => angles -= 1,
                b'(' | b'[' | b'{' => brackets += 1,
                b')' | b']' | b'}' if brackets > 0 => brackets -= 1,
                b';' if brackets > 0 => {}
                b'|' | b'&' if before != *byte => {}
                b'=' if rest.get(index + 1) == Some(&b'>') => {}
                b'.'
                | b','
                | b'?'
                | b':'
                | b'\''
                | b'"'
                | b'_'
                | b'$'
                | b' '
                | b'\t'
                | b'\r'
                | b'\n'
                | 0x80.. => {}
                byte if byte.is_ascii_alphanumeric() => {}
                _ => {
                    self.lookahead -= index;
                    return false;
                }
            }
            if angles == 0 {
                self.lookahead -= index;
                return brackets == 0 && matches!(rest.get(index + 1), Some(b'(' | b'`'));
            }
        }
        self.lookahead -= most;
        false
    }
}

/// Returns the position of the line's end at or after a position.
fn line_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(length) = memchr::memchr3(b'\n', b'\r', 0xE2, rest) else { return bytes.len() };
        at += length;
        // U+2028 and U+2029 end a line too.
        if bytes[at] != 0xE2 || matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xA8 | 0xA9])) {
            return at;
        }
        at += 1;
    }
}
