//! What another process allocates, counted by a library that is loaded before it.

use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_testkit::fixtures;

/// A count for one process; built with the C compiler that the fixtures are built with.
pub struct AllocationCounter {
    library: PathBuf,
    file: PathBuf,
}

/// Allocations so far.
#[derive(Clone, Copy, Default)]
pub struct Allocations {
    /// How often.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Of these the bytes in pieces of 64 KiB or more: copies of bodies are among them.
    pub large_bytes: u64,
}

impl AllocationCounter {
    /// A count of zero. The folder has to stay as long as it is used.
    pub fn build(folder: &Path) -> AllocationCounter {
        let library = folder.join("allocations.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/bench/online/http/allocations.c");
        fixtures::run(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-O2", "-fno-builtin", "-o"])
                .arg(&library)
                .arg(source),
        );
        let file = folder.join("allocations");
        std::fs::write(&file, [0; 24]).expect("the folder can be written");
        AllocationCounter { library, file }
    }

    /// The variables that have a process counted.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [("LD_PRELOAD", &self.library), ("ALLOCATIONS", &self.file)]
            .map(|(name, path)| (name, path.display().to_string()))
    }

    /// What was counted so far; each thread tells of its allocations by 64.
    pub fn read(&self) -> Allocations {
        let bytes = std::fs::read(&self.file).expect("the file is there");
        let mut numbers =
            bytes.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().expect("eight bytes")));
        let mut next = || numbers.next().unwrap_or(0);
        Allocations { count: next(), bytes: next(), large_bytes: next() }
    }
}
