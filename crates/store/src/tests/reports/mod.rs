pub mod deleting;
pub mod duplicates;
pub mod groups;
pub mod lists;
pub mod segments;
pub mod storing;
