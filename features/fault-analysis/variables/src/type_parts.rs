//! Types of variables with the types that they consist of.

use crate::codec::{TableError, TableReader, TableWriter};
use crate::type_kind::VariableTypeKind;

/// A type of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u64);

/// A type, with the types that it consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFacts<'t> {
    pub name: &'t str,
    /// In bytes; 0 if it is not known.
    pub size: u64,
    pub kind: VariableTypeKind,
    pub form: TypeForm<'t>,
}

/// The parts of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeForm<'t> {
    /// It has no parts, or they are not known.
    Plain,
    /// `None` is a pointer to `void`.
    Pointer {
        target: Option<TypeId>,
        is_reference: bool,
    },
    Structure(Vec<TypeMember<'t>>),
    Union(Vec<TypeMember<'t>>),
    Array {
        element: TypeId,
        count: u64,
    },
}

/// A member of a structure or a union, or a base class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeMember<'t> {
    /// Empty for a base class and for an anonymous structure or union.
    pub name: &'t str,
    pub offset: u64,
    pub type_id: TypeId,
    pub is_bit_field: bool,
}

/// A member that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenMember {
    pub name: u64,
    pub offset: u64,
    pub type_id: u64,
    pub is_bit_field: bool,
}

/// The parts of a type that is written.
#[derive(Clone, Debug)]
pub(crate) enum WrittenForm {
    Plain,
    Pointer { target: Option<u64>, is_reference: bool },
    Structure { members: Vec<WrittenMember>, is_union: bool },
    Array { element: u64, count: u64 },
}

impl WrittenForm {
    pub fn write(&self, out: &mut TableWriter) {
        match self {
            WrittenForm::Plain => out.write_number(0),
            WrittenForm::Pointer { target, is_reference } => {
                out.write_number(1);
                out.write_number(target.map_or(0, |target| target + 1));
                out.write_number(u64::from(*is_reference));
            }
            WrittenForm::Structure { members, is_union } => {
                out.write_number(if *is_union { 3 } else { 2 });
                out.write_count(members.len());
                for member in members {
                    out.write_number(member.name);
                    out.write_number(member.offset);
                    out.write_number(member.type_id);
                    out.write_number(u64::from(member.is_bit_field));
                }
            }
            WrittenForm::Array { element, count } => {
                out.write_number(4);
                out.write_number(*element);
                out.write_number(*count);
            }
        }
    }
}

impl<'t> TypeForm<'t> {
    /// Reads the parts of a type; `text` returns a text of the pool.
    pub(crate) fn read(
        reader: &mut TableReader<'t>,
        text: &dyn Fn(u64) -> Result<&'t str, TableError>,
    ) -> Result<TypeForm<'t>, TableError> {
        Ok(match reader.read_number()? {
            1 => TypeForm::Pointer {
                target: reader.read_number()?.checked_sub(1).map(TypeId),
                is_reference: reader.read_number()? == 1,
            },
            form @ (2 | 3) => {
                let mut members = Vec::new();
                for _ in 0..reader.read_count()? {
                    members.push(TypeMember {
                        name: text(reader.read_number()?)?,
                        offset: reader.read_number()?,
                        type_id: TypeId(reader.read_number()?),
                        is_bit_field: reader.read_number()? == 1,
                    });
                }
                if form == 2 { TypeForm::Structure(members) } else { TypeForm::Union(members) }
            }
            4 => TypeForm::Array { element: TypeId(reader.read_number()?), count: reader.read_number()? },
            _ => TypeForm::Plain,
        })
    }
}
