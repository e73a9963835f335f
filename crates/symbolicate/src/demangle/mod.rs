//! Readable names: demangles C++, Rust and Swift. Objective-C names stay unchanged.

mod swift;

pub(crate) use swift::SwiftNames;
pub use swift::{Swift, Unavailable, demangle_here, demangle_with, is_swift, simplify_swift};

use std::fmt::{self, Write};

/// Longest name to be demangled, and longest result, in bytes. Longer names stay unchanged.
pub const MAX_NAME_BYTES: usize = 4096;

/// Returns the readable form of a linkage name (without the underscore that Mach-O puts before C names);
/// `None` if the name is not mangled, or demangling costs too much.
#[must_use]
pub fn demangle(linkage_name: &str) -> Option<String> {
    if is_swift(linkage_name) {
        return SwiftNames::for_report().demangle(&[linkage_name]).ok()?.pop()?;
    }
    if linkage_name.len() > MAX_NAME_BYTES {
        return None;
    }
    let demangled = match is_rust(linkage_name) {
        true => demangle_rust(linkage_name)?,
        false => unslide_llvm_demangle::demangle(without_module(linkage_name), MAX_NAME_BYTES)?,
    };
    accept_result(linkage_name, demangled)
}

/// Removes the module id that ThinLTO appends to make a name unique.
fn without_module(name: &str) -> &str {
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    name.rsplit_once('$').filter(|(_, id)| is_id(id)).map_or(name, |(name, _)| name)
}

/// True for Rust names. In Rust's first mangling they are C++ names with a hash at the end.
pub(crate) fn is_rust(name: &str) -> bool {
    let is_hash = |hash: &str| hash.bytes().all(|b| b.is_ascii_hexdigit());
    let ends_with_hash = || {
        let (_, hash) = name.rsplit_once("17h")?;
        hash.split_at_checked(16)
            .filter(|(hash, end)| is_hash(hash) && (*end == "E" || end.starts_with("E.")))
    };
    name.starts_with("_R") || name.contains("_ZN") && ends_with_hash().is_some()
}

/// Returns a Rust name without its hash. A few hundred bytes may expand to gigabytes, so the result stops at
/// the length limit.
fn demangle_rust(linkage_name: &str) -> Option<String> {
    let mut name = Bounded(String::new());
    write!(name, "{:#}", rustc_demangle::try_demangle(linkage_name).ok()?).ok()?;
    Some(name.0)
}

struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Returns a demangler's result, unless it is unchanged or too long.
fn accept_result(linkage_name: &str, demangled: String) -> Option<String> {
    (demangled != linkage_name && demangled.len() <= MAX_NAME_BYTES).then_some(demangled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_is_read() {
        for (mangled, readable) in [
            ("_ZN3geo5Shape4areaEi", Some("geo::Shape::area(int)")),
            ("_ZThn16_N10SkPixelRefD0Ev", Some("non-virtual thunk to SkPixelRef::~SkPixelRef()")),
            ("_ZTv0_n40_N9GrTextureD1Ev", Some("virtual thunk to GrTexture::~GrTexture()")),
            (
                "_ZN4shop4callIZNS_7lambdasEiE3$_5EEDTclclsr3stdE7declvalIT_EEEES2_",
                Some(
                    "decltype(std::declval<shop::lambdas(int)::$_5>()()) shop::call<shop::lambdas(int)::$_5>(shop::lambdas(int)::$_5)",
                ),
            ),
            ("___ZN3foo3barEv_block_invoke", Some("invocation function for block in foo::bar()")),
            ("_ZN3geo4areaEi$0123456789abcdef0123456789abcdef", Some("geo::area(int)")),
            ("_ZN12_GLOBAL__N_110DomPrinter2IDE", Some("(anonymous namespace)::DomPrinter::ID")),
            ("_ZN3orb6shapes3sum17h2d55b0580eae69efE", Some("orb::shapes::sum")),
            ("_ZN3orb6shapes3sum17h2d55b0580eae69efE.llvm.7", Some("orb::shapes::sum")),
            ("_ZN3orb6shapes3sum17h2d55b0580eae69éE", Some("orb::shapes::sum::h2d55b0580eae69é")),
            ("_RNvCs1234_7mycrate3foo", Some("mycrate::foo")),
            ("$s4Shop4CartV3addyySiF", Some("Shop.Cart.add(Swift.Int) -> ()")),
            ("-[Counter add:times:]", None),
            ("main", None),
            ("", None),
        ] {
            assert_eq!(demangle(mangled).as_deref(), readable, "{mangled}");
        }
    }

    #[test]
    fn a_swift_name_has_a_short_form() {
        let short = |name: &str| simplify_swift(name, &demangle(name).unwrap_or(name.to_owned()));
        assert_eq!(short("$s4Shop4CartV3addyySiF").as_deref(), Some("Cart.add"));
        assert_eq!(short("main"), None);
    }

    /// Each level of the type is the one before it twice.
    #[test]
    fn a_rust_name_that_unfolds_without_end_stays_as_it_is_and_costs_little() {
        let bomb = |n: u32| {
            // Behind `_R`, from where backward references count.
            let mut name = format!("INvC1a7f{n:06}");
            let mut last = name.len();
            name += "TuuE";
            for _ in 0..18 {
                let (at, again) = (name.len(), base_62(last));
                name += &format!("TB{again}B{again}E");
                last = at;
            }
            format!("_R{name}E")
        };
        assert!(rustc_demangle::try_demangle(&bomb(0)).is_ok());
        assert!((0..10_000).all(|n| demangle(&bomb(n)).is_none()));
    }

    fn base_62(number: usize) -> String {
        const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let Some(mut left) = number.checked_sub(1) else { return "_".into() };
        let mut text = String::from("_");
        loop {
            text.insert(0, char::from(DIGITS[left % 62]));
            left /= 62;
            if left == 0 {
                return text;
            }
        }
    }
}
