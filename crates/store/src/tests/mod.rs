//! Tests on a real PostgreSQL, each in a database of its own.

mod answers;
mod api_processes;
mod database;
mod dead_letters;
mod deleting;
mod duplicates;
mod erasure;
mod groups;
mod isolation;
mod late_at_scale;
mod late_symbols;
mod lists;
mod ownership;
mod partial_uploads;
mod pool;
mod positions;
mod promises;
mod reprocess;
mod retries;
mod segments;
mod storing;
mod symbols_and_uploads;
mod system_symbols;
mod work;
