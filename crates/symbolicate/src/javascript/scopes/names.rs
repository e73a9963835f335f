//! Names of functions, as shown to users.

/// The most characters of a name.
const MAX_NAME: usize = 200;
/// The most bytes of an assignment target; a function with a longer one gets no name.
const MAX_WRITTEN: usize = 1_000;
/// The most bytes of a computed key that is shown.
const MAX_COMPUTED_KEY: usize = 60;
/// Objects that say nothing about a value assigned to their members.
const BARE_OBJECTS: [&str; 6] = ["this", "exports", "module", "window", "self", "globalThis"];

/// Words that continue an expression or a type that could end before them.
pub(super) fn is_infix(word: &str) -> bool {
    matches!(word, "in" | "instanceof" | "of" | "as" | "satisfies" | "extends" | "implements" | "is")
}

/// Words after which a type continues.
pub(super) fn is_type_operator(word: &str) -> bool {
    matches!(
        word,
        "extends"
            | "keyof"
            | "readonly"
            | "typeof"
            | "infer"
            | "is"
            | "asserts"
            | "in"
            | "unique"
            | "new"
            | "abstract"
    )
}

/// Returns the name to show for a function's own name, its key, or its assignment target: `pay`, `"pay"`,
/// `#pay`, `[Symbol.iterator]`, `Cart.prototype.pay`. None if that is not a name.
pub(super) fn display_name(written: &str) -> Option<String> {
    let quoted = |text: &str| {
        let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inside.to_owned())
    };
    if let Some(text) = quoted(written) {
        return limit_name(&text);
    }
    if let Some(inside) = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let is_plain = inside.len() <= MAX_COMPUTED_KEY && inside.split('.').all(is_word);
        return quoted(inside.trim())
            .or_else(|| is_plain.then(|| written.to_owned()))
            .and_then(|name| limit_name(&name));
    }
    if written.len() > MAX_WRITTEN {
        return None;
    }
    let parts: Vec<&str> = written.split('.').map(str::trim).collect();
    let last = parts.last().copied().unwrap_or_default();
    if !parts.iter().all(|part| is_word(part)) {
        // A comment separates the parts.
        return Some(last).filter(|last| is_word(last)).and_then(limit_name);
    }
    let bare = parts.iter().take_while(|part| BARE_OBJECTS.contains(part)).count();
    let bare = if parts.len() == 1 { 0 } else { bare };
    let parts: Vec<&str> = parts.into_iter().skip(bare).filter(|part| *part != "prototype").collect();
    limit_name(&parts.join("."))
}

/// Returns the name of a class member.
pub(super) fn member_name(class: Option<&str>, own: &str) -> String {
    match class {
        Some(class) if own == "constructor" => format!("new {class}"),
        Some(class) => format!("{class}.{own}"),
        None => own.to_owned(),
    }
}

fn is_word(text: &str) -> bool {
    let text = text.strip_prefix('#').unwrap_or(text);
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '\\' | '{' | '}'))
}

fn limit_name(name: &str) -> Option<String> {
    let is_short = !name.is_empty() && name.len() <= 4 * MAX_NAME && !name.chars().any(char::is_control);
    is_short.then(|| name.chars().take(MAX_NAME).collect())
}
