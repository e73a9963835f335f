//! Finds the functions of a source by its tokens, with a stack of open levels.

use super::Function;
use super::level::{Closed, ClosedRole, Level, LevelKind, NameRange, Opener, TypeKind};
use super::lexer::{Lexer, PreviousToken, SourceToken, TokenKind};
use super::names;

/// The most brackets, elements and arrow functions that are open at once.
pub(super) const MAX_DEPTH: usize = 4_096;
/// The most arrow functions that are each the body of another one.
const MAX_ARROWS: usize = 16;

/// Scans a source. Its methods return None if the source cannot be read.
pub(super) struct ScopeScanner<'t> {
    pub(super) lexer: Lexer<'t>,
    /// True if `<` never begins an element.
    pub(super) is_without_jsx: bool,
    pub(super) stack: Vec<Level>,
    pub(super) functions: Vec<Function>,
    max_functions: usize,
    /// Start of the token that is read.
    token_start: usize,
    pub(super) previous: PreviousToken,
    /// The chain `a.b.c` that ends before the next token.
    pub(super) chain: Option<NameRange>,
    /// The name for a function, if it is the next expression.
    pub(super) value_name: Option<NameRange>,
    /// The parentheses that end before the next token.
    pub(super) closed: Option<Closed>,
    /// The previous word, which may be the parameter of an arrow function, and that function's name.
    pub(super) word: Option<(usize, Option<NameRange>)>,
    /// Start and name of the arrow function, if its arrow precedes the next token.
    arrow: Option<(usize, Option<NameRange>)>,
    /// The function that ends before the next token. It is called there if that token is a parenthesis.
    called: Option<usize>,
}

impl<'t> ScopeScanner<'t> {
    pub(super) fn new(text: &'t str, is_without_jsx: bool, max_functions: usize) -> ScopeScanner<'t> {
        ScopeScanner {
            lexer: Lexer::new(text),
            is_without_jsx,
            stack: vec![Level::new(LevelKind::Block)],
            functions: Vec::new(),
            max_functions,
            token_start: 0,
            previous: PreviousToken::Start,
            chain: None,
            value_name: None,
            closed: None,
            word: None,
            arrow: None,
            called: None,
        }
    }

    /// Reads the whole text. Returns None if it is not readable JavaScript.
    pub(super) fn scan_text(&mut self) -> Option<()> {
        loop {
            match self.top().kind {
                LevelKind::Template => self.read_template()?,
                LevelKind::Element { .. } => self.read_tag()?,
                LevelKind::Children => self.read_children()?,
                LevelKind::Type => {
                    let token = self.lexer.next(false)?;
                    self.inside_type(token)?;
                }
                _ => {
                    let is_operand = matches!(self.previous, PreviousToken::Operand | PreviousToken::Dot);
                    let may_be_regex = !is_operand && self.top().types.is_none();
                    let token = self.lexer.next(may_be_regex)?;
                    self.token_start = token.start;
                    if token.kind == TokenKind::End {
                        self.close_arrows();
                        return (self.stack.len() == 1).then_some(());
                    }
                    self.handle_token(token)?;
                }
            }
        }
    }

    pub(super) fn top(&mut self) -> &mut Level {
        // The lowest level is never popped.
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    pub(super) fn push(&mut self, level: Level) -> Option<()> {
        self.stack.push(level);
        self.clear_token_state();
        self.value_name = None;
        self.previous = PreviousToken::Operator;
        (self.stack.len() <= MAX_DEPTH).then_some(())
    }

    /// Pops the top level, and ends its function after the last token.
    pub(super) fn pop(&mut self) -> Option<Level> {
        self.pop_at(self.lexer.at)
    }

    fn pop_at(&mut self, end: usize) -> Option<Level> {
        if self.stack.len() == 1 {
            return None;
        }
        let level = self.stack.pop()?;
        if let Some(function) = level.function.and_then(|index| self.functions.get_mut(index)) {
            function.end = end;
        }
        self.clear_token_state();
        self.value_name = None;
        Some(level)
    }

    /// Clears the state that applies to the next token only.
    pub(super) fn clear_token_state(&mut self) {
        (self.chain, self.closed, self.word, self.arrow, self.called) = (None, None, None, None, None);
    }

    fn add_function(&mut self, start: usize, name: Option<String>) -> Option<usize> {
        if self.functions.len() >= self.max_functions {
            return None;
        }
        self.functions.push(Function { start, end: self.lexer.text.len(), name });
        Some(self.functions.len() - 1)
    }

    /// Returns the innermost level that is not an arrow function without braces.
    fn innermost_bracket(&self) -> Option<&Level> {
        self.stack.iter().rev().take(MAX_ARROWS).find(|level| level.kind != LevelKind::ArrowBody)
    }

    /// Returns a function's name, with its class in front if it is a member of one.
    fn function_name(&self, name: Option<NameRange>, is_member: bool) -> Option<String> {
        let own = names::display_name(self.lexer.slice(name?.start..name?.end))?;
        let class = self.innermost_bracket();
        let class = class.filter(|level| level.kind == LevelKind::Class && (is_member || level.is_in_value));
        let Some(class) = class else { return Some(own) };
        let class = class.function.and_then(|index| self.functions.get(index)?.name.as_deref());
        Some(names::member_name(class, &own))
    }

    /// Ends the arrow functions without braces before the current token.
    fn close_arrows(&mut self) {
        while self.top().kind == LevelKind::ArrowBody && self.pop_at(self.token_start).is_some() {}
    }

    /// Handles one token outside templates, elements and brackets of types.
    fn handle_token(&mut self, token: SourceToken) -> Option<()> {
        self.end_statement(token);
        if self.top().types.is_some() && self.type_token(token)? {
            return Some(());
        }
        if self.previous == PreviousToken::Arrow && token.kind != TokenKind::Open(b'{') {
            let (start, name) = self.arrow.take()?;
            let name = self.function_name(name, false);
            let function = self.add_function(start, name)?;
            self.push(Level { function: Some(function), ..Level::new(LevelKind::ArrowBody) })?;
        }
        match token.kind {
            TokenKind::Word => self.handle_word(token),
            TokenKind::Number | TokenKind::Text => self.handle_literal(token),
            TokenKind::Regex => self.handle_operand(),
            TokenKind::Template => return self.push(Level::new(LevelKind::Template)),
            TokenKind::Open(b'(') => return self.open_parenthesis(token),
            TokenKind::Open(b'[') => return self.open_bracket(token),
            TokenKind::Open(_) => return self.open_brace(token),
            TokenKind::Close(bracket) => return self.close_bracket(bracket),
            TokenKind::Comma => self.handle_comma(),
            TokenKind::Semicolon => self.handle_semicolon(),
            TokenKind::Colon => self.handle_colon(),
            TokenKind::Question => self.handle_question(),
            TokenKind::Dot | TokenKind::OptionalDot => {
                let chain = self.chain.filter(|_| token.kind == TokenKind::Dot);
                self.clear_token_state();
                (self.chain, self.value_name, self.previous) = (chain, None, PreviousToken::Dot);
            }
            TokenKind::Arrow => self.handle_arrow(token),
            TokenKind::Assign => self.handle_assign(),
            TokenKind::Less => return self.handle_less(token),
            TokenKind::Increment | TokenKind::Not => {
                let is_postfix = self.previous == PreviousToken::Operand && !token.is_first_of_line;
                let chain = self.chain.filter(|_| is_postfix);
                if is_postfix {
                    self.handle_operand();
                } else {
                    self.handle_operator();
                }
                self.chain = chain;
            }
            TokenKind::Star => {
                let is_of_function =
                    self.previous == PreviousToken::FunctionKeyword || self.top().is_at_key();
                if !is_of_function {
                    self.handle_operator();
                }
            }
            TokenKind::At => {
                let is_member = self.top().is_at_key();
                self.top().is_decorator = is_member;
                self.handle_operator();
            }
            TokenKind::Greater | TokenKind::TypeOperator | TokenKind::Operator => {
                // `...` in an object: an expression follows.
                let is_spread = self.top().is_at_key() && self.lexer.byte_at(token.start) == b'.';
                self.top().is_in_value |= is_spread;
                self.handle_operator();
            }
            TokenKind::End => {}
        }
        Some(())
    }

    pub(super) fn handle_operand(&mut self) {
        self.clear_token_state();
        (self.value_name, self.previous) = (None, PreviousToken::Operand);
    }

    pub(super) fn handle_operator(&mut self) {
        self.clear_token_state();
        (self.value_name, self.previous) = (None, PreviousToken::Operator);
    }

    /// Ends a statement without a semicolon if the token begins a line and cannot continue the statement.
    fn end_statement(&mut self, token: SourceToken) {
        let is_complete = match &self.top().types {
            Some(types) => types.is_complete,
            None => matches!(self.previous, PreviousToken::Operand | PreviousToken::BlockEnd),
        };
        let begins = match token.kind {
            TokenKind::Word => !names::is_infix(self.lexer.slice(token.start..token.end)),
            TokenKind::Number | TokenKind::Text | TokenKind::At | TokenKind::Increment | TokenKind::Not => {
                true
            }
            _ => false,
        };
        if !token.is_first_of_line || !is_complete || !begins {
            return;
        }
        self.top().types = None;
        self.close_arrows();
        let top = self.top();
        if matches!(top.kind, LevelKind::Parentheses(_) | LevelKind::Bracket { .. } | LevelKind::Object) {
            return;
        }
        top.end_statement();
        // Modifiers of a member may be on separate lines.
        if top.kind != LevelKind::Class {
            self.clear_token_state();
            (self.value_name, self.previous) = (None, PreviousToken::Start);
        }
    }

    fn open_parenthesis(&mut self, token: SourceToken) -> Option<()> {
        if let Some(function) = self.called.and_then(|index| self.functions.get_mut(index)) {
            // The function that it returns gets the name.
            function.name = None;
        }
        let value_name = self.value_name;
        let top = self.top();
        let opener = if let Some(function) = top.pending_function.take() {
            Opener { role: ClosedRole::Function, ..function }
        } else if let Some(key) = top.key.filter(|_| top.is_at_key() && !top.is_decorator) {
            Opener { role: ClosedRole::Method, start: key.start, name: Some(key), ..Opener::default() }
        } else if std::mem::take(&mut top.is_control_pending) {
            Opener { role: ClosedRole::Control, start: token.start, ..Opener::default() }
        } else {
            Opener { start: token.start, name: value_name, ..Opener::default() }
        };
        self.push(Level::new(LevelKind::Parentheses(opener)))
    }

    fn open_bracket(&mut self, token: SourceToken) -> Option<()> {
        let top = self.top();
        let key = (top.is_at_key() && !top.is_decorator).then_some(token.start);
        self.push(Level::new(LevelKind::Bracket { key }))
    }

    fn open_brace(&mut self, token: SourceToken) -> Option<()> {
        let closed = self.closed.filter(|closed| closed.opener.role.has_body());
        if let Some(closed) = closed {
            let is_method = closed.opener.role == ClosedRole::Method;
            let name = self.function_name(closed.opener.name, is_method);
            let function = self.add_function(closed.opener.start, name)?;
            self.push_block(Some(function))?;
            self.top().is_named_by_place = closed.opener.is_named_by_place;
            return Some(());
        }
        if self.previous == PreviousToken::Arrow {
            let (start, name) = self.arrow.take()?;
            let name = self.function_name(name, false);
            let function = self.add_function(start, name)?;
            return self.push_block(Some(function));
        }
        if let Some(name) = self.top().pending_class.take() {
            let name = name.and_then(|name| names::display_name(self.lexer.slice(name.start..name.end)));
            let class = self.add_function(token.start, name)?;
            return self.push(Level { function: Some(class), ..Level::new(LevelKind::Class) });
        }
        if std::mem::take(&mut self.top().is_type_body_pending) {
            return self.push(Level::new(LevelKind::Type));
        }
        let is_at_key = self.top().is_at_key();
        match self.previous {
            PreviousToken::Operator | PreviousToken::ExportKeyword if !is_at_key => {
                self.push(Level::new(LevelKind::Object))
            }
            _ => self.push_block(None),
        }
    }

    fn push_block(&mut self, function: Option<usize>) -> Option<()> {
        self.push(Level { function, ..Level::new(LevelKind::Block) })?;
        self.previous = PreviousToken::Start;
        Some(())
    }

    fn close_bracket(&mut self, bracket: u8) -> Option<()> {
        self.close_arrows();
        let end = self.lexer.at;
        let level = self.pop()?;
        match (level.kind, bracket) {
            (LevelKind::Parentheses(opener), b')') => {
                self.closed = Some(Closed { opener });
                let is_control = opener.role == ClosedRole::Control;
                self.previous = if is_control { PreviousToken::ControlEnd } else { PreviousToken::Operand };
            }
            (LevelKind::Bracket { key }, b']') => {
                if let Some(start) = key {
                    self.top().key = Some(NameRange { start, end });
                }
                self.previous = PreviousToken::Operand;
            }
            (LevelKind::Object, b'}') => self.previous = PreviousToken::Operand,
            (LevelKind::Block | LevelKind::Class, b'}') => {
                self.previous = PreviousToken::BlockEnd;
                self.called = level.function.filter(|_| level.is_named_by_place);
                // In a class, a method or a static block ends its member; in an object, the member continues to
                // the comma.
                let is_member = self.top().is_at_key();
                if is_member && self.top().kind == LevelKind::Class {
                    self.top().key = None;
                }
            }
            (LevelKind::Expression, b'}') => self.previous = PreviousToken::Operand,
            _ => return None,
        }
        Some(())
    }

    fn handle_comma(&mut self) {
        self.close_arrows();
        self.top().ternaries = 0;
        if self.top().kind == LevelKind::Object {
            (self.top().key, self.top().is_in_value) = (None, false);
        }
        self.handle_operator();
    }

    fn handle_semicolon(&mut self) {
        self.close_arrows();
        self.top().end_statement();
        self.handle_operator();
        self.previous = PreviousToken::Start;
    }

    fn handle_question(&mut self) {
        // `name?: Type`, `name?()`, `name? = value`
        if self.top().is_at_key() || matches!(self.lexer.peek_byte(), b':' | b')' | b',' | b'=' | b'}' | b']')
        {
            return;
        }
        self.top().ternaries += 1;
        self.handle_operator();
    }

    fn handle_colon(&mut self) {
        let top = self.top();
        let key = top.key.filter(|_| top.is_at_key());
        let Level { kind, is_case, is_declaring, .. } = *top;
        if kind == LevelKind::Object && key.is_some() {
            self.closed_or_value(key);
            return;
        }
        if kind == LevelKind::Class && key.is_some() {
            let closed = self.closed.filter(|closed| closed.opener.role.has_body());
            let kind = closed.map_or(TypeKind::Declared(key), TypeKind::Returned);
            return self.begin_types(kind, None);
        }
        if top.ternaries == 0
            && kind == LevelKind::ArrowBody
            && self.innermost_bracket().is_some_and(|outer| outer.ternaries > 0)
        {
            self.close_arrows();
        }
        if self.top().ternaries > 0 {
            self.top().ternaries -= 1;
            self.handle_operator();
        } else if is_case {
            self.top().is_case = false;
            self.handle_operator();
            self.previous = PreviousToken::Start;
        } else if let Some(closed) = self.closed {
            self.begin_types(TypeKind::Returned(closed), None);
        } else if is_declaring || matches!(kind, LevelKind::Parentheses(_) | LevelKind::Bracket { .. }) {
            self.begin_types(TypeKind::Declared(self.chain), None);
        } else {
            self.handle_operator();
            self.previous = PreviousToken::Start;
        }
    }

    /// Handles the `:` after a key of an object, or after the parameters of a method.
    fn closed_or_value(&mut self, key: Option<NameRange>) {
        if let Some(closed) = self.closed.filter(|closed| closed.opener.role == ClosedRole::Method) {
            return self.begin_types(TypeKind::Returned(closed), None);
        }
        self.top().is_in_value = true;
        self.handle_operator();
        self.value_name = key;
    }

    fn handle_assign(&mut self) {
        let top = self.top();
        let key = top.key.filter(|_| top.is_at_key());
        let name = if key.is_some() {
            top.is_in_value = true;
            key
        } else {
            self.chain
        };
        self.handle_operator();
        self.value_name = name;
    }

    fn handle_arrow(&mut self, token: SourceToken) {
        let group = self.closed.map(|closed| (closed.opener.start, closed.opener.name));
        let arrow = group.or(self.word).unwrap_or((token.start, None));
        self.handle_operator();
        (self.arrow, self.previous) = (Some(arrow), PreviousToken::Arrow);
    }
}
