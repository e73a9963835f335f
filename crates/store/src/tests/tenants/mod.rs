pub mod api_processes;
pub mod erasure;
pub mod isolation;
pub mod ownership;
