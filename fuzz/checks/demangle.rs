//! Any text as a mangled name: an answer or none, soon.

use unslide_symbolicate::demangle::{MAX_NAME_BYTES, demangle};

pub fn check(data: &[u8]) {
    if let Ok(name) = std::str::from_utf8(data) {
        assert!(demangle(name).is_none_or(|readable| readable != name && readable.len() <= MAX_NAME_BYTES));
    }
}
