//! Whether two builds can be compared, and how many functions differ.

use serde::{Deserialize, Serialize};
use unslide_model::words;

words! {
    /// Whether two builds can be compared.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(rename_all = "snake_case"))]
    pub enum BuildOutcome {
        /// The functions of both were compared.
        Compared = "compared",
        /// Most functions differ: another compiler, other flags or another optimisation.
        OtherFlags = "other_flags",
        /// Most functions have no counterpart by name.
        OtherProgram = "other_program",
        /// They are for different CPUs.
        OtherCpu = "other_cpu",
        /// The symbols of one of them have no source lines.
        NoLines = "no_lines",
    }
}

/// Numbers of functions by what became of them between two builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildCounts {
    /// Functions of the build before.
    pub before: usize,
    /// Functions of the build after.
    pub after: usize,
    /// Functions whose source lines were edited.
    pub changed: usize,
    /// Functions with the same lines and other bytes.
    pub resized: usize,
    /// Functions that only the build after has.
    pub new: usize,
    /// Functions that only the build before has.
    pub gone: usize,
}
