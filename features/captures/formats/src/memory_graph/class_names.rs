//! Readable names of classes that a device names by their mangled names: what the Objective-C runtime calls a class of
//! Swift (`_TtC4Shop4Cart`), what C++ calls a type (`4Cart`, `P4Cart`), and the symbols of classes of both.

use super::graph::ClassKind;
use unslide_symbolicate::demangle::{MAX_NAME_BYTES, demangle, is_swift};

/// Phrases that the demanglers put before the name of a class.
pub(super) const PHRASES_BEFORE_NAMES: [&str; 8] = [
    "full type metadata for ",
    "type metadata for ",
    "nominal type descriptor for ",
    "metaclass for ",
    "class metadata base offset for ",
    "vtable for ",
    "typeinfo name for ",
    "typeinfo for ",
];
/// The most classes of one file whose names are demangled.
pub(super) const MOST_DEMANGLED: usize = 1 << 16;
/// The most of them that Swift's demangler reads: it runs in another process, and a name may cost it much.
pub(super) const MOST_SWIFT_SYMBOLS: usize = 1 << 12;
/// The most types in a name of Swift's that lie in one another.
const MOST_DEPTH: usize = 16;
/// The most digits of an identifier's length.
const LENGTH_DIGITS: usize = 4;

/// Counts what demangling may still cost for one file.
pub(super) struct NameBudget {
    names: usize,
    swift_symbols: usize,
}

impl Default for NameBudget {
    fn default() -> NameBudget {
        NameBudget { names: MOST_DEMANGLED, swift_symbols: MOST_SWIFT_SYMBOLS }
    }
}

/// Returns the readable form of a class's name and its language. Returns `None` if the name is readable as it is, or
/// the budget is spent.
pub(super) fn demangle_class(
    name: &str,
    kind: ClassKind,
    budget: &mut NameBudget,
) -> Option<(String, ClassKind)> {
    if name.len() > MAX_NAME_BYTES || !name.is_ascii() && !name.starts_with("_Tt") {
        return None;
    }
    let symbol = name.strip_prefix('_').filter(|rest| rest.starts_with("_Z") || rest.starts_with("_$"));
    let symbol = symbol.unwrap_or(name);
    let runtime_name = name.strip_prefix("_Tt");
    let type_name = is_type_name(name) && matches!(kind, ClassKind::Unknown | ClassKind::Cpp);
    let is_mangled = runtime_name.is_some() || type_name || symbol.starts_with("_Z") || is_swift(symbol);
    if !is_mangled {
        return None;
    }
    budget.names = budget.names.checked_sub(1)?;
    if let Some(rest) = runtime_name {
        return read_runtime_name(rest).map(|name| (name, ClassKind::Swift));
    }
    if is_swift(symbol) {
        budget.swift_symbols = budget.swift_symbols.checked_sub(1)?;
        return Some((strip_phrase(&demangle(symbol)?), ClassKind::Swift));
    }
    let demangled = if type_name { demangle(&format!("_ZTS{name}")) } else { demangle(symbol) };
    Some((strip_phrase(&demangled?), ClassKind::Cpp))
}

/// Removes the phrase before the name of a class.
pub(super) fn strip_phrase(name: &str) -> String {
    let own = PHRASES_BEFORE_NAMES.iter().find_map(|phrase| name.strip_prefix(phrase));
    own.unwrap_or(name).to_owned()
}

/// Returns true for the name that `typeid` gives a class of C++, a pointer or a reference to one: an identifier with its
/// length in front. No identifier of any language begins like that, except behind `P`, `K`, `R` or `O`, and there the
/// length has to fit.
fn is_type_name(name: &str) -> bool {
    let body = name.trim_start_matches(['P', 'K', 'R', 'O']);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = body.as_bytes();
    match bytes {
        [b'N', rest @ ..] => {
            rest.last() == Some(&b'E')
                && (is_digit(rest.first()) || rest.starts_with(b"St") || rest.starts_with(b"S"))
        }
        [b'S', b't', rest @ ..] => is_digit(rest.first()),
        [b'1'..=b'9', ..] => {
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (length, rest) = body.split_at(digits);
            let fits = |length: usize| rest.len() == length || rest.as_bytes().get(length) == Some(&b'I');
            length.parse().is_ok_and(fits)
        }
        _ => false,
    }
}

/// Reads what follows `_Tt` in a name that the Objective-C runtime gives a type of Swift. The form has no compressed
/// parts, unless it is generic: those are left as they are.
fn read_runtime_name(rest: &str) -> Option<String> {
    let mut reader = RuntimeName { rest };
    let name = reader.read_type(0)?;
    reader.rest.is_empty().then_some(name)
}

struct RuntimeName<'a> {
    rest: &'a str,
}

impl RuntimeName<'_> {
    fn take_char(&mut self, prefix: char) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn read_type(&mut self, depth: usize) -> Option<String> {
        if depth > MOST_DEPTH {
            return None;
        }
        let kind = self.rest.chars().next()?;
        self.take_char(kind);
        match kind {
            'C' | 'V' | 'O' => {
                let (context, name) = (self.read_context(depth)?, self.read_name()?);
                Some(format!("{context}.{name}"))
            }
            'P' => {
                let (context, name) = (self.read_context(depth)?, self.read_name()?);
                self.take_char('_').then(|| format!("{context}.{name}"))
            }
            'G' => self.read_generic(depth),
            'S' => {
                let known = self.rest.chars().next()?;
                self.take_char(known);
                standard_type(known).map(|name| format!("Swift.{name}"))
            }
            _ => None,
        }
    }

    /// Reads a generic type with its arguments, which end with an underscore.
    fn read_generic(&mut self, depth: usize) -> Option<String> {
        let base = self.read_type(depth + 1)?;
        let mut arguments = Vec::new();
        while !self.take_char('_') {
            arguments.push(self.read_type(depth + 1)?);
        }
        if arguments.is_empty() {
            return None;
        }
        Some(format!("{base}<{}>", arguments.join(", ")))
    }

    /// Reads the module or the type that a type is declared in.
    fn read_context(&mut self, depth: usize) -> Option<String> {
        match self.rest.as_bytes() {
            [b'C' | b'V' | b'O', ..] => self.read_type(depth + 1),
            [b's', ..] => self.take_char('s').then(|| "Swift".to_owned()),
            [b'S', b's', ..] => (self.take_char('S') && self.take_char('s')).then(|| "Swift".to_owned()),
            [b'S', b'o', ..] => (self.take_char('S') && self.take_char('o')).then(|| "__C".to_owned()),
            _ => self.read_identifier(),
        }
    }

    /// Reads the name of a declaration, which may be private to a file.
    fn read_name(&mut self) -> Option<String> {
        if self.take_char('P') {
            let (file, name) = (self.read_identifier()?, self.read_identifier()?);
            return Some(format!("({name} in {file})"));
        }
        self.read_identifier()
    }

    fn read_identifier(&mut self) -> Option<String> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > LENGTH_DIGITS {
            return None;
        }
        let (length, rest) = self.rest.split_at_checked(digits)?;
        let (name, rest) =
            rest.split_at_checked(length.parse().ok().filter(|length: &usize| *length > 0)?)?;
        self.rest = rest;
        Some(name.to_owned())
    }
}

/// Returns the type of the standard library behind `S`.
fn standard_type(letter: char) -> Option<&'static str> {
    Some(match letter {
        'a' => "Array",
        'b' => "Bool",
        'c' => "UnicodeScalar",
        'd' => "Double",
        'f' => "Float",
        'i' => "Int",
        'q' => "Optional",
        'S' => "String",
        'u' => "UInt",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(name: &str, kind: ClassKind) -> Option<String> {
        demangle_class(name, kind, &mut NameBudget::default()).map(|(name, _)| name)
    }

    /// The truth is Swift's own demangler, which reads the symbols of the same types in the form of today.
    #[test]
    fn names_of_the_runtime_are_read_as_by_swifts_demangler() {
        for (name, symbol) in [
            ("_TtC4Shop4Cart", "$s4Shop4CartCN"),
            ("_TtCC4Shop4Cart4Line", "$s4Shop4CartC4LineCN"),
            ("_TtCVO4Shop1A1B1C", "$s4Shop1AO1BV1CCN"),
            ("_TtCs12_SwiftObject", "$ss12_SwiftObjectCN"),
            ("_TtV4Shop5Price", "$s4Shop5PriceVN"),
            ("_TtO4Shop4Kind", "$s4Shop4KindON"),
            (
                "_TtC4ShopP33_0123456789ABCDEF0123456789ABCDEF4Cart",
                "$s4Shop4Cart33_0123456789ABCDEF0123456789ABCDEFLLCN",
            ),
            ("_TtGC4Shop3BoxSi_", "$s4Shop3BoxCySiGN"),
            ("_TtGC4Shop3BoxSS_", "$s4Shop3BoxCySSGN"),
            ("_TtGC4Shop4PairSiSd_", "$s4Shop4PairCySiSdGN"),
            ("_TtGC4Shop3BoxGSaSi__", "$s4Shop3BoxCySaySiGGN"),
            ("_TtGC4Shop3BoxGSqSi__", "$s4Shop3BoxCySiSgGN"),
        ] {
            let truth = strip_phrase(&demangle(symbol).unwrap());
            assert_eq!(readable(name, ClassKind::ObjectiveC), Some(truth), "{name}");
        }
    }

    #[test]
    fn names_of_cpp_and_symbols_are_read() {
        for (name, expected) in [
            ("4Male", Some("Male")),
            ("P4Male", Some("Male*")),
            ("PK4Male", Some("Male const*")),
            ("N4Shop4CartE", Some("Shop::Cart")),
            ("PN4Shop4CartE", Some("Shop::Cart*")),
            ("N4Shop3BoxIiEE", Some("Shop::Box<int>")),
            ("3BoxI4CartE", Some("Box<Cart>")),
            ("St9exception", Some("std::exception")),
            ("_ZTV4Cart", Some("Cart")),
            ("_ZTIN4Shop4CartE", Some("Shop::Cart")),
            ("__ZTSN4Shop4CartE", Some("Shop::Cart")),
            ("$s4Shop4CartCMn", Some("Shop.Cart")),
            ("$s4Shop4CartCN", Some("Shop.Cart")),
            ("_TtP4Shop7Pricing_", Some("Shop.Pricing")),
            // Names that are readable, or not what they look like.
            ("NSString", None),
            ("Cart", None),
            ("P4Mal", None),
            ("Person4", None),
            ("5Male", None),
            ("P", None),
            ("", None),
            ("_TtC4Shop", None),
            ("_TtC4Shop9Cart", None),
            ("_TtC99999999999Cart", None),
            ("_TtC4Shop4CartX", None),
            ("std::vector<int>", None),
        ] {
            assert_eq!(readable(name, ClassKind::Unknown).as_deref(), expected, "{name}");
        }
        assert_eq!(
            readable("P4Male", ClassKind::ObjectiveC),
            None,
            "a class of Objective-C may have this name"
        );
        assert_eq!(readable(&format!("_Tt{}", "G".repeat(4_000)), ClassKind::Swift), None);
        assert_eq!(readable(&format!("_Tt{}", "C".repeat(4_000)), ClassKind::Swift), None);
        let mut spent = NameBudget { names: 1, swift_symbols: 0 };
        assert!(demangle_class("4Male", ClassKind::Cpp, &mut spent).is_some());
        assert!(demangle_class("4Male", ClassKind::Cpp, &mut spent).is_none());
    }
}
