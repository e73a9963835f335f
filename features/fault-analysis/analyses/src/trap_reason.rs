//! The reason of a trap, from the inlined functions at it and from the immediate of the instruction.

/// The prefix of the inlined function that clang makes for `__builtin_verbose_trap(category, message)`.
const CLANG_PREFIX: &str = "__clang_trap_msg$";
/// The prefix of the inlined function that Swift makes for a failed check.
const SWIFT_PREFIX: &str = "Swift runtime failure: ";
/// The most characters of a reason.
const MOST_CHARS: usize = 200;

/// Immediates of `brk` with a known reason: those of UBSan in trap mode, in the order of clang's `SanitizerHandler`, and
/// those of XNU for pointer authentication.
const IMMEDIATES: [(u16, &str); 7] = [
    (0x5500, "integer overflow in an addition"),
    (0x5503, "division by zero, or a division with overflow"),
    (0x5512, "array index out of bounds"),
    (0xc470, "pointer authentication failed, key IA"),
    (0xc471, "pointer authentication failed, key IB"),
    (0xc472, "pointer authentication failed, key DA"),
    (0xc473, "pointer authentication failed, key DB"),
];

/// Returns the reason in the name of the innermost inlined function at a trap.
pub fn from_function(function: &str) -> Option<String> {
    let reason = match function.strip_prefix(CLANG_PREFIX) {
        Some(rest) => match rest.split_once('$') {
            Some((category, message)) if !category.is_empty() && !message.is_empty() => {
                format!("{category}: {message}")
            }
            Some((category, message)) => format!("{category}{message}"),
            None => rest.to_owned(),
        },
        None => function.strip_prefix(SWIFT_PREFIX)?.to_owned(),
    };
    let reason: String = reason.chars().take(MOST_CHARS).collect();
    Some(reason).filter(|reason| !reason.is_empty())
}

/// Returns the reason of a `brk` with this immediate.
pub fn from_immediate(immediate: u16) -> Option<&'static str> {
    IMMEDIATES.iter().find(|(known, _)| *known == immediate).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_name_the_reason_in_an_inlined_function() {
        for (function, reason) in [
            ("__clang_trap_msg$Bounds safety$index too large", Some("Bounds safety: index too large")),
            ("__clang_trap_msg$$index too large", Some("index too large")),
            ("__clang_trap_msg$Bounds safety", Some("Bounds safety")),
            ("__clang_trap_msg$$", None),
            ("Swift runtime failure: arithmetic overflow", Some("arithmetic overflow")),
            ("Swift runtime failure: ", None),
            ("Cart.total", None),
        ] {
            assert_eq!(from_function(function).as_deref(), reason, "{function}");
        }
        let long = format!("Swift runtime failure: {}", "é".repeat(1_000));
        assert_eq!(from_function(&long).unwrap().chars().count(), MOST_CHARS);
    }

    #[test]
    fn an_untested_immediate_has_no_reason() {
        assert_eq!(from_immediate(0x5512), Some("array index out of bounds"));
        assert_eq!([from_immediate(1), from_immediate(0x5501), from_immediate(0x5513)], [None; 3]);
    }
}
