//! The subject of a fault: the expression with the bad value.
//!
//! [`find_subject`] names it from the table of variables and the values of a report, and from the instructions of the
//! app's binary if they are at hand. Both ways abstain if the evidence fits more than one expression.
//! [`ImageText`] has the instructions of an image. All of it is pure and bounded.
//!
//! Sources: the Arm Architecture Reference Manual (encodings of A64), DWARF 5, `<mach-o/loader.h>`.

mod arm64;
mod binary;
mod facts;
mod instruction;
mod members;
mod reasons;
mod search;
mod values;
mod verdict;
mod walk;
mod x86_64;

pub use binary::{BinaryError, ImageText, TextError};
pub use facts::{FaultState, FaultSubject, SubjectEvidence, SubjectValue};
pub use reasons::SubjectAbstention;
pub use search::find_subject;
pub use verdict::SubjectVerdict;
