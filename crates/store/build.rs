//! Has the schema's history compiled anew whenever a migration changes.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}
