//! The subject by the values of variables alone.

use crate::subject::facts::{FaultSubject, SubjectEvidence, SubjectValue, TOP_BYTE};
use crate::subject::members::{Members, PointerExpression, PointerTarget, pointer_expression};
use crate::subject::reasons::SubjectAbstention;
use crate::{FunctionFacts, TypeForm, ValueSource, VariableTypeKind, VariableValue};

/// The most structures in each other.
const NESTING_LIMIT: usize = 16;

/// Names the subject if exactly one variable can lead to the address, and nothing else may have led there. `address` is the
/// one that the processor reported.
pub fn find_by_values(
    members: Members<'_, '_>,
    function: &FunctionFacts<'_>,
    values: &[VariableValue],
    address: u64,
) -> Result<FaultSubject, SubjectAbstention> {
    let mut candidates = Vec::new();
    let mut leads_on = false;
    for variable in values.iter().filter(|variable| variable.call == 0) {
        let facts = members.describe(variable.type_id)?;
        let Some(pointer) = pointer_expression(variable.name.clone(), &facts) else {
            // A structure on the stack may hold the pointer that was used.
            leads_on |= facts.kind == VariableTypeKind::Composite
                && members.leads_to_pointers(variable.type_id, NESTING_LIMIT)?;
            continue;
        };
        let Some(value) = pointer_value(variable) else {
            return Err(SubjectAbstention::PointerWithoutValue);
        };
        if let Some(offset) = offset_in_target(members, &pointer, value, address)? {
            candidates.push((variable, pointer, value, offset));
        } else if value != 0
            && let PointerTarget::Type(target) = pointer.target
        {
            leads_on |= members.leads_to_pointers(target, NESTING_LIMIT)?;
        }
    }
    let Some((variable, pointer, value, offset)) = candidates.pop() else {
        return Err(SubjectAbstention::NoCandidate);
    };
    if !candidates.is_empty() {
        return Err(SubjectAbstention::SeveralCandidates);
    }
    if leads_on {
        return Err(SubjectAbstention::PointerToPointers);
    }
    if function.unit.has_global_pointers {
        return Err(SubjectAbstention::GlobalPointers);
    }
    let access = members.find_access(&pointer, offset, None)?;
    let mut evidence = Vec::new();
    if let Ok((_, ValueSource::Register(register))) = variable.value {
        evidence.push(SubjectEvidence::Register { register, value });
    }
    let held = function.variables.iter().find(|held| held.die == variable.die);
    evidence.extend(held.map(SubjectEvidence::for_variable));
    Ok(FaultSubject::new(pointer, SubjectValue { value, offset: Some(offset) }, access, evidence))
}

fn pointer_value(variable: &VariableValue) -> Option<u64> {
    let (bytes, _) = variable.value.as_ref().ok()?;
    let bytes: Vec<u8> = bytes.iter().copied().collect::<Option<_>>()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the distance of the address from a pointer, if it lies inside the pointer's target.
fn offset_in_target(
    members: Members<'_, '_>,
    pointer: &PointerExpression,
    value: u64,
    address: u64,
) -> Result<Option<i64>, SubjectAbstention> {
    let size = match pointer.target {
        PointerTarget::Type(target) => match members.describe(target)? {
            // Of a type without a description only the begin is known.
            facts if facts.size == 0 && facts.form == TypeForm::Plain => 1,
            facts => facts.size,
        },
        PointerTarget::Unknown | PointerTarget::Vtable => 1,
    };
    // Processors ignore the top byte of arm64's pointers, so both forms are compared without it.
    let distance = (address & !TOP_BYTE).checked_sub(value & !TOP_BYTE);
    Ok(distance.filter(|distance| *distance < size).and_then(|distance| i64::try_from(distance).ok()))
}
