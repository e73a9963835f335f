//! What is computed of any graph, whatever its nodes stand for.

mod components;
mod dominators;
mod edges;
mod paths;

pub use components::Components;
pub use dominators::Dominators;
pub use edges::EdgeLists;
pub use paths::ShortestPaths;
