//! Shared parts of the fuzz targets.

use unslide_symbolicate::demangle::{Swift, Unavailable, demangle_with};

/// Turns Swift's demangler off, because some names end its process. Services run it in a process of its own;
/// here every run would find the same names again.
pub fn without_swift() {
    demangle_with(Nobody);
}

struct Nobody;

impl Swift for Nobody {
    fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
        Ok(vec![None; names.len()])
    }
}
