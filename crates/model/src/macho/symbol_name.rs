//! Kinds of symbol names: only some say which function the code belongs to.

/// Names of the headers of Mach-O files, without underscores in front. The first symbol of an image is one of them.
const MACHO_HEADER_NAMES: [&[u8]; 6] = [
    b"mh_bundle_header",
    b"mh_dylib_header",
    b"mh_dylinker_header",
    b"mh_execute_header",
    b"mh_object_header",
    b"mh_preload_header",
];

/// Prefixes of the labels that compilers and assemblers put between instructions. A number follows.
const NUMBERED_LABELS: [&[u8]; 13] = [
    b"GCC_except_table",
    b"LBB",
    b"LCPI",
    b"LJTI",
    b"LPC",
    b"Lexception",
    b"Lfunc_begin",
    b"Lfunc_end",
    b"Lloh",
    b"Ltmp",
    b"lCPI",
    b"lJTI",
    b"ltmp",
];

/// The kinds of names that symbol tables, debug information and devices have for code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolName {
    /// The name of a function.
    Function,
    /// A placeholder for a withheld name, such as `<redacted>`. A separate function begins there.
    Placeholder,
    /// A label, which may lie inside a function, or the name of something that is not code.
    Label,
}

impl SymbolName {
    /// Returns the kind of a name. The underscore that Mach-O puts before C names is optional.
    #[must_use]
    pub fn from_name(name: &[u8]) -> SymbolName {
        match name {
            b"" | b"???" => SymbolName::Placeholder,
            [b'<', inside @ .., b'>'] if inside.iter().all(|byte| is_of_word(*byte)) => {
                SymbolName::Placeholder
            }
            _ if is_label(name) => SymbolName::Label,
            _ => SymbolName::Function,
        }
    }

    /// Returns true for the name of a function.
    #[must_use]
    pub fn is_function(name: &[u8]) -> bool {
        SymbolName::from_name(name) == SymbolName::Function
    }
}

/// Returns true for a name that a bitcode build uses instead of the function's own, such as `__hidden#1276_`. Only the
/// build's symbol map knows the function.
#[must_use]
pub fn is_hidden_symbol(name: &[u8]) -> bool {
    let name = without_underscores(name);
    let number = name.strip_prefix(b"hidden#").and_then(|rest| rest.strip_suffix(b"_"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-' | b' ')
}

fn is_label(name: &[u8]) -> bool {
    match name {
        [b'_' | b'm', ..] => MACHO_HEADER_NAMES.contains(&without_underscores(name)),
        [b'r', ..] => name.starts_with(b"radr://"),
        [b'G' | b'L' | b'l', ..] => NUMBERED_LABELS.iter().any(|label| {
            let number = name.strip_prefix(*label);
            number.is_some_and(|number| {
                number.first().is_some_and(u8::is_ascii_digit)
                    && number.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_')
            })
        }),
        _ => false,
    }
}

fn without_underscores(name: &[u8]) -> &[u8] {
    let start = name.iter().position(|byte| *byte != b'_').unwrap_or(name.len());
    &name[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_are_told_from_words_in_their_place() {
        for (kind, names) in [
            (
                SymbolName::Placeholder,
                &["", "???", "<redacted>", "<deduplicated_symbol>", "<unknown>", "<hidden symbol>"][..],
            ),
            (
                SymbolName::Label,
                &[
                    "_mh_execute_header",
                    "__mh_execute_header",
                    "mh_dylib_header",
                    "radr://5614542",
                    "GCC_except_table0",
                    "ltmp12",
                    "Ltmp3",
                    "LBB0_4",
                    "lCPI1_0",
                    "Lfunc_begin7",
                    "Lfunc_end7",
                ],
            ),
            (
                SymbolName::Function,
                &[
                    "main",
                    "_main",
                    "ltmp",
                    "ltmp_of_ours",
                    "LPCount",
                    "LBBox2",
                    "log.Println",
                    "mh_execute",
                    "<shop::Cart as core::fmt::Debug>::fmt",
                    "<Cart>",
                    "größe",
                    "-[Cart total]",
                    "radrs",
                    "__hidden#12_",
                ],
            ),
        ] {
            for name in names {
                assert_eq!(SymbolName::from_name(name.as_bytes()), kind, "{name}");
                assert_eq!(SymbolName::is_function(name.as_bytes()), kind == SymbolName::Function);
            }
        }
    }

    #[test]
    fn names_that_a_symbol_map_would_tell_are_known() {
        for (name, hidden) in [
            ("__hidden#1276_", true),
            ("_hidden#0_", true),
            ("__hidden#1276", false),
            ("__hidden#_", false),
            ("hidden#12_of_ours", false),
            ("hidden", false),
        ] {
            assert_eq!(is_hidden_symbol(name.as_bytes()), hidden, "{name}");
        }
    }
}
