//! Users and folders of servers. PostgreSQL refuses to run as root, so under root its processes get another
//! user. Its files must be in a folder that this user can reach.

use crate::error::{AtPath, Error};
use crate::random::random_text;
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The user id that PostgreSQL runs under if this process is root: the unprivileged 65534 of most systems.
pub(crate) const SERVER_UID: u32 = 65534;
/// Root's folder for state that the server's user must reach, if our own folders do not let it through.
const STATE_OUTSIDE: &str = "/var/lib/unslide";
/// The file in a data folder that has the path of its database.
const LOCATION: &str = "postgres-location";
/// The file next to such a database that names its data folder.
const OWNER: &str = "owner";

/// Returns true if we are root, so that the server needs another user.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Returns true if the server's user can go through every folder down to `path`, as far as it exists.
pub(crate) fn reachable(path: &Path) -> bool {
    path.ancestors().filter_map(|folder| fs::metadata(folder).ok()).all(|folder| {
        let mode = folder.mode();
        mode & 0o001 != 0 || (folder.uid() == SERVER_UID && mode & 0o100 != 0)
    })
}

/// Makes a folder that only its owner may enter, with its parents.
pub(crate) fn private_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).at("create the folder", path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).at("restrict", path)
}

/// Makes a folder that every user may enter and read, with its parents. Leaves folders that exist as they are.
pub(crate) fn public_folder(path: &Path) -> Result<(), Error> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(path).at("create the folder", path)?;
    // The umask may have taken rights away.
    for folder in missing {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).at("open", folder)?;
    }
    Ok(())
}

/// Lets every user enter and read a folder and the folders below it. An archive does not list all of its folders: `tar` makes
/// the others with the rights that the umask leaves.
pub(crate) fn open_folders(path: &Path) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).at("open", path)?;
    for entry in fs::read_dir(path).at("read", path)? {
        let entry = entry.at("read", path)?;
        if entry.file_type().at("look at", path)?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file that only this user may read.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn private_file(path: &Path, content: &str) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).and_then(|mut file| file.write_all(content.as_bytes())).at("write", path)
}

/// Returns the text of a private file. If there is none yet, `make` creates the text.
pub(crate) fn kept(path: &Path, make: impl FnOnce() -> Result<String, Error>) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        _ => {
            let text = make()?;
            private_file(path, &format!("{text}\n"))?;
            Ok(text)
        }
    }
}

/// Makes the server's user the owner of a file or folder, if that user is not ours.
pub(crate) fn give_to_server(path: &Path) -> Result<(), Error> {
    if is_root() {
        std::os::unix::fs::chown(path, Some(SERVER_UID), Some(SERVER_UID)).at("give away", path)?;
    }
    Ok(())
}

/// Returns the folder for the database of a data folder. It is normally inside. It is outside if root's data
/// folder is below a folder that the server's user cannot pass (a home folder). The data folder keeps its
/// name.
pub(crate) fn database_folder(data: &Path) -> Result<PathBuf, Error> {
    let location = data.join(LOCATION);
    if let Ok(kept) = fs::read_to_string(&location)
        && !kept.trim().is_empty()
    {
        return Ok(PathBuf::from(kept.trim()));
    }
    let inside = data.join("postgres");
    if !is_root() {
        return Ok(inside);
    }
    // The data folder itself is ours. It is enough to let others through (not in), because everything in it
    // is private.
    if data.parent().is_none_or(reachable) {
        let mode = fs::metadata(data).at("look at", data)?.mode();
        fs::set_permissions(data, fs::Permissions::from_mode((mode & 0o7777) | 0o001)).at("open", data)?;
        return Ok(inside);
    }
    forget_temporary(Path::new(STATE_OUTSIDE));
    let outside = Path::new(STATE_OUTSIDE).join(random_text()?);
    public_folder(&outside)?;
    private_file(&outside.join(OWNER), &format!("{}\n", data.display()))?;
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o711)).at("open", &outside)?;
    let database = outside.join("postgres");
    private_file(&location, &format!("{}\n", database.display()))?;
    Ok(database)
}

/// Removes the databases of temporary data folders that are gone. Keeps others: a data folder that is missing
/// may have been moved.
fn forget_temporary(state: &Path) {
    for outside in fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(owner) = fs::read_to_string(outside.join(OWNER)) else { continue };
        let owner = Path::new(owner.trim());
        if owner.starts_with(std::env::temp_dir()) && !owner.exists() {
            // The next caller tries again.
            let _ = fs::remove_dir_all(&outside);
        }
    }
}

/// Removes the database that [`database_folder`] put outside of a data folder that is about to be deleted.
pub(crate) fn remove_outside(data: &Path) -> Result<(), Error> {
    let Ok(kept) = fs::read_to_string(data.join(LOCATION)) else { return Ok(()) };
    match Path::new(kept.trim()).parent() {
        Some(outside) if outside.starts_with(STATE_OUTSIDE) && outside.exists() => {
            fs::remove_dir_all(outside).at("remove", outside)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_parent_is_in_the_way() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let inner = folder.path().join("a/b");
        public_folder(&inner).unwrap();
        assert!(reachable(&inner));
        fs::set_permissions(folder.path().join("a"), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!reachable(&inner));
        open_folders(folder.path()).unwrap();
        assert!(reachable(&inner));
    }

    #[test]
    fn a_kept_text_stays_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let first = kept(&path, random_text).unwrap();
        assert_eq!(kept(&path, random_text).unwrap(), first);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
