//! A share of a core for a process, as a container's CPU limit gives it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The length of time that a quota is for, in microseconds.
const PERIOD: u64 = 100_000;

/// A control group with one process in it; gone when dropped.
pub struct Quota {
    folder: PathBuf,
    /// Where the process goes back to.
    parent: PathBuf,
}

impl Quota {
    /// Bounds the process `id` to `share` of one core.
    ///
    /// # Errors
    /// If this machine or user has no control groups to make.
    pub fn of(id: u32, share: f64) -> io::Result<Quota> {
        let quota = (PERIOD as f64 * share) as u64;
        let name = format!("unslide-bench-{id}");
        let unified = Path::new("/sys/fs/cgroup");
        let (parent, file, text) = if unified.join("cgroup.controllers").exists() {
            (unified.to_path_buf(), "cpu.max", format!("{quota} {PERIOD}"))
        } else {
            (unified.join("cpu"), "cpu.cfs_quota_us", quota.to_string())
        };
        let folder = parent.join(name);
        fs::create_dir(&folder)?;
        let made = Quota { folder, parent };
        fs::write(made.folder.join(file), text)?;
        fs::write(made.folder.join("cgroup.procs"), id.to_string())?;
        Ok(made)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for id in fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default().lines() {
            // It may have ended.
            let _ = fs::write(self.parent.join("cgroup.procs"), id);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
