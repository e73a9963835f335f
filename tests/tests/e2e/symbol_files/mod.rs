//! dSYMs: their uploads, and the reports that wait for them.

mod bucket;
mod commits;
mod late_binaries;
mod late_symbols;
mod symbols;
mod system_caches;
mod uploads;
