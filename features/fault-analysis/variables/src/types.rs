//! Types of variables: their names as C has them, their sizes and kinds.

/// What the bytes of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
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

impl TypeKind {
    const ALL: [TypeKind; 9] = [
        TypeKind::Boolean,
        TypeKind::Signed,
        TypeKind::Unsigned,
        TypeKind::Character,
        TypeKind::Float,
        TypeKind::Pointer,
        TypeKind::Enumeration,
        TypeKind::Composite,
        TypeKind::Unknown,
    ];

    pub(crate) fn code(self) -> u64 {
        TypeKind::ALL.iter().position(|kind| *kind == self).unwrap_or_default() as u64
    }

    pub(crate) fn from_code(code: u64) -> TypeKind {
        let kind = usize::try_from(code).ok().and_then(|at| TypeKind::ALL.get(at));
        kind.copied().unwrap_or(TypeKind::Unknown)
    }
}
