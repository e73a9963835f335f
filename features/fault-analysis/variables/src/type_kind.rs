//! Kinds of types: how the bytes of a value are read.

/// What the bytes of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableTypeKind {
    Boolean,
    Signed,
    Unsigned,
    Character,
    Float,
    Pointer,
    Enumeration,
    /// A structure, a class, a union or an array.
    Composite,
    Unknown,
}

impl VariableTypeKind {
    const ALL: [VariableTypeKind; 9] = [
        VariableTypeKind::Boolean,
        VariableTypeKind::Signed,
        VariableTypeKind::Unsigned,
        VariableTypeKind::Character,
        VariableTypeKind::Float,
        VariableTypeKind::Pointer,
        VariableTypeKind::Enumeration,
        VariableTypeKind::Composite,
        VariableTypeKind::Unknown,
    ];

    pub(crate) fn code(self) -> u64 {
        VariableTypeKind::ALL.iter().position(|kind| *kind == self).unwrap_or_default() as u64
    }

    pub(crate) fn from_code(code: u64) -> VariableTypeKind {
        let kind = usize::try_from(code).ok().and_then(|at| VariableTypeKind::ALL.get(at));
        kind.copied().unwrap_or(VariableTypeKind::Unknown)
    }
}
