//! Swift names.
//!
//! Swift's demangler is C++ and has two problems with untrusted names. Names refer back to their own parts,
//! so that a short one can expand to a text of any length: its cost is computed before it is demangled. And
//! some names that no compiler writes end the process by an assertion (`$s4Shop4QartV3addyySiD`): a service
//! demangles in another process ([`demangle_with`]), and a name that ends that process stays unchanged.

use super::MAX_NAME_BYTES;
use super::accept_result;
use std::sync::OnceLock;
use symbolic_common::{Language, Name, NameMangling};
use symbolic_demangle::{Demangle, DemangleOptions};

/// Prefixes of mangled Swift names that Swift's demangler accepts.
const MANGLED_SWIFT_PREFIXES: [&str; 8] = ["$s", "_$s", "$S", "_$S", "$e", "_$e", "_T0", "@__swiftmacro_"];

/// The most parts that one name may expand to.
const MAX_PARTS: u64 = 1 << 22;
/// The most parts that the names of one object may expand to, beyond [`PARTS_PER_BYTE`].
const MAX_PARTS_OF_AN_OBJECT: u64 = 1 << 31;
/// Such parts for each byte of the object, and the number that any object may use.
const OBJECT_PARTS_PER_BYTE: u64 = 8;
const FREE_PARTS_OF_AN_OBJECT: u64 = 1 << 24;
/// The most parts that the names of one report may expand to, beyond [`PARTS_PER_BYTE`].
const MAX_PARTS_OF_A_REPORT: u64 = 1 << 24;
/// Parts for each byte of a name that are free.
const PARTS_PER_BYTE: u64 = 32;
/// The most bytes of names in one batch.
const BATCH_BYTES: usize = 32 << 10;

/// True for a name that Swift's demangler reads.
#[must_use]
pub fn is_swift(name: impl AsRef<[u8]>) -> bool {
    MANGLED_SWIFT_PREFIXES.iter().any(|prefix| name.as_ref().starts_with(prefix.as_bytes()))
}

/// A way to call Swift's demangler.
pub trait Swift: Send + Sync {
    /// Demangles names, in their order. Returns fewer answers if the demangler ended at the name after the
    /// last answer.
    ///
    /// # Errors
    /// Returns [`Unavailable`] if the demangler cannot be reached now.
    fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable>;
}

/// Swift's demangler is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Swift's demangler is not available now")]
pub struct Unavailable;

static SWIFT: OnceLock<Box<dyn Swift>> = OnceLock::new();

/// Sets how this process calls Swift's demangler from now on. Without it, every name is [demangled
/// here](demangle_here). Only the first call has an effect; returns whether this was the first.
pub fn demangle_with(swift: impl Swift + 'static) -> bool {
    SWIFT.set(Box::new(swift)).is_ok()
}

/// Demangles a Swift name in this process. The demangler may end the process.
#[must_use]
pub fn demangle_here(name: &str) -> Option<String> {
    Name::new(name, NameMangling::Mangled, Language::Swift).demangle(DemangleOptions::complete())
}

/// Returns the short form of a Swift name, as Apple's tools show it: without modules, types of arguments and results.
/// `demangled` is the full form. Returns None if the name has no full form: one that ends the demangler has none.
#[must_use]
pub fn simplify_swift(name: &str, demangled: &str) -> Option<String> {
    if name == demangled || name.len() > MAX_NAME_BYTES {
        return None;
    }
    let short =
        Name::new(name, NameMangling::Mangled, Language::Swift).demangle(DemangleOptions::name_only())?;
    accept_result(name, short)
}

/// Demangles in this process.
struct Here;

impl Swift for Here {
    fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
        Ok(names.iter().map(|name| demangle_here(name)).collect())
    }
}

/// Demangles the Swift names of one object or report, within limits.
pub(crate) struct SwiftNames<'s> {
    swift: &'s dyn Swift,
    parts_left: u64,
    /// How many names may still end the demangler. A file full of such names must not restart it forever.
    ends_left: u32,
}

/// The limits for the names of one object.
impl Default for SwiftNames<'_> {
    fn default() -> Self {
        SwiftNames::new(MAX_PARTS_OF_AN_OBJECT, 32)
    }
}

impl SwiftNames<'_> {
    fn new(parts_left: u64, ends_left: u32) -> Self {
        SwiftNames { swift: SWIFT.get().map_or(&Here, |swift| &**swift), parts_left, ends_left }
    }

    /// Returns limits for the names of one object, in proportion to its size.
    pub(crate) fn for_object(bytes: u64) -> Self {
        let parts = bytes.saturating_mul(OBJECT_PARTS_PER_BYTE).saturating_add(FREE_PARTS_OF_AN_OBJECT);
        SwiftNames { parts_left: parts.min(MAX_PARTS_OF_AN_OBJECT), ..SwiftNames::default() }
    }

    /// Returns limits for the names of one report.
    pub(crate) fn for_report() -> Self {
        SwiftNames::new(MAX_PARTS_OF_A_REPORT, 2)
    }

    /// Returns the readable form of each name; `None` if there is no other, or it costs too much.
    pub(crate) fn demangle(&mut self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
        let mut answers = vec![None; names.len()];
        let asked: Vec<usize> = (0..names.len()).filter(|at| self.try_charge(names[*at])).collect();
        let mut rest = &asked[..];
        while !rest.is_empty() && self.ends_left > 0 {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|at| {
                bytes += names[**at].len();
                bytes <= BATCH_BYTES
            });
            let (batch, others) = rest.split_at(fits.count().max(1));
            let texts: Vec<&str> = batch.iter().map(|at| names[*at]).collect();
            let found = self.swift.demangle(&texts)?;
            let answered = found.len().min(batch.len());
            for (at, demangled) in batch.iter().zip(found) {
                answers[*at] = demangled.and_then(|demangled| accept_result(names[*at], demangled));
            }
            rest = others;
            if let Some(last) = batch.get(answered) {
                // Retry this name alone: the process may have ended for another reason.
                match self.swift.demangle(&[names[*last]])?.pop() {
                    Some(demangled) => {
                        answers[*last] =
                            demangled.and_then(|demangled| accept_result(names[*last], demangled));
                    }
                    None => self.ends_left -= 1,
                }
                rest = &asked[asked.len() - others.len() - (batch.len() - answered - 1)..];
            }
        }
        Ok(answers)
    }

    fn try_charge(&mut self, name: &str) -> bool {
        let parts = count_parts(name);
        if name.len() > MAX_NAME_BYTES || parts > MAX_PARTS || !is_swift(name) {
            return false;
        }
        let left = self.parts_left.checked_sub(parts.saturating_sub(PARTS_PER_BYTE * name.len() as u64));
        self.parts_left = left.unwrap_or(self.parts_left);
        left.is_some()
    }
}

/// Returns an upper bound of the parts that Swift's demangler would make of a name; 0 for a name that is
/// not Swift's.
///
/// `A` refers to substitutions by number: `AB` to number 1, `AbC` to 1 and 2, `A3D` to 3 three times, `A4_`
/// to 31. They are numbered in the order of creation. So one is at most as large as the name before the
/// first reference to it or to a higher number.
fn count_parts(name: &str) -> u64 {
    let body = MANGLED_SWIFT_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
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
            // An identifier: its length, then its text. With a leading 0 it may contain words of other
            // identifiers, which do not nest. Skipping too little of it only makes the count higher.
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
        let mut names = SwiftNames::default();
        let mut demangle = |name: &str| names.demangle(&[name]).unwrap().pop().unwrap();
        assert!(demangle(&bomb(2)).is_some_and(|name| name.matches("Int").count() == 8));
        for levels in 16..22 {
            assert!(count_parts(&bomb(levels)) > 1 << levels, "{levels}");
        }
        assert_eq!(demangle(&bomb(60)), None);
        assert_eq!((0..50).filter_map(|_| demangle(&bomb(12))).count(), 0);
        assert!(names.parts_left < MAX_PARTS_OF_AN_OBJECT);
    }

    #[test]
    fn ordinary_swift_names_count_few_parts() {
        for name in [
            "$s12CanvasNative9NSCRenderC22drawFrameTexSubImage3DyySo8AVPlayerC_So0I15ItemVideoOutputCSo6CGSizeVs5Int32VA9LSbtFTf4nndnnnnnnnnddnd_n",
            "$s7SwiftUI15ModifiedContentVyACyACyAA4TextVAA14_PaddingLayoutVGAA16_FlexFrameLayoutVGAA11_ClipEffectVyAA16RoundedRectangleVGGWOe",
        ] {
            assert!(count_parts(name) < PARTS_PER_BYTE * name.len() as u64, "{} {name}", count_parts(name));
        }
    }

    /// Readable names are the mangled ones in capitals; those with a `!` end it.
    #[derive(Default)]
    struct Mortal(std::sync::Mutex<Vec<usize>>);

    impl Swift for Mortal {
        fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
            self.0.lock().unwrap().push(names.len());
            let lives = names.iter().take_while(|name| !name.contains('!'));
            Ok(lives.map(|name| Some(name.to_uppercase())).collect())
        }
    }

    /// Proves: bounded-input
    #[test]
    fn a_name_that_ends_the_demangler_costs_no_other_its_answer() {
        let swift = Mortal::default();
        let mut names = SwiftNames { swift: &swift, parts_left: 0, ends_left: 3 };
        let asked = ["$s1a", "$s!", "no Swift", "$s1b", "$s!!", "$s1c"];
        let answers = names.demangle(&asked).unwrap();
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(answers, [some("$S1A"), None, None, some("$S1B"), None, some("$S1C")]);
        assert_eq!(*swift.0.lock().unwrap(), [5, 1, 3, 1, 1]);
        // A third one is the last that is tried.
        assert_eq!(names.demangle(&["$s1a", "$s!", "$s1b"]).unwrap(), [some("$S1A"), None, None]);
        assert_eq!(names.demangle(&["$s1a"]).unwrap(), [None]);
    }

    /// Proves: bounded-input
    #[test]
    fn a_process_that_something_else_ended_is_asked_again() {
        struct Once(std::sync::atomic::AtomicBool);
        impl Swift for Once {
            fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
                let first = self.0.swap(false, std::sync::atomic::Ordering::Relaxed);
                Ok(names
                    .iter()
                    .skip(usize::from(first) * names.len())
                    .map(|n| Some(n.to_uppercase()))
                    .collect())
            }
        }
        let mut names = SwiftNames { swift: &Once(true.into()), parts_left: 0, ends_left: 1 };
        let answers = names.demangle(&["$s1a", "$s1b"]).unwrap();
        assert_eq!(answers, [Some("$S1A".to_owned()), Some("$S1B".to_owned())]);
    }

    #[test]
    fn many_names_are_asked_for_in_pieces() {
        let swift = Mortal::default();
        let mut names = SwiftNames { swift: &swift, parts_left: u64::MAX, ends_left: 1 };
        let long = format!("$s{}", "x".repeat(4000));
        let asked = vec![long.as_str(); 20];
        assert!(names.demangle(&asked).unwrap().iter().all(Option::is_some));
        assert_eq!(*swift.0.lock().unwrap(), [8, 8, 4]);
    }
}
