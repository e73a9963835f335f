//! Readable names: C++, Rust and Swift demangled, Objective-C as it is.
//!
//! Mangled names refer back to their own parts, so that a short one can stand for a text of any
//! length. The demanglers of C++ and Rust stop by themselves; Swift's does not, so what a name may
//! cost is worked out before it runs.

use symbolic_common::{Language, Name};
use symbolic_demangle::{Demangle, DemangleOptions};

/// Longer names stay as they are, mangled or demangled, in bytes.
pub const MAX_NAME_BYTES: usize = 4096;

/// The most parts that one name may unfold to.
const MAX_PARTS: u64 = 1 << 22;
/// The most parts that the names of one object may unfold to, the short ones not counted.
const MAX_PARTS_IN_ALL: u64 = 1 << 31;
/// Names that unfold to no more parts than this are not counted.
const FEW_PARTS: u64 = 1 << 14;

/// Demangles the names of one object within a bounded time.
pub(crate) struct Demangler {
    parts_left: u64,
}

impl Default for Demangler {
    fn default() -> Demangler {
        Demangler { parts_left: MAX_PARTS_IN_ALL }
    }
}

impl Demangler {
    /// The readable form of a linkage name; `None` where there is no other.
    pub(crate) fn demangle(&mut self, linkage_name: &str) -> Option<String> {
        let parts = swift_parts(linkage_name);
        if parts > FEW_PARTS {
            self.parts_left = self.parts_left.checked_sub(parts)?;
        }
        demangle(linkage_name)
    }
}

/// The readable form of a linkage name (without the underscore that Mach-O puts before C names);
/// `None` where it is no mangled name, or one that costs too much.
#[must_use]
pub fn demangle(linkage_name: &str) -> Option<String> {
    if linkage_name.len() > MAX_NAME_BYTES || swift_parts(linkage_name) > MAX_PARTS {
        return None;
    }
    let name = Name::from(linkage_name);
    let demangled = match name.detect_language() {
        Language::Unknown | Language::ObjC => return None,
        _ => name.demangle(DemangleOptions::complete())?,
    };
    let demangled = thunk(&demangled).unwrap_or(demangled);
    (demangled != linkage_name && demangled.len() <= MAX_NAME_BYTES).then_some(demangled)
}

/// The usual words for a thunk: `{virtual override thunk({offset(-16)}, A::b())}` is
/// `non-virtual thunk to A::b()`.
fn thunk(demangled: &str) -> Option<String> {
    let inner = demangled.strip_prefix("{virtual override thunk({")?.strip_suffix(")}")?;
    let (words, inner) = match inner.strip_prefix("virtual ") {
        Some(inner) => ("virtual thunk to ", inner),
        None => ("non-virtual thunk to ", inner),
    };
    let (_, target) = inner.strip_prefix("offset(")?.split_once(")}, ")?;
    Some(format!("{words}{target}"))
}

/// At most how many parts Swift's demangler would make of a name; 0 for a name that is not Swift's.
///
/// `A` refers to substitutions by number: `AB` to number 1, `AbC` to 1 and 2, `A3D` to 3 three times,
/// `A4_` to 31. They are numbered as they are made, so one is at most as large as the name up to where
/// it, or one of a higher number, is first referred to.
fn swift_parts(name: &str) -> u64 {
    let body = ["$s", "$S", "_$s", "_$S", "_T0", "@__swiftmacro_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    let Some(body) = body.map(str::as_bytes) else { return 0 };
    // Upper bounds by number of the substitution, and the parts so far.
    let mut sizes: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    let (mut parts, mut i) = (0_u64, 0);
    let mut refer = |number: u64, times: u64, parts: &mut u64| {
        let later = sizes.range(number..).next().map(|(_, size)| *size);
        let size = *sizes.entry(number).or_insert(later.map_or(*parts, |later| later.min(*parts)));
        *parts = parts.saturating_add(size.saturating_mul(times.max(1)));
    };
    let number = |i: &mut usize| {
        let mut number = 0_u64;
        while let Some(digit) = body.get(*i).filter(|b| b.is_ascii_digit()) {
            number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            *i += 1;
        }
        number
    };
    while let Some(&byte) = body.get(i) {
        parts = parts.saturating_add(1);
        i += 1;
        match byte {
            // An identifier: its length, then itself. With a leading 0 it may hold words of others,
            // which do not nest; what is skipped too little of it only counts too much.
            b'1'..=b'9' => {
                i -= 1;
                let length = number(&mut i);
                i = i.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
                parts = parts.saturating_add(length);
            }
            b'A' => loop {
                let times = number(&mut i);
                let Some(&letter) = body.get(i) else { break };
                i += 1;
                match letter {
                    b'a'..=b'z' => refer(u64::from(letter - b'a'), times, &mut parts),
                    b'A'..=b'Z' => {
                        refer(u64::from(letter - b'A'), times, &mut parts);
                        break;
                    }
                    b'_' => {
                        let index = if body.get(i.wrapping_sub(2)).is_some_and(u8::is_ascii_digit) {
                            times.saturating_add(27)
                        } else {
                            26
                        };
                        refer(index, 1, &mut parts);
                        break;
                    }
                    _ => break,
                }
            },
            _ => {}
        }
    }
    parts
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
            ("___ZN3foo3barEv_block_invoke", Some("invocation function for block in foo::bar()")),
            ("_ZN3orb6shapes3sum17h2d55b0580eae69efE", Some("orb::shapes::sum")),
            ("_RNvCs1234_7mycrate3foo", Some("mycrate::foo")),
            ("$s4Shop4CartV3addyySiF", Some("Shop.Cart.add(Swift.Int) -> ()")),
            ("-[Counter add:times:]", None),
            ("main", None),
            ("", None),
        ] {
            assert_eq!(demangle(mangled).as_deref(), readable, "{mangled}");
        }
    }

    /// A Swift name that stands for 2^`levels` times `Foo<Int, Int>`.
    fn bomb(levels: usize) -> String {
        let mut name = String::from("$s4main1xAA3FooVy") + &"ADy".repeat(levels) + "S2iG";
        for level in 0..levels {
            let number = 4 + level;
            let letter = char::from(b'A' + u8::try_from(number % 26).unwrap());
            let reference = match number {
                0..26 => letter.to_string(),
                26 => "_".to_owned(),
                _ => format!("{}_", number - 27),
            };
            name += &format!("A{reference}G");
        }
        name + "vp"
    }

    #[test]
    fn a_swift_name_that_unfolds_without_end_stays_as_it_is() {
        assert!(demangle(&bomb(2)).is_some_and(|name| name.matches("Int").count() == 8));
        for levels in 16..22 {
            assert!(swift_parts(&bomb(levels)) > 1 << levels, "{levels}");
        }
        assert_eq!(demangle(&bomb(60)), None);
        let mut demangler = Demangler::default();
        assert_eq!((0..50).filter_map(|_| demangler.demangle(&bomb(12))).count(), 0);
        assert!(demangler.parts_left < MAX_PARTS_IN_ALL);
    }

    #[test]
    fn ordinary_swift_names_count_few_parts() {
        for name in [
            "$s12CanvasNative9NSCRenderC22drawFrameTexSubImage3DyySo8AVPlayerC_So0I15ItemVideoOutputCSo6CGSizeVs5Int32VA9LSbtFTf4nndnnnnnnnnddnd_n",
            "$s7SwiftUI15ModifiedContentVyACyACyAA4TextVAA14_PaddingLayoutVGAA16_FlexFrameLayoutVGAA11_ClipEffectVyAA16RoundedRectangleVGGWOe",
        ] {
            assert!(swift_parts(name) < FEW_PARTS, "{} {name}", swift_parts(name));
        }
    }
}
