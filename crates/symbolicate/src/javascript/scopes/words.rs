//! Words: names, member keys, and keywords.

use super::level::{NameRange, Opener, TypeKind};
use super::lexer::{PreviousToken, SourceToken};
use super::scanner::ScopeScanner;

impl ScopeScanner<'_> {
    pub(super) fn handle_literal(&mut self, token: SourceToken) {
        if self.top().is_at_key() {
            self.top().set_key(token);
        }
        self.handle_operand();
    }

    pub(super) fn handle_word(&mut self, token: SourceToken) {
        let text = self.lexer.slice(token.start..token.end);
        if self.previous == PreviousToken::Dot {
            let chain = self.chain.map(|chain| NameRange { end: token.end, ..chain });
            self.handle_operand();
            self.chain = chain;
            return;
        }
        if self.top().is_at_key() {
            if self.top().is_decorator && self.previous == PreviousToken::Operator {
                // This is the name of the decorator itself.
                return self.handle_operand();
            }
            self.top().is_decorator = false;
            self.top().set_key(token);
            return self.handle_operand();
        }
        match self.previous {
            PreviousToken::FunctionKeyword => {
                let function = self.top().pending_function.as_mut();
                if let Some(function) = function {
                    function.name = Some(NameRange { start: token.start, end: token.end });
                    function.is_named_by_place = false;
                }
                return self.handle_operand();
            }
            PreviousToken::ClassKeyword if text != "extends" && text != "implements" => {
                let name = NameRange { start: token.start, end: token.end };
                self.top().pending_class = Some(Some(name));
                return self.handle_operand();
            }
            _ => {}
        }
        if !self.handle_keyword(text, token) {
            let word = (token.start, self.value_name);
            // `async` may precede the parameters.
            let value_name = self.value_name.filter(|_| text == "async");
            self.handle_operand();
            self.word = Some(word);
            self.value_name = value_name;
            self.chain = Some(NameRange { start: token.start, end: token.end });
        }
    }

    /// Handles a keyword. Returns false for other words.
    pub(super) fn handle_keyword(&mut self, text: &str, token: SourceToken) -> bool {
        let value_name = self.value_name;
        let is_operand = self.previous == PreviousToken::Operand;
        let begins = matches!(
            self.previous,
            PreviousToken::Start
                | PreviousToken::BlockEnd
                | PreviousToken::ControlEnd
                | PreviousToken::ExportKeyword
        );
        let previous = match text {
            "function" => {
                let opener = Opener {
                    start: token.start,
                    name: value_name,
                    is_named_by_place: value_name.is_some(),
                    ..Opener::default()
                };
                self.top().pending_function = Some(opener);
                PreviousToken::FunctionKeyword
            }
            "class" => {
                self.top().pending_class = Some(value_name);
                PreviousToken::ClassKeyword
            }
            "if" | "for" | "while" | "switch" | "with" | "catch" => {
                self.top().end_statement();
                self.top().is_control_pending = true;
                PreviousToken::Start
            }
            "let" | "const" | "var" if !is_operand && self.lexer.peek_byte() != b'=' => {
                self.top().is_declaring = true;
                PreviousToken::Operator
            }
            "else" | "do" | "try" | "finally" => {
                self.top().end_statement();
                PreviousToken::Start
            }
            "case" => {
                self.top().end_statement();
                self.top().is_case = true;
                PreviousToken::Operator
            }
            "default" => {
                self.top().is_case = self.previous != PreviousToken::ExportKeyword;
                self.handle_operator();
                self.value_name = Some(NameRange { start: token.start, end: token.end });
                return true;
            }
            "return" | "throw" | "typeof" | "void" | "delete" | "new" | "in" | "instanceof" | "await"
            | "yield" | "extends" => PreviousToken::Operator,
            "of" if is_operand => PreviousToken::Operator,
            "export" | "declare" | "abstract" if begins && self.lexer.peek_byte() != b'.' => {
                PreviousToken::ExportKeyword
            }
            "interface" | "enum" if (begins || !is_operand) && self.lexer.is_before_word() => {
                self.top().is_type_body_pending = true;
                PreviousToken::Operand
            }
            "type" | "opaque" if begins && self.lexer.is_before_word() => {
                self.begin_types(TypeKind::Alias, None);
                return true;
            }
            "as" | "satisfies" if is_operand && !token.is_first_of_line && self.lexer.is_before_type() => {
                self.begin_types(TypeKind::Cast, None);
                return true;
            }
            _ => return false,
        };
        self.handle_operator();
        self.previous = previous;
        true
    }
}
