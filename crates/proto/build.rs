//! Compiles the messages under `/proto` with protox, which needs no `protoc`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let files = [
        "symbol/v1/symbol.proto",
        "report/v1/report.proto",
        "signal/v1/signal.proto",
        "stored/v1/stored.proto",
    ]
    .map(|file| root.join("unslide").join(file));
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let descriptors = protox::compile(&files, [&root])?;
    // Maps in order, so that equal messages have equal bytes.
    prost_build::Config::new().bytes(["."]).btree_map(["."]).compile_fds(descriptors)?;
    Ok(())
}
