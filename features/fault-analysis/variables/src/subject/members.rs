//! Members at an offset of a type, and the expressions that name them.

use crate::subject::reasons::SubjectAbstention;
use crate::{TypeFacts, TypeForm, TypeId, TypeMember, VariableTable, VariableTypeKind};

/// The most structures in each other.
const NESTING_LIMIT: usize = 16;
/// The prefix of the hidden member that compilers put into a polymorphic class.
const VTABLE_PREFIX: &str = "_vptr";
/// The size of an address.
pub const POINTER_BYTES: u64 = 8;

/// An expression that is a pointer or a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerExpression {
    pub text: String,
    pub type_name: String,
    pub is_reference: bool,
    pub target: PointerTarget,
}

/// The target of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerTarget {
    Type(TypeId),
    /// A pointer to `void`.
    Unknown,
    /// The functions of a polymorphic class.
    Vtable,
}

/// The expression of an access through a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPath {
    pub path: Option<String>,
    pub member: Option<String>,
}

/// The members of a table's types.
#[derive(Clone, Copy, Debug)]
pub struct Members<'m, 't> {
    pub table: &'m VariableTable<'t>,
}

impl<'t> Members<'_, 't> {
    /// Returns a type with its parts.
    pub fn describe(&self, id: TypeId) -> Result<TypeFacts<'t>, SubjectAbstention> {
        self.table.describe_type(id).map_err(|_| SubjectAbstention::DamagedTable)
    }

    /// Returns a variable as an expression; `None` if it is no pointer.
    pub fn pointer_variable(
        &self,
        name: &str,
        type_id: TypeId,
    ) -> Result<Option<PointerExpression>, SubjectAbstention> {
        let facts = self.describe(type_id)?;
        Ok(pointer_expression(name.to_owned(), &facts))
    }

    /// Returns the expression of the pointer that lies at an offset from another one.
    pub fn find_loaded_pointer(
        &self,
        base: &PointerExpression,
        offset: i64,
    ) -> Result<PointerExpression, SubjectAbstention> {
        let offset = u64::try_from(offset).map_err(|_| SubjectAbstention::UnknownMember)?;
        let PointerTarget::Type(target) = base.target else { return Err(SubjectAbstention::UnknownMember) };
        let facts = self.describe(target)?;
        let loaded = match facts.kind {
            VariableTypeKind::Composite => self.find_pointer_in(&member_prefix(base), &facts, offset)?,
            _ => {
                let index = offset.checked_div(facts.size).filter(|_| offset.is_multiple_of(POINTER_BYTES));
                index.and_then(|index| pointer_expression(element_text(base, index), &facts))
            }
        };
        loaded.ok_or(SubjectAbstention::UnknownMember)
    }

    /// Returns the only pointer at exactly an offset of a structure. `prefix` comes before the member's name.
    pub fn find_pointer_in(
        &self,
        prefix: &str,
        facts: &TypeFacts<'t>,
        offset: u64,
    ) -> Result<Option<PointerExpression>, SubjectAbstention> {
        let mut found = Vec::new();
        self.collect_pointers(prefix, facts, offset, NESTING_LIMIT, &mut found)?;
        let only = found.pop();
        Ok(only.filter(|_| found.is_empty()))
    }

    fn collect_pointers(
        &self,
        prefix: &str,
        facts: &TypeFacts<'t>,
        offset: u64,
        nesting_left: usize,
        found: &mut Vec<PointerExpression>,
    ) -> Result<(), SubjectAbstention> {
        let Some(nesting_left) = nesting_left.checked_sub(1) else { return Ok(()) };
        match &facts.form {
            TypeForm::Structure(members) | TypeForm::Union(members) => {
                for member in members {
                    let inner = self.describe(member.type_id)?;
                    let Some(rest) = offset.checked_sub(member.offset).filter(|rest| *rest < inner.size)
                    else {
                        continue;
                    };
                    if member.name.starts_with(VTABLE_PREFIX) {
                        found.extend((rest == 0).then(|| vtable_expression(prefix)));
                    } else if inner.kind == VariableTypeKind::Composite {
                        let prefix = inner_prefix(prefix, member);
                        self.collect_pointers(&prefix, &inner, rest, nesting_left, found)?;
                    } else if rest == 0 {
                        found.extend(pointer_expression(format!("{prefix}{}", member.name), &inner));
                    }
                }
            }
            TypeForm::Array { element, .. } => {
                let inner = self.describe(*element)?;
                let Some(index) = offset.checked_div(inner.size) else { return Ok(()) };
                let text = format!("{}[{index}]", prefix.trim_end_matches('.'));
                let rest = offset - index * inner.size;
                if inner.kind == VariableTypeKind::Composite {
                    self.collect_pointers(&format!("{text}."), &inner, rest, nesting_left, found)?;
                } else if rest == 0 {
                    found.extend(pointer_expression(text, &inner));
                }
            }
            TypeForm::Plain | TypeForm::Pointer { .. } => {}
        }
        Ok(())
    }

    /// Returns the expression of an access at an offset from a pointer. `size` is that of the access if it is known.
    /// The path is `None` if more than one expression fits.
    pub fn find_access(
        &self,
        base: &PointerExpression,
        offset: i64,
        size: Option<u64>,
    ) -> Result<AccessPath, SubjectAbstention> {
        let Ok(offset) = u64::try_from(offset) else { return Ok(AccessPath::default()) };
        let target = match base.target {
            PointerTarget::Vtable => {
                let path = format!("{}[{}]", base.text, offset / POINTER_BYTES);
                return Ok(AccessPath { path: Some(path), member: None });
            }
            PointerTarget::Unknown => return Ok(AccessPath::default()),
            PointerTarget::Type(target) => self.describe(target)?,
        };
        if target.kind != VariableTypeKind::Composite {
            let is_element = target.size > 0 && offset.is_multiple_of(target.size);
            let path = is_element.then(|| element_text(base, offset / target.size));
            return Ok(AccessPath { path, member: None });
        }
        let mut leaves = Vec::new();
        self.collect_leaves(&target, offset, NESTING_LIMIT, &mut leaves)?;
        match &leaves[..] {
            [Some(leaf)] if size.is_none_or(|size| size <= leaf.size) => {
                let is_vtable = leaf.name.starts_with(VTABLE_PREFIX);
                let name = if is_vtable { "vtable" } else { leaf.name };
                Ok(AccessPath {
                    path: Some(format!("{}{name}", member_prefix(base))),
                    member: (!is_vtable).then(|| name.to_owned()),
                })
            }
            _ => Ok(AccessPath::default()),
        }
    }

    /// Collects the members that an offset begins; `None` for one that is not named: it lies within an array, a bit-field, a
    /// named structure or a union.
    fn collect_leaves(
        &self,
        facts: &TypeFacts<'t>,
        offset: u64,
        nesting_left: usize,
        leaves: &mut Vec<Option<MemberLeaf<'t>>>,
    ) -> Result<(), SubjectAbstention> {
        let Some(nesting_left) = nesting_left.checked_sub(1) else { return Ok(()) };
        let (TypeForm::Structure(members) | TypeForm::Union(members)) = &facts.form else {
            leaves.push(None);
            return Ok(());
        };
        for member in members {
            let inner = self.describe(member.type_id)?;
            let Some(rest) = offset.checked_sub(member.offset).filter(|rest| *rest < inner.size) else {
                continue;
            };
            if member.name.is_empty() && inner.kind == VariableTypeKind::Composite {
                self.collect_leaves(&inner, rest, nesting_left, leaves)?;
            } else if rest > 0 || member.is_bit_field || inner.kind == VariableTypeKind::Composite {
                leaves.push(None);
            } else {
                leaves.push(Some(MemberLeaf { name: member.name, size: inner.size }));
            }
        }
        Ok(())
    }

    /// Returns true if a type holds pointers, or is one.
    pub fn leads_to_pointers(&self, id: TypeId, nesting_left: usize) -> Result<bool, SubjectAbstention> {
        let Some(nesting_left) = nesting_left.checked_sub(1) else { return Ok(true) };
        match self.describe(id)?.form {
            TypeForm::Pointer { .. } => Ok(true),
            TypeForm::Plain => Ok(false),
            TypeForm::Array { element, .. } => self.leads_to_pointers(element, nesting_left),
            TypeForm::Structure(members) | TypeForm::Union(members) => {
                for member in members {
                    if self.leads_to_pointers(member.type_id, nesting_left)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct MemberLeaf<'t> {
    name: &'t str,
    size: u64,
}

/// Returns an expression of a type; `None` if it is no pointer.
pub fn pointer_expression(text: String, facts: &TypeFacts<'_>) -> Option<PointerExpression> {
    let TypeForm::Pointer { target, is_reference } = facts.form else { return None };
    let target = target.map_or(PointerTarget::Unknown, PointerTarget::Type);
    Some(PointerExpression { text, type_name: facts.name.to_owned(), is_reference, target })
}

fn vtable_expression(prefix: &str) -> PointerExpression {
    PointerExpression {
        text: format!("{prefix}vtable"),
        type_name: "void *".to_owned(),
        is_reference: false,
        target: PointerTarget::Vtable,
    }
}

fn member_prefix(base: &PointerExpression) -> String {
    // A reference to a pointer is no pointer to members.
    if base.is_reference { format!("{}.", base.text) } else { format!("{}->", base.text) }
}

/// Returns the prefix of a member's own members: those of a base class have none.
fn inner_prefix(prefix: &str, member: &TypeMember<'_>) -> String {
    if member.name.is_empty() { prefix.to_owned() } else { format!("{prefix}{}.", member.name) }
}

fn element_text(base: &PointerExpression, index: u64) -> String {
    match (base.is_reference, index) {
        (true, 0) => base.text.clone(),
        (false, 0) => format!("*{}", base.text),
        _ => format!("{}[{index}]", base.text),
    }
}
