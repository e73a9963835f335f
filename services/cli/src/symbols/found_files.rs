//! The files of a folder that may have symbols.

use crate::{starts_as_mach_o, starts_as_source_map};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns true if a file begins like an object or a source map.
pub fn starts_as_object(path: &Path) -> io::Result<bool> {
    Ok(starts_as_mach_o(path)? || starts_as_source_map(path)?)
}

/// The files of a folder.
#[derive(Default)]
pub struct FoundFiles {
    /// Those that begin like objects, in the order of their paths.
    pub objects: Vec<PathBuf>,
    /// Files and folders that cannot be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl FoundFiles {
    /// Finds the files in a folder and its folders. Links are followed, each folder is entered once.
    pub fn find_under(folder: &Path) -> FoundFiles {
        let mut found = FoundFiles::default();
        let mut entered = HashSet::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            if let Err(error) = found.enter_folder(&folder, &mut entered, &mut folders) {
                found.unreadable.push((folder, error));
            }
        }
        found.objects.sort();
        found.unreadable.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    fn enter_folder(
        &mut self,
        folder: &Path,
        entered: &mut HashSet<(u64, u64)>,
        folders: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let facts = fs::metadata(folder)?;
        if !entered.insert((facts.dev(), facts.ino())) {
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match fs::metadata(&path) {
                Ok(facts) if facts.is_dir() => folders.push(path),
                Ok(facts) if facts.is_file() => match starts_as_object(&path) {
                    Ok(true) => self.objects.push(path),
                    Ok(false) => {}
                    Err(error) => self.unreadable.push((path, error)),
                },
                Ok(_) => {}
                // A link that leads nowhere, as builds leave them.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.unreadable.push((path, error)),
            }
        }
        Ok(())
    }
}
