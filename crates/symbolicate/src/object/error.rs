//! Why a file gives no symcache.

use crate::demangle::Unavailable;
use std::borrow::Cow;

/// Why a file or a slice gives no symcache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Neither a Mach-O file, thin or fat, nor a source map.
    #[error("not a Mach-O file")]
    NotAnObject,
    /// A Mach-O file that contradicts itself or ends too early.
    #[error("malformed: {0}")]
    Malformed(Cow<'static, str>),
    /// A sound file of a kind that cannot be used.
    #[error("unsupported: {0}")]
    Unsupported(Cow<'static, str>),
    /// More than the format of symcaches holds, or than a file has that is no attack.
    #[error("too large: {0}")]
    TooLarge(Cow<'static, str>),
    /// Its debug information, unpacked, has more bytes than the build may use.
    #[error("its debug information, unpacked, needs {0} bytes of memory")]
    NeedsMemory(u64),
    /// Its parts refer to one another so often that reading it takes more steps than its size warrants.
    #[error("too complex: {0}")]
    TooComplex(Cow<'static, str>),
    /// Nothing is wrong with the file: what it takes to read it is not there for now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ObjectError {
    /// A short constant name of the reason, for storage and counting.
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

pub(super) fn malformed(reason: &'static str) -> ObjectError {
    ObjectError::Malformed(reason.into())
}
