//! See `Cargo.toml`: only what it depends on matters.

fn main() {}
