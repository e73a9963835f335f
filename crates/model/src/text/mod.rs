//! Text for programs and people.

pub(super) mod causes;
pub mod figures;
pub(super) mod host;
pub mod json;
pub(super) mod line;
pub(super) mod moment;
pub(super) mod shell;
pub mod units;
pub(super) mod versions;
pub(super) mod words;
