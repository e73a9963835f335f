pub mod answers;
pub mod failures;
pub mod late_at_scale;
pub mod late_symbols;
pub mod promises;
pub mod reprocess;
pub mod retries;
