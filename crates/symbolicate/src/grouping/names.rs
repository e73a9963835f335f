//! Function names as grouping compares them. Additions by a compiler, an optimisation level or an architecture
//! are removed.

mod brackets;
mod overloads;

use super::languages::{kotlin_name, managed_name};
use crate::compiler_made::is_compiler_made;
use brackets::{outside_commas, split_brackets, split_outside};
use overloads::parameter_types;
use std::borrow::Cow;
use unslide_model::first_bytes;

/// Longer names are cut at this number of bytes.
const MOST_BYTES: usize = 300;
/// The most prefixes that are removed from one name; thunks of closures of specialisations are nested.
const MOST_PREFIXES: usize = 16;

/// Prefixes of demangled Swift and C++ names. The name of the function that the programmer wrote follows them.
const DEMANGLED_PREFIXES: &[&str] = &[
    "invocation function for block in ",
    "partial apply forwarder for ",
    "partial apply for ",
    "protocol witness for ",
    "dispatch thunk of ",
    "vtable thunk for ",
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
    "implicit closure for ",
    "static ",
    "class ",
    "merged ",
    "specialized ",
    "inlined ",
    "@objc ",
    "@nonobjc ",
    "async function pointer to ",
];

/// Texts around the arguments of a prefix, before the function's name, such as
/// `generic specialization <Int> of f()`.
const WITH_ARGUMENTS: &[(&str, &str)] = &[
    ("generic specialization ", " of "),
    ("generic not re-abstracted specialization ", " of "),
    ("generic partial specialization ", " of "),
    ("function signature specialization ", " of "),
    ("closure #", " in "),
    ("implicit closure #", " in "),
    ("default argument ", " of "),
    ("autodiff ", " of "),
];

/// Texts that compilers append to the name of a part or a copy of a function.
const SUFFIXES: &[&str] = &[" [clone", " (.", "[abi:"];
/// Such texts that are followed by a number.
const NUMBERED_SUFFIXES: &[&str] = &[".cold.", ".isra.", ".constprop.", ".part.", ".llvm."];

/// Returns the function's name without the types of its arguments, generic parameters and the numbers of
/// closures, lambdas and blocks, each of which counts as the function around it:
/// `closure #2 (Int) -> () in Cart.total(of: Int)` becomes `Cart.total(of:)`, and
/// `__20-[Cart total:]_block_invoke_3` becomes `-[Cart total:]`. Returns an empty text if nothing else is in
/// the name. The name of a compiler-made function stays whole.
pub(crate) fn normalise_name(function: &str) -> String {
    let mut name = Cow::Borrowed(function.trim());
    // The names of functions inside the one in `name`.
    let mut nested = String::new();
    let mut is_whole = false;
    for _ in 0..MOST_PREFIXES {
        is_whole = is_compiler_made(&name);
        if is_whole {
            break;
        }
        if let Some((local, outer)) = local_function(&name) {
            nested = format!(".{local}{nested}");
            name = Cow::Owned(outer.to_owned());
            continue;
        }
        match find_witness(&name).or_else(|| strip_affix(&name)) {
            Some(inner) => name = Cow::Owned(inner),
            None => break,
        }
    }
    let mut name = if is_whole {
        without_number(&name).to_owned()
    } else if let Some(kotlin) = kotlin_name(&name) {
        kotlin
    } else if is_objective_c(&name) {
        without_category(&name)
    } else {
        strip_types(&name) + &nested
    };
    if let Some(managed) = managed_name(&name) {
        name.truncate(managed.len());
    }
    if name.len() > MOST_BYTES {
        name = first_bytes(&name, MOST_BYTES).to_owned();
    }
    name
}

/// Splits the name of a local Swift function from the one around it: `round` and `Cart.total()` for
/// `round #1 (Int) -> Int in Cart.total()`.
fn local_function(name: &str) -> Option<(&str, &str)> {
    let is_function = |local: &str| is_label(local) && local != "closure";
    let (local, rest) = name.split_once(" #").filter(|(local, _)| is_function(local))?;
    let number = rest.bytes().take_while(u8::is_ascii_digit).count();
    let signature = rest.get(number..).filter(|_| number > 0)?.strip_prefix(' ')?;
    split_outside(signature, " in ").map(|(_, outer)| (local, outer))
}

fn is_objective_c(name: &str) -> bool {
    name.starts_with("-[") || name.starts_with("+[")
}

/// Removes the first prefix or suffix; `None` if there is none.
fn strip_affix(name: &str) -> Option<String> {
    // A template's result: `decltype(fp + fp0) Cart::add<int>(int)`.
    if let Some(rest) = name.strip_prefix("decltype").filter(|rest| rest.starts_with('(')) {
        let (_, inner) = split_brackets(rest, '(', ')').1.split_once(' ')?;
        return Some(inner.to_owned());
    }
    if let Some(inner) = DEMANGLED_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        return Some(inner.to_owned());
    }
    for (prefix, before) in WITH_ARGUMENTS {
        if let Some(rest) = name.strip_prefix(prefix)
            && let Some((_, inner)) = split_outside(rest, before)
        {
            return Some(inner.to_owned());
        }
    }
    // `(extension in Shop):Swift.Array.total()`.
    if let Some((_, inner)) = name.strip_prefix("(extension in ").and_then(|rest| rest.split_once("):")) {
        return Some(inner.to_owned());
    }
    // `(1) suspend resume partial function for f()`, part of an async function.
    if name.starts_with('(')
        && let Some((_, inner)) = name.split_once(" partial function for ")
    {
        return Some(inner.to_owned());
    }
    if let Some(inner) = block_of(name) {
        return Some(inner.to_owned());
    }
    // Each suffix has one of these characters, and most names have neither.
    if !name.contains(['[', '.']) {
        return None;
    }
    let numbered = |suffix: &&str| {
        let at = name.find(suffix)?;
        name.as_bytes().get(at + suffix.len()).filter(|byte| byte.is_ascii_digit()).map(|_| at)
    };
    let cuts = SUFFIXES.iter().filter_map(|suffix| name.find(suffix));
    let cut = cuts.chain(NUMBERED_SUFFIXES.iter().filter_map(numbered)).min().filter(|at| *at > 0)?;
    name.get(..cut).map(str::to_owned)
}

/// Returns the function that fulfils a requirement of a protocol, by the type that conforms to it: `Shop.Cart.== infix(A, A)`
/// for `protocol witness for static Swift.Equatable.== infix(A, A) in conformance Shop.Cart : Swift.Equatable in Shop`.
/// Returns `None` for a type of the standard library, which is not the app's own.
fn find_witness(name: &str) -> Option<String> {
    let (requirement, conformance) =
        name.strip_prefix("protocol witness for ")?.split_once(" in conformance ")?;
    let (owner, protocol) = conformance.split_once(" : ")?;
    let protocol = protocol.split(" in ").next()?;
    // Generic parameters come before the type: `<A> Shop.Box<A>`.
    let owner = if owner.starts_with('<') { split_brackets(owner, '<', '>').1.trim_start() } else { owner };
    let requirement =
        ["static ", "class "].iter().find_map(|word| requirement.strip_prefix(word)).unwrap_or(requirement);
    let member = requirement.strip_prefix(protocol)?.strip_prefix('.')?;
    (!owner.is_empty() && !owner.starts_with("Swift.")).then(|| format!("{owner}.{member}"))
}

/// Returns the function around a block: for `__20-[Cart total:]_block_invoke_3` and for `__total_block_invoke`.
fn block_of(name: &str) -> Option<&str> {
    let (inner, _) = name.strip_prefix("__")?.split_once("_block_invoke")?;
    let inner = inner.trim_start_matches(|c: char| c.is_ascii_digit());
    (!inner.is_empty()).then_some(inner)
}

/// Removes an Objective-C category: `-[Cart(Sums) total:]` becomes `-[Cart total:]`.
fn without_category(name: &str) -> String {
    let parts = name.split_once('(').and_then(|(class, rest)| Some((class, rest.split_once(')')?.1)));
    parts.map_or_else(|| name.to_owned(), |(class, selector)| format!("{class}{selector}"))
}

/// Returns a C, C++, Rust or Swift name without types.
fn strip_types(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let name = rewrite_private(&name);
    if let Some((context, operator, rest)) = swift_operator(&name) {
        return format!("{}.{operator}{}", strip_types(context), operator_types(context, rest));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    // The template arguments of the function itself.
    let mut template = "";
    loop {
        if let Some((operator, after)) = split_operator(rest, &out) {
            out.push_str(operator);
            rest = after;
            continue;
        }
        let mut chars = rest.chars();
        let Some(next) = chars.next() else { break };
        match next {
            // Rust: `<Cart as Total>::total`.
            '<' if out.is_empty() => {
                let (inside, after) = split_brackets(rest, '<', '>');
                let inner = inside.strip_prefix('<').unwrap_or(inside);
                let inner = inner.strip_suffix('>').unwrap_or(inner);
                out.push_str(inner.split(" as ").next().map(without_arguments).unwrap_or_default());
                rest = after;
            }
            '<' => {
                let (inside, after) = split_brackets(rest, '<', '>');
                let inside = inside.strip_prefix('<').unwrap_or(inside);
                template = inside.strip_suffix('>').unwrap_or(inside);
                rest = after;
            }
            // Generic parameters of Go.
            '[' if !out.is_empty() => rest = split_brackets(rest, '[', ']').1,
            // The receiver of a method of Go: `shop.(*Cart).Total`.
            '(' if out.ends_with('.') && rest.starts_with("(*") => {
                let (receiver, after) = split_brackets(rest, '(', ')');
                out.extend([receiver.split(['[', ')']).next().unwrap_or(receiver), ")"]);
                rest = after;
            }
            '(' if !out.is_empty() => {
                let arguments = split_brackets(rest, '(', ')').0;
                let arguments = arguments.strip_prefix('(').unwrap_or(arguments);
                let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
                let types = parameter_types(&out, template, arguments);
                out.push_str(&types.unwrap_or_else(|| argument_labels(arguments)));
                break;
            }
            // The rest of a lambda's name, or of a lambda that the linker numbered.
            '{' | '\'' if !out.is_empty() => break,
            // Swift's `App.$main` and `Cart.$count` are whole.
            '$' if !out.is_empty() && !out.ends_with('.') => break,
            '(' | '{' => return String::new(),
            // The type of a property: `Cart.total.getter : Swift.Int`.
            ' ' if rest.starts_with(" : ") || rest.starts_with(" -> ") => break,
            // A conversion: `Cart::operator bool`.
            ' ' if out.ends_with("operator") || out.ends_with("operator\"\"") => {
                out.push(' ');
                rest = chars.as_str();
            }
            // A template's result type comes before its name.
            ' ' => {
                out.clear();
                rest = rest.trim_start();
            }
            _ => {
                out.push(next);
                rest = chars.as_str();
            }
        }
    }
    let out = out.trim_end_matches("::").replace("__allocating_init", "init");
    // Rust's hash, and the numbers of functions that the compiler generates once per variable.
    let out = out.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(out.as_str(), |(path, _)| path);
    let has_arguments = name.replace("(*", "").contains(['(', ' ', ':']);
    without_number(if has_arguments { out } else { without_go_closures(out) }).to_owned()
}

/// Removes a dot and a number from the end of a name.
fn without_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('.').unwrap_or(name)
}

/// Returns the Go function around closures and wrappers: `main.Pay` for `main.Pay.func1.2`, `main.Pay.gowrap1`
/// and `main.Pay-fm`. Other languages have no such names without a list of arguments.
fn without_go_closures(name: &str) -> &str {
    const CLOSURES: [&str; 4] = ["func", "gowrap", "deferwrap", ""];
    let mut name = name.strip_suffix("-fm").unwrap_or(name);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    while let Some((outer, last)) = name.rsplit_once('.') {
        let last = last.split_once("-range").map_or(last, |(last, _)| last);
        let is_part = CLOSURES.iter().any(|word| last.strip_prefix(word).is_some_and(is_number));
        if !is_part || outer.is_empty() {
            break;
        }
        name = outer;
    }
    name
}

/// Splits a Swift operator from its type or module and its parameters: `Shop.Cart`, `==` and the rest for
/// `Shop.Cart.== infix(Shop.Cart, Shop.Cart) -> Swift.Bool`.
fn swift_operator(name: &str) -> Option<(&str, &str, &str)> {
    let is_fixity = |rest: &str| {
        let word = [" infix", " prefix", " postfix"].iter().find_map(|word| rest.strip_prefix(word));
        word.is_some_and(|after| after.is_empty() || after.starts_with(['(', '<']))
    };
    let mut spaces = name.match_indices(' ').filter_map(|(at, _)| name.split_at_checked(at));
    let (path, rest) = spaces.find(|(_, rest)| is_fixity(rest))?;
    let before = path.trim_end_matches(is_of_operator);
    let operator = path.strip_prefix(before)?;
    // The first dot separates the two; characters before it close generic parameters.
    let (closing, operator) = operator.split_once('.')?;
    path.get(..before.len() + closing.len()).map(|context| (context, operator, rest))
}

/// Returns the types of the parameters of a global operator of Swift, which its name does not tell from those for other
/// types: `(Shop.Cart, Shop.Cart)`. Empty for an operator of a type. `rest` begins with the fixity.
fn operator_types(context: &str, rest: &str) -> String {
    let Some(at) = rest.find('(').filter(|_| !context.contains('.')) else { return String::new() };
    let arguments = split_brackets(rest.get(at..).unwrap_or_default(), '(', ')').0;
    let arguments = arguments.strip_prefix('(').and_then(|arguments| arguments.strip_suffix(')'));
    let types: Vec<&str> = outside_commas(arguments.unwrap_or_default()).map(without_arguments).collect();
    format!("({})", types.join(", "))
}

fn is_of_operator(c: char) -> bool {
    "/=-+!*%<>&|^~?.".contains(c) || (!c.is_ascii() && !c.is_alphanumeric())
}

/// Returns a type's name up to its arguments.
fn without_arguments(name: &str) -> &str {
    name.split(['<', '(']).next().unwrap_or_default().trim()
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Rewrites a private Swift function: `Shop.(total in _3F2A)(Int)` becomes `Shop.total(Int)`.
fn rewrite_private(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, inside)) = rest.split_once('(') {
        let named = inside.split_once(')').and_then(|(named, after)| {
            let (name, _) = named.split_once(" in _")?;
            (!name.contains(['(', ' ', ','])).then_some((name, after))
        });
        out.push_str(before);
        rest = if let Some((name, after)) = named {
            out.push_str(name);
            after
        } else {
            out.push('(');
            inside
        };
    }
    out + rest
}

/// Returns the labels of a Swift function's arguments, which are part of its name: `(_:cellForRowAt:)`. Reads
/// types with labels, or labels alone. Empty if no argument has one, as in C++.
fn argument_labels(arguments: &str) -> String {
    let alone = arguments.strip_suffix(':').map(|labels| labels.split(':').collect::<Vec<_>>());
    let alone = alone.filter(|labels| labels.iter().copied().all(is_label));
    let labels = alone.unwrap_or_else(|| outside_commas(arguments).map(argument_label).collect());
    if labels.iter().all(|label| *label == "_") {
        return String::new();
    }
    format!("({}:)", labels.join(":"))
}

/// Returns the label of one argument: `of` for `of: Swift.Int`; `_` without one.
fn argument_label(argument: &str) -> &str {
    match argument.trim_start().split_once(':') {
        Some((label, after)) if is_label(label) && !after.starts_with(':') => label,
        _ => "_",
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Splits a C++ operator, with the brackets that belong to it, from the start of a text.
fn split_operator<'t>(text: &'t str, before: &str) -> Option<(&'t str, &'t str)> {
    const OPERATORS: [&str; 11] = ["()", "[]", "<=>", "<<=", "<<", "<=", "<", "->*", "->", ">>", ">"];
    let starts = before.is_empty() || before.ends_with(':') || before.ends_with(' ');
    let rest = text.strip_prefix("operator").filter(|_| starts)?;
    // `operator<<int>(` is a template of `operator<`.
    if let Some(template) = rest.strip_prefix('<').filter(|rest| rest.starts_with('<')) {
        let (arguments, after) = split_brackets(template, '<', '>');
        if arguments.ends_with('>') && after.starts_with('(') {
            return text.split_at_checked("operator<".len());
        }
    }
    let known = OPERATORS.iter().find(|operator| rest.starts_with(*operator));
    text.split_at_checked("operator".len() + known?.len())
}

#[cfg(test)]
mod tests;
