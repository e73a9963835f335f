//! C++ functions that are usually overloaded: free operators, and functions found by argument-dependent
//! look-up, such as `swap`. Only their parameter types distinguish them, so these stay in the name.

use super::brackets::{outside_commas, split_brackets};

/// Function names that libraries ask each type to overload.
const OVERLOADED: &[&str] = &[
    "AbslHashValue",
    "AbslStringify",
    "PrintTo",
    "begin",
    "data",
    "empty",
    "end",
    "format_as",
    "from_json",
    "from_string",
    "hash_value",
    "iter_move",
    "iter_swap",
    "serialize",
    "size",
    "swap",
    "tag_invoke",
    "to_json",
    "to_string",
];
/// Operators that are always members. Their names include the class.
const MEMBER_OPERATORS: &[&str] = &["()", "[]", "->", "="];

/// Returns the types of a C++ function's parameters without qualifiers and template arguments, such as
/// `(shop::Money, int)`; `None` if the name alone identifies the function. `name` is the function's name
/// without types. `template` has its template arguments: a parameter of such a type becomes `_`.
pub(super) fn parameter_types(name: &str, template: &str, parameters: &str) -> Option<String> {
    let own = name.rsplit("::").next().unwrap_or(name);
    if parameters.trim().is_empty() || !is_overloaded(own) {
        return None;
    }
    let arguments: Vec<&str> = outside_commas(template).map(str::trim).collect();
    let types: Vec<String> = outside_commas(parameters).map(|one| type_name(one, &arguments)).collect();
    Some(format!("({})", types.join(", ")))
}

fn is_overloaded(name: &str) -> bool {
    match name.strip_prefix("operator") {
        // `operators` is not an operator. `operator bool` and `operator new` are not overloaded by their
        // parameters.
        Some(symbol) => {
            symbol.starts_with(|c: char| c.is_ascii_punctuation() && c != '_')
                && !MEMBER_OPERATORS.contains(&symbol)
        }
        None => OVERLOADED.contains(&name),
    }
}

/// Returns the name of a type without `const`, references, pointers and template arguments.
fn type_name(parameter: &str, arguments: &[&str]) -> String {
    let whole = without_qualifiers(parameter);
    // A type inside a function has a number that changes with the build.
    if arguments.contains(&whole) || whole.contains(['\'', '{', '$']) {
        return "_".to_owned();
    }
    let mut name = String::with_capacity(whole.len());
    let mut rest = whole;
    loop {
        let mut chars = rest.chars();
        match chars.next() {
            Some('<') => rest = split_brackets(rest, '<', '>').1,
            // A pointer to a function, or a reference to an array.
            None | Some('(' | '[') => break,
            Some(next) => {
                name.push(next);
                rest = chars.as_str();
            }
        }
    }
    without_qualifiers(&name).replace("std::__1::", "std::")
}

fn without_qualifiers(name: &str) -> &str {
    let mut name = name.trim();
    loop {
        let shorter = name.trim_end_matches(['&', '*', ' ']);
        let shorter =
            [" const", " volatile"].iter().fold(shorter, |name, end| name.strip_suffix(end).unwrap_or(name));
        if shorter.len() == name.len() {
            return name;
        }
        name = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::super::normalise_name;

    #[test]
    fn overloads_of_free_operators_are_told_apart() {
        for (name, expected) in [
            ("shop::operator+(shop::M const&, shop::M const&)", "shop::operator+(shop::M, shop::M)"),
            ("shop::operator+(shop::W const&, shop::W)", "shop::operator+(shop::W, shop::W)"),
            ("shop::(anonymous namespace)::operator/(shop::M, int)", "shop::operator/(shop::M, int)"),
            ("shop::operator-(shop::M)", "shop::operator-(shop::M)"),
            ("shop::operator,(shop::M, shop::M)", "shop::operator,(shop::M, shop::M)"),
            ("shop::operator\"\" _eur(unsigned long long)", "shop::operator\"\" _eur(unsigned long long)"),
            ("operator==(A const&, B const&)", "operator==(A, B)"),
            ("shop::operator<=>(A const&, B const&)", "shop::operator<=>(A, B)"),
            // One template is one function, whatever it is made for; two templates are two.
            (
                "bool shop::operator<<int>(shop::V<int> const&, shop::V<int> const&)",
                "shop::operator<(shop::V, shop::V)",
            ),
            (
                "bool shop::operator<<long>(shop::V<long> const&, shop::V<long> const&)",
                "shop::operator<(shop::V, shop::V)",
            ),
            (
                "shop::OS& shop::operator<<<int>(shop::OS&, shop::V<int> const&)",
                "shop::operator<<(shop::OS, shop::V)",
            ),
            (
                "shop::OS& shop::operator<<<shop::M>(shop::OS&, shop::M const&)",
                "shop::operator<<(shop::OS, _)",
            ),
            ("shop::OS& shop::operator<<<int>(shop::OS&, int)", "shop::operator<<(shop::OS, _)"),
            (
                "shop::operator>>(std::__1::basic_istream<char>&, shop::M&)",
                "shop::operator>>(std::basic_istream, shop::M)",
            ),
            ("shop::swap(shop::M&, shop::M&)", "shop::swap(shop::M, shop::M)"),
            ("shop::swap(shop::W*, shop::W* const*)", "shop::swap(shop::W, shop::W)"),
            (
                "shop::to_json(shop::OS&&, int (&) [3], void (*)(int, shop::M))",
                "shop::to_json(shop::OS, int, void)",
            ),
            (
                "shop::operator+(shop::M, shop::M)::$_0::operator()(int) const",
                "shop::operator+(shop::M, shop::M)",
            ),
            ("void shop::swap(shop::f()::'lambda'(int)&, int)", "shop::swap(_, int)"),
            // The name alone tells these.
            ("shop::C::operator()(int) const", "shop::C::operator()"),
            ("shop::C::operator[](int)", "shop::C::operator[]"),
            ("shop::C::operator=(shop::M const&)", "shop::C::operator="),
            ("shop::C::operator bool() const", "shop::C::operator bool"),
            ("shop::C::operator->() const", "shop::C::operator->"),
            ("shop::C::size() const", "shop::C::size"),
            ("shop::total(shop::M)", "shop::total"),
            ("shop::operators(shop::M)", "shop::operators"),
            ("Shop.swap(Swift.Int, Swift.Int) -> ()", "Shop.swap"),
            ("shop::operator+(größe::Maß const&, größe::Maß)", "shop::operator+(größe::Maß, größe::Maß)"),
        ] {
            assert_eq!(normalise_name(name), expected, "{name}");
        }
    }

    #[test]
    fn hostile_parameters_are_bounded() {
        for part in ["<", "(", "A<", " const", "&", "operator<", "'", ","] {
            let name = format!("operator+({}", part.repeat(5_000));
            assert!(normalise_name(&name).len() <= 300, "{part}");
        }
    }
}
