//! Components of pages: rows, charts and stacks, each with its template.

pub mod breakdown;
pub mod chart;
pub mod repeats;
pub mod rows;
pub mod source_link;
pub mod stack;
