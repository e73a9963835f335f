//! Compares the functions of two builds by their symcaches. Pure: two symcaches in, differences out.
//!
//! [`BuildComparison::from_symcaches`] reads both, pairs functions by their linkage names, and compares the source lines of
//! their code relative to the first one, the calls that are inlined into them, and the bytes of their code. A function that is
//! only moved in its file is the same. Code of a function that is inlined into another one counts for the inlined function, so
//! that a change names the function that was edited and not those around it. Builds that differ in most functions were made
//! with another compiler or other flags: then no function is named.

#![warn(missing_docs)]

mod changed_function;
mod comparison;
mod difference;
mod edit_judge;
mod function_change;
mod function_table;
mod outcome;
mod pairing;
mod sentences;
mod stack;

pub use changed_function::{CALLS_LIMIT, ChangeState, FunctionChange, NAME_CHARS, PATH_CHARS};
pub use comparison::BuildComparison;
pub use function_table::CompareError;
pub use outcome::{BuildCounts, BuildOutcome};
pub use sentences::{describe_counts, describe_outcome, summarise};
pub use stack::{StackFunction, list_stack_functions};
