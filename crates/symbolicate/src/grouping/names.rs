//! Function names as grouping compares them: what a compiler, an optimisation level or an architecture adds
//! to the name of the same function is taken off.

use std::borrow::Cow;

/// Longer names are cut.
const MOST_BYTES: usize = 300;
/// How often a prefix is taken off one name; thunks of closures of specialisations are nested.
const MOST_PREFIXES: usize = 16;

/// Prefixes of demangled Swift and C++ names that are followed by the name of the function that the
/// programmer has written.
const PREFIXES: &[&str] = &[
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

/// Words between a prefix with arguments of its own and the function's name, such as
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

/// What a compiler appends to the name of a part or a copy of a function.
const SUFFIXES: &[&str] = &[" [clone", " (.", "[abi:"];
/// The same, followed by a number.
const NUMBERED_SUFFIXES: &[&str] = &[".cold.", ".isra.", ".constprop.", ".part.", ".llvm."];

/// The function's name without the types of its arguments, generic parameters and the numbers of closures,
/// lambdas and blocks, each of which counts as the function around it:
/// `closure #2 (Int) -> () in Cart.total(of: Int)` is `Cart.total(of:)`, and `__20-[Cart total:]_block_invoke_3` is `-[Cart total:]`. Empty for a name that
/// consists of such things alone.
pub(crate) fn normalise(function: &str) -> String {
    let mut name = Cow::Borrowed(function.trim());
    for _ in 0..MOST_PREFIXES {
        match shorter(&name) {
            Some(inner) => name = Cow::Owned(inner),
            None => break,
        }
    }
    let mut name = if is_objective_c(&name) { without_category(&name) } else { plain(&name) };
    if name.len() > MOST_BYTES {
        let end = (0..=MOST_BYTES).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

fn is_objective_c(name: &str) -> bool {
    name.starts_with("-[") || name.starts_with("+[")
}

/// The name with its first prefix or its suffix taken off; `None` where it has none.
fn shorter(name: &str) -> Option<String> {
    // A template's result: `decltype(fp + fp0) Cart::add<int>(int)`.
    if let Some(rest) = name.strip_prefix("decltype").filter(|rest| rest.starts_with('(')) {
        let (_, inner) = rest.get(balanced(rest, '(', ')')..)?.split_once(' ')?;
        return Some(inner.to_owned());
    }
    if let Some(inner) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        return Some(inner.to_owned());
    }
    for (prefix, before) in WITH_ARGUMENTS {
        if let Some(rest) = name.strip_prefix(prefix)
            && let Some(at) = find_outside(rest, before)
        {
            return Some(rest[at + before.len()..].to_owned());
        }
    }
    // `(1) suspend resume partial function for f()`, of an async function.
    if name.starts_with('(')
        && let Some((_, inner)) = name.split_once(" partial function for ")
    {
        return Some(inner.to_owned());
    }
    if let Some(inner) = block_of(name) {
        return Some(inner.to_owned());
    }
    // All of the suffixes have one of these, and most names have none.
    if !name.contains(['[', '.']) {
        return None;
    }
    let numbered = |suffix: &&str| {
        let at = name.find(suffix)?;
        name.as_bytes().get(at + suffix.len()).filter(|byte| byte.is_ascii_digit()).map(|_| at)
    };
    let cuts = SUFFIXES.iter().filter_map(|suffix| name.find(suffix));
    let cut = cuts.chain(NUMBERED_SUFFIXES.iter().filter_map(numbered)).min().filter(|at| *at > 0)?;
    Some(name[..cut].to_owned())
}

/// The function that a block lies in: of `__20-[Cart total:]_block_invoke_3` and of `__total_block_invoke`.
fn block_of(name: &str) -> Option<&str> {
    let (inner, _) = name.strip_prefix("__")?.split_once("_block_invoke")?;
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    let inner = &inner[digits..];
    (!inner.is_empty()).then_some(inner)
}

/// Where `wanted`, which begins with no bracket, first lies outside of all brackets.
fn find_outside(text: &str, wanted: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'<' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b')' | b'>' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && *byte == wanted.as_bytes()[0] && text[at..].starts_with(wanted) => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// `-[Cart(Sums) total:]` is `-[Cart total:]`.
fn without_category(name: &str) -> String {
    match (name.find('('), name.find(')')) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &name[..from], &name[to + 1..]),
        _ => name.to_owned(),
    }
}

/// A C, C++, Rust or Swift name without types.
fn plain(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let name = private(&name);
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(next) = rest.chars().next() {
        if let Some(operator) = operator(rest, &out) {
            out.push_str(operator);
            rest = &rest[operator.len()..];
            continue;
        }
        match next {
            // Rust: `<Cart as Total>::total`.
            '<' if out.is_empty() => {
                let inside = balanced(rest, '<', '>');
                let inner = rest.get(1..inside - 1).unwrap_or_default();
                out.push_str(inner.split(" as ").next().map(without_arguments).unwrap_or_default());
                rest = &rest[inside..];
            }
            '<' => rest = &rest[balanced(rest, '<', '>')..],
            '(' if !out.is_empty() => {
                let arguments = &rest[1..balanced(rest, '(', ')')];
                out.push_str(&labels(arguments.strip_suffix(')').unwrap_or(arguments)));
                break;
            }
            // What is left of a lambda, or of one that the linker has given a number.
            '{' | '\'' | '$' if !out.is_empty() => break,
            '(' | '{' => return String::new(),
            // The type of a property: `Cart.total.getter : Swift.Int`.
            ' ' if rest.starts_with(" : ") || rest.starts_with(" -> ") => break,
            // A conversion: `Cart::operator bool`.
            ' ' if out.ends_with("operator") => {
                out.push(' ');
                rest = &rest[1..];
            }
            // A template's result stands before its name.
            ' ' => {
                out.clear();
                rest = rest.trim_start();
            }
            _ => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    let out = out.trim_end_matches("::").replace("__allocating_init", "init");
    // Rust's hash, and the numbers of what the compiler makes once for each variable.
    let out = out.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(out.as_str(), |(path, _)| path);
    let numbered = out.trim_end_matches(|c: char| c.is_ascii_digit());
    numbered.strip_suffix('.').unwrap_or(out).to_owned()
}

/// A type's name up to its arguments.
fn without_arguments(name: &str) -> &str {
    name.split(['<', '(']).next().unwrap_or_default().trim()
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `Shop.(total in _3F2A)(Int)`, a private function of Swift, is `Shop.total(Int)`.
fn private(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('(') {
        let inside = &rest[at + 1..];
        let end = inside.find(')').unwrap_or(inside.len());
        let named = inside[..end].split_once(" in _").filter(|(name, _)| !name.contains(['(', ' ', ',']));
        match named {
            Some((name, _)) if end < inside.len() => {
                out.push_str(&rest[..at]);
                out.push_str(name);
                rest = &inside[end + 1..];
            }
            _ => {
                out.push_str(&rest[..=at]);
                rest = inside;
            }
        }
    }
    out + rest
}

/// The labels of a Swift function's arguments, which are part of its name: `(_:cellForRowAt:)`, from the types
/// with labels or from the labels alone. Empty where no argument has one, as in C++.
fn labels(arguments: &str) -> String {
    let alone = arguments.strip_suffix(':').map(|labels| labels.split(':').collect::<Vec<_>>());
    let alone = alone.filter(|labels| labels.iter().copied().all(is_label));
    let labels = alone.unwrap_or_else(|| outside_commas(arguments).map(label).collect());
    if labels.iter().all(|label| *label == "_") {
        return String::new();
    }
    format!("({}:)", labels.join(":"))
}

/// The label of one argument: of `of: Swift.Int`; `_` for an argument without one.
fn label(argument: &str) -> &str {
    match argument.trim_start().split_once(':') {
        Some((label, after)) if is_label(label) && !after.starts_with(':') => label,
        _ => "_",
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The parts between the commas that lie outside of all brackets.
fn outside_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = find_outside(text, ",");
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// The name of a C++ operator at the start of the text, with the brackets that belong to it.
fn operator<'t>(text: &'t str, before: &str) -> Option<&'t str> {
    const OPERATORS: [&str; 11] = ["()", "[]", "<=>", "<<=", "<<", "<=", "<", "->*", "->", ">>", ">"];
    let starts = before.is_empty() || before.ends_with(':') || before.ends_with(' ');
    let rest = text.strip_prefix("operator").filter(|_| starts)?;
    let known = OPERATORS.iter().find(|operator| rest.starts_with(*operator));
    known.map(|operator| &text[.."operator".len() + operator.len()])
}

/// The length of the text up to the bracket that closes the first one.
fn balanced(text: &str, open: char, close: char) -> usize {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close && before != '-' {
            depth -= 1;
            if depth == 0 {
                return at + c.len_utf8();
            }
        }
        before = c;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn names_of_one_function_are_one_name() {
        for (expected, names) in [
            (
                "Shop.Cart.total(of:)",
                &[
                    "Shop.Cart.total(of: Swift.Int) -> Swift.Int",
                    "Shop.Cart.total(of:)",
                    "static Shop.Cart.total(of: Swift.Int) throws -> Swift.Int",
                    "closure #1 (Swift.Int) -> Swift.Bool in Shop.Cart.total(of: Swift.Int) -> Swift.Int",
                    "generic specialization <Swift.Array<Swift.Int>> of Shop.Cart.total<A>(of: A) -> A",
                    "Shop.Cart<A>.total(of: A)",
                ][..],
            ),
            (
                "Shop.List.table(_:cellForRowAt:)",
                &[
                    "Shop.List.table(_:cellForRowAt:)",
                    "@objc Shop.List.table(UIKit.Table, cellForRowAt: Foundation.IndexPath) -> UIKit.Cell",
                    "Shop.List.table((Swift.Int, Swift.Int) -> (), cellForRowAt: [a: b]) -> UIKit.Cell",
                ],
            ),
            (
                "Shop.Cart.total",
                &[
                    "Shop.Cart.total(_:)",
                    "Shop.Cart.total(Swift.Int, Swift.String) -> ()",
                    "closure #2 () -> () in closure #1 (Swift.Int) -> () in Shop.Cart.total()",
                    "partial apply forwarder for closure #1 (Swift.Int) -> () in Shop.Cart.total()",
                    "function signature specialization <Arg[0] = Dead> of Shop.Cart.total()",
                    "specialized Shop.Cart.total()",
                    "@objc Shop.Cart.total()",
                    "(2) suspend resume partial function for Shop.Cart.total() async -> ()",
                    "Shop.Cart.(total in _3F2A96E0)(Swift.Int) -> ()",
                ],
            ),
            ("Shop.Cart.count.getter", &["Shop.Cart.count.getter : Swift.Int"]),
            (
                "Shop.Cart.init(x:)",
                &["Shop.Cart.__allocating_init(x: Swift.Int) -> Shop.Cart", "Shop.Cart.init(x:)"],
            ),
            (
                "-[Cart total:]",
                &[
                    "-[Cart total:]",
                    "-[Cart(Sums) total:]",
                    "__20-[Cart total:]_block_invoke_3",
                    "invocation function for block in -[Cart total:]",
                    "__14-[Cart total:]_block_invoke",
                ],
            ),
            (
                "total",
                &[
                    "total",
                    "total.cold.1",
                    "total.llvm.123",
                    "total [clone .isra.0]",
                    "__total_block_invoke_2",
                    "total(int)",
                    "int total<int>(int)",
                    "(anonymous namespace)::total(int)",
                    "total(int)::$_0::operator()(int) const",
                    "total(int)::{lambda(int)#1}::operator()(int) const",
                    "total(int)::'lambda0'(int)::operator()(int) const",
                    "total[abi:cxx11](int)",
                    "decltype(fp + fp0) total<int, int>(int, int)",
                    "decltype(auto) total<int>(int)",
                    "decltype(a::f[abi:v1](fp))&& total<int>(int)",
                ],
            ),
            (
                "shop::Cart::total",
                &[
                    "shop::Cart<std::vector<int>>::total(std::map<int, long>) const",
                    "std::vector<int> shop::Cart::total<int>()",
                    "shop::Cart::total::$_1::operator()",
                    "shop::Cart::total::h0123456789abcdef",
                    "non-virtual thunk to shop::Cart::total()",
                    "<shop::Cart as shop::Total>::total",
                ],
            ),
            ("shop::Cart::operator()", &["shop::Cart::operator()(int) const"]),
            ("shop::operator<<", &["std::ostream& shop::operator<<<int>(std::ostream&, int)"]),
            ("shop::Cart::operator->", &["shop::Cart<int>::operator->() const"]),
            ("__cxx_global_var_init", &["__cxx_global_var_init.12"]),
            ("", &["", "(", "{lambda()#1}"]),
        ] {
            for name in names {
                assert_eq!(normalise(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn names_of_different_functions_stay_different() {
        let names = [
            "a::f()",
            "b::f()",
            "-[A f]",
            "+[A f]",
            "A.f()",
            "A.g()",
            "A.f(x: Swift.Int)",
            "A.f(Swift.Int, y: Swift.Int)",
            "f1",
            "f2",
            "A.x.getter : Int",
            "A.x.setter : Int",
        ];
        let normal: std::collections::BTreeSet<String> = names.iter().map(|name| normalise(name)).collect();
        assert_eq!(normal.len(), names.len(), "{normal:?}");
    }

    #[test]
    fn hostile_names_are_bounded() {
        for name in [
            "<".repeat(5_000),
            "(".repeat(5_000),
            "closure #1 in ".repeat(2_000),
            "é".repeat(5_000),
            "a<>>>>>->".repeat(500),
        ] {
            assert!(normalise(&name).len() <= super::MOST_BYTES);
        }
    }
}
