//! Variables whose values are never written: their names or types are those of secrets.

use std::ops::Range;
use unslide_fault_analysis_variables::{TypeForm, TypeId, VariableTable, VariableValue};

/// The most types within a variable's type that are looked at. The rest of a larger variable counts as secret.
const MEMBER_TYPES_LIMIT: usize = 2_000;

/// Parts of names of secrets, without separators.
const SECRET_PARTS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "authoriz",
    "apikey",
    "privatekey",
    "cookie",
    "creditcard",
    "socialsecurity",
    "signingkey",
];
/// Whole words of names of secrets. They are parts of harmless words, too: `pin` is in `spinner`.
const SECRET_WORDS: [&str; 14] = [
    "pin", "pwd", "pass", "otp", "cvv", "cvc", "card", "cards", "pan", "iban", "ssn", "auth", "jwt", "bearer",
];

/// Returns true if a variable with this name and type may hold a secret.
pub fn is_secret(name: &str, type_name: &str) -> bool {
    has_secret_word(name) || has_secret_word(type_name)
}

/// Makes the bytes of members unknown whose names or types are those of secrets, at any depth.
pub fn scrub_members(table: &VariableTable<'_>, variable: &mut VariableValue) {
    let Ok((bytes, _)) = &mut variable.value else { return };
    let mut places = vec![(variable.type_id, 0_usize)];
    let mut count = 0;
    while let Some((type_id, start)) = places.pop() {
        count += 1;
        // A type that cannot be read may hide a secret.
        if count > MEMBER_TYPES_LIMIT || hide_in_type(table, type_id, start, bytes, &mut places).is_none() {
            bytes.fill(None);
            return;
        }
    }
}

/// Makes the secret members of a type at `start` unknown, and adds the places of its other parts.
fn hide_in_type(
    table: &VariableTable<'_>,
    type_id: TypeId,
    start: usize,
    bytes: &mut [Option<u8>],
    places: &mut Vec<(TypeId, usize)>,
) -> Option<()> {
    match table.describe_type(type_id).ok()?.form {
        TypeForm::Plain | TypeForm::Pointer { .. } => {}
        TypeForm::Structure(members) | TypeForm::Union(members) => {
            for member in members {
                let at = start.checked_add(usize::try_from(member.offset).ok()?)?;
                let facts = table.describe_type(member.type_id).ok()?;
                if is_secret(member.name, facts.name) {
                    let end = at.checked_add(usize::try_from(facts.size).ok()?.max(1))?;
                    hide_range(bytes, at..end);
                } else if at < bytes.len() {
                    places.push((member.type_id, at));
                }
            }
        }
        TypeForm::Array { element, count } => {
            let size = usize::try_from(table.describe_type(element).ok()?.size).ok()?.max(1);
            let count = usize::try_from(count).ok()?;
            let starts = (0..count).map_while(|index| start.checked_add(index.checked_mul(size)?));
            places.extend(starts.take_while(|at| *at < bytes.len()).map(|at| (element, at)));
        }
    }
    Some(())
}

fn hide_range(bytes: &mut [Option<u8>], range: Range<usize>) {
    let end = range.end.min(bytes.len());
    if let Some(hidden) = bytes.get_mut(range.start.min(end)..end) {
        hidden.fill(None);
    }
}

fn has_secret_word(text: &str) -> bool {
    let words = split_words(text);
    let joined = words.concat();
    SECRET_PARTS.iter().any(|part| joined.contains(part))
        || words.iter().any(|word| SECRET_WORDS.contains(&word.as_str()))
}

/// Splits a name at separators and before upper-case letters, and returns its words in lower case.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_after_lower = false;
    for letter in text.chars() {
        let is_start = letter.is_uppercase() && is_after_lower;
        if !letter.is_alphabetic() || is_start {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
        is_after_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_words_of_their_names_and_types() {
        for name in ["password", "userPassword", "API_KEY", "pin", "cardPin", "pin2", "m_authToken", "CVV"] {
            assert!(is_secret(name, "int"), "{name}");
        }
        assert!(is_secret("it", "SecretBytes *") && is_secret("x", "struct credit_card"));
        for name in ["spinner", "mapping", "cardinality", "passenger", "author", "count", "p", "panel"] {
            assert!(!is_secret(name, "Player *"), "{name}");
        }
    }
}
