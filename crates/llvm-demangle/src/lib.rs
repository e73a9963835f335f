//! C++ names as LLVM's and Apple's tools print them.
//!
//! The demangler is LLVM's own, in C++: five headers that `build.rs` finds on the machine. For a newer version, look for new
//! virtual methods of `Node`, and for calls of `parse…` without `getDerived()`: neither has a bound without `bounded.cpp`. The
//! tests and `scripts/names` say what has changed. Names come from untrusted files: a short one can expand to gigabytes, or be
//! nested deeper than a stack. So `bounded.cpp` counts each step of reading and writing a name, limits a name's length and the
//! memory and the stack that it may take, and turns LLVM's assertions into refusals.

#![warn(missing_docs)]

#[expect(unsafe_code, reason = "a function in C++")]
mod ffi {
    unsafe extern "C" {
        fn unslide_llvm_demangle(name: *const u8, length: usize, readable: *mut u8, capacity: usize)
        -> usize;
    }

    /// Writes the readable form into a buffer and returns its length, or 0 if the name has no readable form.
    pub(super) fn demangle(name: &[u8], readable: &mut [u8]) -> usize {
        // SAFETY: both pointers are valid for their lengths, and the function keeps neither.
        unsafe { unslide_llvm_demangle(name.as_ptr(), name.len(), readable.as_mut_ptr(), readable.len()) }
    }
}

/// Returns the readable form of a C++ name in the Itanium ABI's mangling, as `llvm-cxxfilt` 19 prints it. The name
/// begins with `_Z`, or `___Z` for a block.
///
/// Returns `None` if the name has another form, has more than 4,096 bytes or costs too much, or if the result would be longer
/// than `most_bytes`.
#[must_use]
pub fn demangle(name: &str, most_bytes: usize) -> Option<String> {
    // LLVM reads all other texts as types: `i` as `int`.
    let bare = name.trim_start_matches('_');
    if !bare.starts_with('Z') || !(1..=4).contains(&(name.len() - bare.len())) {
        return None;
    }
    let mut buffer = vec![0; most_bytes];
    let written = ffi::demangle(name.as_bytes(), &mut buffer);
    // A name may cut a character of several bytes in two.
    let readable = std::str::from_utf8(buffer.get(..written)?).ok()?;
    (!readable.is_empty()).then(|| readable.to_owned())
}

#[cfg(test)]
mod tests;
