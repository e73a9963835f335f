//! Compiler-made functions. They are called from everywhere and say nothing about a bug: code that several
//! functions share, metadata accessors and value witnesses of Swift, helpers of blocks, initialisers of C++. A
//! thunk or a closure is not one of them: it carries a function that the programmer wrote.

use crate::demangle::{is_rust, is_swift};

/// Names followed by a number, `Tm` (merged by Swift) or nothing.
const WITH_NUMBER: [&str; 9] = [
    "objectdestroy",
    "block_copy_helper",
    "block_destroy_helper",
    "keypath_get",
    "keypath_set",
    "keypath_hash",
    "keypath_equals",
    "keypath_copy",
    "keypath_destroy",
];

/// Prefixes of names.
const COMPILER_MADE_PREFIXES: [&str; 34] = [
    "OUTLINED_FUNCTION_",
    "associated conformance ",
    "associated type ",
    "base conformance ",
    "base witness table ",
    "canonical specialized generic type metadata ",
    "class metadata ",
    "core::ops::function::Fn",
    "core::ptr::drop_in_place",
    "default associated ",
    "full type metadata ",
    "generic protocol witness table ",
    "generic type metadata ",
    "get_type_metadata ",
    "get_witness_table ",
    "keypath_get_arg_layout",
    "lazy ",
    "metaclass for ",
    "method lookup function for ",
    "nominal type descriptor ",
    "ObjC metadata update function for ",
    "outlined ",
    "protocol conformance descriptor ",
    "protocol witness table ",
    "reabstraction thunk ",
    "thread-local initialization routine for ",
    "thread-local wrapper routine for ",
    "thunk for ",
    "type metadata ",
    "type..eq.",
    "type..hash.",
    "type:.eq.",
    "type:.hash.",
    "value witness table ",
];

/// Prefixes of names, after at least one underscore.
const RESERVED_PREFIXES: [&str; 24] = [
    "Block_byref_object_copy_",
    "Block_byref_object_dispose_",
    "GLOBAL__D_",
    "GLOBAL__I_",
    "GLOBAL__sub_D_",
    "GLOBAL__sub_I_",
    "cgoexp_",
    "clang_at_available_",
    "clang_call_terminate",
    "copy_helper_block_",
    "cxx_global_array_dtor",
    "cxx_global_var_init",
    "destroy_helper_block_",
    "llvm_gcov_",
    "llvm_profile_",
    "os_log_helper_",
    "rdl_",
    "rg_",
    "rust_alloc",
    "rust_dealloc",
    "rust_no_alloc_shim",
    "rust_realloc",
    "rustc::",
    "tls_init",
];

/// Helpers of C structures with reference-counted members. The layout follows, which begins with a number.
const STRUCTURE_HELPERS: [&str; 6] = [
    "copy_assignment_",
    "copy_constructor_",
    "default_constructor_",
    "destructor_",
    "move_assignment_",
    "move_constructor_",
];

/// The last operators of such mangled Swift names: accessors of metadata and witness tables, and reabstraction
/// thunks.
const SWIFT_OPERATORS: [&str; 14] =
    ["Ma", "Mb", "Mi", "Mr", "MU", "TR", "Tr", "WI", "WL", "WT", "Wa", "Wb", "Wl", "Wt"];

/// The last two characters of Swift's mangled value witnesses, after a `w`.
const VALUE_WITNESSES: [&str; 24] = [
    "CP", "Cc", "Cp", "TK", "Tk", "Tt", "XX", "Xx", "al", "ca", "cp", "de", "et", "pr", "st", "tT", "ta",
    "tk", "ug", "ui", "up", "xg", "xs", "xx",
];

/// True for the readable name of a compiler-made function.
pub(crate) fn is_compiler_made(name: &str) -> bool {
    if COMPILER_MADE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || is_value_witness(name) {
        return true;
    }
    let bare = name.trim_start_matches('_');
    let with_number = |prefix: &&str| {
        let rest = bare.strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with("Tm"))
    };
    let of_structure = |prefix: &&str| {
        bare.strip_prefix(*prefix).is_some_and(|layout| layout.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_reserved = bare.len() < name.len();
    WITH_NUMBER.iter().any(with_number)
        || is_reserved && RESERVED_PREFIXES.iter().any(|prefix| bare.starts_with(prefix))
        || is_reserved && STRUCTURE_HELPERS.iter().any(of_structure)
        || name.ends_with(".module_ctor")
        || name.ends_with(".module_dtor")
}

/// True for such a function's name in a symbol table or from a device: mangled or readable.
pub(crate) fn is_compiler_made_symbol(symbol: &str) -> bool {
    if is_swift(symbol) {
        return is_swift_helper(symbol);
    }
    let is_thread_local = || symbol.starts_with("_ZTW") || symbol.starts_with("_ZTH");
    let is_dropped = || symbol.contains("4core3ptr") && symbol.contains("drop_in_place") && is_rust(symbol);
    is_compiler_made(symbol) || is_thread_local() || is_dropped()
}

/// True for a name such as `destroy value witness for Shop.Cart`.
fn is_value_witness(name: &str) -> bool {
    let witness = name.split_once(" value witness for ").map(|(witness, _)| witness);
    witness.is_some_and(|witness| witness.chars().all(char::is_alphanumeric))
}

/// Reads the last operator of a mangled name, which gives the kind of the whole.
fn is_swift_helper(symbol: &str) -> bool {
    let symbol = symbol.split('.').next().unwrap_or(symbol);
    let symbol = symbol.strip_suffix("Tm").unwrap_or(symbol);
    let is_outlined = || {
        let before = symbol.strip_suffix(|c: char| c.is_ascii_lowercase());
        before.is_some_and(|before| before.ends_with("WO"))
    };
    let is_witness = || {
        VALUE_WITNESSES
            .iter()
            .any(|code| symbol.strip_suffix(code).is_some_and(|before| before.ends_with('w')))
    };
    SWIFT_OPERATORS.iter().any(|operator| symbol.ends_with(operator)) || is_outlined() || is_witness()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demangle::demangle_here;

    #[test]
    fn functions_that_a_compiler_writes_are_known_by_their_names() {
        for name in [
            "OUTLINED_FUNCTION_0",
            "OUTLINED_FUNCTION_PROLOG_FRAME64_x29x30x19x20",
            "outlined destroy of Shop.Cart",
            "type metadata accessor for Shop.Cart",
            "type metadata completion function for Shop.Cart",
            "lazy protocol witness table accessor for type Shop.Cart and conformance Shop.Cart : Swift.Equatable in Shop",
            "lazy cache variable for type metadata for Shop.Cart",
            "destroy value witness for Shop.Cart",
            "getEnumTagSinglePayload value witness for Shop.Cart",
            "associated type witness table accessor for A.B : C in Shop.Cart : Shop.Total in Shop",
            "thunk for @escaping @callee_guaranteed () -> ()",
            "reabstraction thunk helper from @escaping @callee_guaranteed () -> () to @escaping () -> ()",
            "objectdestroy",
            "objectdestroyTm",
            "objectdestroy.5Tm",
            "objectdestroy.12",
            "block_copy_helper",
            "block_destroy_helper.8",
            "block_destroy_helperTm",
            "__copy_helper_block_8_32s40b",
            "__destroy_helper_block_e8_32s",
            "__Block_byref_object_copy_",
            "__Block_byref_object_dispose_.4",
            "keypath_get.3Tm",
            "keypath_setTm",
            "_GLOBAL__sub_I_cart.cpp",
            "__cxx_global_var_init",
            "__cxx_global_array_dtor",
            "__clang_call_terminate",
            "__tls_init",
            "__destructor_8_s0_s8",
            "__copy_constructor_8_8_t0w4_s8",
            "__os_log_helper_16_2_1_8_32",
            "asan.module_ctor",
            "core::ptr::drop_in_place<shop::Cart>",
            "core::ptr::drop_in_place::<shop::Cart>",
            "__rust_alloc",
            "__rustc::__rust_dealloc",
            "type:.eq.main.Cart",
            "_cgoexp_a1b2_Total",
        ] {
            assert!(is_compiler_made(name), "{name}");
            assert!(is_compiler_made_symbol(name), "{name}");
        }
        for name in [
            "main",
            "Shop.Cart.total",
            "Shop.Cart.deinit",
            "Shop.Cart.__deallocating_deinit",
            "Shop.Value.witness",
            "protocol witness for Shop.Total.total() -> () in conformance Shop.Cart : Shop.Total in Shop",
            "dispatch thunk of Shop.Total.total() -> ()",
            "variable initialization expression of Shop.Cart.count : Swift.Int",
            "default argument 0 of Shop.Cart.add(Swift.Int) -> ()",
            "-[Cart .cxx_destruct]",
            "__total_block_invoke",
            "objectdestroyed",
            "block_copy_helper_of_ours",
            "rg_find",
            "__destructor_of_ours",
            "lazyLoad",
            "type",
            "outlined",
            "OUTLINED",
            "<shop::Cart as core::ops::drop::Drop>::drop",
            "keypath_getter",
            "größe",
            "",
        ] {
            assert!(!is_compiler_made(name) && !is_compiler_made_symbol(name), "{name}");
        }
    }

    #[test]
    fn the_mangled_name_says_the_same_as_the_readable_one() {
        for (mangled, expected) in [
            ("$s4Shop4CartCMa", true),
            ("$s4Shop4CartCMr", true),
            ("$s4Shop4CartVwxx", true),
            ("$s4Shop4CartVwCP", true),
            ("$s4Shop4CartVwst", true),
            ("$s4Shop4CartVwet", true),
            ("$s4Shop4CartVWOh", true),
            ("$s4Shop4CartVWOe", true),
            ("$s4Shop4CartVSgWOc", true),
            ("$s4Shop4CartVACSQAAWL", true),
            ("$s4Shop4CartVACSQAAWl", true),
            ("$sIeg_IeyB_TR", true),
            ("$s4Shop4CartV3addyySiF", false),
            ("$s4Shop4CartCfD", false),
            ("$s4Shop4CartCfd", false),
            ("$s4Shop4CartV2eeoiySbAC_ACtFZ", false),
            ("$s4Shop4CartVAA5TotalA2aDP5totalyyFTW", false),
            ("$s4Shop4CartV5totalyyFTm", false),
        ] {
            assert_eq!(is_compiler_made_symbol(mangled), expected, "{mangled}");
            let readable = demangle_here(mangled).unwrap();
            let readable = readable.strip_prefix("merged ").unwrap_or(&readable);
            assert_eq!(is_compiler_made(readable), expected, "{mangled}: {readable}");
        }
        assert!(is_compiler_made_symbol("$s4Shop4CartVWOhTm"));
        for name in [
            "_ZN4core3ptr31drop_in_place$LT$shop..Cart$GT$17h0123456789abcdefE",
            "_RINvNtCs1234_4core3ptr13drop_in_placeNtCs1234_4shop4CartE",
            "_ZTW7counter",
        ] {
            assert!(is_compiler_made_symbol(name), "{name}");
        }
    }
}
