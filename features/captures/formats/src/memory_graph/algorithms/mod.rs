//! Graph algorithms that do not depend on the meaning of nodes.

mod components;
mod dominators;
mod edges;
mod paths;

pub use components::Components;
pub use dominators::Dominators;
pub use edges::EdgeLists;
pub use paths::ShortestPaths;
