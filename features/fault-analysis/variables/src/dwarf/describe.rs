//! Names, sizes and kinds of types, and names of entries.

use super::DwarfBytes;
use super::scopes::UnitScopes;
use crate::type_kind::VariableTypeKind;
use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, Unit, UnitOffset, constants};

/// The most entries that lead from one to another: types of types, and entries with the attributes of others.
const CHAIN_LIMIT: usize = 24;
/// The most arguments of a template.
const ARGUMENTS_LIMIT: usize = 32;
/// The most namespaces and types around a type.
const SCOPES_LIMIT: usize = 16;
/// The most characters of a type's name.
const NAME_CHARS_LIMIT: usize = 200;

pub type Entry<'d> = DebuggingInformationEntry<DwarfBytes<'d>>;

/// A type, as the table has it.
#[derive(Clone, Debug)]
pub struct DescribedType {
    pub name: String,
    /// In bytes; 0 if it is not known.
    pub size: u64,
    pub kind: VariableTypeKind,
}

/// Returns the entry that an attribute refers to, if it is in the same unit.
pub fn referred(unit: &Unit<DwarfBytes<'_>>, entry: &Entry<'_>, name: constants::DwAt) -> Option<UnitOffset> {
    match entry.attr_value(name)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&unit.header),
        _ => None,
    }
}

/// Returns an attribute of an entry, or of the one that it stands for.
pub fn find_attribute<'d>(
    unit: &Unit<DwarfBytes<'d>>,
    entry: &Entry<'d>,
    name: constants::DwAt,
) -> Option<AttributeValue<DwarfBytes<'d>>> {
    if let Some(value) = entry.attr_value(name) {
        return Some(value);
    }
    let mut next = entry.clone();
    for _ in 0..CHAIN_LIMIT {
        let origin = referred(unit, &next, constants::DW_AT_abstract_origin)
            .or_else(|| referred(unit, &next, constants::DW_AT_specification))?;
        next = unit.entry(origin).ok()?;
        if let Some(value) = next.attr_value(name) {
            return Some(value);
        }
    }
    None
}

/// Returns the name of an entry, or of the one that it stands for.
pub fn find_name<'d>(
    dwarf: &Dwarf<DwarfBytes<'d>>,
    unit: &Unit<DwarfBytes<'d>>,
    entry: &Entry<'d>,
) -> Option<String> {
    let value = find_attribute(unit, entry, constants::DW_AT_name)?;
    let bytes = dwarf.attr_string(unit, value).ok()?;
    Some(bytes.to_string_lossy().into_owned())
}

/// Returns the type of an entry, or of the one that it stands for.
pub fn find_type<'d>(unit: &Unit<DwarfBytes<'d>>, entry: &Entry<'d>) -> Option<UnitOffset> {
    match find_attribute(unit, entry, constants::DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&unit.header),
        _ => None,
    }
}

/// What names of types are made from.
#[derive(Clone, Copy)]
pub struct TypeNames<'n, 'd> {
    pub dwarf: &'n Dwarf<DwarfBytes<'d>>,
    pub scopes: &'n UnitScopes,
    /// True for a unit of C++, in which the names of templates may lack their arguments.
    pub has_templates: bool,
    /// True for the argument of a template, which has its namespaces in its name.
    pub is_argument: bool,
    /// The most entries that may lead from one to another.
    pub chain: usize,
}

impl<'n, 'd> TypeNames<'n, 'd> {
    pub fn new(
        dwarf: &'n Dwarf<DwarfBytes<'d>>,
        scopes: &'n UnitScopes,
        has_templates: bool,
    ) -> TypeNames<'n, 'd> {
        TypeNames { dwarf, scopes, has_templates, is_argument: false, chain: CHAIN_LIMIT }
    }

    /// Returns the name of a type or a function with the arguments of its template. Most compilers write them in the name.
    pub fn template_name(
        &self,
        unit: &Unit<DwarfBytes<'d>>,
        entry: &Entry<'d>,
        chain: usize,
    ) -> Option<String> {
        let name = find_name(self.dwarf, unit, entry)?;
        if !self.has_templates || name.contains('<') || name.is_empty() {
            return Some(name);
        }
        let arguments = chain.checked_sub(1).and_then(|chain| template_arguments(self, unit, entry, chain));
        let name = match arguments {
            Some(arguments) => name + &arguments,
            None => name,
        };
        Some(name.chars().take(NAME_CHARS_LIMIT).collect())
    }
}

/// Describes a type; without an entry it is `void`.
pub fn describe_type<'d>(
    names: &TypeNames<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    entry: Option<UnitOffset>,
) -> DescribedType {
    let describer = Describer { names: *names, unit };
    let mut described = describer.describe(entry, names.chain);
    described.name = described.name.chars().take(NAME_CHARS_LIMIT).collect();
    described
}

struct Describer<'u, 'd> {
    names: TypeNames<'u, 'd>,
    unit: &'u Unit<DwarfBytes<'d>>,
}

impl<'d> Describer<'_, 'd> {
    fn describe(&self, entry: Option<UnitOffset>, chain: usize) -> DescribedType {
        let unknown =
            |name: &str| DescribedType { name: name.to_owned(), size: 0, kind: VariableTypeKind::Unknown };
        let Some(entry) = entry else { return unknown("void") };
        let Some(chain) = chain.checked_sub(1) else { return unknown("…") };
        let Ok(entry) = self.unit.entry(entry) else { return unknown("?") };
        let inner = || self.describe(referred(self.unit, &entry, constants::DW_AT_type), chain);
        let named = |fallback: &str| {
            let name = self.names.template_name(self.unit, &entry, chain);
            let Some(name) = name else { return fallback.to_owned() };
            let has_scope = self.names.is_argument && entry.tag() != constants::DW_TAG_base_type;
            let scope = if has_scope {
                scope_prefix(&self.names, self.unit, entry.offset(), chain)
            } else {
                String::new()
            };
            format!("{scope}{name}")
        };
        let size = entry.attr_value(constants::DW_AT_byte_size).and_then(|size| size.udata_value());
        match entry.tag() {
            constants::DW_TAG_pointer_type => self.pointer(&inner().name, " *"),
            constants::DW_TAG_reference_type => self.pointer(&inner().name, " &"),
            constants::DW_TAG_rvalue_reference_type => self.pointer(&inner().name, " &&"),
            constants::DW_TAG_typedef => DescribedType { name: named("?"), ..inner() },
            constants::DW_TAG_const_type => qualified("const", &inner()),
            constants::DW_TAG_volatile_type => qualified("volatile", &inner()),
            constants::DW_TAG_restrict_type | constants::DW_TAG_atomic_type => inner(),
            constants::DW_TAG_base_type => {
                let encoding = match entry.attr_value(constants::DW_AT_encoding) {
                    Some(AttributeValue::Encoding(encoding)) => base_kind(encoding),
                    _ => VariableTypeKind::Unknown,
                };
                DescribedType { name: named("?"), size: size.unwrap_or(0), kind: encoding }
            }
            constants::DW_TAG_enumeration_type => DescribedType {
                name: named("enum"),
                size: size.unwrap_or_else(|| inner().size),
                kind: VariableTypeKind::Enumeration,
            },
            constants::DW_TAG_array_type => self.describe_array(&entry, inner()),
            constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type => DescribedType {
                name: named("struct"),
                size: size.unwrap_or(0),
                kind: VariableTypeKind::Composite,
            },
            constants::DW_TAG_subroutine_type => unknown(&format!("{} ()", inner().name)),
            _ => DescribedType { name: named("?"), size: size.unwrap_or(0), kind: VariableTypeKind::Unknown },
        }
    }

    fn pointer(&self, target: &str, mark: &str) -> DescribedType {
        let mark = if target.ends_with('*') { mark.trim_start() } else { mark };
        let size = u64::from(self.unit.encoding().address_size);
        DescribedType { name: format!("{target}{mark}"), size, kind: VariableTypeKind::Pointer }
    }

    fn describe_array(&self, entry: &Entry<'d>, element: DescribedType) -> DescribedType {
        let mut name = element.name;
        let mut size = element.size;
        let mut children = self.unit.entries_at_offset(entry.offset()).ok();
        if let Some(cursor) = &mut children {
            let _ = cursor.next_dfs();
            while let Ok(Some(child)) = cursor.next_dfs() {
                if child.depth() <= 0 {
                    break;
                }
                if child.tag() != constants::DW_TAG_subrange_type {
                    continue;
                }
                let count = child
                    .attr_value(constants::DW_AT_count)
                    .and_then(|count| count.udata_value())
                    .or_else(|| {
                        let upper = child.attr_value(constants::DW_AT_upper_bound)?.udata_value()?;
                        upper.checked_add(1)
                    });
                name.push_str(&count.map_or("[]".to_owned(), |count| format!("[{count}]")));
                size = size.saturating_mul(count.unwrap_or(0));
            }
        }
        DescribedType { name, size, kind: VariableTypeKind::Composite }
    }
}

fn qualified(word: &str, inner: &DescribedType) -> DescribedType {
    let name = if inner.name.ends_with('*') {
        format!("{}{word}", inner.name)
    } else {
        format!("{word} {}", inner.name)
    };
    DescribedType { name, size: inner.size, kind: inner.kind }
}

fn base_kind(encoding: constants::DwAte) -> VariableTypeKind {
    match encoding {
        constants::DW_ATE_boolean => VariableTypeKind::Boolean,
        constants::DW_ATE_signed => VariableTypeKind::Signed,
        constants::DW_ATE_unsigned => VariableTypeKind::Unsigned,
        constants::DW_ATE_signed_char | constants::DW_ATE_unsigned_char | constants::DW_ATE_UTF => {
            VariableTypeKind::Character
        }
        constants::DW_ATE_float => VariableTypeKind::Float,
        _ => VariableTypeKind::Unknown,
    }
}

/// Returns the arguments of a template in angle brackets, as clang writes them: `<shop::Item, 4>`. Returns `None` for an
/// entry without any. With `-gsimple-template-names`, clang's default for systems of Apple from 2025 on, they are not in the
/// name.
fn template_arguments<'d>(
    names: &TypeNames<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    entry: &Entry<'d>,
    chain: usize,
) -> Option<String> {
    let mut arguments = Vec::new();
    let mut has_parameters = false;
    let mut cursor = unit.entries_at_offset(entry.offset()).ok()?;
    let _ = cursor.next_dfs();
    while let Ok(Some(child)) = cursor.next_dfs() {
        if child.depth() <= 0 || arguments.len() >= ARGUMENTS_LIMIT {
            break;
        }
        let tag = child.tag();
        // The arguments of a pack are one level below it.
        let is_direct = child.depth() == 1 || child.depth() == 2 && has_parameters;
        has_parameters |= child.depth() == 1 && tag == constants::DW_TAG_GNU_template_parameter_pack;
        if !is_direct {
            continue;
        }
        let argument = match tag {
            constants::DW_TAG_template_type_parameter => {
                argument_type(names, unit, referred(unit, child, constants::DW_AT_type), chain)
            }
            constants::DW_TAG_template_value_parameter => argument_value(names, unit, child, chain)?,
            constants::DW_TAG_GNU_template_template_param => {
                let value = child.attr_value(constants::DW_AT_GNU_template_name)?;
                names.dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned()
            }
            constants::DW_TAG_GNU_template_parameter_pack => continue,
            _ => continue,
        };
        arguments.push(argument);
    }
    if arguments.is_empty() && !has_parameters {
        return None;
    }
    let list = arguments.join(", ");
    let space = if list.ends_with('>') { " " } else { "" };
    Some(format!("<{list}{space}>"))
}

/// Returns the name of a type with its namespaces.
fn argument_type<'d>(
    names: &TypeNames<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    entry: Option<UnitOffset>,
    chain: usize,
) -> String {
    describe_type(&TypeNames { is_argument: true, chain, ..*names }, unit, entry).name
}

/// Returns the namespaces and types around a type: `shop::`. Anonymous ones are left out.
fn scope_prefix<'d>(
    names: &TypeNames<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    offset: UnitOffset,
    chain: usize,
) -> String {
    let parents = names.scopes.parents(unit);
    let mut around = Vec::new();
    let mut at = offset.0;
    while let Some(parent) = parents.get(&at).filter(|_| around.len() < SCOPES_LIMIT) {
        at = *parent;
        let Ok(entry) = unit.entry(UnitOffset(at)) else { break };
        let name = if entry.tag() == constants::DW_TAG_namespace {
            // An inline namespace is part of the name as well.
            find_name(names.dwarf, unit, &entry).unwrap_or_else(|| "(anonymous namespace)".to_owned())
        } else {
            names.template_name(unit, &entry, chain).unwrap_or_default()
        };
        around.push(name);
    }
    around
        .into_iter()
        .rev()
        .filter(|name| !name.is_empty())
        .fold(String::new(), |path, name| path + &name + "::")
}

/// Returns a value that is the argument of a template, as clang writes it.
fn argument_value<'d>(
    names: &TypeNames<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    entry: &Entry<'d>,
    chain: usize,
) -> Option<String> {
    let value = entry.attr_value(constants::DW_AT_const_value)?;
    let of_type = argument_type(names, unit, referred(unit, entry, constants::DW_AT_type), chain);
    let signed = match value {
        AttributeValue::Sdata(value) => value,
        other => other.udata_value()?.cast_signed(),
    };
    let unsigned = signed.cast_unsigned();
    Some(match of_type.as_str() {
        "bool" => (if unsigned == 0 { "false" } else { "true" }).to_owned(),
        "int" => signed.to_string(),
        "long" => format!("{signed}L"),
        "long long" => format!("{signed}LL"),
        "unsigned int" => format!("{unsigned}U"),
        "unsigned long" => format!("{unsigned}UL"),
        "unsigned long long" => format!("{unsigned}ULL"),
        "char" => match u8::try_from(unsigned) {
            Ok(byte @ b' '..=b'~') => format!("'{}'", char::from(byte)),
            _ => format!("(char){signed}"),
        },
        other => format!("({other}){signed}"),
    })
}
