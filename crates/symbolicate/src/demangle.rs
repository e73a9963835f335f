//! Readable names: C++, Rust and Swift demangled, Objective-C as it is.

use symbolic_common::{Language, Name};
use symbolic_demangle::{Demangle, DemangleOptions};

/// Longer names stay as they are: demanglers are the part of a build that hostile names slow down most.
pub const MAX_MANGLED_BYTES: usize = 4096;

/// Demangles the names of one object.
#[derive(Default)]
pub(crate) struct Demangler {}

impl Demangler {
    /// The readable form of a linkage name; `None` where there is no other.
    pub(crate) fn demangle(&mut self, linkage_name: &str) -> Option<String> {
        demangle(linkage_name)
    }
}

/// The readable form of a linkage name (without the underscore that Mach-O puts before C names);
/// `None` where it is no mangled name, or longer than [`MAX_MANGLED_BYTES`].
#[must_use]
pub fn demangle(linkage_name: &str) -> Option<String> {
    if linkage_name.len() > MAX_MANGLED_BYTES {
        return None;
    }
    let name = Name::from(linkage_name);
    match name.detect_language() {
        Language::Unknown | Language::ObjC => None,
        _ => name.demangle(DemangleOptions::complete()).filter(|demangled| demangled != linkage_name),
    }
}
