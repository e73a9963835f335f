//! The resource of records: read once for all of them, because one may be as large as the request.

use crate::facts::TelemetryFacts;
use crate::record::Attributes;
use sha2::{Digest, Sha256};

/// What a resource says, within bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryResource {
    /// Facts of its attributes.
    pub facts: TelemetryFacts,
    /// The hash of all its bytes: ids of crashes depend on it.
    pub(crate) hash: [u8; 32],
}

impl TelemetryResource {
    /// Reads a resource from its attributes. `hash` has all its bytes in the request.
    pub(crate) fn from_attributes(attributes: &Attributes<'_>, hash: Sha256) -> TelemetryResource {
        TelemetryResource { facts: TelemetryFacts::from_attributes(attributes), hash: hash.finalize().into() }
    }
}
