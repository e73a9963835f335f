//! TypeScript and Flow types. They are skipped, so that arrows in them do not count as functions.

use super::level::{Level, LevelKind, NameRange, TypeKind, Types};
use super::lexer::{PreviousToken, SourceToken, TokenKind};
use super::names;
use super::scanner::{MAX_DEPTH, ScopeScanner};

impl ScopeScanner<'_> {
    pub(super) fn handle_less(&mut self, token: SourceToken) -> Option<()> {
        let (previous, value_name) = (self.previous, self.value_name);
        let top = self.top();
        let is_header = top.pending_function.is_some()
            || top.pending_class.is_some()
            || top.key.is_some() && top.is_at_key();
        let is_behind_async =
            self.word.is_some_and(|(start, _)| self.lexer.slice(start..start + 6) == "async ");
        if is_header || is_behind_async {
            self.begin_types(TypeKind::Parameters(previous), value_name);
        } else if previous == PreviousToken::Operand {
            let word = self.word;
            if self.lexer.byte_at(token.start.wrapping_sub(1)) != b' ' && self.lexer.has_type_arguments() {
                self.begin_types(TypeKind::Parameters(previous), word.and_then(|word| word.1));
            } else {
                self.handle_operator();
            }
        } else if self.is_without_jsx || self.lexer.is_before_type_parameters() {
            self.begin_types(TypeKind::Parameters(previous), value_name);
        } else {
            return self.push(Level::new(LevelKind::Element { is_closing: false }));
        }
        Some(())
    }

    pub(super) fn begin_types(&mut self, kind: TypeKind, value_name: Option<NameRange>) {
        let angles = u32::from(matches!(kind, TypeKind::Parameters(_)));
        self.top().types =
            Some(Types { kind, angles, is_complete: false, is_behind_parentheses: false, value_name });
    }

    /// Handles a token of a type. Returns false if the type ended before the token.
    pub(super) fn type_token(&mut self, token: SourceToken) -> Option<bool> {
        let text = self.lexer.slice(token.start..token.end);
        let top = self.top();
        let Some(types) = top.types.as_mut() else { return Some(false) };
        let is_outside = types.angles == 0;
        let was_behind_parentheses = std::mem::take(&mut types.is_behind_parentheses);
        let is_cast = matches!(types.kind, TypeKind::Cast);
        match token.kind {
            TokenKind::Open(bracket) => {
                if bracket == b'{' && types.is_complete && is_outside {
                    return Some(self.end_types(true));
                }
                types.is_complete = true;
                types.is_behind_parentheses = bracket == b'(';
                let types = top.types.take();
                self.stack.push(Level { types, ..Level::new(LevelKind::Type) });
                if self.stack.len() > MAX_DEPTH {
                    return None;
                }
            }
            TokenKind::Close(_) | TokenKind::Semicolon => return Some(self.end_types(true)),
            TokenKind::Comma if is_outside => return Some(self.end_types(true)),
            TokenKind::Comma => types.is_complete = false,
            TokenKind::Less => {
                types.angles += 1;
                types.is_complete = false;
            }
            TokenKind::Greater if is_outside => return Some(self.end_types(true)),
            TokenKind::Greater => {
                types.angles -= 1;
                types.is_complete = true;
                if types.angles == 0 && matches!(types.kind, TypeKind::Parameters(_)) {
                    self.end_types(false);
                }
            }
            TokenKind::Assign if is_outside && !matches!(types.kind, TypeKind::Alias) => {
                return Some(self.end_types(true));
            }
            TokenKind::Arrow
                if is_outside && matches!(types.kind, TypeKind::Returned(_)) && !was_behind_parentheses =>
            {
                return Some(self.end_types(true));
            }
            TokenKind::Colon if is_outside && !matches!(types.kind, TypeKind::Alias) => {
                return Some(self.end_types(true));
            }
            TokenKind::Question if is_outside && types.is_complete && is_cast => {
                return Some(self.end_types(true));
            }
            TokenKind::Operator if is_outside && is_cast => return Some(self.end_types(true)),
            TokenKind::Word
                if is_cast && is_outside && types.is_complete && names::is_infix(text) && text != "is" =>
            {
                return Some(self.end_types(true));
            }
            TokenKind::Word => types.is_complete = !names::is_type_operator(text),
            TokenKind::Number | TokenKind::Text => types.is_complete = true,
            TokenKind::Template => {
                types.is_complete = true;
                self.stack.push(Level::new(LevelKind::Template));
            }
            TokenKind::Dot => types.is_complete = false,
            _ => types.is_complete = false,
        }
        Some(true)
    }

    /// Ends a type. The token after it belongs to an expression. Returns false if that token is still
    /// `pending`.
    pub(super) fn end_types(&mut self, pending: bool) -> bool {
        let Some(types) = self.top().types.take() else { return false };
        self.clear_token_state();
        (self.value_name, self.previous) = (None, PreviousToken::Operand);
        match types.kind {
            TypeKind::Declared(name) => self.chain = name,
            TypeKind::Returned(closed) => self.closed = Some(closed),
            TypeKind::Parameters(previous) => {
                (self.previous, self.value_name) = (previous, types.value_name);
            }
            TypeKind::Alias | TypeKind::Cast => {}
        }
        !pending
    }

    /// Handles a token within brackets of a type, where only brackets matter.
    pub(super) fn inside_type(&mut self, token: SourceToken) -> Option<()> {
        match token.kind {
            TokenKind::Open(_) => {
                self.stack.push(Level::new(LevelKind::Type));
                (self.stack.len() <= MAX_DEPTH).then_some(())
            }
            TokenKind::Close(_) => {
                let level = self.pop()?;
                // The type around the brackets continues.
                if level.types.is_some() {
                    self.top().types = level.types;
                } else if self.top().kind != LevelKind::Type {
                    self.previous = PreviousToken::BlockEnd;
                }
                Some(())
            }
            TokenKind::Template => {
                self.stack.push(Level::new(LevelKind::Template));
                Some(())
            }
            TokenKind::End => None,
            _ => Some(()),
        }
    }
}
