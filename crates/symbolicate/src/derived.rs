//! Derived objects: what an analysis needs of an image beside its symcache, made once from the object.

use std::fmt;
use unslide_model::DebugId;

/// An object that is derived from the file of an image for an analysis.
#[derive(Clone, Copy, Debug)]
pub struct DerivedObject {
    /// The name of its contents and their version, such as `variables-v3`. It is part of a key in object storage: lower
    /// case letters, digits and `-`.
    pub name: &'static str,
    /// The file of the image that it is derived from.
    pub source: DerivedSource,
    /// Derives the object from a Mach-O slice. Returns `None` if the slice has nothing for it. The same slice must
    /// give the same bytes.
    pub derive: fn(&[u8]) -> DeriveResult,
}

/// A file of an image that objects are derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedSource {
    /// Its debug information: a dSYM.
    DebugInfo,
    /// Its code: the executable or library that runs on devices, with the same UUID.
    Binary,
}

/// The bytes of a derived object, or `None` if the slice has nothing for it.
pub type DeriveResult = Result<Option<Vec<u8>>, DeriveError>;

/// The reason for which an object was not derived.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DeriveError(pub String);

/// A derived object of an image.
#[derive(Clone, Copy)]
pub struct ImageDerivative<'b> {
    /// The debug id of the image.
    pub debug_id: DebugId,
    /// The name of the derived object.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: &'b [u8],
}

impl fmt::Debug for ImageDerivative<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { debug_id, name, bytes } = self;
        write!(f, "{name} of {debug_id}, {} bytes", bytes.len())
    }
}
