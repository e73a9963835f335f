//! Processes with a wall clock that is ahead, so that waits by the clock are over.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A clock for processes; built with the C compiler that the fixtures are built with.
#[derive(Clone, Debug)]
pub struct Ahead {
    library: PathBuf,
    by: Duration,
}

impl Ahead {
    /// Builds a clock that is ahead by whole seconds. The folder must exist while the clock is used.
    ///
    /// # Panics
    /// If there is no compiler.
    #[must_use]
    pub fn build_library(folder: &Path, by: Duration) -> Ahead {
        let library = folder.join("clock-ahead.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clock/ahead.c");
        unslide_testkit::fixtures::run(
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source),
        );
        Ahead { library, by }
    }

    /// The variables that give a process this clock.
    #[must_use]
    pub fn environment_variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("TEST_CLOCK_AHEAD", self.by.as_secs().to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_another_time_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Ahead::build_library(folder.path(), Duration::from_secs(100_000));
        let seconds = |command: &mut Command| {
            let said = command.args(["+%s"]).output().unwrap().stdout;
            String::from_utf8(said).unwrap().trim().parse::<u64>().unwrap()
        };
        let before = seconds(&mut Command::new("date"));
        let ahead = seconds(Command::new("date").envs(clock.environment_variables()));
        assert!(ahead >= before + 100_000, "{ahead} is not {before} and 100000");
        assert!(seconds(&mut Command::new("date")) < ahead);
    }
}
