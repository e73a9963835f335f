//! Open levels at a position of a source.

use super::lexer::{PreviousToken, SourceToken};

/// The range of a name in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameRange {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Purpose of a pair of parentheses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClosedRole {
    /// An expression, a call, or the parameters of an arrow function.
    #[default]
    Group,
    Function,
    Method,
    Control,
}

impl ClosedRole {
    pub(super) fn has_body(self) -> bool {
        matches!(self, ClosedRole::Function | ClosedRole::Method)
    }
}

/// Opening parenthesis of possible parameters, with the start and name of their function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opener {
    pub(super) role: ClosedRole,
    pub(super) start: usize,
    pub(super) name: Option<NameRange>,
    /// True if the name is not the function's own.
    pub(super) is_named_by_place: bool,
}

/// The parentheses that were closed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) opener: Opener,
}

/// Kind of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LevelKind {
    Block,
    Class,
    Object,
    Parentheses(Opener),
    /// Square brackets, with the start of the computed key, if they are one.
    Bracket {
        key: Option<usize>,
    },
    /// An arrow function without braces.
    ArrowBody,
    Template,
    /// An expression in a template or an element.
    Expression,
    /// A JSX tag.
    Element {
        is_closing: bool,
    },
    /// The text between two tags.
    Children,
    /// Brackets of a type.
    Type,
}

/// Context of a type, which decides how the source continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeKind {
    /// `name: Type`
    Declared(Option<NameRange>),
    /// `(parameters): Type`
    Returned(Closed),
    /// `<Type>`, with the token before.
    Parameters(PreviousToken),
    /// `type Name = Type`
    Alias,
    /// `value as Type`
    Cast,
}

/// A type that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    pub(super) kind: TypeKind,
    pub(super) angles: u32,
    /// True if the type may end here.
    pub(super) is_complete: bool,
    pub(super) is_behind_parentheses: bool,
    pub(super) value_name: Option<NameRange>,
}

/// A bracket, an element or an arrow function that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) kind: LevelKind,
    /// The function that ends with it.
    pub(super) function: Option<usize>,
    /// True if the function is named by its assignment target.
    pub(super) is_named_by_place: bool,
    /// Number of `?` without their `:`.
    pub(super) ternaries: u32,
    pub(super) types: Option<Types>,
    /// True after `let`, `const` or `var`.
    pub(super) is_declaring: bool,
    pub(super) is_case: bool,
    pub(super) is_control_pending: bool,
    pub(super) is_type_body_pending: bool,
    pub(super) is_decorator: bool,
    /// The function of the parameters or body that comes next.
    pub(super) pending_function: Option<Opener>,
    /// The class of the body that comes next, with its name.
    pub(super) pending_class: Option<Option<NameRange>>,
    /// The key of a member, or of an attribute.
    pub(super) key: Option<NameRange>,
    /// True inside the value of a member.
    pub(super) is_in_value: bool,
}

impl Level {
    pub(super) fn new(kind: LevelKind) -> Level {
        Level {
            kind,
            function: None,
            is_named_by_place: false,
            ternaries: 0,
            types: None,
            is_declaring: false,
            is_case: false,
            is_control_pending: false,
            is_type_body_pending: false,
            is_decorator: false,
            pending_function: None,
            pending_class: None,
            key: None,
            is_in_value: false,
        }
    }

    /// True if a key of an object or a class is being read or comes next.
    pub(super) fn is_at_key(&self) -> bool {
        matches!(self.kind, LevelKind::Object | LevelKind::Class)
            && !self.is_in_value
            && self.pending_function.is_none()
    }

    pub(super) fn set_key(&mut self, token: SourceToken) {
        self.key = Some(NameRange { start: token.start, end: token.end });
    }

    /// Resets the state of the current statement or class member.
    pub(super) fn end_statement(&mut self) {
        let Level { kind, function, is_named_by_place, .. } = *self;
        *self = Level { function, is_named_by_place, ..Level::new(kind) };
    }
}
