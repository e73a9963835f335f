//! Template arguments of types and functions that clang leaves out of their names with `-gsimple-template-names`, which is
//! its default for systems of Apple from 2025 on. They are entries below the template.

use super::DwarfBytes;
use super::describe::{Entry, TypeNames, describe_type, find_name, referred};
use gimli::{AttributeValue, DwTag, Unit, UnitOffset, constants};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The most arguments of a template.
const ARGUMENTS_LIMIT: usize = 32;
/// The most namespaces and types around a type.
const SCOPES_LIMIT: usize = 16;
/// The most entries of a unit that are searched for the scopes of its types.
const ENTRIES_LIMIT: usize = 4 << 20;

/// The namespaces and types around the types of a unit, by the places of their entries. They are read once a template
/// needs them.
#[derive(Debug, Default)]
pub struct UnitScopes {
    parents: OnceCell<HashMap<usize, usize>>,
}

impl UnitScopes {
    fn parents(&self, unit: &Unit<DwarfBytes<'_>>) -> &HashMap<usize, usize> {
        self.parents.get_or_init(|| read_parents(unit))
    }
}

fn is_scope(tag: DwTag) -> bool {
    tag == constants::DW_TAG_namespace || is_named_type(tag)
}

fn is_named_type(tag: DwTag) -> bool {
    matches!(
        tag,
        constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type
            | constants::DW_TAG_enumeration_type
            | constants::DW_TAG_typedef
    )
}

fn read_parents(unit: &Unit<DwarfBytes<'_>>) -> HashMap<usize, usize> {
    let mut parents = HashMap::new();
    // The offsets of the entries around the next one, with true for a namespace or a type.
    let mut around: Vec<(usize, bool)> = Vec::new();
    let mut cursor = unit.entries();
    for _ in 0..ENTRIES_LIMIT {
        let Ok(Some(entry)) = cursor.next_dfs() else { break };
        around.truncate(usize::try_from(entry.depth()).unwrap_or(0));
        let offset = entry.offset().0;
        if is_scope(entry.tag())
            && let Some((parent, true)) = around.last()
        {
            parents.insert(offset, *parent);
        }
        around.push((offset, is_scope(entry.tag())));
    }
    parents
}

/// Returns the arguments of a template in angle brackets, as clang writes them: `<shop::Item, 4>`. Returns `None` for an
/// entry without any.
pub fn template_arguments<'d>(
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
    names.describe_argument(unit, entry, chain).name
}

/// Returns the namespaces and types around a type: `shop::`. Anonymous ones are left out.
pub fn scope_prefix<'d>(
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

/// Describes a type as an argument of a template.
impl<'d> TypeNames<'_, 'd> {
    fn describe_argument(
        &self,
        unit: &Unit<DwarfBytes<'d>>,
        entry: Option<UnitOffset>,
        chain: usize,
    ) -> super::describe::DescribedType {
        describe_type(&TypeNames { is_argument: true, chain, ..*self }, unit, entry)
    }
}
