//! Profiles: the addresses and keys of APIs that `unslide login` keeps in a file of this user.

use crate::note;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use toml::{Table, Value};
use unslide_model::Secret;

/// The profile of commands that name no other.
pub const DEFAULT_PROFILE: &str = "default";
/// The most bytes of the file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The most characters of a profile's name.
const MAX_NAME_LENGTH: usize = 64;
/// The table of the file that has the profiles.
const PROFILES: &str = "profiles";

/// Why a profile cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum ApiProfileError {
    #[error("there is no folder for profiles: set HOME or XDG_CONFIG_HOME")]
    NoFolder,
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is no file of profiles: {why}. Repair it, or delete it and run `unslide login`", path.display())]
    Invalid { path: PathBuf, why: String },
    #[error("{name:?} is no name of a profile: 1 to {MAX_NAME_LENGTH} letters, digits, '-', '_' or '.'")]
    Name { name: String },
    #[error("there is no profile {name:?} in {}; it has {known}. `unslide login --profile {name}` makes it", path.display())]
    Unknown { name: String, path: PathBuf, known: String },
}

/// The address and the key of one API.
pub struct ApiProfile {
    pub url: String,
    pub api_key: Secret,
}

/// The file with the profiles of this user.
pub struct ProfileFile {
    path: PathBuf,
    content: Table,
}

impl ProfileFile {
    /// Reads the profiles of this user. Without a file there are none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or has another form, or if no folder is known for it.
    pub fn read() -> Result<ProfileFile, ApiProfileError> {
        ProfileFile::read_at(locate_file().ok_or(ApiProfileError::NoFolder)?)
    }

    fn read_at(path: PathBuf) -> Result<ProfileFile, ApiProfileError> {
        let failed = |source| ApiProfileError::Read { path: path.clone(), source };
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ProfileFile { path, content: Table::new() });
            }
            Err(error) => return Err(failed(error)),
        };
        warn_of_readers(&path, &file.metadata().map_err(failed)?);
        let invalid = |why: &str| ApiProfileError::Invalid { path: path.clone(), why: why.to_owned() };
        let mut text = String::new();
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(invalid("it has more than 1 MiB"));
        }
        // The parser's own text would repeat the line, which may have the key in it.
        let content: Table = text.parse().map_err(|_| invalid("it is not TOML"))?;
        match content.get(PROFILES) {
            None | Some(Value::Table(_)) => Ok(ProfileFile { path, content }),
            Some(_) => Err(invalid("`profiles` is no table")),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of the profiles, in the order of the alphabet.
    pub fn names(&self) -> Vec<&str> {
        self.profiles().map(|profiles| profiles.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    fn profiles(&self) -> Option<&Table> {
        self.content.get(PROFILES)?.as_table()
    }

    /// Returns a profile, or None if the file does not have it.
    ///
    /// # Errors
    /// Returns an error if the profile lacks its address or its key.
    pub fn find_profile(&self, name: &str) -> Result<Option<ApiProfile>, ApiProfileError> {
        let Some(entry) = self.profiles().and_then(|profiles| profiles.get(name)) else { return Ok(None) };
        let member = |member: &str| {
            let text = entry.get(member).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).ok_or_else(|| ApiProfileError::Invalid {
                path: self.path.clone(),
                why: format!("the profile {name:?} has no `{member}`"),
            })
        };
        Ok(Some(ApiProfile { url: member("url")?.to_owned(), api_key: Secret::new(member("api_key")?) }))
    }

    /// Creates the error for a profile that the file does not have.
    pub fn unknown_profile(&self, name: &str) -> ApiProfileError {
        let names = self.names();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        ApiProfileError::Unknown { name: name.to_owned(), path: self.path.clone(), known }
    }

    /// Adds a profile, or replaces it.
    ///
    /// # Errors
    /// Returns an error if it cannot have this name.
    pub fn set_profile(&mut self, name: &str, profile: &ApiProfile) -> Result<(), ApiProfileError> {
        check_name(name)?;
        let entry = Table::from_iter([
            ("url".to_owned(), Value::from(profile.url.as_str())),
            ("api_key".to_owned(), Value::from(profile.api_key.reveal())),
        ]);
        let profiles = self.content.entry(PROFILES).or_insert_with(|| Table::new().into());
        if let Value::Table(profiles) = profiles {
            profiles.insert(name.to_owned(), entry.into());
        }
        Ok(())
    }

    /// Removes a profile. Returns false if the file does not have it.
    pub fn remove_profile(&mut self, name: &str) -> bool {
        let profiles = self.content.get_mut(PROFILES).and_then(Value::as_table_mut);
        profiles.is_some_and(|profiles| profiles.remove(name).is_some())
    }

    /// Writes the file, which this user alone can read. A reader finds the old file or the new one, never a part.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(&self) -> Result<(), ApiProfileError> {
        let failed = |source: io::Error| ApiProfileError::Write { path: self.path.clone(), source };
        // A link stays one, and the file that it names is replaced.
        let target = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let folder = target.parent().ok_or(ApiProfileError::NoFolder)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let text = toml::to_string(&self.content).map_err(|error| failed(io::Error::other(error)))?;
        // Temporary files have the mode 600.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&target).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Checks the name of a profile.
///
/// # Errors
/// [`ApiProfileError::Name`].
pub fn check_name(name: &str) -> Result<(), ApiProfileError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(ApiProfileError::Name { name: name.to_owned() })
}

/// Returns the path of the file: below `XDG_CONFIG_HOME` if that is an absolute path, and below `~/.config` otherwise.
fn locate_file() -> Option<PathBuf> {
    let folder = |variable: &str| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        path.is_absolute().then_some(path)
    };
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("unslide").join("config.toml"))
}

/// Prints a note, once, if other users of this machine can read the keys.
fn warn_of_readers(path: &Path, facts: &fs::Metadata) {
    static WARNED: Once = Once::new();
    if facts.permissions().mode() & 0o077 != 0 {
        WARNED.call_once(|| {
            note!("other users of this machine can read the keys in {0}: chmod 600 {0}", path.display());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(url: &str) -> ApiProfile {
        ApiProfile { url: url.to_owned(), api_key: Secret::new("unslide_a_b") }
    }

    #[test]
    fn profiles_are_kept_in_a_private_file_beside_what_others_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/unslide/config.toml");
        let mut file = ProfileFile::read_at(path.clone()).unwrap();
        assert!(file.names().is_empty() && file.find_profile("default").unwrap().is_none());
        file.set_profile("default", &profile("https://a.example")).unwrap();
        file.write().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}\n[later]\nsetting = 1\n")).unwrap();

        let mut file = ProfileFile::read_at(path.clone()).unwrap();
        file.set_profile("staging", &profile("https://b.example")).unwrap();
        file.write().unwrap();
        let mut file = ProfileFile::read_at(path.clone()).unwrap();
        assert_eq!(file.names(), ["default", "staging"]);
        let found = file.find_profile("default").unwrap().unwrap();
        assert_eq!((found.url.as_str(), found.api_key.reveal()), ("https://a.example", "unslide_a_b"));
        assert!(file.content.contains_key("later"));
        assert!(file.remove_profile("default") && !file.remove_profile("default"));
        let error = file.unknown_profile("default").to_string();
        assert!(error.contains("it has staging") && error.contains("login --profile default"), "{error}");
    }

    #[test]
    fn a_file_of_another_form_is_named_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        for (text, why) in [
            ("[profiles.default\napi_key = 'unslide_a_b'", "not TOML"),
            ("profiles = 'unslide_a_b'", "no table"),
            ("[profiles.default]\napi_key = 'unslide_a_b'", "has no `url`"),
        ] {
            fs::write(&path, text).unwrap();
            let read = ProfileFile::read_at(path.clone()).and_then(|file| file.find_profile("default"));
            let Err(error) = read else { panic!("{text}") };
            let error = error.to_string();
            assert!(error.contains(why) && error.contains("config.toml"), "{error}");
            assert!(!error.contains("unslide_a_b"), "{error}");
        }
    }

    #[test]
    fn a_profile_has_a_name_that_needs_no_quotes() {
        assert!(["default", "acme-staging", "v2.1"].iter().all(|name| check_name(name).is_ok()));
        for wrong in ["", "a b", "a/b", "ä", &"a".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}
