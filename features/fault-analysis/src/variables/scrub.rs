//! Variables whose values are never written: their names or types are those of secrets.

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
