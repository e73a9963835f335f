//! What fuzz targets share.

use unslide_symbolicate::demangle::{Swift, Unavailable, demangle_with};

/// Lets nobody ask Swift's demangler, which some names end: services ask it in a process of its own, and
/// would find the same names again each time here.
pub fn without_swift() {
    demangle_with(Nobody);
}

struct Nobody;

impl Swift for Nobody {
    fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
        Ok(vec![None; names.len()])
    }
}
