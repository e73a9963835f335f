//! Errors for files that give no symcache.

use crate::demangle::Unavailable;
use std::borrow::Cow;

/// Reason why a file or a slice gives no symcache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Neither a Mach-O file, thin or fat, nor a source map.
    #[error("not a Mach-O file")]
    NotAnObject,
    /// A Mach-O file that contradicts itself or ends too early.
    #[error("malformed: {0}")]
    Malformed(Cow<'static, str>),
    /// An intact file of a kind that cannot be used.
    #[error("unsupported: {0}")]
    Unsupported(Cow<'static, str>),
    /// More than a symcache can hold, or more than any real file has.
    #[error("too large: {0}")]
    TooLarge(Cow<'static, str>),
    /// Its unpacked debug information exceeds the build's memory limit.
    #[error("its debug information, unpacked, needs {0} bytes of memory")]
    NeedsMemory(u64),
    /// Its parts refer to each other so often that reading it takes more steps than its size justifies.
    #[error("too complex: {0}")]
    TooComplex(Cow<'static, str>),
    /// The file is fine, but a service that reading it needs is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ObjectError {
    /// Returns a short constant name of the reason, for storage and counting.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ObjectError::NotAnObject => "not_an_object",
            ObjectError::Malformed(_) => "malformed",
            ObjectError::Unsupported(_) => "unsupported",
            ObjectError::TooLarge(_) | ObjectError::NeedsMemory(_) => "too_large",
            ObjectError::TooComplex(_) => "too_complex",
            ObjectError::Unavailable(_) => "unavailable",
        }
    }
}

pub(super) fn malformed_error(reason: &'static str) -> ObjectError {
    ObjectError::Malformed(reason.into())
}
