//! The unslide binary.
fn main() {}
