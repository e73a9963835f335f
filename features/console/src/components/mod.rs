//! Components of pages: rows, charts, stacks and flame graphs, each with its template.

pub mod breakdown;
pub mod chart;
pub mod flame_view;
pub mod repeats;
pub mod rows;
pub mod source_link;
pub mod stack;
