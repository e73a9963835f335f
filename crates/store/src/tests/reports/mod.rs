pub mod deleting;
pub mod duplicates;
pub mod group_states;
pub mod groups;
pub mod lists;
pub mod regroup;
pub mod segments;
pub mod storing;
